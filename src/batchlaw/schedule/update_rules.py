"""Update rules: SGD, heavy ball and Nesterov as one linear recursion, and readouts.

For one eigendirection with error e, velocity v and gradient G = mu y + noise,

    y  = e + look v          where the gradient is taken
    v' = keep v + gain G
    e' = e + drag v + push G

Five numbers a step cover every rule here; a row of ``update_rule`` is
(look, keep, gain, drag, push).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray


def update_rule(
    rates: FloatArray,
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
    pytorch: bool = False,
) -> FloatArray:
    """Coefficients of every step, as a (T, 5) array.

    Heavy ball moves by d' = beta d - gamma G and Nesterov takes G at e + beta d. With
    ``pytorch`` the velocity sums plain gradients, v' = beta v + G, and is multiplied by
    the current rate: e' = e - gamma v', or e - gamma (G + beta v') for Nesterov, G always
    at e. The two forms agree at a constant rate only.

    Parameters
    ----------
    momentum
        beta, one number or one a step, each in [0, 1).
    """
    gamma = rates
    beta = momentum_array(momentum, gamma.size)
    zero = np.zeros_like(gamma)
    if pytorch:
        drag, push = (
            (-gamma * beta**2, -gamma * (1.0 + beta)) if nesterov else (-gamma * beta, -gamma)
        )
        return np.stack([zero, beta, np.ones_like(gamma), drag, push], axis=1)
    return np.stack([beta if nesterov else zero, beta, -gamma, beta, -gamma], axis=1)


def momentum_array(momentum: float | ArrayLike, steps: int) -> FloatArray:
    beta = np.atleast_1d(np.asarray(momentum, dtype=np.float64))
    if beta.shape not in ((1,), (steps,)):
        raise ValueError(
            f"momentum must be one number or one for each of the {steps} rates, "
            f"got shape {beta.shape}"
        )
    if not ((beta >= 0.0) & (beta < 1.0)).all():
        wrong = beta[~((beta >= 0.0) & (beta < 1.0))][0]
        raise ValueError(f"momentum must lie in [0, 1), got {wrong}")
    return np.broadcast_to(beta, (steps,)).copy()


def check_stable(
    rates: ArrayLike,
    largest_eigenvalue: float,
    momentum: float | ArrayLike = 0.0,
    nesterov: bool = False,
) -> FloatArray:
    """Step sizes for which the mean of every direction contracts, or a ValueError.

    At a fixed rate that is gamma mu < 2 (1 + beta) for heavy ball, 2 (1 + beta)/(1 + 2 beta)
    for Nesterov in either form.
    """
    gamma = checks.vector("rates", rates)
    beta = momentum_array(momentum, gamma.size)
    limit = 2.0 * (1.0 + beta) / (1.0 + 2.0 * beta if nesterov else 1.0)
    over = gamma * largest_eigenvalue / limit
    if over.max() >= 1.0:
        t = int(over.argmax())
        label = "2" if not beta.any() else f"{limit[t]:.6g}"
        raise ValueError(
            f"peak rate {gamma[t]:.6g} is unstable: {label} / largest eigenvalue is "
            f"{limit[t] / largest_eigenvalue:.6g}"
        )
    if not gamma.any():
        raise ValueError("rates must not all be zero")
    return gamma


def readout(average: ArrayLike | None, steps: int) -> FloatArray | None:
    """Weights on u_1..u_T, checked; what they lack to 1 stays on u_0. None: the last iterate."""
    if average is None:
        return None
    weights = checks.vector("average", average)
    if weights.size != steps:
        raise ValueError(
            f"average must have one weight for each of the {steps} rates, got {weights.size}"
        )
    if weights.sum() > 1.0 + 1e-9:
        raise ValueError(f"average must sum to at most 1, got {weights.sum():.12g}")
    return weights


def running_readout(weights: FloatArray | None, steps: int) -> FloatArray:
    """(hold, weight) of every step, as a (T, 2) array: s_t = hold s_{t-1} + weight u_t.

    s_t is the average of what has come, its weights scaled up to 1, and s_T the readout
    itself: for an EMA the running EMA, for a tail average the running mean of the tail and
    the iterate before it. None reads out the iterate.
    """
    if weights is None:
        return np.tile([0.0, 1.0], (steps, 1))
    left = max(1.0 - float(weights.sum()), 0.0)
    # Less than this on the start is the rounding of the sum.
    so_far = (left if left > 1e-13 else 0.0) + np.cumsum(weights)
    before = np.append(so_far[:1] - weights[:1], so_far[:-1])
    begun = so_far > 0.0
    scale = np.where(begun, so_far, 1.0)
    return np.stack(
        [np.where(begun, before / scale, 0.0), np.where(begun, weights / scale, 1.0)], axis=1
    )


def tail_average(steps: int, share: float = 0.5) -> FloatArray:
    """Equal weights on the last ``share`` of the iterates (at least one)."""
    steps = checks.count("steps", steps)
    share = checks.real("share", share, above=0.0, at_most=1.0)
    length = max(int(share * steps + 1e-9), 1)
    return np.append(np.zeros(steps - length), np.full(length, 1.0 / length))


def ema(steps: int, decay: float) -> FloatArray:
    """Exponential moving average started at u_0: (1 - decay) decay^(T - t).

    decay^T stays on the start, so the weights sum to less than 1.
    """
    steps = checks.count("steps", steps)
    decay = checks.real("decay", decay, at_least=0.0, at_most=1.0)
    return (1.0 - decay) * decay ** np.arange(steps - 1, -1, -1, dtype=np.float64)
