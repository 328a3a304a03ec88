"""Experiment 3: measured and predicted errors relative to the constant schedule."""

from __future__ import annotations

from dataclasses import dataclass

from batchlaw.batches.allocation import FAMILIES
from batchlaw.evidence.paper.experiment import Experiment
from batchlaw.evidence.paper.multi_pass_sweep import MultiPassSweep
from batchlaw.evidence.paper.one_pass_sweep import OnePassSweep
from batchlaw.evidence.paper.sweep import Collapse


@dataclass(frozen=True)
class Comparison:
    """One schedule of one procedure.

    ``exact_ratio`` is the ratio of exact expectations for one pass; for multi-pass the
    expectation over datasets is the mean field's, an approximation (docs/mean_field.md).
    """

    procedure: str
    schedule: str
    measured: float
    measured_ratio: float
    measured_ratio_se: float
    predicted_ratio: float
    exact_ratio: float


def compare(
    experiment: Experiment, one_pass: OnePassSweep, multi_pass: MultiPassSweep
) -> list[Comparison]:
    return [
        *_ratios("one_pass", one_pass, experiment.n),
        *_ratios("multi_pass", multi_pass, experiment.reuse_budget),
    ]


def _ratios(procedure: str, collapse: Collapse, budget: int) -> list[Comparison]:
    constant = collapse.sweep.index(budget, "constant")
    rows = []
    for schedule in FAMILIES:
        row = collapse.sweep.index(budget, schedule)
        ratio, error = collapse.ratio(row, constant)
        rows.append(
            Comparison(
                procedure=procedure,
                schedule=schedule,
                measured=float(collapse.measured[row]),
                measured_ratio=ratio,
                measured_ratio_se=error,
                predicted_ratio=float(collapse.predictor[row] / collapse.predictor[constant]),
                exact_ratio=collapse.exact.ratio(collapse.term, row, constant)[0],
            )
        )
    return rows
