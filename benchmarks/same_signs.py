"""Why a small transformer shows with SGD the signs that it shows with AdamW.

    python benchmarks/same_signs.py controls     # windows and schedules on digits: 3 minutes
    python benchmarks/same_signs.py windows      # the transformer: a minute of a core per seed
    python benchmarks/same_signs.py schedules    # the same seeds with whole schedules: 40 s a seed
    python benchmarks/same_signs.py delay        # the constant run set back: 20 s a seed
    python benchmarks/same_signs.py tangent      # its linearisation at step 100: a minute a seed
    python benchmarks/same_signs.py halves       # halves of early-large: 30 s a seed
    python benchmarks/same_signs.py "one step"   # a single update with other samples: 12 s a seed
    python benchmarks/same_signs_report.py       # tables

Everything is plain SGD under the paper's WSD at a mean batch of 8. The data of a step depend on the
seed and the step alone: a batch of B is the first B samples of its step.

**windows.** One window of steps uses a batch of 2 instead of 8. All else, the data too, is that of
the constant run b of the same seed; the perturbed run is p = b + d. Both are compared at every
boundary of windows. In least squares E[d | b] = 0 exactly, because a subset's gradient is unbiased
given the batch and the update is linear in the weights. So the mean of

    L(p) - L(b) = slope + spread,      slope = g(b) . d,      spread = the rest, d'Hd/2

must have no slope. What each outcome would mean, stated before any of it was run:

- slope = 0 and spread as SGD's influence predicts: the signs are SGD's law; the spectrum was wrong.
- slope = 0 and spread of early windows above the prediction: noise that is not forgotten.
- slope > 0: noise costs progress, by a loss that is not quadratic. No influence of a fixed
  quadratic can see it.
- The windows, added up in 1/B, must give the schedules' differences; else windows explain nothing.

**delay.** Stated after the first seed of windows (a window's loss did not fade, and the middle of b
and p was worse than both), before this part was run: the constant run is set back to the step at
which it had p's loss at the window's end, and goes on from there with p's rates and batches. If it
ends like p, noise in the window acted like lost steps; if p ends clearly better, noise fades.

**tangent.** Stated like delay, and changed then from whole schedules to a window before it had a
result. From the constant run at step 100: the model linearised there, with its softmax loss
(convex), and the full model, each with batch 2 for 100 steps and then the same batches. If the
linearised model keeps the loss of the window as the full model does, moving features are not the
cause; if it forgets it, they are.

**halves.** Early-large itself, each half of its batches with each half of the constant ones. Stated
when the windows added up had given the signs of the schedules, but a fifth of early-large's size,
before this part was run: if its gain is progress that is kept, the first half alone has the gain
at 400 and keeps most of it; if noise is forgotten, the first half's gain fades and the second half
decides.

**one step.** Stated after the first seed of the two parts above, before this one was run: only the
samples of step 100 are exchanged. If |d|^2 grows afterwards, the run amplifies differences, which
no stable quadratic does; if it shrinks, the window's large |d|^2 is noise that piled up.

**controls.** Least squares on digits: slope must be 0 (the test of the method). Logistic
regression and an MLP on digits: convex softmax, and features that move, near convergence and far
from it ("short").

Rows of whole seeds are appended to results/same_signs_rows.csv; a seed that is there is not run
again.
"""

from __future__ import annotations

import argparse
import copy
import csv
import os
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jvp
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

import batchlaw as bl
from batchlaw.batches.rules import RULES
from batchlaw.evidence.study.models import training_task
from batchlaw.torch_support import training

ROWS = Path("results/same_signs_rows.csv")
COLUMNS = ("part", "model", "seed", "run", "step", "loss", "half", "ahead", "back", "distance")
CONSTANT, SMALL, LARGEST = 8, 2, 32
WINDOWS = 4
# Share of d at which slopes are taken.
NEARBY = 0.05
SCHEDULES = ("early-large", "late-large", "like the rate")
TANGENT_FROM, TANGENT_STEPS = 100, (200, 300, 400)
# Evaluations per window of the run that is set back.
EVALUATIONS = 20


@dataclass(frozen=True)
class Setting:
    """A task (the name up to a comma), its updates, peak rate and number of seeds."""

    name: str
    steps: int
    peak: float
    seeds: int

    @property
    def rates(self):
        return bl.wsd(self.steps, self.peak)

    @property
    def window(self):
        return self.steps // WINDOWS

    def boundaries(self):
        return range(self.window, self.steps + 1, self.window)

    def task(self):
        task = self.name.partition(",")[0]
        return squared_task() if task == "least squares" else training_task(task)


TRANSFORMER = Setting("transformer", 800, 0.5, 4)
CONTROLS = (
    Setting("least squares", 400, 0.01, 20),
    Setting("logistic", 400, 0.2, 20),
    Setting("mlp", 400, 0.4, 20),
    Setting("logistic, short", 80, 0.2, 100),
    Setting("mlp, short", 80, 0.4, 100),
)


def squared_task():
    """Linear regression on digits' one-hot classes."""

    def loss(outputs, targets):
        return 5.0 * functional.mse_loss(outputs, functional.one_hot(targets, 10).float())

    return replace(training_task("logistic"), loss=loss)


def data_of(task, setting, seed):
    """Sample indices of every step: (T, LARGEST)."""
    rng = np.random.default_rng([16, seed])
    shape = setting.steps, LARGEST
    if task.sampling == "one pass":
        return rng.choice(task.samples, shape, replace=False)
    return rng.integers(task.samples, size=shape)


def constant(setting):
    return np.full(setting.steps, CONSTANT)


def scheduled(name, rates):
    """Batches of one of the study's rules, with the samples of the constant batch."""
    batches = RULES[name].schedule(rates, CONSTANT * rates.size).batches
    assert batches.max() <= LARGEST
    return batches


def descend(task, model, rates, batches, data, steps):
    """Plain SGD in place over a range of steps."""
    sgd = training.optimizer(bl.sgd(), model)
    model.train()
    for t in steps:
        inputs, targets = task.fetch(data[t, : batches[t]])
        sgd.zero_grad()
        task.loss(model(inputs), targets).backward()
        for group in sgd.param_groups:
            group["lr"] = float(rates[t])
        sgd.step()


def flat(model):
    return nn.utils.parameters_to_vector(model.parameters()).detach().clone()


def at(model, weights):
    nn.utils.vector_to_parameters(weights.clone(), model.parameters())
    return model


def held_out(task, model):
    return training.evaluate(task, model, task.validation)


def trajectory(task, setting, seed, batches, start, data, weights=None):
    """Weights at the boundaries after ``start``, by step."""
    model = training.fresh(task, seed)
    if weights is not None:
        at(model, weights)
    out, reached = {}, start
    for step in (step for step in setting.boundaries() if step > start):
        descend(task, model, setting.rates, batches, data, range(reached, step))
        out[step], reached = flat(model), step
    return out


def row(part, model, seed, run, step, *measured):
    """One line of the table; losses with nine digits, of which a slope loses three."""
    numbers = [f"{x:.9g}" for x in measured] + [""] * (5 - len(measured))
    return dict(zip(COLUMNS, [part, model, seed, run, step, *numbers], strict=True))


def compared(task, probe, base, other):
    """Losses at b + d, in the middle, a little ahead of b and back of it; |d|^2."""
    d = other - base
    places = (1.0, 0.5, NEARBY, -NEARBY)
    return [*(held_out(task, at(probe, base + s * d)) for s in places), float(d @ d)]


def window_rows(setting, seed):
    task = setting.task()
    data, probe = data_of(task, setting, seed), training.fresh(task, seed)
    base = trajectory(task, setting, seed, constant(setting), 0, data)
    for step, weights in base.items():
        loss = held_out(task, at(probe, weights))
        yield row("windows", setting.name, seed, "constant", step, loss)
    for start in range(0, setting.steps, setting.window):
        batches = constant(setting)
        batches[start : start + setting.window] = SMALL
        runs = trajectory(task, setting, seed, batches, start, data, base.get(start))
        for step, weights in runs.items():
            numbers = compared(task, probe, base[step], weights)
            yield row("windows", setting.name, seed, f"from {start}", step, *numbers)


def schedule_rows(setting, seed):
    task = setting.task()
    data, probe = data_of(task, setting, seed), training.fresh(task, seed)
    for name in SCHEDULES:
        batches = scheduled(name, setting.rates)
        runs = trajectory(task, setting, seed, batches, 0, data)
        for step, weights in runs.items():
            loss = held_out(task, at(probe, weights))
            yield row("schedules", setting.name, seed, name, step, loss)


class Tangent(nn.Module):
    """f(w) + J(w) d at fixed w: linear in its parameters d, which start at zero."""

    def __init__(self, model):
        super().__init__()
        self.fixed = [model.eval()]  # in a list: not a submodule, its weights are not trained
        self.names = [name for name, _ in model.named_parameters()]
        self.moved = nn.ParameterList([torch.zeros_like(w) for w in model.parameters()])

    def forward(self, x):
        model = self.fixed[0]
        weights = {k: w.detach() for k, w in model.named_parameters()}
        moved = dict(zip(self.names, self.moved, strict=True))
        out, change = jvp(lambda w: functional_call(model, w, (x,)), (weights,), (moved,))
        return out.detach() + change


def tangent_rows(setting, seed):
    """Batch 2 for 100 steps from step 100 on, then the same batches, until the rate decays."""
    task = setting.task()
    data, rates, model = data_of(task, setting, seed), setting.rates, training.fresh(task, seed)
    descend(task, model, rates, constant(setting), data, range(TANGENT_FROM))
    start = flat(model)
    fewer = constant(setting)
    fewer[TANGENT_FROM : TANGENT_FROM + 100] = SMALL
    with sdpa_kernel(SDPBackend.MATH):
        for kind in ("full", "tangent"):
            pair = [at(training.fresh(task, seed), start) for _ in range(2)]
            pair = [Tangent(m) for m in pair] if kind == "tangent" else pair
            probe = copy.deepcopy(pair[0])
            for step in TANGENT_STEPS:
                reached = range(step - 100, step)
                for run, batches in zip(pair, (constant(setting), fewer), strict=True):
                    descend(task, run, rates, batches, data, reached)
                base, other = (flat(run) for run in pair)
                yield row("tangent", kind, seed, "constant", step, held_out(task, pair[0]))
                numbers = compared(task, probe, base, other)
                yield row("tangent", kind, seed, "from 100", step, *numbers)


def half_rows(setting, seed):
    """Early-large's and the constant batches, each half of the run with each other half."""
    task = setting.task()
    data, rates, middle = data_of(task, setting, seed), setting.rates, setting.steps // 2
    choices = {"constant": constant(setting), "early-large": scheduled("early-large", rates)}
    for first, before in choices.items():
        start = training.fresh(task, seed)
        descend(task, start, rates, before, data, range(middle))
        yield row("halves", setting.name, seed, first, middle, held_out(task, start))
        for second, after in choices.items():
            model = copy.deepcopy(start)
            descend(task, model, rates, after, data, range(middle, setting.steps))
            run = first if first == second else f"{first}, then {second}"
            yield row("halves", setting.name, seed, run, setting.steps, held_out(task, model))


def one_step_rows(setting, seed):
    """Other samples in one update, at step 100, then the same batches."""
    task = setting.task()
    data, rates, model = data_of(task, setting, seed), setting.rates, training.fresh(task, seed)
    batches = constant(setting)
    descend(task, model, rates, batches, data, range(TANGENT_FROM))
    other, probe = copy.deepcopy(model), copy.deepcopy(model)
    exchanged = data.copy()
    exchanged[TANGENT_FROM] = np.roll(data[TANGENT_FROM], -CONSTANT)
    reached = TANGENT_FROM
    for step in (TANGENT_FROM + 1, *TANGENT_STEPS):
        descend(task, model, rates, batches, data, range(reached, step))
        descend(task, other, rates, batches, exchanged, range(reached, step))
        reached = step
        loss = held_out(task, model)
        yield row("one step", setting.name, seed, "constant", step, loss)
        numbers = compared(task, probe, flat(model), flat(other))
        yield row("one step", setting.name, seed, f"from {TANGENT_FROM}", step, *numbers)


def delay_rows(setting, seed):
    """The constant run, set back to where its loss was that of the perturbed run at a window's end.

    The first row of a window holds that step and its loss; then the steps after the window follow
    from there, as if those between had been lost.
    """
    task = setting.task()
    data, batches, model = (
        data_of(task, setting, seed),
        constant(setting),
        training.fresh(task, seed),
    )
    ends = {
        int(r["run"].split()[1]): float(r["loss"])
        for r in stored()
        if (r["part"], r["model"], r["seed"]) == ("windows", setting.name, str(seed))
        and r["run"] != "constant"
        and int(r["step"]) == int(r["run"].split()[1]) + setting.window
    }
    wanted = [start for start in sorted(ends) if start < setting.steps // 2]
    path, reached, every = [], 0, setting.window // EVALUATIONS
    while reached < setting.steps // 2:
        descend(task, model, setting.rates, batches, data, range(reached, reached + every))
        reached += every
        path.append((reached, held_out(task, model), flat(model)))
    for start in wanted:
        step, loss, weights = min(path, key=lambda place: abs(place[1] - ends[start]))
        yield row("delay", setting.name, seed, f"from {start}", step, loss)
        after = start + setting.window
        runs = trajectory(task, setting, seed, batches, after, data, weights)
        for step, weights in runs.items():
            loss = held_out(task, at(model, weights))
            yield row("delay", setting.name, seed, f"from {start}", step, loss)


PARTS = {
    "windows": window_rows,
    "schedules": schedule_rows,
    "delay": delay_rows,
    "tangent": tangent_rows,
    "halves": half_rows,
    "one step": one_step_rows,
}


def stored(path=ROWS):
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def append(path, rows, columns):
    path.parent.mkdir(exist_ok=True)
    new = not path.exists()
    with path.open("a", newline="") as file:
        table = csv.DictWriter(file, columns, lineterminator="\n")
        if new:
            table.writeheader()
        table.writerows(rows)


def measure(part, setting, seeds):
    """Append the rows of the seeds that are not stored yet."""
    models = {"full"} if part == "tangent" else {setting.name}
    known = {int(r["seed"]) for r in stored() if r["part"] == part and r["model"] in models}
    for seed in sorted(set(range(seeds)) - known):
        append(ROWS, list(PARTS[part](setting, seed)), COLUMNS)
        print(part, setting.name, seed, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["controls", *PARTS])
    parser.add_argument("--seeds", type=int, help="by default those of the reference")
    given = parser.parse_args()
    training.one_thread()
    if given.part in PARTS:
        measure(given.part, TRANSFORMER, given.seeds or TRANSFORMER.seeds)
    if given.part == "controls":
        for setting in CONTROLS:
            for part in ("windows", "schedules", "delay"):
                measure(part, setting, given.seeds or setting.seeds)


if __name__ == "__main__":
    main()
