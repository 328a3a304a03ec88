"""Measured sensitivity compared with influence: branch runs, perturb the noise of one update,
and compare the final losses with kappa. Makes the table of docs/model_spectra.md.

    .venv/bin/python examples/sensitivity.py              # or regression alone
    .venv/bin/python examples/sensitivity.py quadratic    # real Adam on a quadratic

Each takes minutes; ``--draws 2`` (repetitions per branched update): seconds, with large errors.

Linear regression starts at its optimum, where kappa is exact to leading order in the rate. The
network learns a random teacher's ten classes from scratch; its kappa comes from the spectrum of
one pilot run's last iterate (for Adam preconditioned by that iterate's second moments).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise, repeat
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

import batchlaw as bl
from batchlaw.faces.cli.table import text_table
from batchlaw.influences.adaptive import adam_influence
from batchlaw.schedule.rates import wsd_phases
from batchlaw.torch_support.sensitivity import measured_sensitivity
from batchlaw.torch_support.spectra import adam_preconditioner, model_spectrum

MOMENTUM = 0.9
Model = tuple[nn.Module, torch.optim.Optimizer]


def optimizer(name: str, model: nn.Module) -> torch.optim.Optimizer:
    weights = model.parameters()
    if name == "Adam":
        return torch.optim.Adam(weights, lr=1.0, betas=(MOMENTUM, 0.999))
    return torch.optim.SGD(weights, lr=1.0, momentum=MOMENTUM if name == "momentum" else 0.0)


@dataclass(frozen=True)
class Task:
    """An initial model, its loss, batches and final loss, and the data for the prediction."""

    name: str
    model: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    batch: Callable[[int, torch.Generator], tuple[Tensor, Tensor]]
    evaluate: Callable[[nn.Module], Tensor]
    data: tuple[Tensor, Tensor]
    batch_size: int
    steps: int
    draws: int

    def start(self, name: str) -> Model:
        model = self.model()
        return model, optimizer(name, model)

    def batch_loss(self, model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        return self.loss(model(batch[0]), batch[1])

    def pilot(self, name: str, rates: np.ndarray) -> Model:
        """One complete run."""
        model, steps = self.start(name)
        generator = torch.Generator().manual_seed(99)
        for t, rate in enumerate(rates, start=1):
            steps.param_groups[0]["lr"] = float(rate)
            steps.zero_grad()
            self.batch_loss(model, self.batch(t, generator)).backward()
            steps.step()
        return model, steps


def regression(d: int = 32, size: int = 16) -> Task:
    """Gaussian features with power-law covariance, labels of pure unit noise, optimum at zero."""
    sigma = torch.arange(1, d + 1, dtype=torch.float64) ** -1.5

    def batch(_: int, generator: torch.Generator, n: int = size) -> tuple[Tensor, Tensor]:
        z = torch.randn(n, d, dtype=torch.float64, generator=generator) * sigma.sqrt()
        return z, torch.randn(n, 1, dtype=torch.float64, generator=generator)

    def model() -> nn.Module:
        line = nn.Linear(d, 1, bias=False, dtype=torch.float64)
        return line.requires_grad_(False).apply(lambda m: m.weight.zero_()).requires_grad_(True)

    def loss(f: Tensor, y: Tensor) -> Tensor:
        return 0.5 * ((f - y) ** 2).mean()

    def evaluate(line: nn.Module) -> Tensor:
        return 0.5 * (sigma * line.weight**2).sum()

    # 2 d samples with exactly this covariance: each direction once, with either label sign.
    z = torch.diag((d * sigma).sqrt())
    data = (torch.cat([z, z]), torch.cat([torch.ones(d, 1), -torch.ones(d, 1)]).double())
    return Task("regression", model, loss, batch, evaluate, data, size, 80, 24)


def network(d: int = 32, hidden: int = 32, size: int = 32, pool: int = 4096) -> Task:
    """Ten noisy classes of a random network, learned by another; batches from a fixed pool."""
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(pool, d, generator=generator) * torch.arange(1, d + 1) ** -0.4
    teacher = [torch.randn(d, 24, generator=generator), torch.randn(24, 10, generator=generator)]
    scores = torch.tanh(x @ teacher[0]) @ teacher[1] / math.sqrt(24) * 2.0
    y = torch.multinomial(functional.softmax(scores, 1), 1, generator=generator).squeeze(1)

    def model() -> nn.Module:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return nn.Sequential(nn.Linear(d, hidden), nn.Tanh(), nn.Linear(hidden, 10))

    def batch(_: int, draw: torch.Generator) -> tuple[Tensor, Tensor]:
        chosen = torch.randint(0, pool, (size,), generator=draw)
        return x[chosen], y[chosen]

    def evaluate(net: nn.Module) -> Tensor:
        return functional.cross_entropy(net(x).double(), y)

    return Task("network", model, functional.cross_entropy, batch, evaluate, (x, y), size, 150, 8)


def predict(task: Task, name: str, rates: np.ndarray) -> tuple[np.ndarray, str]:
    """kappa_t / (2 B), the increase of the final loss by the noise of update t; and a note."""
    model, steps = task.pilot(name, rates)
    scales = adam_preconditioner(model, steps) if name == "Adam" else None
    spectrum = model_spectrum(
        model,
        task.loss,
        task.data,
        count=60,
        preconditioner=scales,
        noise=True,
        double=True,
        tolerance=1e-6,
    )
    if name == "Adam":
        kappa = adam_influence(spectrum, rates, beta1=MOMENTUM)
    else:
        rule = bl.sgd(MOMENTUM, pytorch=True) if name == "momentum" else bl.sgd()
        kappa = bl.influence(spectrum, rates, rule=rule)
    note = (
        f"{task.name}, {name}: largest eigenvalue x peak rate "
        f"{spectrum.eigenvalues[0] * rates.max():.3f}; {spectrum.eigenvalues.size} of "
        f"{spectrum.dimension} directions hold {spectrum.eigenvalues.sum() / spectrum.trace:.0%} "
        f"of the trace and {spectrum.noise.sum() / spectrum.noise_trace:.0%} of the noise"
    )
    return kappa / (2.0 * task.batch_size), note


def row(case: tuple[str, str, float], draws: int | None) -> tuple[list[str], str]:
    torch.set_num_threads(1)
    kind, name, peak = case
    task = network() if kind == "network" else regression()
    task = replace(task, draws=draws or task.draws)
    rates = bl.wsd(task.steps, peak)
    ends = (0, *wsd_phases(task.steps), task.steps)
    phases = [(a + 1, b) for a, b in pairwise(ends)]
    updates = sorted({int(t) for a, b in phases for t in np.linspace(a, b, 3)})
    predicted, note = predict(task, name, rates)
    measured = measured_sensitivity(
        lambda: task.start(name),
        task.batch_loss,
        task.batch,
        task.evaluate,
        rates,
        updates,
        draws=task.draws,
    )
    out = [task.name, name, f"{peak:g}"]
    for a, b in phases:
        part = measured.between(a, b)
        out.append("{:.2f} ± {:.2f}".format(*part.ratio(predicted[part.updates - 1])))
    prediction = predicted[measured.updates - 1]
    out.append("{:.2f} ± {:.2f}".format(*measured.ratio(prediction)))
    out.append("{:.3f} ± {:.3f}".format(*measured.correlation(prediction)))
    out.append("{:.2f} ± {:.2f}".format(*measured.with_drift().ratio(prediction)))
    return out, note


class Point(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.zeros(4, dtype=torch.float64))


def adam_row(beta2: float, warm: bool, draws: int) -> list[str]:
    """Real Adam on a noisy quadratic at its optimum, starting at v = E g^2 (warm) or v = 0."""
    mu = torch.tensor([1.0, 0.5, 0.2, 0.08], dtype=torch.float64)
    noise = torch.tensor([0.3, 0.5, 0.1, 0.2], dtype=torch.float64)
    rates, updates = bl.wsd(40, 0.05), (5, 10, 20, 30, 40)

    def start() -> Model:
        point = Point()
        steps = torch.optim.Adam([point.x], lr=1.0, betas=(MOMENTUM, beta2))
        if warm:
            steps.state[point.x] = {
                "step": torch.tensor(1e4),
                "exp_avg": torch.zeros_like(noise),
                "exp_avg_sq": noise.clone(),
            }
        return point, steps

    measured = measured_sensitivity(
        start,
        lambda point, kick: 0.5 * (mu * point.x**2).sum() + kick @ point.x,
        lambda _, draw: noise.sqrt() * torch.randn(4, dtype=torch.float64, generator=draw),
        lambda point: 0.5 * (mu * point.x**2).sum(),
        rates,
        updates,
        draws=draws,
    )
    scales = noise.sqrt()
    kappa = adam_influence(
        mu / scales, rates, beta1=MOMENTUM, noise=(noise / scales).numpy(), debias=not warm
    )
    prediction = 0.5 * kappa[measured.updates - 1]
    return [
        f"{beta2:g}",
        "E g^2" if warm else "0",
        "{:.2f} ± {:.2f}".format(*measured.ratio(prediction)),
        "{:.4f} ± {:.4f}".format(*measured.correlation(prediction)),
        "{:.2f} ± {:.2f}".format(*measured.with_drift().ratio(prediction)),
    ]


def quadratic(draws: int) -> None:
    starts = [(beta2, warm) for beta2 in (0.999, 0.99, 0.95) for warm in (True, False)]
    table = [adam_row(beta2, warm, draws) for beta2, warm in starts]
    print(text_table(("beta2", "v at the start", "spread", "correlation", "with drift"), table))


def main(only: str | None, draws: int | None) -> None:
    torch.set_num_threads(1)
    if only == "quadratic":
        quadratic(draws or 100)
        return
    peaks = {"SGD": 0.3, "momentum": 0.03, "Adam": 0.003}
    cases = [
        ("regression", "SGD", 0.2),
        ("regression", "momentum", 0.02),
        ("regression", "Adam", 0.01),
        *(("network", name, f * peak) for name, peak in peaks.items() for f in (1.0, 4.0)),
    ]
    cases = [case for case in cases if only in (None, case[0])]
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        done = list(workers.map(row, cases, repeat(draws)))
    print(*(note for _, note in done), sep="\n")
    table = [cells for cells, _ in done]
    header = ("task", "method", "peak", "warmup", "stable", "decay", "all", "correlation")
    print("\nmeasured / predicted spread, with standard errors; last: with the drift\n")
    print(text_table((*header, "with drift"), table))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("only", choices=("regression", "network", "quadratic"), nargs="?")
    parser.add_argument("--draws", type=int)
    main(**vars(parser.parse_args()))
