"""A tiny training for tests, alone or under torchrun: saves after every second update.

torch_training.py FOLDER ... [--dropout P] [--kill-in UPDATE] trains once a folder, one after the
other, each from its checkpoint.pt where there is one, and writes final.pt. With --kill-in, rank 0
kills itself without a chance to tidy up, after the first micro-batch of that update in the last
folder.
"""

import argparse
import contextlib
import datetime
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import batchlaw as bl
from batchlaw.torch_support import PlanRates, PlanSampler

PLAN = bl.Plan(bl.wsd(12, 0.05), stages=((4, 4), (9, 16), (12, 8)), budget=120)


def data():
    torch.manual_seed(5)
    x = torch.randn(PLAN.samples, 6, dtype=torch.float64)
    return TensorDataset(x, x.sin().sum(dim=1), torch.arange(PLAN.samples))


def build(dropout):
    torch.manual_seed(6)
    model = torch.nn.Sequential(
        torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1)
    ).double()
    optimizer = torch.optim.AdamW(model.parameters())
    sampler = PlanSampler(PLAN, PLAN.samples, seed=1, max_micro_batch=3)
    return model, optimizer, sampler, PlanRates(optimizer, PLAN, sampler=sampler)


def train(folder, dropout, kill_in):
    model, optimizer, sampler, rates = build(dropout)
    parts = {"sampler": sampler, "model": model, "optimizer": optimizer, "rates": rates}
    visits = torch.zeros(PLAN.samples, dtype=torch.int64)
    checkpoint = folder / "checkpoint.pt"
    wrapped = DistributedDataParallel(model) if dist.is_initialized() else model
    loader = DataLoader(
        data(),
        batch_sampler=sampler,
        num_workers=2,
        prefetch_factor=4,
        generator=torch.Generator(),  # keeps the workers' seeds off the model's random numbers
    )
    if checkpoint.exists():
        saved = torch.load(checkpoint, weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(saved[name])
        visits += saved["visits"] * (sampler.rank == 0)
        torch.set_rng_state(saved["random"])
    for (x, y, index), place in sampler.follow(loader):
        with contextlib.nullcontext() if place.last or wrapped is model else wrapped.no_sync():
            loss = ((wrapped(x).squeeze(1) - y) ** 2).mean()
            (loss * place.weight).backward()
        visits[index] += 1
        if kill_in == sampler.updates + 1 and place.part == 1 and sampler.rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if place.last:
            optimizer.step()
            optimizer.zero_grad()
            rates.step()
            if sampler.updates % 2 == 0:
                save(checkpoint, parts, visits, sampler.rank)
    save(folder / "final.pt", parts, visits, sampler.rank)


def save(path, parts, visits, rank):
    visits = visits.clone()
    if dist.is_initialized():
        dist.all_reduce(visits)
    if rank == 0:
        state = {name: part.state_dict() for name, part in parts.items()}
        torch.save(state | {"visits": visits, "random": torch.get_rng_state()}, f"{path}.new")
        os.replace(f"{path}.new", path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--kill-in", type=int)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if "RANK" in os.environ:
        dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=120))
    for folder in given.folders:
        train(folder, given.dropout, given.kill_in if folder == given.folders[-1] else None)
    if dist.is_initialized():
        dist.destroy_process_group()
