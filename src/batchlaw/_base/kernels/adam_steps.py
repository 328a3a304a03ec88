"""Adam step by step, on batches and on a whole dataset: one run per call.

``state`` (4, M) holds the iterate, both moments and the readout. A row of ``steps`` holds what
changes with the update: gamma_t / (1 - beta1^t), 1 / sqrt(1 - beta2^t), 1 - gamma_t lambda.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from batchlaw._base.kernels.common import REORDER
from batchlaw._base.kernels.rules import batch_gradient

ITERATE, FIRST, SECOND, READOUT = range(4)


@njit(nogil=True, fastmath=REORDER, forceinline=True, error_model="numpy")
def _adam_step(step, running, beta1, beta2, eps, common, gradient, state):  # type: ignore[no-untyped-def]
    """m, v and u of one update; with ``common`` v is an average of the mean of G_j^2 over j."""
    push, correction, shrink = step
    hold, weight = running
    mean = 0.0
    if common:
        for j in range(gradient.size):
            mean += gradient[j] * gradient[j]
        mean /= gradient.size
    for j in range(gradient.size):
        square = mean if common else gradient[j] * gradient[j]
        m = beta1 * state[FIRST, j] + (1.0 - beta1) * gradient[j]
        v = beta2 * state[SECOND, j] + (1.0 - beta2) * square
        root = np.sqrt(v) * correction + eps
        # A coordinate that has had no gradient stays, whatever eps.
        move = push * m / root if root > 0.0 else 0.0
        u = shrink * state[ITERATE, j] - move
        state[FIRST, j], state[SECOND, j], state[ITERATE, j] = m, v, u
        state[READOUT, j] = hold * state[READOUT, j] + weight * u


@njit(nogil=True, cache=True)
def adam_steps(features, labels, rows, sizes, steps, running, beta1, beta2, eps, common, state):  # type: ignore[no-untyped-def]
    """Adam over batches whose rows follow each other in ``rows``."""
    gradient = np.empty(state.shape[1])
    start = 0
    for t in range(sizes.size):
        batch_gradient(features, labels, rows, start, sizes[t], state[ITERATE], gradient)
        _adam_step(steps[t], running[t], beta1, beta2, eps, common, gradient, state)
        start += sizes[t]


@njit(nogil=True, cache=True, fastmath=REORDER)
def adam_descent(covariance, forcing, steps, running, beta1, beta2, eps, common, states):  # type: ignore[no-untyped-def]
    """Adam with the gradient Sigma_hat u - b_hat, for K right-hand sides.

    ``forcing`` is (K, M) and ``states`` (K, 4, M).
    """
    M = forcing.shape[1]
    gradient = np.empty(M)
    for k in range(states.shape[0]):
        state = states[k]
        for t in range(steps.shape[0]):
            for j in range(M):
                gradient[j] = -forcing[k, j]
            for i in range(M):
                for j in range(M):
                    gradient[j] += state[ITERATE, i] * covariance[i, j]
            _adam_step(steps[t], running[t], beta1, beta2, eps, common, gradient, state)
