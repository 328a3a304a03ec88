"""Update rules other than plain SGD, step by step: one run per call.

A loop over updates is given the rows of every batch, so how batches are drawn is no part of it.
``state`` (K, M) holds what the rule keeps between updates, its first row the iterate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import is_jitted, overload

from batchlaw._base.kernels.common import REORDER

# Rows of the state of SGD with momentum and averaging.
ITERATE, VELOCITY, READOUT = range(3)


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def batch_gradient(features, labels, rows, start, batch, point, gradient):  # type: ignore[no-untyped-def]
    """The mean of z_i (z_i . point - y_i) over rows[start : start + batch]."""
    M = point.size
    gradient[:] = 0.0
    share = 1.0 / batch
    for k in range(start, start + batch):
        i = rows[k]
        residual = -labels[i]
        for j in range(M):
            residual += features[i, j] * point[j]
        residual *= share
        for j in range(M):
            gradient[j] += residual * features[i, j]


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def momentum_step(rule, running, gradient, state):  # type: ignore[no-untyped-def]
    """v' = keep v + gain G, u' = u + drag v + push G, s' = hold s + weight u'."""
    _, keep, gain, drag, push = rule
    hold, weight = running
    for j in range(gradient.size):
        v = state[VELOCITY, j]
        u = state[ITERATE, j] + drag * v + push * gradient[j]
        state[VELOCITY, j] = keep * v + gain * gradient[j]
        state[ITERATE, j] = u
        state[READOUT, j] = hold * state[READOUT, j] + weight * u


@njit(nogil=True, fastmath=REORDER, forceinline=True)
def _look(rule, state, point):  # type: ignore[no-untyped-def]
    """Where the gradient is taken: u + look v."""
    for j in range(point.size):
        point[j] = state[ITERATE, j] + rule[0] * state[VELOCITY, j]


@njit(nogil=True, cache=True)
def momentum_steps(features, labels, rows, sizes, rule, running, state):  # type: ignore[no-untyped-def]
    """SGD with momentum and averaging over batches whose rows follow each other in ``rows``.

    Rows of ``rule`` are (look, keep, gain, drag, push), rows of ``running`` (hold, weight).
    """
    point = np.empty(state.shape[1])
    gradient = np.empty(state.shape[1])
    start = 0
    for t in range(sizes.size):
        _look(rule[t], state, point)
        batch_gradient(features, labels, rows, start, sizes[t], point, gradient)
        momentum_step(rule[t], running[t], gradient, state)
        start += sizes[t]


@njit(nogil=True, cache=True, fastmath=REORDER)
def momentum_descent(covariance, forcing, rule, running, states):  # type: ignore[no-untyped-def]
    """GD with momentum and averaging, gradient Sigma_hat y - b_hat, for K right-hand sides.

    ``forcing`` is (K, M) and ``states`` (K, 3, M).
    """
    M = forcing.shape[1]
    point = np.empty(M)
    gradient = np.empty(M)
    for k in range(states.shape[0]):
        for t in range(rule.shape[0]):
            _look(rule[t], states[k], point)
            for j in range(M):
                gradient[j] = -forcing[k, j]
            for i in range(M):
                for j in range(M):
                    gradient[j] += point[i] * covariance[i, j]
            momentum_step(rule[t], running[t], gradient, states[k])


# Rows of the state of a user's procedure; its memory follows.
OWN_READOUT, OWN_MEMORY = 1, 2


def is_compiled(step: Callable[..., Any]) -> bool:
    """Whether a step is a function compiled by Numba."""
    return bool(is_jitted(step))


def _take(u, new):  # type: ignore[no-untyped-def]
    """u <- new, unless the step changed u in place and returned nothing."""


@overload(_take)
def _compiled_take(u, new):  # type: ignore[no-untyped-def]
    if isinstance(new, types.NoneType):
        return lambda u, new: None

    def copy(u, new):  # type: ignore[no-untyped-def]
        for j in range(u.size):
            u[j] = new[j]

    return copy


# Not cached: it is compiled anew for every step.
@njit(nogil=True)
def own_steps(step, features, labels, rows, sizes, rates, running, first, state):  # type: ignore[no-untyped-def]
    """Updates first, first + 1, ... of a compiled ``step`` over batches that follow in ``rows``."""
    widest = sizes.max()
    batch_features = np.empty((widest, features.shape[1]))
    batch_labels = np.empty(widest)
    start = 0
    for k in range(sizes.size):
        batch, t = sizes[k], first + k
        for i in range(batch):
            row = rows[start + i]
            batch_labels[i] = labels[row]
            for j in range(features.shape[1]):
                batch_features[i, j] = features[row, j]
        z, y = batch_features[:batch], batch_labels[:batch]
        new = step(state[ITERATE], state[OWN_MEMORY:], z, y, rates[t], t)
        _take(state[ITERATE], new)  # type: ignore[no-untyped-call]
        hold, weight = running[t]
        for j in range(features.shape[1]):
            state[OWN_READOUT, j] = hold * state[OWN_READOUT, j] + weight * state[ITERATE, j]
        start += batch
