"""One run of a training comparison: a batch schedule, rates, an optimizer and a seed."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import nn

from batchlaw._base.checks import FloatArray, IntArray
from batchlaw._base.errors import Unstable
from batchlaw.model.model_spectrum import ModelSpectrum
from batchlaw.schedule.adam import Adam
from batchlaw.schedule.update_rule import SGD, UpdateRule
from batchlaw.torch_support.plan_rates import PlanRates
from batchlaw.torch_support.plan_sampler import PlanSampler
from batchlaw.torch_support.small_models import Pair, TrainingTask
from batchlaw.torch_support.spectra import adam_preconditioner, model_spectrum

# Eigenvalues and probes of a pilot's spectrum.
EIGENVALUES, PROBES = 20, 6
TOLERANCE = 1e-2
CHUNK = 128


def one_thread() -> None:
    """One thread sums in a fixed order, so that results do not depend on the machine's load."""
    torch.set_num_threads(1)


def optimizer(rule: UpdateRule, model: nn.Module) -> torch.optim.Optimizer:
    """PyTorch's AdamW or SGD for an update rule; the rate is set by the schedule."""
    weights = list(model.parameters())
    if isinstance(rule, Adam):
        betas = (rule.beta1, rule.beta2)
        return torch.optim.AdamW(
            weights, lr=1.0, betas=betas, weight_decay=rule.weight_decay, foreach=True
        )
    assert isinstance(rule, SGD)
    return torch.optim.SGD(weights, lr=1.0, momentum=float(rule.momentum), foreach=True)


def fresh(task: TrainingTask, seed: int) -> nn.Module:
    """The initial model of a seed, independent of earlier draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(np.random.SeedSequence((seed, 1)).generate_state(1)[0]))
        return task.start()


def train(
    task: TrainingTask,
    model: nn.Module,
    steps: torch.optim.Optimizer,
    rates: FloatArray,
    batches: IntArray,
    seed: int,
    after: Callable[[int], None] = lambda updates: None,
) -> None:
    """Train in place. The order of samples depends only on the seed, not on the schedule.

    ``after`` is called after every update, with their number.
    """
    sampler = PlanSampler(
        batches, task.samples, seed=seed, sampling=task.sampling, allow_unused=True
    )
    schedule = PlanRates(steps, rates, sampler=sampler)
    model.train()
    for indices in sampler:
        sampler.receive()
        inputs, targets = task.fetch(np.array(indices, dtype=np.int64))
        steps.zero_grad()
        loss = task.loss(model(inputs), targets)
        if not math.isfinite(loss.item()):
            raise Unstable(
                "rates",
                f"diverged: loss {loss.item()} in update {sampler.updates}",
                subject="the run",
            )
        loss.backward()  # type: ignore[no-untyped-call]
        steps.step()
        schedule.step()
        after(sampler.updates)


def evaluate(task: TrainingTask, model: nn.Module, data: Pair) -> float:
    """Mean loss, without gradients."""
    model.eval()
    total = 0.0
    with torch.no_grad():
        for x, y in zip(*(torch.split(part, CHUNK) for part in data), strict=True):
            total += x.shape[0] * float(task.loss(model(x), y))
    mean = total / data[0].shape[0]
    if not math.isfinite(mean):
        raise Unstable("rates", f"diverged: final loss {mean}", subject="the run")
    return mean


def measured_spectrum(
    task: TrainingTask, model: nn.Module, steps: torch.optim.Optimizer
) -> ModelSpectrum:
    """Gauss-Newton spectrum and gradient noise at the run's weights; preconditioned for Adam."""
    adam = isinstance(steps, torch.optim.AdamW)
    return model_spectrum(
        model,
        task.loss,
        task.measured,
        count=EIGENVALUES,
        preconditioner=adam_preconditioner(model, steps) if adam else None,
        noise=True,
        probes=PROBES,
        chunk=CHUNK,
        tolerance=TOLERANCE,
    )
