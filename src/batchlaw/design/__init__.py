"""Whole settings, and the choices of batches, run length and rate that are best for them.

``simulate_procedure`` gives the risk of a procedure of your own.

Public as ``bl.design``. ``bl.Case`` and ``bl.optimal_batches`` live here too.
"""

from batchlaw.design.comparison import Compared, compare
from batchlaw.design.constant_batch import (
    BatchChoice,
    Curve,
    NoiseScale,
    Parts,
    Saturation,
    best_batch,
    by_law,
    exact,
    largest_harmless_batch,
    reducible_curve,
    saturation,
    saturation_batch,
)
from batchlaw.design.distribution import risk_quantiles
from batchlaw.design.next_runs import NextRuns, RunSet, next_runs
from batchlaw.design.noise_level import model_noise, plan_weights
from batchlaw.design.noise_scale import noise_scales
from batchlaw.design.optimum import Optimum
from batchlaw.design.quantiles import Quantiles
from batchlaw.design.run_length import (
    CostModel,
    RunChoice,
    best_run_length,
    best_run_length_and_rate,
    frontier,
    run_length_choices,
)
from batchlaw.design.schedule_worth import Worth, WorthMap, worth, worth_map
from batchlaw.design.sensitivity import Sensitivity, sensitivity
from batchlaw.design.short_runs import ShortRun
from batchlaw.risk.own_procedure import paired_difference, simulate_procedure
from batchlaw.risk.procedure import Procedure
from batchlaw.risk.procedures import GradientDescent, MultiPass, OnePass, Reshuffled

__all__ = [
    "BatchChoice",
    "Compared",
    "CostModel",
    "Curve",
    "GradientDescent",
    "MultiPass",
    "NextRuns",
    "NoiseScale",
    "OnePass",
    "Optimum",
    "Parts",
    "Procedure",
    "Quantiles",
    "Reshuffled",
    "RunChoice",
    "RunSet",
    "Saturation",
    "Sensitivity",
    "ShortRun",
    "Worth",
    "WorthMap",
    "best_batch",
    "best_run_length",
    "best_run_length_and_rate",
    "by_law",
    "compare",
    "exact",
    "frontier",
    "largest_harmless_batch",
    "model_noise",
    "next_runs",
    "noise_scales",
    "paired_difference",
    "plan_weights",
    "reducible_curve",
    "risk_quantiles",
    "run_length_choices",
    "saturation",
    "saturation_batch",
    "sensitivity",
    "simulate_procedure",
    "worth",
    "worth_map",
]
