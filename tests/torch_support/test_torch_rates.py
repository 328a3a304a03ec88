"""PlanRates: the plan's rates at the sampler's updates, or a refusal."""

import itertools

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import LambdaLR

import batchlaw as bl
from batchlaw.torch_support import PlanRates, PlanSampler
from refused import refused

pytestmark = pytest.mark.torch

PLAN = bl.Plan(bl.wsd(6, 0.5, warmup=2), stages=((2, 2), (6, 4)), budget=20)


def optimizer_of(*rates, tensor=False):
    groups = [
        {"params": [torch.zeros(1, requires_grad=True)], "lr": torch.tensor(r) if tensor else r}
        for r in rates or (0.1,)
    ]
    return torch.optim.SGD(groups, lr=0.1)


def run(optimizer, scheduler, sampler, updates):
    """Rates that the optimizer used in the next updates."""
    used, left = [], updates
    for _, place in sampler.follow(sampler):
        if place.last:
            used.append([float(group["lr"]) for group in optimizer.param_groups])
            optimizer.step()
            scheduler.step()
            left -= 1
        if not left:
            break
    return used


def parts(plan=PLAN, *rates):
    optimizer, sampler = optimizer_of(*rates), PlanSampler(PLAN, 20, seed=0, max_micro_batch=3)
    return optimizer, PlanRates(optimizer, plan, sampler=sampler), sampler


def test_every_update_runs_at_its_rate_to_the_last_digit():
    optimizer, scheduler, sampler = parts()
    assert run(optimizer, scheduler, sampler, 6) == [[rate] for rate in PLAN.rates]
    assert scheduler.get_last_lr() == [PLAN.rates[-1]]


def test_the_rates_are_those_of_a_lambda_scheduler():
    ours, theirs = optimizer_of(1.0), optimizer_of(1.0)
    rates = bl.cosine(9, 0.3)
    schedulers = PlanRates(ours, rates), LambdaLR(theirs, lambda update: rates[min(update, 8)])
    for _ in range(9):
        assert ours.param_groups[0]["lr"] == theirs.param_groups[0]["lr"]
        for optimizer, scheduler in zip((ours, theirs), schedulers, strict=True):
            optimizer.step()
            scheduler.step()


def test_groups_keep_their_scales_and_tensors():
    optimizer = optimizer_of(0.1, 0.2, tensor=True)
    before = optimizer.param_groups[0]["lr"]
    scheduler = PlanRates(optimizer, PLAN, scales=[1.0, 0.25])
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is before
    used = [float(group["lr"]) for group in optimizer.param_groups]
    np.testing.assert_allclose(used, PLAN.rates[1] * np.array([1.0, 0.25]), rtol=1e-6)
    again = optimizer_of(0.1, 0.2, tensor=True)
    kept = again.param_groups[1]["lr"]
    resumed = PlanRates(again, PLAN, scales=[1.0, 0.25])
    resumed.load_state_dict(scheduler.state_dict())
    assert again.param_groups[1]["lr"] is kept
    assert [float(group["lr"]) for group in again.param_groups] == used
    np.testing.assert_allclose(resumed.get_last_lr(), used, rtol=1e-6)


def test_a_resumed_run_uses_the_remaining_rates():
    optimizer, scheduler, sampler = parts()
    first = run(optimizer, scheduler, sampler, 4)
    states = [each.state_dict() for each in (sampler, optimizer, scheduler)]
    optimizer, scheduler, sampler = parts()
    for each, state in zip((sampler, optimizer, scheduler), states, strict=True):
        each.load_state_dict(state)
    assert first + run(optimizer, scheduler, sampler, 2) == [[rate] for rate in PLAN.rates]


def test_steps_must_follow_the_updates_of_the_sampler():
    optimizer, scheduler, sampler = parts()
    optimizer.step()
    with refused("sampler"):
        scheduler.step()
    list(itertools.islice(sampler.follow(sampler), 1))
    with refused("sampler"):
        scheduler.state_dict()
    scheduler.step()
    assert scheduler.state_dict()["updates"] == sampler.state_dict()["updates"] == 1


def test_states_of_different_updates_are_refused():
    optimizer, scheduler, sampler = parts()
    run(optimizer, scheduler, sampler, 3)
    _, other, untouched = parts()
    with refused("sampler"):
        other.load_state_dict(scheduler.state_dict())
    untouched.load_state_dict(sampler.state_dict())
    other.load_state_dict(scheduler.state_dict())
    assert other.updates == 3


@pytest.mark.parametrize(
    ("attempt", "field"),
    [
        (lambda: parts(bl.Plan(PLAN.rates, ((6, 3),), 20)), "sampler"),
        (lambda: parts(PLAN.rates[:5]), "sampler"),
        (lambda: parts(PLAN, 0.1, 0.2), "scales"),
        (
            lambda: PlanRates(optimizer_of(), PLAN, scales=[1, 2]),
            "scales",
        ),
        (lambda: PlanRates(optimizer_of(), [0.1, -0.1]), "rates"),
        (lambda: parts()[1].step(3), "epoch"),
        (
            lambda: parts()[1].load_state_dict({"last_epoch": 3}),
            "state_dict",
        ),
        (
            lambda: PlanRates(optimizer_of(), [0.1]).load_state_dict(parts()[1].state_dict()),
            "state_dict",
        ),
        (
            lambda: PlanRates(optimizer_of(), PLAN, scales=[2.0]).load_state_dict(
                PlanRates(optimizer_of(), PLAN).state_dict()
            ),
            "state_dict",
        ),
        (
            lambda: parts()[1].load_state_dict(parts()[1].state_dict() | {"updates": 7}),
            "state_dict",
        ),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(attempt, field):
    with refused(field) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_a_group_that_came_later_is_refused_and_nothing_moves():
    optimizer = optimizer_of()
    scheduler = PlanRates(optimizer, [0.2, 0.1])
    state = scheduler.state_dict()
    optimizer.add_param_group({"params": [torch.zeros(1, requires_grad=True)]})
    optimizer.step()
    for attempt in (scheduler.step, lambda: scheduler.load_state_dict(state)):
        with refused("optimizer"):
            attempt()
    assert scheduler.updates == 0


def test_an_update_that_a_gradient_scaler_skips_has_its_rate_all_the_same():
    optimizer, scheduler, sampler = parts()
    weight = optimizer.param_groups[0]["params"][0]
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0)
    used = []
    for _, place in sampler.follow(sampler):
        if place.last:
            used.append(optimizer.param_groups[0]["lr"])
            optimizer.zero_grad()
            scaler.scale(weight * (torch.inf if sampler.updates == 3 else 1.0)).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
    assert used == PLAN.rates.tolist()
    done = np.delete(PLAN.rates, 2).sum()
    torch.testing.assert_close(weight.item(), -float(done), rtol=1e-6, atol=0.0)


def test_a_step_too_many_is_refused():
    optimizer = optimizer_of()
    scheduler = PlanRates(optimizer, [0.2, 0.1])
    for _ in range(2):
        optimizer.step()
        scheduler.step()
    with refused("step"):
        scheduler.step()
