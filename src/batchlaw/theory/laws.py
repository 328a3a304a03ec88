"""The paper's two theorems as numbers: every term, every horizon, and which conditions hold.

The theorems give orders with unnamed constants: a term here has constant 1, and
``Law.constants`` divides an exact risk by it. J is the number of updates, T or L.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.batches.effective import (
    effective_batch,
    effective_fluctuation,
    fluctuation_factors,
)
from batchlaw.influences.weights import influence
from batchlaw.model.problem import Problem
from batchlaw.risk.result import Risk
from batchlaw.schedule.rates import wsd
from batchlaw.theory.bounds.bound import Condition
from batchlaw.theory.bounds.fluctuation import reuse_exponent
from batchlaw.theory.bounds.hypotheses import (
    LawSetting,
    bias_lower_hypothesis,
    multi_pass_hypotheses,
    one_pass_hypotheses,
)
from batchlaw.theory.outlier_datasets import OutlierDatasets, outlier_datasets

FORMS = ("display", "appendix")
# What a law's expectation is taken over: in one pass, and in multi-pass.
AVERAGES = ("all data", "datasets within the max-norm event")


@dataclass(frozen=True, eq=False)
class Law:
    r"""A theorem at one setting.

    Attributes
    ----------
    procedure
        "one-pass SGD" or "multi-pass SGD".
    reuses
        Whether samples are used more than once, as in multi-pass SGD.
    setting
        Exponents, sizes, rates and the problem that the traces come from.
    effective
        B_eff of one pass, rho_eff of multi-pass.
    static
        Whether all batches are equal; ``effective`` is then B or rho_B without a sum.
    terms
        The terms of the theorem's display, in gamma J and gamma J/log J, named as the parts of
        ``Risk``.
    appendix_terms
        The same in the horizons of the appendix: A = sum_t gamma_t and A_d = gamma tau,
        tau = (J - J_s)/log J; the bias is the upper side, min{M, A^(1/a)}^(1-b).
    upper_factor
        Factor by which multi-pass may exceed its fluctuation term,
        log N [1 + log^2 N A^(2-s)/N^2]; 1 for one pass. ``bounds.reuse_exponent`` computes s.
    conditions
        The theorem's hypotheses, and for multi-pass the consequences in lemma A.9.
    bias_alone
        If it holds, the bias alone has a matching lower bound; otherwise only
        approximation + bias is of the stated order.
    outliers
        For multi-pass, which average over datasets is meant: the event {gamma max_i ||z_i||^2 <= c}
        with its probability, and how much the datasets outside of it add to the plain
        expectation. None for one pass, whose law is about the plain expectation.
    """

    procedure: str
    reuses: bool
    setting: LawSetting
    effective: float
    static: bool
    terms: Mapping[str, float]
    appendix_terms: Mapping[str, float]
    upper_factor: float
    conditions: tuple[Condition, ...]
    bias_alone: Condition
    outliers: OutlierDatasets | None = None

    @property
    def average(self) -> str:
        """The average that the law is about, as ``AVERAGES`` names it."""
        return AVERAGES[self.outliers is not None]

    @property
    def horizons(self) -> dict[str, float]:
        """Learning (gamma J and A) and memory (gamma J/log J and A_d)."""
        names = ("learning", "mass", "memory", "decay_mass")
        return {name: getattr(self.setting, name) for name in names}

    @property
    def total(self) -> float:
        """The display's sum: the order of E R_M - sigma^2."""
        return math.fsum(self.terms.values())

    @property
    def regime(self) -> str:
        """ "saturated" where the memory reaches all M directions, else "unsaturated"."""
        reached = self.setting.memory ** (1.0 / self.setting.a)
        return "saturated" if reached >= self.setting.sketch else "unsaturated"

    @property
    def verdict(self) -> str:
        """The worst verdict of the conditions."""
        verdicts = {condition.verdict for condition in self.conditions}
        return next(word for word in ("fails", "borderline", "holds") if word in verdicts)

    def constants(self, risk: Risk, *, form: str = "display") -> dict[str, float]:
        """The theorem's hidden constants, measured: each part of a risk over its term.

        ``form`` is "display" or "appendix". A part whose term is zero is left out.
        "approximation + bias" is the sum of the two parts over the sum of their terms.
        """
        checks.choice("form", form, FORMS)
        terms = self.terms if form == "display" else self.appendix_terms
        if np.ndim(risk.total):
            raise InputError("risk", "must be of one schedule", f"{np.size(risk.total)}")
        parts = {name: float(getattr(risk, name)) for name in terms}
        constants = {name: parts[name] / term for name, term in terms.items() if term > 0.0}
        both = terms["approximation"] + terms["bias"]
        constants["approximation + bias"] = (parts["approximation"] + parts["bias"]) / both
        return constants

    def __str__(self) -> str:
        setting = self.setting
        name, J = ("rho_eff", "L") if self.reuses else ("B_eff", "T")
        lines = [
            f"{self.procedure}: a = {setting.a:g}, b = {setting.b:g}, M = {setting.sketch:g}, "
            f"N = {setting.samples:g}, {J} = {setting.steps}, gamma = {setting.peak:g}, "
            f"{name} = {self.effective:.6g}{' (static)' if self.static else ''}",
            "",
            *_term_lines(self, J),
            "",
            f"regime: {self.regime}; bias alone: {_bias_alone_text(self.bias_alone)}",
            *([] if self.outliers is None else [str(self.outliers)]),
            f"hypotheses: {_verdict_counts(self.conditions)}",
        ]
        width = max(len(c.name) for c in self.conditions)
        lines.append(f"  {'':{width}}  {'':10}  {'measured':>10}  {'limit':>10}  {'strain':>8}")
        lines += [
            f"  {c.name:{width}}  {c.verdict:10}  "
            f"{c.measured:10.4g}  {_limit(c):>10}  {c.strain:8.3g}"
            for c in self.conditions
        ]
        return "\n".join(lines)


def one_pass_law(
    a: float,
    b: float,
    sketch: float,
    *,
    steps: int,
    peak: float,
    batches: ArrayLike,
    samples: int | None = None,
    sigma: float | None = None,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
    problem: Problem | None = None,
) -> Law:
    r"""Theorem 1: the one-pass dynamic-batch scaling law, with its conditions judged.

    E R_M - sigma^2 is of the order of ::

        M^(1-b) + (gamma T)^((1-b)/a) + log T/(T B_eff) min{M, (gamma T/log T)^(1/a)}

    The terms are returned outside the hypotheses too; ``conditions`` tells where those fail.
    ``bounds.Condition.verdict`` explains how a condition is judged.

    Parameters
    ----------
    a
        Exponent of the spectrum, above 1.
    b
        Exponent of the source, above 1.
    sketch
        M (math.inf: no limit).
    steps
        T of the WSD schedule.
    peak
        gamma of the WSD schedule.
    batches
        One batch size (static: B_eff = B), or one per step.
    samples
        N, the sum of the batches; if given, it must agree.
    sigma
        Standard deviation of the label noise; 1 if None. Not with a ``problem``, which has its own.
    warmup
        End of the WSD schedule's warmup, as in ``wsd``.
    stable
        End of its stable phase, as in ``wsd``.
    problem
        Source of B_eff and the traces; the deterministic equivalent of a Gaussian sketch
        (``Problem.power_law_nodes``) if None.
    """
    a, b = checks.real("a", a, above=1.0), checks.real("b", b, above=1.0)
    sizes = _sizes(batches, steps)
    N = float(sizes.sum())
    if samples is not None and not math.isclose(N, checks.count("samples", samples)):
        raise InputError("batches", f"must sum to the {samples} samples of one pass", f"{N:.12g}")
    problem = _problem(problem, a, b, sketch, sigma)
    setting = LawSetting.of(problem, a, b, sketch, N, steps, peak, warmup, stable)
    static = bool((sizes == sizes[0]).all())
    effective = float(sizes[0])
    if not static:
        kappa = influence(problem, wsd(steps, peak, warmup, stable))
        effective = checks.real("effective batch", effective_batch(kappa, sizes))
    terms, appendix = (
        {"approximation": setting.sketch ** (1.0 - b), "bias": bias, "variance": kernel / effective}
        for bias, kernel in zip(_biases(setting), _kernels(setting, setting.sketch), strict=True)
    )
    return Law(
        procedure="one-pass SGD",
        reuses=False,
        setting=setting,
        effective=effective,
        static=static,
        terms=terms,
        appendix_terms=appendix,
        upper_factor=1.0,
        conditions=one_pass_hypotheses(setting, float(sizes.min())),
        bias_alone=bias_lower_hypothesis(setting),
    )


def multi_pass_law(
    a: float,
    b: float,
    sketch: float,
    *,
    samples: int,
    steps: int,
    peak: float,
    batches: ArrayLike,
    sigma: float | None = None,
    replacement: bool = False,
    warmup: float | int = 0.1,
    stable: float | int = 0.5,
    problem: Problem | None = None,
) -> Law:
    r"""Theorem 2: the multi-pass dynamic-batch scaling law, with its conditions judged.

    E R_M - sigma^2 is of the order of ::

        M^(1-b) + (gamma L)^((1-b)/a) + (gamma L)^(1/a)/N
        + rho_eff (log L/L) (gamma L/log L)^(1/a)

    with the last term up to ``upper_factor``. E is the average over datasets in the event
    {gamma max_i ||z_i||^2 <= c} (the proof works there), and the median obeys the same law. The
    paper's display has the plain expectation, which datasets of probability 1e-200 may decide:
    ``outliers`` computes c, the event's probability, and how much those datasets add. Other
    parameters are as in ``one_pass_law``.

    Parameters
    ----------
    samples
        N, the size of the dataset.
    replacement
        Draw batches with replacement: rho_t = 1/B_t, and nothing else changes (remark).
    """
    a, b = checks.real("a", a, above=1.0), checks.real("b", b, above=1.0)
    N = checks.count("samples", samples, minimum=2)
    sizes = _sizes(batches, steps, maximum=None if replacement else N)
    problem = _problem(problem, a, b, sketch, sigma)
    setting = LawSetting.of(problem, a, b, sketch, N, steps, peak, warmup, stable)
    static = bool((sizes == sizes[0]).all())
    rates = wsd(steps, peak, warmup, stable)
    # Equal factors average to rho_B under any weights, so one step suffices if static.
    kappa = np.ones(1) if static else influence(problem, rates)
    rho = effective_fluctuation(kappa, sizes[: kappa.size], N, replacement=replacement)
    effective = checks.real("effective fluctuation", rho)
    learned = (setting.learning ** (1.0 / a), min(setting.sketch, setting.mass ** (1.0 / a)))
    kernels = (_kernels(setting, math.inf)[0], _kernels(setting, setting.sketch)[1])
    terms, appendix = (
        {
            "approximation": setting.sketch ** (1.0 - b),
            "bias": bias,
            "variance": directions / N,
            "fluctuation": effective * kernel,
        }
        for bias, directions, kernel in zip(_biases(setting), learned, kernels, strict=True)
    )
    factors = fluctuation_factors(sizes, rates.size, N, replacement=replacement)[0]
    log_n = math.log(N)
    reused = log_n**2 * setting.mass ** (2.0 - reuse_exponent(a)) / N**2
    return Law(
        procedure="multi-pass SGD",
        reuses=True,
        setting=setting,
        effective=effective,
        static=static,
        terms=terms,
        appendix_terms=appendix,
        upper_factor=log_n * (1.0 + reused),
        conditions=multi_pass_hypotheses(setting),
        bias_alone=bias_lower_hypothesis(setting),
        outliers=outlier_datasets(problem, rates, factors, N),
    )


def _sizes(batches: ArrayLike, steps: int, maximum: int | None = None) -> FloatArray:
    steps = checks.count("steps", steps, minimum=3)
    sizes = checks.batches(batches, steps, whole=False, maximum=maximum)
    if sizes.shape[0] != 1:
        raise InputError("batches", "must be one number or one schedule", f"{sizes.shape[0]}")
    return np.asarray(sizes[0], dtype=np.float64)


def _problem(
    problem: Problem | None, a: float, b: float, sketch: float, sigma: float | None
) -> Problem:
    if problem is None:
        noise = 1.0 if sigma is None else sigma
        return Problem.power_law_nodes(a, b, sketch, kind="sketch", sigma=noise)
    if sigma is not None:
        raise InputError("sigma", "comes with the problem, give one or the other")
    directions = float(problem.multiplicity.sum())
    if not math.isinf(sketch) and not math.isclose(directions, sketch, rel_tol=1e-6):
        needed = f"must be the problem's {directions:g} directions"
        raise InputError("sketch", needed, f"{sketch:g}")
    return problem


def _biases(setting: LawSetting) -> tuple[float, float]:
    """(gamma J)^((1-b)/a) of the display, and min{M, A^(1/a)}^(1-b) of the appendix."""
    reached = min(setting.sketch, setting.mass ** (1.0 / setting.a))
    return setting.learning ** ((1.0 - setting.b) / setting.a), reached ** (1.0 - setting.b)


def _kernels(setting: LawSetting, sketch: float) -> tuple[float, float]:
    """min{M, memory^(1/a)} / (memory/gamma), with the memory of the display and the appendix."""
    display, appendix = (
        min(sketch, memory ** (1.0 / setting.a)) / (memory / setting.peak)
        for memory in (setting.memory, setting.decay_mass)
    )
    return display, appendix


def _term_lines(law: Law, J: str) -> list[str]:
    """A table: the terms in both forms, then the horizons in them."""
    setting = law.setting
    rows = [
        ("order of", "display", "appendix"),
        *(
            (name, f"{term:.6g}", f"{law.appendix_terms[name]:.6g}")
            for name, term in law.terms.items()
        ),
        (f"learning horizon (gamma {J}; A)", f"{setting.learning:.6g}", f"{setting.mass:.6g}"),
        (
            f"memory horizon (gamma {J}/log {J}; A_d)",
            f"{setting.memory:.6g}",
            f"{setting.decay_mass:.6g}",
        ),
    ]
    width = max(len(row[0]) for row in rows)
    lines = [f"{name:{width}}  {left:>12}  {right:>12}" for name, left, right in rows]
    if "fluctuation" in law.terms:
        lines.append(f"the fluctuation's upper side is {law.upper_factor:.4g} times its term above")
    return lines


def _verdict_counts(conditions: Sequence[Condition]) -> str:
    verdicts = [condition.verdict for condition in conditions]
    if set(verdicts) == {"holds"}:
        return f"all {len(verdicts)} hold"
    failing, borderline = verdicts.count("fails"), verdicts.count("borderline")
    return f"{failing} of {len(verdicts)} fail, {borderline} borderline"


def _limit(condition: Condition) -> str:
    above, below = {"small": (">~", "<<"), "order": (">~", "<~")}.get(condition.kind, (">=", "<="))
    return f"{above if condition.at_least else below} {condition.limit:.4g}"


def _bias_alone_text(condition: Condition) -> str:
    texts = {
        "holds": "of the stated order",
        "borderline": "lower bound borderline",
        "fails": "no matching lower bound, only approximation + bias has one",
    }
    sides = f"{condition.measured:.4g} {_limit(condition)}"
    return f"{texts[condition.verdict]} ({condition.name}: {sides})"
