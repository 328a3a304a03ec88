"""A linear update rule along the eigendirections of a fixed covariance.

In a direction of eigenvalue nu the gradient of GD is G = nu y - b at y = e + look v, and the rule
is the recursion of ``schedule.update_rule``. Its readout is linear in the start, in b and in the
noise of every gradient; here are the three factors. Plain SGD's closed forms are in ``empirical``.
"""

from __future__ import annotations

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw.risk import empirical
from batchlaw.schedule.averages import running_readout
from batchlaw.schedule.update_rule import SGD


def filters(eigenvalues: FloatArray, rates: FloatArray, rule: SGD) -> tuple[FloatArray, FloatArray]:
    """The readout per unit of initial error (without b), and per unit of b (from zero)."""
    if rule.plain:
        return empirical.filters(eigenvalues, rates)
    _, readout = _from_one_and_zero(eigenvalues, rates, rule)
    return readout[0], readout[1]


def gradient_points(eigenvalues: FloatArray, rates: FloatArray, rule: SGD) -> FloatArray:
    """Where GD from zero takes its gradients, per unit of b, as a (T, K) array."""
    points, _ = _from_one_and_zero(eigenvalues, rates, rule)
    return points[:, 1]


def noise_responses(eigenvalues: FloatArray, rates: FloatArray, rule: SGD) -> FloatArray:
    """psi_t, the readout per unit of noise in the gradient of step t, as a (T, K) array.

    The adjoint of the recursion: (to_e, to_v) is the readout's response to e_t and v_t.
    """
    weights = rule.weights(rates.size)
    coefficients = rule.coefficients(rates)
    psi = np.empty((rates.size, eigenvalues.size))
    to_e, to_v = np.zeros((2, eigenvalues.size))
    for t in range(rates.size - 1, -1, -1):
        look, keep, gain, drag, push = coefficients[t]
        to_e = to_e + weights[t]
        psi[t] = push * to_e + gain * to_v
        to_e, to_v = (
            to_e + eigenvalues * psi[t],
            drag * to_e + keep * to_v + look * eigenvalues * psi[t],
        )
    return psi


def _from_one_and_zero(
    eigenvalues: FloatArray, rates: FloatArray, rule: SGD
) -> tuple[FloatArray, FloatArray]:
    """Gradient points (T, 2, K) and readouts (2, K) from e = 1 with b = 0 and e = 0 with b = 1."""
    running = running_readout(rule.readout(rates.size), rates.size)
    b = np.array([[0.0], [1.0]])
    e = np.ones((2, eigenvalues.size)) - b
    v, s = np.zeros_like(e), e
    points = np.empty((rates.size, *e.shape))
    for t, (look, keep, gain, drag, push) in enumerate(rule.coefficients(rates)):
        points[t] = e + look * v
        gradient = eigenvalues * points[t] - b
        e, v = e + drag * v + push * gradient, keep * v + gain * gradient
        hold, weight = running[t]
        s = hold * s + weight * e
    return points, s
