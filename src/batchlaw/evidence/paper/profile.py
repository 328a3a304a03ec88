"""Experiment 4: the WSD influence profile and the oracle's batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw.evidence.paper.experiment import Experiment
from batchlaw.evidence.paper.multi_pass_sweep import MultiPassSweep
from batchlaw.schedule.rates import wsd_phases


@dataclass(frozen=True, eq=False)
class Profile:
    rates: FloatArray
    kappa: FloatArray
    oracle: IntArray
    constant: IntArray
    warmup_end: int
    stable_end: int

    def phase(self, t: int) -> str:
        if t <= self.warmup_end:
            return "warmup"
        return "stable" if t <= self.stable_end else "decay"

    def rows(self) -> list[dict[str, object]]:
        return [
            {
                "t": t,
                "phase": self.phase(t),
                "gamma": self.rates[t - 1],
                "kappa": self.kappa[t - 1],
                "sqrt_kappa": np.sqrt(self.kappa[t - 1]),
                "oracle_batch": self.oracle[t - 1],
                "constant_batch": self.constant[t - 1],
            }
            for t in range(1, self.rates.size + 1)
        ]


def profile(experiment: Experiment, multi_pass: MultiPassSweep) -> Profile:
    sweep = multi_pass.sweep
    warmup_end, stable_end = wsd_phases(experiment.l)
    return Profile(
        rates=sweep.rates,
        kappa=sweep.kappa,
        oracle=sweep.flat[sweep.index(experiment.reuse_budget, "oracle")],
        constant=sweep.flat[sweep.index(experiment.reuse_budget, "constant")],
        warmup_end=warmup_end,
        stable_end=stable_end,
    )
