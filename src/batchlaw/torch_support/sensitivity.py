"""Measured sensitivity: the effect of one update's gradient noise on the final loss.

A run is branched at update t. With the gradients g and g' of two independent batches the three
branches take (g + g')/2 and (g + g')/2 +- s (g - g')/sqrt(2), which has the covariance of one
batch's noise times s^2, and continue with common batches to the end, at weights w(0), w(+), w(-).
The second difference of the final loss does not contain the first-order effect of that noise,
which is large and averages to zero, and has two parts:

    spread  ( [L(w(+)) + L(w(-))] / 2 - L(w_mid) ) / s^2,   w_mid = (w(+) + w(-)) / 2
    drift   ( L(w_mid) - L(w(0)) ) / s^2

The spread is half the squared final displacement in the metric of the curvature. Influence
predicts it: on a quadratic its mean is kappa_t / (2 B_t) up to second order in the rates. The drift
is zero for linear dynamics (SGD, momentum on a quadratic). Under Adam it is not: noise enlarges
the second moments, which slows every later update.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import InputError

Start = Callable[[], tuple[nn.Module, torch.optim.Optimizer]]


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """Second-order effect on the final loss of the noise of each branched update.

    Attributes
    ----------
    updates : (k,) array
        Branched updates, counted from 1.
    effects : (draws, k) array
        The spread in every draw; draws are independent runs.
    drift : (draws, k) array
        The drift, see above.
    final_loss : (draws,) array
        Final loss of the unperturbed runs.
    """

    updates: IntArray
    effects: FloatArray
    drift: FloatArray
    final_loss: FloatArray

    def with_drift(self) -> Sensitivity:
        """The whole second-order effect: spread and drift."""
        return replace(self, effects=self.effects + self.drift)

    def between(self, first: int, last: int) -> Sensitivity:
        """Only the branched updates first..last."""
        kept = (self.updates >= first) & (self.updates <= last)
        return Sensitivity(
            self.updates[kept], self.effects[:, kept], self.drift[:, kept], self.final_loss
        )

    @property
    def mean(self) -> FloatArray:
        result: FloatArray = self.effects.mean(axis=0)
        return result

    @property
    def error(self) -> FloatArray:
        """Standard errors of the means."""
        return np.asarray(self.effects.std(axis=0, ddof=1) / math.sqrt(self.effects.shape[0]))

    def ratio(self, predicted: ArrayLike) -> tuple[float, float]:
        """Measured over predicted, summed over the branched updates, with its standard error."""
        total = self.effects.sum(axis=1) / float(np.sum(self._checked_prediction(predicted)))
        return float(total.mean()), float(total.std(ddof=1) / math.sqrt(total.size))

    def correlation(self, predicted: ArrayLike) -> tuple[float, float]:
        """Correlation of the mean profile with the prediction, with a jackknife error."""
        kappa = self._checked_prediction(predicted)
        if kappa.size < 3:
            raise InputError(
                "predicted", "needs at least 3 updates", f"{kappa.size}", subject="a correlation"
            )
        n = self.effects.shape[0]
        left = (n * self.mean - self.effects) / (n - 1)
        without = np.array([np.corrcoef(row, kappa)[0, 1] for row in left])
        spread = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
        return float(np.corrcoef(self.mean, kappa)[0, 1]), spread

    def _checked_prediction(self, predicted: ArrayLike) -> FloatArray:
        values = np.asarray(predicted, dtype=np.float64)
        if values.shape != self.updates.shape:
            raise InputError(
                "predicted",
                f"must have one entry for each of the {self.updates.size} updates",
                f"shape {values.shape}",
            )
        return values


def measured_sensitivity(
    start: Start,
    loss: Callable[[nn.Module, Any], Tensor],
    batch: Callable[[int, torch.Generator], Any],
    evaluate: Callable[[nn.Module], float | Tensor],
    rates: ArrayLike,
    updates: Sequence[int],
    *,
    draws: int = 8,
    scale: float = 1.0,
    seed: int = 0,
) -> Sensitivity:
    """Branch independent runs at the given updates and measure the effect of their noise.

    The cost is ``draws`` runs and three continuations for each branched update of each run.

    Parameters
    ----------
    start
        Returns a model and its optimizer, the same at every call. They may be in mid-run:
        ``rates`` are those of the updates to come.
    loss
        loss(model, batch), whose gradient the optimizer uses.
    batch
        batch(t, generator), the batch of update t = 1..T, drawn from the generator only.
    evaluate
        The final loss of a model, deterministic; called without gradients.
    rates : (T,) array
        Step sizes; a parameter group whose lr is not the first group's keeps its ratio to it.
    updates
        Updates to branch, between 1 and T.
    draws, seed
        Number of independent runs, and the seed of their batches.
    scale
        s, the size of the perturbation in units of one batch's noise.
    """
    gamma = checks.vector("rates", rates)
    draws = checks.count("draws", draws, minimum=2)
    scale = checks.real("scale", scale, above=0.0)
    seed = checks.count("seed", seed, minimum=0)
    chosen = sorted({checks.count("updates", t) for t in updates})
    if not chosen or chosen[-1] > gamma.size:
        got = chosen[-1] if chosen else "none"
        raise InputError("updates", f"must lie between 1 and {gamma.size}", f"{got}")
    effects = np.empty((draws, len(chosen)))
    drift = np.empty_like(effects)
    final = np.empty(draws)
    with torch.random.fork_rng(devices=[]):
        for r in range(draws):
            run = _Run(*start(), loss, batch, gamma, (seed, r))
            for k, t in enumerate(chosen):
                run.to(t - 1)
                up, still, down = (run.branch(sign * scale) for sign in (1.0, 0.0, -1.0))
                ends = 0.5 * (_value(evaluate, up) + _value(evaluate, down))
                middle = _value(evaluate, _midpoint(up, down))
                effects[r, k] = (ends - middle) / scale**2
                drift[r, k] = (middle - _value(evaluate, still)) / scale**2
            run.to(gamma.size)
            final[r] = _value(evaluate, run.model)
    return Sensitivity(np.array(chosen, dtype=np.int64), effects, drift, final)


class _Run:
    """A model, its optimizer, and the number of updates done; batches depend on (key, t) only."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss: Callable[[nn.Module, Any], Tensor],
        batch: Callable[[int, torch.Generator], Any],
        rates: FloatArray,
        key: tuple[int, int],
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.loss, self.batch, self.rates, self.key = loss, batch, rates, key
        top = optimizer.param_groups[0]["lr"]
        self.shares = [
            group["lr"] / top if group["lr"] != top else 1.0 for group in optimizer.param_groups
        ]
        self.done = 0

    def to(self, update: int) -> None:
        while self.done < update:
            self._gradient(0)
            self._step()

    def branch(self, scale: float) -> nn.Module:
        """The final model when the next update takes its gradient with ``scale`` times noise."""
        # Copied together, so that the optimizer's copy refers to the copied parameters.
        model, optimizer = copy.deepcopy((self.model, self.optimizer))
        other = _Run(model, optimizer, self.loss, self.batch, self.rates, self.key)
        other.shares, other.done = self.shares, self.done
        pair = [other._gradient(0), other._gradient(1)]
        for w, g, h in zip(other._weights(), *pair, strict=True):
            if g is not None and h is not None:
                w.grad = (g + h) / 2.0 + scale * (g - h) / math.sqrt(2.0)
        other._step()
        other.to(self.rates.size)
        return other.model

    def _gradient(self, stream: int) -> list[Tensor | None]:
        """Gradient of the next update's batch; dropout and the like are equal in all branches."""
        seeds = np.random.SeedSequence((*self.key, self.done, stream)).generate_state(2)
        # torch.manual_seed does the same, but takes ten times as long as a small update.
        torch.default_generator.manual_seed(int(seeds[1]))
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.manual_seed_all(int(seeds[1]))
        self.optimizer.zero_grad()
        batch = self.batch(self.done + 1, torch.Generator().manual_seed(int(seeds[0])))
        self.loss(self.model, batch).backward()  # type: ignore[no-untyped-call]
        return [w.grad for w in self._weights()]

    def _step(self) -> None:
        for group, share in zip(self.optimizer.param_groups, self.shares, strict=True):
            group["lr"] = float(self.rates[self.done]) * share
        self.optimizer.step()
        self.done += 1

    def _weights(self) -> list[Tensor]:
        return [w for w in self.model.parameters() if w.requires_grad]


def _value(evaluate: Callable[[nn.Module], float | Tensor], model: nn.Module) -> float:
    with torch.no_grad():
        return float(evaluate(model))


def _midpoint(up: nn.Module, down: nn.Module) -> nn.Module:
    """Parameters (and floating-point buffers) halfway between two models."""
    middle = copy.deepcopy(up)
    other = down.state_dict()
    with torch.no_grad():
        for name, value in middle.state_dict().items():
            if value.is_floating_point():
                value.add_(other[name]).div_(2.0)
    return middle
