"""The paper's two theorems as numbers: every term, every horizon, and which conditions hold.

The theorems give orders, with constants that they do not name: a term here has constant 1, and
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
from batchlaw.batches.effective import effective_batch, effective_fluctuation
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

FORMS = ("display", "appendix")


@dataclass(frozen=True, eq=False)
class Law:
    r"""A theorem at one setting.

    Attributes
    ----------
    procedure
        Its name: one-pass SGD or multi-pass SGD.
    reuses
        Whether samples are used more than once, as in multi-pass SGD.
    setting
        Exponents, sizes, rates and the problem behind the traces.
    effective
        B_eff of one pass, rho_eff of multi-pass.
    static
        Whether all batches are equal; ``effective`` is then B or rho_B without a sum.
    terms
        The theorem's display, by the name that ``Risk`` has for each part: in gamma J and
        gamma J/log J.
    appendix_terms
        The same in the horizons that the appendix sums: A = sum_t gamma_t and A_d = gamma tau,
        tau = (J - J_s)/log J; the bias is the upper side, min{M, A^(1/a)}^(1-b).
    upper_factor
        What multi-pass may exceed its fluctuation term by, log N [1 + log^2 N A^(2-s)/N^2];
        1 for one pass. ``bounds.reuse_exponent`` has s.
    conditions
        The theorem's hypotheses, and for multi-pass what lemma A.9 derives from them.
    bias_alone
        Where it holds, the bias alone has a matching lower bound. Elsewhere only
        approximation + bias is of the stated order.
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

    @property
    def horizons(self) -> dict[str, float]:
        """Learning (gamma J and A) and memory (gamma J/log J and A_d)."""
        at = self.setting
        return {
            "learning": at.learning,
            "mass": at.mass,
            "memory": at.memory,
            "decay_mass": at.decay_mass,
        }

    @property
    def total(self) -> float:
        """The display's sum: the order of E R_M - sigma^2."""
        return math.fsum(self.terms.values())

    @property
    def regime(self) -> str:
        """ "saturated" where the memory reaches all M directions, else "unsaturated"."""
        at = self.setting
        return "saturated" if at.memory ** (1.0 / at.a) >= at.sketch else "unsaturated"

    @property
    def verdict(self) -> str:
        """The worst verdict of the conditions."""
        found = {condition.verdict for condition in self.conditions}
        return next(word for word in ("fails", "borderline", "holds") if word in found)

    def constants(self, risk: Risk, *, form: str = "display") -> dict[str, float]:
        """Each part of a risk over its term: the theorem's hidden constants, measured.

        ``form`` is "display" or "appendix". A part whose term is zero is left out. The pair
        "approximation + bias" is the sum of both over the sum of their terms.
        """
        checks.choice("form", form, FORMS)
        terms = self.terms if form == "display" else self.appendix_terms
        if np.ndim(risk.total):
            raise InputError("risk", "must be of one schedule", f"{np.size(risk.total)}")
        parts = {name: float(getattr(risk, name)) for name in terms}
        found = {name: parts[name] / term for name, term in terms.items() if term > 0.0}
        both = terms["approximation"] + terms["bias"]
        found["approximation + bias"] = (parts["approximation"] + parts["bias"]) / both
        return found

    def __str__(self) -> str:
        at = self.setting
        name, J = ("rho_eff", "L") if self.reuses else ("B_eff", "T")
        lines = [
            f"{self.procedure}: a = {at.a:g}, b = {at.b:g}, M = {at.sketch:g}, "
            f"N = {at.samples:g}, {J} = {at.steps}, gamma = {at.peak:g}, "
            f"{name} = {self.effective:.6g}{' (static)' if self.static else ''}",
            "",
            *_term_lines(self, J),
            "",
            f"regime: {self.regime}; bias alone: {_said(self.bias_alone)}",
            f"hypotheses: {_counted(self.conditions)}",
        ]
        wide = max(len(c.name) for c in self.conditions)
        lines.append(f"  {'':{wide}}  {'':10}  {'measured':>10}  {'limit':>10}  {'strain':>8}")
        lines += [
            f"  {c.name:{wide}}  {c.verdict:10}  "
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

    Outside its hypotheses the terms are returned as well; the conditions say so. How a
    condition is judged is in ``bounds.Condition.verdict``.

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
        One batch size (static: B_eff = B), or one a step.
    samples
        N, the sum of the batches; if given, it must agree.
    sigma
        Standard deviation of the label noise; 1, or the problem's.
    warmup
        End of the WSD schedule's warmup, as in ``wsd``.
    stable
        End of its stable phase, as in ``wsd``.
    problem
        Where B_eff and the traces come from, if not from the deterministic equivalent of a
        Gaussian sketch (``Problem.power_law_nodes``).
    """
    a, b = checks.real("a", a, above=1.0), checks.real("b", b, above=1.0)
    sizes = _sizes(batches, steps)
    N = float(sizes.sum())
    if samples is not None and not math.isclose(N, checks.count("samples", samples)):
        raise InputError("batches", f"must sum to the {samples} samples of one pass", f"{N:.12g}")
    where = _problem(problem, a, b, sketch, sigma)
    at = LawSetting.of(where, a, b, sketch, N, steps, peak, warmup, stable)
    static = bool((sizes == sizes[0]).all())
    effective = float(sizes[0])
    if not static:
        kappa = influence(at.problem, wsd(at.steps, at.peak, warmup, stable))
        effective = checks.real("effective batch", effective_batch(kappa, sizes))
    terms, appendix = (
        {"approximation": at.sketch ** (1.0 - b), "bias": bias, "variance": kernel / effective}
        for bias, kernel in zip(_biases(at), _kernels(at, at.sketch), strict=True)
    )
    return Law(
        procedure="one-pass SGD",
        reuses=False,
        setting=at,
        effective=effective,
        static=static,
        terms=terms,
        appendix_terms=appendix,
        upper_factor=1.0,
        conditions=one_pass_hypotheses(at, float(sizes.min())),
        bias_alone=bias_lower_hypothesis(at),
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

    with the last term up to ``upper_factor``. Parameters are those of ``one_pass_law``, and:

    Parameters
    ----------
    samples
        N, the size of the dataset that batches are drawn from.
    replacement
        Batches with replacement: rho_t = 1/B_t, and nothing else changes (remark).
    """
    a, b = checks.real("a", a, above=1.0), checks.real("b", b, above=1.0)
    N = checks.count("samples", samples, minimum=2)
    sizes = _sizes(batches, steps, maximum=None if replacement else N)
    where = _problem(problem, a, b, sketch, sigma)
    at = LawSetting.of(where, a, b, sketch, N, steps, peak, warmup, stable)
    static = bool((sizes == sizes[0]).all())
    # Any weights average equal factors to rho_B: one step stands for all of a static schedule.
    kappa = np.ones(1) if static else influence(at.problem, wsd(steps, peak, warmup, stable))
    rho = effective_fluctuation(kappa, sizes[: kappa.size], N, replacement=replacement)
    effective = checks.real("effective fluctuation", rho)
    learned = (at.learning ** (1.0 / a), min(at.sketch, at.mass ** (1.0 / a)))
    kernels = (_kernels(at, math.inf)[0], _kernels(at, at.sketch)[1])
    terms, appendix = (
        {
            "approximation": at.sketch ** (1.0 - b),
            "bias": bias,
            "variance": directions / N,
            "fluctuation": effective * kernel,
        }
        for bias, directions, kernel in zip(_biases(at), learned, kernels, strict=True)
    )
    log_n = math.log(N)
    reused = log_n**2 * at.mass ** (2.0 - reuse_exponent(a)) / N**2
    return Law(
        procedure="multi-pass SGD",
        reuses=True,
        setting=at,
        effective=effective,
        static=static,
        terms=terms,
        appendix_terms=appendix,
        upper_factor=log_n * (1.0 + reused),
        conditions=multi_pass_hypotheses(at),
        bias_alone=bias_lower_hypothesis(at),
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
    many = float(problem.multiplicity.sum())
    if not math.isinf(sketch) and not math.isclose(many, sketch, rel_tol=1e-6):
        raise InputError("sketch", f"must be the problem's {many:g} directions", f"{sketch:g}")
    return problem


def _biases(at: LawSetting) -> tuple[float, float]:
    """(gamma J)^((1-b)/a) of the display, and min{M, A^(1/a)}^(1-b) of the appendix."""
    reached = min(at.sketch, at.mass ** (1.0 / at.a))
    return at.learning ** ((1.0 - at.b) / at.a), reached ** (1.0 - at.b)


def _kernels(at: LawSetting, sketch: float) -> tuple[float, float]:
    """min{M, memory^(1/a)} over the memory's steps: of the display, and of the appendix."""
    display, appendix = (
        min(sketch, memory ** (1.0 / at.a)) / (memory / at.peak)
        for memory in (at.memory, at.decay_mass)
    )
    return display, appendix


def _term_lines(law: Law, J: str) -> list[str]:
    """A table: the terms by their two forms, then the horizons they are made of."""
    at = law.setting
    rows = [
        ("order of", "display", "appendix"),
        *(
            (name, f"{term:.6g}", f"{law.appendix_terms[name]:.6g}")
            for name, term in law.terms.items()
        ),
        (f"learning horizon (gamma {J}; A)", f"{at.learning:.6g}", f"{at.mass:.6g}"),
        (f"memory horizon (gamma {J}/log {J}; A_d)", f"{at.memory:.6g}", f"{at.decay_mass:.6g}"),
    ]
    wide = max(len(row[0]) for row in rows)
    lines = [f"{name:{wide}}  {left:>12}  {right:>12}" for name, left, right in rows]
    if "fluctuation" in law.terms:
        lines.append(f"the fluctuation's upper side is {law.upper_factor:.4g} times its term above")
    return lines


def _counted(conditions: Sequence[Condition]) -> str:
    verdicts = [condition.verdict for condition in conditions]
    if set(verdicts) == {"holds"}:
        return f"all {len(verdicts)} hold"
    fail, borderline = verdicts.count("fails"), verdicts.count("borderline")
    return f"{fail} of {len(verdicts)} fail, {borderline} borderline"


def _limit(condition: Condition) -> str:
    above, below = {"small": (">~", "<<"), "order": (">~", "<~")}.get(condition.kind, (">=", "<="))
    return f"{above if condition.at_least else below} {condition.limit:.4g}"


def _said(condition: Condition) -> str:
    two_sided = {
        "holds": "of the stated order",
        "borderline": "lower bound borderline",
        "fails": "no matching lower bound, only approximation + bias has one",
    }
    sides = f"{condition.measured:.4g} {_limit(condition)}"
    return f"{two_sided[condition.verdict]} ({condition.name}: {sides})"
