"""Linear regression on a finite population: many runs at once, and the exact prediction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import Unstable
from batchlaw.evidence.study.curve import stored
from batchlaw.evidence.study.data import Population
from batchlaw.evidence.study.schedules import MOMENTUM, OPTIMIZERS, WEIGHT_DECAY, adaptive
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.model.problem import Problem
from batchlaw.risk.multi_pass import multi_pass_risk
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.observation import CURVE, observed_updates

EPSILON = 1e-8
# A final loss above this is a diverged run; predicting zero has the loss 0.5.
DIVERGED = 1e3


class Optimizer:
    """PyTorch's SGD, SGD with momentum or AdamW, on (R, M) weights in NumPy."""

    def __init__(self, name: str, shape: tuple[int, int]) -> None:
        rule = OPTIMIZERS[name]
        self.name, self.updates = name, 0
        self.beta2 = rule.beta2 if isinstance(rule, Adam) else 0.0
        self.velocity, self.square = np.zeros(shape), np.zeros(shape)

    def update(self, weights: FloatArray, gradient: FloatArray, rate: float) -> FloatArray:
        """The weights after one update."""
        self.updates += 1
        if self.name == "sgd":
            return weights - rate * gradient
        if self.name == "momentum":
            self.velocity = MOMENTUM * self.velocity + gradient
            return weights - rate * self.velocity
        self.velocity = MOMENTUM * self.velocity + (1.0 - MOMENTUM) * gradient
        self.square = self.beta2 * self.square + (1.0 - self.beta2) * gradient**2
        mean = self.velocity / (1.0 - MOMENTUM**self.updates)
        return weights * (1.0 - rate * WEIGHT_DECAY) - rate * mean / self.scales()

    def scales(self) -> FloatArray:
        """P = sqrt(v_hat) + eps of Adam; ones for the other optimizers."""
        if not adaptive(self.name):
            return np.ones_like(self.square)
        return np.asarray(np.sqrt(self.square / (1.0 - self.beta2**self.updates)) + EPSILON)


def train(
    population: Population,
    optimizer: str,
    rates: FloatArray,
    batches: IntArray,
    seed: int,
    repetitions: int,
    after: Callable[[int, FloatArray], None] = lambda updates, weights: None,
) -> tuple[FloatArray, Optimizer]:
    """Final (R, M) weights of R runs from zero, with half the squared error as their loss.

    The samples of a run depend only on the seed: every schedule reads the same stream. ``after`` is
    called after every update, with their number and the weights.
    """
    N, M = population.features.shape
    rng = np.random.default_rng(np.random.SeedSequence((seed, 3)))
    stream = rng.integers(0, N, (int(batches.sum()), repetitions), dtype=np.int32).T
    weights = np.zeros((repetitions, M))
    state = Optimizer(optimizer, weights.shape)
    start = 0
    with np.errstate(over="ignore", invalid="ignore"):
        for rate, size in zip(rates, batches, strict=True):
            rows = stream[:, start : start + size]
            z = population.features[rows]
            residual = np.matmul(z, weights[:, :, None])[:, :, 0] - population.labels[rows]
            gradient = np.matmul(residual[:, None, :], z)[:, 0] / size
            weights = state.update(weights, gradient, float(rate))
            start += int(size)
            after(state.updates, weights)
    return weights, state


def mean_loss(population: Population, weights: FloatArray) -> float:
    """Over the population and the runs."""
    error = weights - population.optimum
    excess = float(np.einsum("ri,ij,rj->", error, population.covariance, error))
    return 0.5 * population.residual_variance + 0.5 * excess / len(error)


def measure(population: Population, weights: FloatArray) -> dict[str, float]:
    """Mean final loss over the population, and the part of it that is noise around the mean run."""
    loss = mean_loss(population, weights)
    if not loss < DIVERGED:
        raise Unstable("rates", f"diverged: final loss {loss:.3g}", subject="the run")
    error, sigma = weights - population.optimum, population.covariance
    deviation = error - error.mean(axis=0)
    noise = 0.5 * float(np.einsum("ri,ij,rj->", deviation, sigma, deviation)) / (error.shape[0] - 1)
    return {"validation": loss, "training": loss, "noise": noise}


def train_with_curves(
    population: Population,
    optimizer: str,
    rates: FloatArray,
    batches: IntArray,
    seed: int,
    repetitions: int,
) -> dict[str, Any]:
    """What ``measure`` says of the final weights, and the curves of the mean run.

    Only the final loss decides whether the run diverged: it may recover from a transient.
    """
    observed = set(observed_updates(rates.size).tolist())
    columns: dict[str, list[float]] = {name: [] for name in CURVE}

    def after(updates: int, weights: FloatArray) -> None:
        if updates in observed:
            for name, value in zip(CURVE, (updates, *observe(population, weights)), strict=True):
                columns[name].append(value)

    weights, _ = train(population, optimizer, rates, batches, seed, repetitions, after)
    return measure(population, weights) | stored(columns)


def observe(population: Population, weights: FloatArray) -> tuple[float, float, float, float]:
    """The columns of a curve after the update: a regression trains on what it is judged on."""
    loss = mean_loss(population, weights)
    return loss, loss, *gradient_noise(population, weights)


def gradient_noise(population: Population, weights: FloatArray) -> tuple[float, float]:
    """Trace of the covariance of one sample's gradient, and the squared norm of the mean one.

    Exact over the population, averaged over runs.
    """
    z = population.features
    residual = weights @ z.T - population.labels
    second = float(np.mean(residual**2 @ (z**2).sum(axis=1))) / z.shape[0]
    squared = float(np.mean(((residual @ z / z.shape[0]) ** 2).sum(axis=1)))
    return second - squared, squared


def pilot_spectrum(
    population: Population,
    optimizer: str,
    rates: FloatArray,
    batches: IntArray,
    seed: int,
    repetitions: int,
) -> dict[str, Any]:
    """The exact spectrum of the population; for Adam, in the mean final scales of its runs."""
    scales = np.ones(population.features.shape[1])
    if adaptive(optimizer):
        _, state = train(population, optimizer, rates, batches, seed, repetitions)
        scales = state.scales().mean(axis=0)
    root = np.sqrt(scales)
    mu = np.linalg.eigvalsh(population.covariance / np.outer(root, root))[::-1]
    mu = mu[mu > 1e-12 * mu[0]]
    noise = population.residual_variance * mu
    spectrum = ModelSpectrum(
        "gauss-newton",
        mu,
        float(mu.sum()),
        0.0,
        mu.size,
        population.labels.size,
        noise,
        float(noise.sum()),
        0.0,
    )
    return plain(spectrum)


def plain(spectrum: ModelSpectrum) -> dict[str, Any]:
    """A spectrum as numbers and lists, for the store."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(spectrum).items()
    }


def exact_noise(population: Population, rates: FloatArray, batches: IntArray) -> float:
    """What ``measure`` calls noise, for SGD, without sampling: exact given the population.

    Drawing from the population with replacement is multi-pass SGD on it as a dataset, and its
    fluctuation around gradient descent is the noise around the mean run. Infinite where the second
    moment overflows, although most runs may still converge.
    """
    mu, basis = np.linalg.eigh(population.covariance)
    kept = mu > 1e-12 * mu[-1]
    mu, basis = mu[kept][::-1], basis[:, kept][:, ::-1]
    optimum = basis.T @ population.optimum
    problem = Problem.from_spectrum(mu, optimum**2, population.residual_variance)
    dataset = (population.features @ basis, population.labels)
    try:
        risk = multi_pass_risk(problem, rates, batches, dataset=dataset, replacement=True)
    except Unstable:
        return math.inf
    return 0.5 * float(risk.fluctuation)
