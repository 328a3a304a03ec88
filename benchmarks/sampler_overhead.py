"""One pass through a DataLoader: PlanSampler against torch's BatchSampler on a RandomSampler.

.venv/bin/python benchmarks/sampler_overhead.py

The dataset is as cheap as possible (a row of a tensor in memory), which maximises the sampler's
share. Runs alternate, 20 of each; the ratio is the median over the 20 pairs, and its quartiles show
how quiet the machine was.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median, quantiles

import torch
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from batchlaw.faces.cli.table import text_table
from batchlaw.torch_support import PlanSampler

RUNS = 20
SAMPLES = 49_152
CASES = ((8, 0), (64, 0), (512, 0), (64, 2))  # batch, workers

Loader = DataLoader[tuple[torch.Tensor, ...]]


def theirs(dataset: TensorDataset, batch: int, workers: int) -> Callable[[], None]:
    def run() -> None:
        order = RandomSampler(dataset, generator=torch.Generator().manual_seed(0))
        loader: Loader = DataLoader(
            dataset, batch_sampler=BatchSampler(order, batch, False), num_workers=workers
        )
        for _ in loader:
            pass

    return run


def ours(dataset: TensorDataset, batch: int, workers: int) -> Callable[[], None]:
    def run() -> None:
        sampler = PlanSampler([batch] * (len(dataset) // batch), len(dataset), seed=0)
        loader: Loader = DataLoader(dataset, batch_sampler=sampler, num_workers=workers)
        for _ in sampler.follow(loader):
            pass

    return run


def seconds(run: Callable[[], None]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    torch.set_num_threads(1)
    dataset = TensorDataset(torch.randn(SAMPLES, 32))
    rows = []
    for batch, workers in CASES:
        runs = theirs(dataset, batch, workers), ours(dataset, batch, workers)
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(RUNS + 1):
            for which in (0, 1) if turn % 2 else (1, 0):
                elapsed = seconds(runs[which])
                if turn:  # the first is a warm-up
                    times[which].append(elapsed)
        ratios = [our / their for their, our in zip(*times, strict=True)]
        low, middle, high = quantiles(ratios, n=4)
        medians = (f"{median(runs_seconds):.4f}" for runs_seconds in times)
        rows.append((str(batch), str(workers), *medians, f"{middle:.3f}", f"{low:.2f}-{high:.2f}"))
    header = ("batch", "workers", "BatchSampler, s", "PlanSampler, s", "ratio", "quartiles")
    print(text_table(header, rows))
