"""``batchlaw law``: the paper's theorems for a setting, and which of their conditions hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw._base.version import __version__
from batchlaw.design.by_words import case_by_words, word
from batchlaw.design.vocabulary import PROBLEMS, problem_words, rate_words
from batchlaw.faces.cli.inputs import (
    BatchOptions,
    Flag,
    Options,
    Whole,
    option_class,
)
from batchlaw.faces.cli.table import without_infinities
from batchlaw.risk.procedures import MultiPass, OnePass
from batchlaw.theory.bounds import Condition
from batchlaw.theory.laws import Law, multi_pass_law, one_pass_law
from batchlaw.theory.outlier_datasets import OutlierDatasets

DEFAULT_PROBLEM = "sketch"
# The laws hold for the paper's WSD schedule only.
_RATES = tuple(w for w in rate_words(("wsd",)) if w.name in ("steps", "gamma", "warmup", "stable"))

if TYPE_CHECKING:
    LawRates: TypeAlias = Options
    LawProblem: TypeAlias = Options
else:
    LawRates = option_class("LawRates", _RATES)
    LawProblem = option_class("LawProblem", problem_words(DEFAULT_PROBLEM, files=False))


def law(
    *,
    problem: LawProblem = LawProblem(),  # noqa: B008 - frozen
    rates: LawRates = LawRates(),  # noqa: B008
    batches: BatchOptions = BatchOptions(),  # noqa: B008
    procedure: Literal["one-pass", "multi-pass"] | None = None,
    samples: Whole | None = None,
    replacement: Flag = False,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Print every term of a scaling law, its horizons, and a verdict on every condition.

    The problem is "sketch" by default: the average traces of a Gaussian sketch. Rates follow
    WSD; batches are one schedule, "constant" by default.

    Parameters
    ----------
    procedure
        one-pass (the default), or multi-pass (the default if samples are given).
    samples
        Dataset size N of multi-pass; 512 by default. One pass uses the sum of its batches.
    replacement
        Draw multi-pass batches with replacement.
    json_
        Print JSON instead of text.
    """
    chosen = {"problem": problem.words(), "rates": rates.words(), "batches": batches.words()}
    procedure_name = procedure or (OnePass.name if samples is None else MultiPass.name)
    run = {"procedure": procedure_name, "samples": samples, "replacement": replacement}
    words = law_words(problem) | rates.words() | batches.words() | run
    if "," in (words.get("batches") or ""):
        raise InputError("batches", "must be one schedule", repr(words["batches"]))
    case = case_by_words(words, batches="constant")
    (sizes,) = case.schedules().values()
    common: dict[str, Any] = {
        "steps": word(words, "steps"),
        "peak": word(words, "gamma"),
        "batches": sizes,
        "problem": case.problem,
        **{name: words[name] for name in ("warmup", "stable") if name in words},
    }
    a_b_m = (word(words, "a"), word(words, "b"), float(word(words, "m")))
    if isinstance(case.procedure, MultiPass):
        samples = case.procedure.samples
        result = multi_pass_law(*a_b_m, samples=samples, replacement=replacement, **common)
    else:
        result = one_pass_law(*a_b_m, **common)
    print(json.dumps(without_infinities(_document(result, chosen)), indent=2) if json_ else result)
    return 0


def law_words(options: LawProblem) -> dict[str, Any]:
    """The problem's words. A law needs exponents, so a file of eigenvalues is refused."""
    words = {"problem": DEFAULT_PROBLEM} | options.words()
    checks.choice("problem", words["problem"], PROBLEMS)
    return words


def _document(law: Law, chosen: Mapping[str, Any]) -> dict[str, Any]:
    summary = "rho_eff" if law.reuses else "b_eff"
    return {
        "procedure": law.procedure,
        "samples": law.setting.samples,
        summary: law.effective,
        "static": law.static,
        "terms": dict(law.terms),
        "appendix_terms": dict(law.appendix_terms),
        "upper_factor": law.upper_factor,
        "horizons": law.horizons,
        "regime": law.regime,
        "verdict": law.verdict,
        "conditions": [_condition(condition) for condition in law.conditions],
        "bias_alone": _condition(law.bias_alone),
        "average": law.average,
        **({} if law.outliers is None else {"outliers": _outliers(law.outliers)}),
        "setting": chosen,
        "batchlaw": __version__,
    }


def _outliers(outliers: OutlierDatasets) -> dict[str, float]:
    """The event of the average, and what the datasets outside add; natural logarithms."""
    norm, log_probability = outliers.heaviest
    return {
        "event_limit": outliers.limit,
        "event_log_failure": outliers.log_failure,
        "log_added_to_plain_expectation": outliers.log_weight,
        "heaviest_norm": norm,
        "heaviest_norm_log_probability": log_probability,
    }


def _condition(condition: Condition) -> dict[str, Any]:
    return asdict(condition) | {"strain": condition.strain, "verdict": condition.verdict}
