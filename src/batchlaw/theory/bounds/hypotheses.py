r"""The hypotheses of the two theorems and of lemma A.9, measured without a dataset.

What the paper assumes about the samples (the largest norm, contraction on the data) becomes a
bound with probability 1 - ``FAILURE``, or an estimate of the mean, from the spectrum alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.problem import Problem
from batchlaw.schedule.rates import wsd, wsd_phases
from batchlaw.theory.bounds.bias import effective_dimension
from batchlaw.theory.bounds.bound import Bound, Condition
from batchlaw.theory.bounds.gd_variance import norm_ceiling
from batchlaw.theory.bounds.one_pass import ALPHA
from batchlaw.theory.bounds.schedule import contraction, decay_time, phase_conditions

# Probability that a bound stated "with high probability" is broken.
FAILURE = 0.01

# Steps of the integral in ``expected_largest_norm`` and where it starts.
NORM_STEP = 0.05
FIRST_NORM = 14.0


@dataclass(frozen=True, eq=False)
class LawSetting:
    """The setting of a theorem: a power law, a sketch, and a run with a WSD schedule.

    Attributes
    ----------
    a, b, sketch
        Exponents of the spectrum and of the source, and M.
    samples, steps, peak
        N, J (T or L) and gamma.
    warmup_end, stable_end
        J_w and J_s.
    mass
        A = sum_t gamma_t.
    problem
        Source of tr(Sigma), mu_1 and the effective dimension.
    """

    a: float
    b: float
    sketch: float
    samples: float
    steps: int
    peak: float
    warmup_end: int
    stable_end: int
    mass: float
    problem: Problem

    @classmethod
    def of(
        cls,
        problem: Problem,
        a: float,
        b: float,
        sketch: float,
        samples: float,
        steps: int,
        peak: float,
        warmup: float | int,
        stable: float | int,
    ) -> LawSetting:
        """The setting with its phases and mass computed."""
        ends = wsd_phases(steps, warmup, stable)
        mass = float(wsd(steps, peak, warmup, stable).sum())
        return cls(a, b, sketch, samples, int(steps), float(peak), *ends, mass, problem)

    @property
    def learning(self) -> float:
        """gamma J."""
        return self.peak * self.steps

    @property
    def memory(self) -> float:
        """gamma J / log J."""
        return self.learning / math.log(self.steps)

    @property
    def tau(self) -> float:
        """The decay's time constant, (J - J_s)/log J."""
        return decay_time(self.steps, self.stable_end)

    @property
    def decay_mass(self) -> float:
        """A_d = gamma tau."""
        return self.peak * self.tau


def one_pass_hypotheses(at: LawSetting, smallest_batch: float) -> tuple[Condition, ...]:
    """The conditions of the one-pass theorem and its proof (H.2 to H.5).

    The theorem's gamma <= c stands for what its proof needs: 3 gamma tr(Sigma) <= 1/4 (H.2), and
    gamma mu_1 < 1 for the products.

    Parameters
    ----------
    at
        ``setting`` of a ``Law``.
    smallest_batch
        min_t B_t.
    """
    return (
        *_common(at, "T"),
        Condition(
            "rate", "gamma <= c: 3 gamma tr(Sigma) <= 1/4", at.peak * ALPHA * at.problem.trace, 0.25
        ),
        contraction(at.peak * float(at.problem.eigenvalues[0])),
        Condition("smallest-batch", "B_t >= 1", smallest_batch, 1.0, at_least=True, kind="sharp"),
    )


def multi_pass_hypotheses(at: LawSetting) -> tuple[Condition, ...]:
    """The conditions of the multi-pass theorem, and those that lemma A.9 derives from them.

    Parameters
    ----------
    at
        ``setting`` of a ``Law``.
    """
    log_n = math.log(at.samples)
    head = at.learning ** (1.0 / at.a)
    return (
        *_common(at, "L"),
        Condition("rate-log-samples", "gamma log N <= c", at.peak * log_n, 1.0, kind="small"),
        Condition("learned-directions", "(gamma L)^(1/a) <= c1 M", head, at.sketch, kind="small"),
        Condition(
            "learning-below-samples",
            "gamma L log N <= c1 N",
            at.learning * log_n,
            at.samples,
            kind="small",
        ),
        Condition(
            "mass-below-samples", "A_L log N <= c0 N", at.mass * log_n, at.samples, kind="small"
        ),
        *_regularity(at),
    )


def bias_lower_hypothesis(setting: LawSetting) -> Condition:
    """A^(1/a) <= M/c1 (lemma batch-bias-source, G): the bias alone has a lower bound.

    Not a hypothesis of the theorem: beyond it Approx + Bias is still of the stated order.
    """
    return Condition(
        "bias-lower-bound",
        "A^(1/a) <= M/c1",
        setting.mass ** (1.0 / setting.a),
        setting.sketch,
        kind="small",
    )


def expected_largest_norm(problem: Problem, samples: float) -> float:
    r"""Estimate of E max_i ||z_i||^2 over N Gaussian samples, within two per cent.

    The integral of 1 - (1 - P(x))^N over x. The tail P is Lugannani and Rice's, from
    K(l) = log E exp(l ||z||^2) = -(1/2) sum_j log(1 - 2 l mu_j) at the l with K'(l) = x:
    w = sign(l) sqrt(2 (l x - K)), v = l sqrt(K''), P = Q(w) + q(w) (1/v - 1/w).
    """
    x, tail = _norm_tails(problem, samples)
    return float(x[0] + np.trapezoid(_any_of(samples, tail), x))


def largest_norm_tail(
    problem: Problem, samples: float, peak: float, factors: ArrayLike = (1.0, 2.0)
) -> Bound:
    r"""P(8 gamma max_i ||z_i||^2 > r) <= N^{-c r} for r >= 1 (lemma A.9), one entry per r.

    The paper does not give c; here it is the one that r = 1 needs, so that the statement for
    r > 1 has a constant and can fail. The probabilities are those of ``expected_largest_norm``.

    Parameters
    ----------
    samples, peak
        N and gamma.
    factors
        r, each at least 1.
    """
    r = np.asarray(factors, dtype=np.float64)
    if r.ndim != 1 or not r.size or not (r >= 1.0).all():
        raise InputError("factors", "must be numbers of at least 1", repr(factors))
    x, tail = _norm_tails(problem, samples + math.exp(4.0 * float(r.max())))
    levels = np.append(1.0, r) / (8.0 * peak)
    logs = np.interp(levels, x, np.log(np.maximum(tail, 1e-300)))
    first, *rest = _any_of(samples, np.exp(logs))
    return Bound(
        "largest squared norm of a sample, beyond r times its limit",
        "A.9, lemma app-derived-multipass-regularity (tail)",
        0.0,
        np.array(rest),
        first**r,
    )


def _any_of(samples: float, tail: FloatArray) -> FloatArray:
    """1 - (1 - P)^N without losing a small P."""
    return np.asarray(-np.expm1(samples * np.log1p(-np.clip(tail, 0.0, 1.0 - 1e-15))))


def _norm_tails(problem: Problem, samples: float) -> tuple[FloatArray, FloatArray]:
    """x and P(||z||^2 > x), from where the tail is 1 to where it is below e^-40/N."""
    mu, n = problem.eigenvalues, problem.multiplicity
    # Even steps of log(1 - 2 l mu_1), with l = 0, where 1/v - 1/w is 0/0, half way between two.
    last = math.log(2.0 * (math.log(samples) + 40.0))
    steps = np.arange(-round(last / NORM_STEP), round(FIRST_NORM / NORM_STEP)) + 0.5
    tilt = -0.5 * np.expm1(steps[::-1] * NORM_STEP) / float(mu[0])
    left = 1.0 - 2.0 * np.multiply.outer(tilt, mu)
    x, curvature = (mu / left) @ n, 2.0 * (mu / left) ** 2 @ n
    w = np.sign(tilt) * np.sqrt(2.0 * tilt * x + np.log(left) @ n)
    density = np.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    above = np.array([0.5 * math.erfc(value / math.sqrt(2.0)) for value in w])
    return x, above + density * (1.0 / (tilt * np.sqrt(curvature)) - 1.0 / w)


def top_sample_eigenvalue(problem: Problem, samples: float, failure: float = FAILURE) -> float:
    """Upper bound on mu_1(Sigma_hat) with probability 1 - ``failure``.

    By Gordon's inequality and concentration, the square of
    sqrt(mu_1) + sqrt(tr(Sigma)/N) + sqrt(2 mu_1 log(1/failure)/N).

    Parameters
    ----------
    failure
        Probability that the bound is exceeded.
    """
    top = float(problem.eigenvalues[0])
    root = math.sqrt(top) + math.sqrt(problem.trace / samples)
    return (root + math.sqrt(2.0 * top * math.log(1.0 / failure) / samples)) ** 2


def _common(setting: LawSetting, J: str) -> tuple[Condition, ...]:
    """Exponents, noise, horizons and phases, the same for both theorems."""
    sigma2 = setting.problem.irreducible
    return (
        Condition(
            "source-exponent",
            "b < a + 1",
            setting.b,
            math.nextafter(setting.a + 1.0, 0.0),
            kind="sharp",
        ),
        Condition("label-noise", "sigma^2 ~ 1", _distance(np.array(sigma2)), 1.0, kind="order"),
        Condition(
            "spectrum",
            "mu_j ~ j^-a",
            _power_law_distance(setting.problem, setting.a),
            1.0,
            kind="order",
        ),
        Condition(
            "memory", f"gamma {J}/log {J} >~ 1", setting.memory, 1.0, at_least=True, kind="small"
        ),
        Condition(
            "decay-mass",
            "A_d = gamma tau_d >~ 1",
            setting.decay_mass,
            1.0,
            at_least=True,
            kind="small",
        ),
        *phase_conditions(setting.steps, setting.warmup_end, setting.stable_end, J),
    )


def _regularity(setting: LawSetting) -> tuple[Condition, ...]:
    """Lemma app-derived-multipass-regularity (A.9), and contraction on the data."""
    problem, N = setting.problem, setting.samples
    mu, n = problem.eigenvalues, problem.multiplicity
    likely = f"with probability {1.0 - FAILURE:g}"
    return (
        Condition("trace", "tr(Sigma) ~ 1", _distance(np.array(problem.trace)), 1.0, kind="order"),
        Condition("trace-of-square", "tr(Sigma^2) <~ 1", float(n @ mu**2), 1.0, kind="order"),
        Condition(
            "rate-trace", "gamma tr(Sigma) <= c", setting.peak * problem.trace, 1.0, kind="small"
        ),
        Condition(
            "effective-dimension",
            "effective dimension at 1/(gamma L) <= N/4",
            effective_dimension(mu, 1.0 / setting.learning, n),
            N / 4.0,
        ),
        Condition(
            "largest-norm",
            f"gamma max ||z_i||^2 <= 1/8, {likely}",
            setting.peak * norm_ceiling(mu, n, N, FAILURE),
            0.125,
        ),
        Condition(
            "largest-norm-mean",
            "gamma max ||z_i||^2 <= 1/8, in the mean",
            setting.peak * expected_largest_norm(problem, N),
            0.125,
        ),
        Condition(
            "sample-contraction",
            f"gamma mu_1(Sigma_hat) <= c0 < 1, {likely}",
            setting.peak * top_sample_eigenvalue(problem, N),
            math.nextafter(1.0, 0.0),
        ),
    )


def _distance(ratios: FloatArray) -> float:
    """The largest factor between a ratio and 1, in either direction."""
    with np.errstate(divide="ignore"):
        return float(np.maximum(ratios, 1.0 / ratios).max())


def _power_law_distance(problem: Problem, a: float) -> float:
    """The largest factor between mu_j j^a and 1, with j the middle of a node's directions."""
    n = problem.multiplicity
    rank = np.maximum(np.ceil(np.cumsum(n) - 0.5 * n), 1.0)
    return _distance(problem.eigenvalues[n > 0.0] * rank[n > 0.0] ** a)
