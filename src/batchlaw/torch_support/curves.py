"""Losses and gradient noise along a training run."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from batchlaw.schedule.observation import CURVE, observed_updates
from batchlaw.torch_support.small_models import TrainingTask
from batchlaw.torch_support.training import evaluate

# Samples whose gradient is taken at once to measure the noise.
PART = 16


@dataclass(frozen=True)
class Noise:
    """The loss on fixed training samples, and the gradient there.

    Attributes
    ----------
    loss
        Mean over the samples.
    noise
        Trace of the covariance of one sample's gradient.
    gradient
        Squared norm of the mean gradient, without the share that is noise: it may be below zero.
    """

    loss: float
    noise: float
    gradient: float


def gradient_noise(task: TrainingTask, model: nn.Module) -> Noise:
    """The loss on ``task.training``, and unbiased moments from the gradients of equal parts of it.

    Samples left over from the last whole part count for the loss alone.
    """
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    total, squares, losses = torch.zeros(()), 0.0, 0.0
    for x, y in zip(*(torch.split(tensor, PART) for tensor in task.training), strict=True):
        loss = task.loss(model(x), y)
        losses += x.shape[0] * loss.item()
        if x.shape[0] < PART:
            continue
        flat = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, weights)])
        total = total + flat
        squares += flat.double().square().sum().item()
    samples = task.training[0].shape[0]
    count = samples // PART
    mean = float((total.double() / count).square().sum())
    # Variance of a part's gradient, summed over directions.
    spread = (squares / count - mean) * count / (count - 1)
    return Noise(losses / samples, PART * spread, mean - spread / count)


@dataclass
class Curve:
    """Called after every update of a run; measures after those that are observed.

    ``columns`` has a list for each of ``CURVE``.
    """

    task: TrainingTask
    steps: int
    columns: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._observed = set(observed_updates(self.steps).tolist())
        self.columns.update({name: [] for name in CURVE})

    def __call__(self, updates: int, model: nn.Module) -> None:
        if updates not in self._observed:
            return
        validation = evaluate(self.task, model, self.task.validation)
        model.train()
        there = gradient_noise(self.task, model)
        values = (updates, validation, there.loss, there.noise, there.gradient)
        for column, value in zip(self.columns.values(), values, strict=True):
            column.append(value)
