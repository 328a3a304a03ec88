"""From a pilot run to a plan, and what it gains: a small transformer with AdamW.

    .venv/bin/python examples/pilot_to_plan.py    # with --quick: seconds

A pilot run with a constant batch gives the curvature and the gradient noise in AdamW's own scales;
their influence gives the batches (at equal updates and equal samples); PlanSampler and PlanRates
use them in the training loop. The text is Python's standard library. About a minute on one core.
One rate and three seeds show how it is done; docs/small_study.md has the evidence.
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
import torch

import batchlaw as bl
from batchlaw.evidence.study.data import ALPHABET, python_sources
from batchlaw.influences.adaptive import adam_influence
from batchlaw.torch_support import PlanRates, PlanSampler
from batchlaw.torch_support.small_models import TrainingTask, text_task
from batchlaw.torch_support.spectra import adam_preconditioner, model_spectrum
from batchlaw.torch_support.training import evaluate

# Updates, seeds, and the windows of text and leading directions used for the pilot's spectrum.
FULL = (400, 3, None, 20)
QUICK = (100, 1, 16, 5)
MEAN_BATCH, PEAK = 8, 0.004
WEIGHT_DECAY = 0.01


def trained(
    task: TrainingTask, batches: np.ndarray, rates: np.ndarray, seed: int
) -> tuple[torch.nn.Module, torch.optim.AdamW]:
    """An ordinary training loop."""
    torch.manual_seed(seed)
    model = task.start()
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=WEIGHT_DECAY)
    sampler = PlanSampler(batches, task.samples, seed=seed, allow_unused=True)
    schedule = PlanRates(optimizer, rates, sampler=sampler)
    for indices in sampler:
        sampler.receive()
        inputs, targets = task.fetch(np.array(indices))
        optimizer.zero_grad()
        task.loss(model(inputs), targets).backward()
        optimizer.step()
        schedule.step()
    return model, optimizer


def main(quick: bool = False) -> None:
    steps, seeds, windows, directions = QUICK if quick else FULL
    torch.set_num_threads(1)
    text = python_sources()
    task = text_task(text.training, text.validation, len(ALPHABET))
    rates = bl.wsd(steps, PEAK)
    constant = np.full(steps, MEAN_BATCH)

    model, optimizer = trained(task, constant, rates, seed=100)
    inputs, targets = task.measured
    spectrum = model_spectrum(
        model,
        task.loss,
        (inputs[:windows], targets[:windows]),
        count=directions,
        preconditioner=adam_preconditioner(model, optimizer),
        noise=True,
        tolerance=1e-2,
    )
    kappa = adam_influence(spectrum, rates, weight_decay=WEIGHT_DECAY)
    plan = bl.allocate(kappa, steps * MEAN_BATCH, stages=4, multiple_of=2)
    gain = (kappa / plan).sum() / (kappa / constant).sum()
    edges = [0, *(np.flatnonzero(np.diff(plan)) + 1), steps]
    stages = ", ".join(
        f"{plan[start]} for updates {start + 1} to {end}" for start, end in pairwise(edges)
    )
    print(f"batches: {stages}")
    print(f"predicted noise over that of the constant batch: {gain:.2f}")

    print("seed  constant    plan")
    for seed in range(seeds):
        losses = [
            evaluate(task, trained(task, batches, rates, seed)[0], task.validation)
            for batches in (constant, plan)
        ]
        print(f"{seed:4d}  {losses[0]:8.4f}  {losses[1]:6.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    main(**vars(parser.parse_args()))
