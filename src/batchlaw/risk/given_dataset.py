"""Exact fluctuation of multi-pass SGD around GD on a dataset, and its first-order weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches, FloatArray, IntArray
from batchlaw._base.kernels import fluctuation as kernels
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.model.problem import Problem
from batchlaw.risk.empirical import Empirical, check_finite, check_reused, responses, survivals
from batchlaw.risk.gradient_descent import dataset_risk
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.rule_filters import gradient_points, noise_responses
from batchlaw.risk.runs import Dataset
from batchlaw.risk.stability import excess_note
from batchlaw.schedule.update_rule import PLAIN, SGD, UpdateRule, check_stable, linear

# Products z_a z_b kept between steps: 1 GB of doubles. Larger tables are formed at each step.
MAX_TABLE_ENTRIES = 2**27

# Error bound of all schedules, over the error measured on the noisiest one.
TRUNCATION_SAFETY = 2.0


@np.errstate(over="ignore", invalid="ignore")  # refused by check_finite
def fluctuation_given_dataset(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    dataset: Dataset,
    *,
    replacement: bool = False,
    truncate: int | None = None,
    rule: UpdateRule | None = None,
) -> Risk:
    r"""Exact risk of multi-pass SGD on this dataset, averaged over the batches only.

    E[u_t] is the GD iterate theta_t, and C_t = Cov(u_t) obeys (paper, appendices I and J),
    with r = y - Z theta_{t-1}, q = Z^T r / N, A = I - gamma Sigma_hat and
    rho = (N - B)/(B (N - 1)), or 1/B with replacement,

        C <- A C A + gamma^2 rho [
            Z^T diag(r_i^2 + z_i^T C z_i) Z / N - q q^T - Sigma_hat C Sigma_hat ]
        Fluc = tr(Sigma C_L).

    In the eigenbasis of Sigma_hat (eigenvalues nu) the terms with A and Sigma_hat multiply C
    entry by entry: (1 - gamma nu_a)(1 - gamma nu_b) - gamma^2 rho nu_a nu_b. Only the products
    z_a z_b couple the entries, in two matrix products per step for all schedules together.
    Bias, variance and cross are those of ``gradient_descent.given_dataset``.

    With momentum and averaging E[u_t] is GD's iterate with the same rule, and the noise of a
    batch has the covariance in brackets, times rho, with r and C at the gradient point
    y = u + look v. So C becomes the covariances of iterate and velocity, and
    Fluc = sum_t tr(Y_t N_t), with N_t the noise of step t and Y_t its response in the readout.

    Parameters
    ----------
    rates : (T,) array
        Step sizes gamma_t.
    batches : (T,) or (S, T) array
        Batch sizes B_t, at most N without replacement; they need not be whole numbers.
    dataset
        Features (N, M) in the problem's eigenbasis and labels (N,).
    replacement
        Whether batches are drawn with replacement.
    truncate
        Number of directions k. Feed back the diagonal of C and k (k - 1)/2 entries off it,
        those with the largest nu_a nu_b; follow the others to first order in rho. The
        schedule with the largest fluctuation is also solved exactly: ``notes`` report twice
        its relative error for all, and ``uncertainty`` the same as a share of the excess.
    rule
        The update rule, ``bl.sgd(...)``; plain SGD by default.
    """
    problem = problem.expanded()
    update = linear(rule, "the exact risk given a dataset")
    gamma = check_stable(rates, float(problem.eigenvalues[0]), update)
    features, labels = check_reused(problem, dataset)
    rho = fluctuation_factors(batches, gamma.size, labels.size, replacement=replacement)
    data = Empirical.of(problem, features)
    descent = dataset_risk(problem, gamma, data, (features, labels), update)
    K = data.eigenvalues.size
    k = K if truncate is None else min(checks.count("truncate", truncate), K)

    path = Path.of(data, labels, gamma, update)

    def solve(rho: FloatArray, k: int) -> FloatArray:
        if update.plain:
            return _fluctuation(data, path, gamma, rho, k)
        return _fluctuation_under(update.coefficients(gamma), data, path, rho, k)

    fluctuation = solve(rho, k)
    check_finite(fluctuation, gamma, data.eigenvalues)
    drawn = f"{'with' if replacement else 'without'} replacement"
    risk = around(descent, fluctuation, procedure=f"{update.title('multi-pass SGD')}, {drawn}")
    if (note := excess_note(problem, np.asarray(risk.excess))) is not None:
        risk = replace(risk, notes=(note,))
    if k < K:
        noisiest = int(np.argmax(fluctuation))
        exact = solve(rho[noisiest : noisiest + 1], K)[0]
        share = (
            TRUNCATION_SAFETY
            * abs(fluctuation[noisiest] - exact)
            / max(exact, np.finfo(float).tiny)
        )
        risk = replace(
            risk,
            method=f"truncated to {k} of {K} directions, given the dataset",
            uncertainty=share * fluctuation / risk.excess,
            notes=(
                Note(
                    f"the fluctuation errs by about {share:.1e} of itself or less, as measured on "
                    "the schedule with the largest one",
                    "truncation",
                ),
                *risk.notes,
            ),
        )
    return first(risk) if checks.is_single(batches) else risk


@np.errstate(over="ignore", invalid="ignore")  # refused by check_finite
def first_order_weights(problem: Problem, rates: ArrayLike, dataset: Dataset) -> FloatArray:
    r"""Weights w_t of this dataset with Fluc ~ sum_t rho_t w_t, for any schedule.

    The fluctuation to first order in rho: noise enters at step t from the GD iterate and
    is then contracted by GD's own steps,

        w_t = gamma_t^2 tr(Y_t [Z^T diag(r_i^2) Z / N - q q^T]),
        Y_t = A_{t+1} ... A_L Sigma A_L ... A_{t+1}.

    They depend on the labels, unlike kappa_t, and not on batches or budget. The neglected
    part, noise that comes from earlier noise, grows with rho and with gamma tr(Sigma).
    Cost O(T N M^2).
    """
    problem = problem.expanded()
    gamma = check_stable(rates, float(problem.eigenvalues[0]))
    features, labels = check_reused(problem, dataset)
    data = Empirical.of(problem, features)
    weights = weights_along(data, Path.of(data, labels, gamma), gamma)
    check_finite(weights, gamma, data.eigenvalues)
    return weights


@dataclass(frozen=True, eq=False)
class Path:
    """GD on a dataset before each step, from which the noise of the batches follows.

    Attributes
    ----------
    labels : (N,) array
    iterates : (T, K) array
        theta_{t-1} in the eigenbasis of Sigma_hat; with another rule, where GD takes its gradient.
    gradients : (T, K) array
        q_t, the mean of z_i r_i.
    survivals : (T, K) array
        p = prod_{s>t} (1 - gamma_s nu), so that Y_t = diag(p) V^T Sigma V diag(p). With
        another rule p is the readout's response to the gradient's noise, gamma_t included.
    """

    labels: FloatArray
    iterates: FloatArray
    gradients: FloatArray
    survivals: FloatArray

    @classmethod
    def of(cls, data: Empirical, labels: FloatArray, gamma: FloatArray, rule: SGD = PLAIN) -> Path:
        forcing, nu = data.correlation(labels), data.eigenvalues
        if rule.plain:
            points, kept = responses(nu, gamma), survivals(nu, gamma)
        else:
            points, kept = gradient_points(nu, gamma, rule), noise_responses(nu, gamma, rule)
        iterates = points * forcing
        return cls(labels, iterates, forcing - nu * iterates, kept)

    def squares(self, data: Empirical, t: int) -> FloatArray:
        """r_i^2 at step t."""
        squares: FloatArray = (self.labels - data.features @ self.iterates[t]) ** 2
        return squares


def weights_along(data: Empirical, path: Path, gamma: FloatArray) -> FloatArray:
    """``first_order_weights`` after the checks."""
    weights = np.empty(gamma.size)
    for t, g in enumerate(gamma):
        readout = _readout(data, path, t)
        weights[t] = g * g * (readout[:-1] @ path.squares(data, t) / path.labels.size - readout[-1])
    return weights


def _readout(data: Empirical, path: Path, t: int) -> FloatArray:
    """z_i^T Y_t z_i of every sample, followed by q^T Y_t q."""
    projected = np.vstack([data.features, path.gradients[t]]) * path.survivals[t] @ data.root
    readout: FloatArray = np.einsum("ij,ij->i", projected, projected)
    return readout


def _fluctuation(
    data: Empirical, path: Path, gamma: FloatArray, rho: FloatArray, k: int
) -> FloatArray:
    """Fluctuation of every schedule, (S,), with feedback of k of the K directions."""
    nu, entries = data.eigenvalues, Entries.of(data, k)
    a, b = entries.a, entries.b
    C = np.zeros((a.size, rho.shape[0]))
    rest = np.zeros(rho.shape[0])

    for t, g in enumerate(gamma):
        factor = 1.0 - g * nu
        decay = factor[a] * factor[b]
        strength = g * g * rho[:, t]
        if not strength.any():
            C *= decay[:, None]
            continue
        fresh, mean, unpacked = entries.noise(path, t, C, strength)
        rest += unpacked
        kernels.covariance_step(C, fresh, strength, decay, entries.product, mean)
    return entries.sigma @ C + rest


def _fluctuation_under(
    rule: FloatArray, data: Empirical, path: Path, rho: FloatArray, k: int
) -> FloatArray:
    """``_fluctuation`` for the coefficients (T, 5) of another rule, as the sum of tr(Y_t N_t)."""
    entries = Entries.of(data, k)
    a, b = entries.a, entries.b
    first, second = data.eigenvalues[a], data.eigenvalues[b]
    C = np.zeros((4, a.size, rho.shape[0]))
    total = np.zeros(rho.shape[0])
    for t, step in enumerate(rule):
        look, strength = step[0], rho[:, t]
        noise = np.zeros_like(C[0])
        if strength.any():
            at_gradient = C[kernels.EE] + look * (C[kernels.EV] + C[kernels.VE])
            at_gradient += look**2 * C[kernels.VV]
            fresh, mean, unpacked = entries.noise(path, t, at_gradient, strength)
            noise = fresh - strength * (entries.product[:, None] * at_gradient + mean[:, None])
            total += entries.sigma * path.survivals[t, a] * path.survivals[t, b] @ noise + unpacked
        kernels.momentum_covariance_step(C, noise, step, first, second)
    return total


@dataclass(frozen=True, eq=False)
class Entries:
    """The entries a <= b of C that feed back, packed: those off the diagonal times sqrt(2).

    With the products z_a z_b packed alike in a table W (N, P), z_i^T C z_i is W C and
    Z^T diag(x) Z is W^T x.
    """

    data: Empirical
    a: IntArray
    b: IntArray
    scale: FloatArray
    blocks: list[slice]
    table: FloatArray | None

    @classmethod
    def of(cls, data: Empirical, k: int) -> Entries:
        a, b = _entries(data.eigenvalues, k)
        scale = np.where(a == b, 1.0, np.sqrt(2.0))
        blocks = _row_blocks(data.features.shape[0], a.size)
        table = _packed(data.features, a, b, scale) if len(blocks) == 1 else None
        return cls(data, a, b, scale, blocks, table)

    @cached_property
    def product(self) -> FloatArray:
        """nu_a nu_b."""
        nu: FloatArray = self.data.eigenvalues
        return nu[self.a] * nu[self.b]

    @cached_property
    def sigma(self) -> FloatArray:
        """V^T Sigma V, packed."""
        return self.scale * self.data.covariance[self.a, self.b]

    def noise(
        self, path: Path, t: int, C: FloatArray, strength: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray | float]:
        """Of step t: strength Z^T diag(r_i^2 + z_i^T C z_i) Z / N (P, S), q q^T (P,), and the rest.

        The rest is what the entries that are not packed add to the fluctuation, to first order.
        """
        N = path.labels.size
        squares = path.squares(self.data, t)
        mean = self.scale * path.gradients[t, self.a] * path.gradients[t, self.b]
        truncated = self.a.size < self.data.eigenvalues.size * (self.data.eigenvalues.size + 1) // 2
        rest: FloatArray | float = 0.0
        if truncated:
            readout = _readout(self.data, path, t)
            adjoint = self.sigma * path.survivals[t, self.a] * path.survivals[t, self.b]
            rest = -strength * (readout[-1] - adjoint @ mean)
        fresh: FloatArray | float = 0.0
        for rows in self.blocks:
            W = self.table
            if W is None:
                W = _packed(self.data.features[rows], self.a, self.b, self.scale)
            noise = W @ C
            noise += squares[rows, None]
            noise *= strength / N
            fresh = fresh + W.T @ noise
            if truncated:
                rest = rest + (readout[:-1][rows] - W @ adjoint) @ noise
        return np.asarray(fresh), mean, rest


def _entries(nu: FloatArray, k: int) -> tuple[IntArray, IntArray]:
    """Rows and columns a <= b of C's entries that feed back."""
    a, b = np.triu_indices(nu.size)
    if k == nu.size:
        return a, b
    # The diagonal first: its feedback has one sign, while that of other entries averages out.
    rank = np.where(a == b, np.inf, nu[a] * nu[b])
    kept = np.argsort(-rank, kind="stable")[: nu.size + k * (k - 1) // 2]
    return a[kept], b[kept]


def _packed(z: FloatArray, a: IntArray, b: IntArray, scale: FloatArray) -> FloatArray:
    table: FloatArray = z[:, a] * z[:, b]
    table *= scale
    return table


def _row_blocks(rows: int, width: int) -> list[slice]:
    step = max(MAX_TABLE_ENTRIES // max(width, 1), 1)
    return [slice(first, first + step) for first in range(0, rows, step)]


def around(descent: Risk, fluctuation: FloatArray, **changes: Any) -> Risk:
    """GD's risk with the fluctuation of S schedules around it: every part an (S,) array."""
    same = np.ones_like(fluctuation)
    parts = {name: getattr(descent, name) * same for name in ("bias", "variance", "cross")}
    return replace(descent, **{**parts, "fluctuation": fluctuation, **changes})


def first(risk: Risk) -> Risk:
    """The first schedule's numbers, for a caller who gave one schedule."""
    names = ("bias", "variance", "cross", "fluctuation", "uncertainty")
    numbers: dict[str, Any] = {name: float(np.ravel(getattr(risk, name))[0]) for name in names}
    return replace(risk, **numbers)
