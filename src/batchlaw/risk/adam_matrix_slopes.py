"""Slopes of Adam's final excess in every batch, in the coordinates of a drawn problem's sketch.

The mean field of full matrices with v at its mean, without its spread, in terms of the
centred second moments C of the error e and the first moment m:

    N = x (Sigma Y Sigma + (tr(Sigma Y) + s2) Sigma),  Y = Cee + e e^T,  x = 1/B
    v' = beta2 v + (1 - beta2) diag(Sigma Y Sigma + N),  D = rate / (1 - beta1^t) / sqrt(v hat)
    Cem' = beta1 Cem + r Cee Sigma,   r = 1 - beta1
    Cmm' = beta1^2 Cmm + beta1 r (Cem^T Sigma + Sigma Cem) + r^2 (Sigma Cee Sigma + N)
    Cee  = k^2 Cee - k (Cem' D + D Cem'^T) + D Cmm' D,   Cem = k Cem' - D Cmm'

with k = 1 - rate weight_decay. States are saved every sqrt(T) steps and recomputed in between.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.model.problem import Problem
from batchlaw.risk.adam_diagonal import step_table
from batchlaw.schedule.adam import Adam


class _State(NamedTuple):
    ee: FloatArray
    em: FloatArray
    mm: FloatArray
    e: FloatArray
    m: FloatArray
    v: FloatArray


class _Middle(NamedTuple):
    """What a step computes on the way."""

    trace: float
    a: FloatArray
    second: FloatArray
    scale: FloatArray
    em: FloatArray
    mm: FloatArray
    m: FloatArray


def matrix_slopes(
    problem: Problem, rates: FloatArray, batches: FloatArray, rule: Adam
) -> tuple[float, FloatArray]:
    """The final excess with v at its mean, and its derivative in 1/B_t as (2, T): v, the noise."""
    if rule.averages:
        raise InputError("average", "needs basis eigen or generic for slopes in the batches")
    sigma, target, s2 = problem.covariance, problem.target, problem.noise_variance
    field = _Field(sigma, -target, s2, rule.eps)
    rows, shares = step_table(rates, rule), 1.0 / batches
    size = target.size
    zero = np.zeros((size, size))
    state = _State(zero, zero, zero, -target, np.zeros(size), np.zeros(size))
    block = math.ceil(math.sqrt(rates.size))
    saved = []
    for t, row in enumerate(rows):
        if t % block == 0:
            saved.append(state)
        state = field.after(state, row, field.middle(state, row, shares[t]))
    excess = float((sigma * state.ee).sum() + state.e @ sigma @ state.e)
    a = _State(sigma, zero, zero, 2.0 * sigma @ state.e, np.zeros(size), np.zeros(size))
    slopes = np.empty((2, rates.size))
    for first in range((len(saved) - 1) * block, -1, -block):
        last = min(first + block, rates.size)
        states = [saved[first // block]]
        middles = []
        for t in range(first, last):
            middles.append(field.middle(states[-1], rows[t], shares[t]))
            states.append(field.after(states[-1], rows[t], middles[-1]))
        for t in range(last - 1, first - 1, -1):
            k = t - first
            a, *slopes[:, t] = field.back(states[k], rows[t], shares[t], middles[k], a)
    return excess, slopes


class _Field(NamedTuple):
    sigma: FloatArray
    start: FloatArray
    s2: float
    eps: float

    def middle(self, state: _State, row: FloatArray, share: float) -> _Middle:
        rate, _, beta1, beta2, correct1, correct2, _ = row
        sigma, r = self.sigma, 1.0 - beta1
        step = sigma @ state.e
        signal = sigma @ state.ee @ sigma
        a = signal + np.outer(step, step)
        trace = float((sigma * state.ee).sum() + state.e @ step) + self.s2
        noise = share * (a + trace * sigma)
        second = beta2 * state.v + (1.0 - beta2) * np.diag(a + noise)
        root = np.sqrt(correct2 * second) + self.eps
        scale = rate * correct1 / np.where(root > 0.0, root, np.inf)
        em = beta1 * state.em + r * state.ee @ sigma
        cross = sigma @ state.em
        mm = beta1 * (beta1 * state.mm + r * (cross + cross.T)) + r * r * (signal + noise)
        return _Middle(trace, a, second, scale, em, mm, beta1 * state.m + r * step)

    def after(self, state: _State, row: FloatArray, mid: _Middle) -> _State:
        keep, d = row[1], mid.scale
        drift = mid.em * d
        ee = keep * (keep * state.ee - drift - drift.T) + d[:, None] * mid.mm * d
        em = keep * mid.em - d[:, None] * mid.mm
        e = keep * state.e + (1.0 - keep) * self.start - d * mid.m
        return _State(ee, em, mid.mm, e, mid.m, mid.second)

    def back(
        self, state: _State, row: FloatArray, share: float, mid: _Middle, a: _State
    ) -> tuple[_State, float, float]:
        """Slopes in the state before the step, and in its share, through v and by the noise."""
        _, keep, beta1, beta2, _, correct2, _ = row
        sigma, d, r = self.sigma, mid.scale, 1.0 - beta1
        to_d = 2.0 * (a.ee * (d[:, None] * mid.mm)).sum(axis=0)
        to_d -= 2.0 * keep * (a.ee * mid.em).sum(axis=0)
        to_d -= (a.em * mid.mm).sum(axis=1) + a.e * mid.m
        in_em = keep * (a.em - 2.0 * a.ee * d)
        in_mm = d[:, None] * (a.ee * d - a.em) + a.mm
        in_mm = 0.5 * (in_mm + in_mm.T)
        in_m = a.m - d * a.e
        root = np.sqrt(correct2 * mid.second)
        below = 2.0 * mid.second * (root + self.eps)
        in_v = a.v - to_d * d * root / np.where(below > 0.0, below, np.inf)
        in_second = (1.0 - beta2) * in_v
        in_noise = r * r * in_mm
        unit = mid.a + mid.trace * sigma
        by_noise = float((in_noise * unit).sum())
        by_v = float(in_second @ np.diag(unit))
        in_noise = in_noise + np.diag(in_second)
        to_trace = share * float((in_noise * sigma).sum())
        in_y = sigma @ (share * in_noise + np.diag(in_second)) @ sigma + to_trace * sigma
        across = r * in_em @ sigma
        to_ee = keep * keep * a.ee + 0.5 * (across + across.T) + in_y
        to_ee = to_ee + r * r * sigma @ in_mm @ sigma
        to_em = beta1 * (in_em + 2.0 * r * sigma @ in_mm)
        to_e = keep * a.e + r * sigma @ in_m + 2.0 * in_y @ state.e
        before = _State(to_ee, to_em, beta1 * beta1 * in_mm, to_e, beta1 * in_m, beta2 * in_v)
        return before, by_v, by_noise
