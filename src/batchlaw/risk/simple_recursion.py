"""Expected fluctuation of multi-pass SGD over datasets, from the one-pass recursion."""

from __future__ import annotations

from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import Batches
from batchlaw._base.errors import InputError
from batchlaw._base.kernels.mean_field import simple_fluctuation
from batchlaw.batches.effective import fluctuation_factors
from batchlaw.model.problem import Problem
from batchlaw.risk.over_datasets import averaged_risk, remaining, reuse_name
from batchlaw.risk.result import Note, Risk
from batchlaw.risk.stability import check_overflow
from batchlaw.schedule.update_rule import check_stable

ROUGH = Note(
    "bias and variance are those of GD with Sigma in the place of its sample estimate",
    "rough parts",
)
# Fitted degrees of freedom per sample above which the recursion is refused.
LARGEST_SHARE = 0.25


def expected_fluctuation_simple(
    problem: Problem,
    rates: ArrayLike,
    batches: Batches,
    samples: int,
    *,
    replacement: bool = False,
) -> Risk:
    r"""Fluctuation of multi-pass SGD over datasets, an approximation in O(L M) per schedule.

    One pass with rho_t in place of 1/B_t, and with residuals that the fit has made smaller:
    in the notation of ``one_pass_risk``, with e = gamma^2 rho,

        C <- h C + e [D C + (1 - df/N)^2 (D m^2 + s2 mu)],
        df_t = sum_j n_j [1 - prod_{s <= t} (1 - gamma_s mu_j)].

    Good for large N while few degrees of freedom are fitted (docs/mean_field.md), and
    refused above df/N = 1/4; ``expected_risk_mean_field`` has no such limit. Bias and
    variance are GD's with Sigma in place of Sigma_hat: a rough guide.

    Parameters
    ----------
    rates : (L,) array
        Step sizes gamma_t.
    batches : (L,) or (S, L) array
        Batch sizes B_t; they need not be whole numbers.
    samples : int
        N.
    replacement : bool
        Draw within a batch with replacement: rho_t = 1/B_t.
    """
    mu, n = problem.eigenvalues, problem.multiplicity
    gamma = check_stable(rates, float(mu[0]))
    N = checks.count("samples", samples, minimum=2)
    sizes = checks.batches(batches, gamma.size, whole=False, maximum=None if replacement else N)
    psi = remaining(problem, gamma)
    share = float(n @ (1.0 - psi)) / N
    if share > LARGEST_SHARE:
        raise InputError(
            "samples",
            f"are too few for the simple recursion: it needs df/N of at most {LARGEST_SHARE}",
            f"{share:.3g}",
            hint="expected_risk_mean_field has no such limit",
            subject=f"{N} samples",
        )
    rho = fluctuation_factors(sizes, gamma.size, N, replacement=replacement)
    fluctuation = simple_fluctuation(
        mu, n, problem.target_energy, problem.noise_variance, gamma, rho, float(N)
    )
    check_overflow(fluctuation, gamma, sizes)
    bias = float((n * mu * problem.target_energy) @ psi**2)
    variance = problem.noise_variance / N * float(n @ (1.0 - psi) ** 2)
    return averaged_risk(
        problem,
        reuse_name(replacement),
        f"one-pass recursion shrunk for datasets of {N} samples",
        bias,
        variance,
        float(fluctuation[0]) if checks.is_single(batches) else fluctuation,
        simple_error(N, share),
        (ROUGH,),
    )


def simple_error(samples: int, share: float) -> float:
    """Largest relative error of a part, measured: the limits of docs/mean_field.md."""
    if samples >= 128 and share <= 0.05:
        return 0.08
    return 0.21 if samples >= 64 and share <= 0.1 else 0.38
