"""Which updates of an SGD run deserve the samples?

``import batchlaw as bl``: a problem and a learning-rate schedule give the influence of
every update; influence gives batch sizes; solvers and simulators give their risk.
"""

from batchlaw._version import __version__
from batchlaw.allocation import (
    allocate,
    effective_batch,
    effective_fluctuation,
    schedule_families,
)
from batchlaw.exact.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.exact.one_pass import one_pass_risk
from batchlaw.influence_weights import influence, influence_proxy
from batchlaw.laws import multi_pass_law, one_pass_law
from batchlaw.optimize import optimal_batches
from batchlaw.plan_file import Plan
from batchlaw.planner import plan
from batchlaw.problem import Problem
from batchlaw.rates import constant, cosine, linear, polynomial, step, wsd
from batchlaw.risk import Risk
from batchlaw.simulate import (
    simulate_gradient_descent,
    simulate_multi_pass,
    simulate_one_pass,
)

__all__ = [
    "Plan",
    "Problem",
    "Risk",
    "__version__",
    "allocate",
    "constant",
    "cosine",
    "effective_batch",
    "effective_fluctuation",
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
    "schedule_families",
    "simulate_gradient_descent",
    "simulate_multi_pass",
    "simulate_one_pass",
    "step",
    "wsd",
]
