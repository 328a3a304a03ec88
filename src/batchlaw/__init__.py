"""Which updates of an SGD run deserve the samples?

``import batchlaw as bl``: a problem and a learning-rate schedule give the influence of
every update; influence gives batch sizes; solvers and simulators give their risk.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from batchlaw._base.errors import InputError, Unstable
from batchlaw._base.version import __version__
from batchlaw.batches.allocation import allocate, schedule_families
from batchlaw.batches.effective import effective_batch, effective_fluctuation
from batchlaw.batches.limits import Limits
from batchlaw.influences.weights import influence, influence_proxy
from batchlaw.model.problem import Problem
from batchlaw.model.spectrum import PowerLaw
from batchlaw.risk.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.risk.one_pass import one_pass_risk
from batchlaw.risk.result import Risk
from batchlaw.risk.simulate import (
    simulate_gradient_descent,
    simulate_multi_pass,
    simulate_one_pass,
)
from batchlaw.schedule.adam import adam
from batchlaw.schedule.averages import ema, tail_average
from batchlaw.schedule.rates import constant, cosine, linear, polynomial, step, wsd
from batchlaw.schedule.update_rule import UpdateRule, sgd

if _TYPE_CHECKING:
    from batchlaw.design.case import Case
    from batchlaw.design.optimum import optimal_batches
    from batchlaw.from_data.laws.fit_law import fit_law
    from batchlaw.from_data.laws.training_law import TrainingLaw
    from batchlaw.from_data.logs.read import read_run
    from batchlaw.from_data.run import Run
    from batchlaw.plans.plan import Plan
    from batchlaw.plans.planner import plan
    from batchlaw.theory.laws import multi_pass_law, one_pass_law

# Names whose rooms are imported on first use: name -> module.
_LAZY = {
    "Case": "batchlaw.design.case",
    "Plan": "batchlaw.plans.plan",
    "Run": "batchlaw.from_data.run",
    "TrainingLaw": "batchlaw.from_data.laws.training_law",
    "fit_law": "batchlaw.from_data.laws.fit_law",
    "multi_pass_law": "batchlaw.theory.laws",
    "one_pass_law": "batchlaw.theory.laws",
    "optimal_batches": "batchlaw.design.optimum",
    "plan": "batchlaw.plans.planner",
    "read_run": "batchlaw.from_data.logs.read",
}
# Public submodules, imported on first use: public name -> module.
_SUBMODULES = {
    "bounds": "batchlaw.theory.bounds",
    "datasets": "batchlaw.datasets",
    "design": "batchlaw.design",
    "estimate": "batchlaw.from_data",
    "plots": "batchlaw.plots",
    "torch_support": "batchlaw.torch_support",
    "trainers": "batchlaw.plans.trainers",
}

__all__ = [
    "Case",
    "InputError",
    "Limits",
    "Plan",
    "PowerLaw",
    "Problem",
    "Risk",
    "Run",
    "TrainingLaw",
    "Unstable",
    "UpdateRule",
    "__version__",
    "adam",
    "allocate",
    "constant",
    "cosine",
    "effective_batch",
    "effective_fluctuation",
    "ema",
    "fit_law",
    "gradient_descent_risk",
    "influence",
    "influence_proxy",
    "linear",
    "multi_pass_law",
    "multi_pass_risk",
    "one_pass_law",
    "one_pass_risk",
    "optimal_batches",
    "plan",
    "polynomial",
    "read_run",
    "schedule_families",
    "sgd",
    "simulate_gradient_descent",
    "simulate_multi_pass",
    "simulate_one_pass",
    "step",
    "tail_average",
    "wsd",
]


def __getattr__(name: str) -> _Any:
    if name in _SUBMODULES:
        return _import_module(_SUBMODULES[name])
    if name in _LAZY:
        return getattr(_import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'batchlaw' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_SUBMODULES])
