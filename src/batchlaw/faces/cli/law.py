"""``batchlaw law``: the paper's theorems at a setting, and which of their conditions hold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw._base.version import __version__
from batchlaw.design.choices import refuse
from batchlaw.faces.cli.inputs import BatchOptions, ProblemOptions, RateOptions, Whole
from batchlaw.influences.weights import influence
from batchlaw.model.problem import KINDS, Problem
from batchlaw.schedule.rates import wsd
from batchlaw.theory.bounds import Condition
from batchlaw.theory.laws import Law, multi_pass_law, one_pass_law


@Parameter(name="*")
@dataclass(frozen=True)
class LawBatches(BatchOptions):
    """The batch-size schedule.

    Attributes
    ----------
    batches
        One of "constant" (the default), "oracle", "early_large_late_small",
        "early_small_late_large", "greedy", "continuous", or a CSV file with a column batch.
    budget
        Sum of the batch sizes of a named schedule; 8 an update by default.
    mean_batch
        The same as a mean over the updates.
    """

    batches: str = "constant"


def law(
    *,
    problem: ProblemOptions = ProblemOptions(),  # noqa: B008 - frozen
    rates: RateOptions = RateOptions(),  # noqa: B008
    batches: LawBatches = LawBatches(),  # noqa: B008
    procedure: Literal["one-pass", "multi-pass"] | None = None,
    samples: Whole | None = None,
    replacement: Annotated[bool, Parameter(negative=())] = False,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Print every term of a scaling law, its horizons, and a verdict on every condition.

    The problem is "sketch" by default: the traces that a Gaussian sketch has on average.

    Parameters
    ----------
    procedure
        one-pass (the default), or multi-pass (the default where samples are given).
    samples
        N of multi-pass; 512 by default. One pass uses the sum of its batches.
    replacement
        Multi-pass batches with replacement.
    json_
        Print JSON instead of text.
    """
    reuse = procedure == "multi-pass" or (procedure is None and samples is not None)
    if not reuse and samples is not None:
        raise InputError(
            "samples",
            f"exists for {arg('procedure')} multi-pass only",
            hint=f"one pass has a {arg('budget')}",
        )
    if not reuse and replacement:
        raise InputError("replacement", f"exists for {arg('procedure')} multi-pass only")
    if "," in batches.batches:
        raise InputError("batches", "must be one schedule", repr(batches.batches))
    a, b, sketch, at = law_problem(problem)
    setting = wsd_setting(rates)
    N = 512 if samples is None else checks.count("samples", samples, minimum=2)
    kappa = influence(at, wsd(**setting))
    cap = N if reuse and not replacement else None
    (sizes,) = batches.build(kappa, cap).values()
    if reuse:
        found = multi_pass_law(
            a, b, sketch, samples=N, batches=sizes, replacement=replacement, problem=at, **setting
        )
    else:
        found = one_pass_law(a, b, sketch, batches=sizes, problem=at, **setting)
    chosen = {"problem": asdict(problem), "rates": asdict(rates), "batches": asdict(batches)}
    print(json.dumps(_plain(_document(found, chosen)), indent=2) if json_ else found)
    return 0


def law_problem(options: ProblemOptions) -> tuple[float, float, float, Problem]:
    """a, b, M and the problem: a law needs exponents, which a file of eigenvalues lacks."""
    kind = options.problem or "sketch"
    known = ("paper", "power-law", *KINDS)
    checks.choice("problem", kind, known)
    a, b = (2.0 if options.a is None else options.a), (1.5 if options.b is None else options.b)
    return a, b, 64.0 if options.m is None else options.m, replace(options, problem=kind).build()


def wsd_setting(options: RateOptions) -> dict[str, Any]:
    """steps, peak, warmup and stable of the paper's WSD schedule, the only one in its laws."""
    if options.rates != "wsd":
        raise InputError("rates", "must be wsd, the schedule of the laws", repr(options.rates))
    refuse(options, "a law", "decay")
    warmup, stable = options.phases
    return {
        "steps": 64 if options.steps is None else options.steps,
        "peak": 0.05 if options.gamma is None else options.gamma,
        "warmup": warmup,
        "stable": stable,
    }


def _document(found: Law, chosen: Mapping[str, Any]) -> dict[str, Any]:
    at = found.setting
    name = "rho_eff" if found.reuses else "b_eff"
    return {
        "procedure": found.procedure,
        "samples": at.samples,
        name: found.effective,
        "static": found.static,
        "terms": dict(found.terms),
        "appendix_terms": dict(found.appendix_terms),
        "upper_factor": found.upper_factor,
        "horizons": found.horizons,
        "regime": found.regime,
        "verdict": found.verdict,
        "conditions": [_condition(condition) for condition in found.conditions],
        "bias_alone": _condition(found.bias_alone),
        "setting": chosen,
        "batchlaw": __version__,
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return asdict(condition) | {"strain": condition.strain, "verdict": condition.verdict}


def _plain(value: Any) -> Any:
    """The same without infinities, which JSON lacks: M = inf is the text "inf"."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and math.isinf(value) else value
