"""PlanSampler: the order of samples, ranks, micro-batches, and positions that survive a kill."""

import itertools
import math
import subprocess
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader, TensorDataset

import batchlaw as bl
from batchlaw.torch_support import PlanSampler
from batchlaw.torch_support.order import MAX_SORTED_SIZE, SAMPLINGS, Order
from refused import refused

pytestmark = pytest.mark.torch

RANKS = (1, 2, 3, 4, 6, 12)


def flat(lists):
    return list(itertools.chain.from_iterable(lists))


def take(sampler, updates, ahead=0):
    """Samples of the next updates of one rank, with ``ahead`` micro-batches taken in advance."""
    indices, taken = iter(sampler), []
    queue = list(itertools.islice(indices, ahead))
    for _ in range(updates):
        share = []
        while True:
            queue += itertools.islice(indices, 1)
            batch, place = queue.pop(0), sampler.receive()
            assert len(batch) == place.size
            share += batch
            if place.last:
                break
        taken.append(share)
    return taken


def run(batches, ranks, updates, state=None, ahead=0, **options):
    """Samples of the next updates over all ranks, and the state after them."""
    samplers = [PlanSampler(batches, rank=r, world_size=ranks, **options) for r in range(ranks)]
    for sampler in samplers:
        if state is not None:
            sampler.load_state_dict(state)
    shares = [take(sampler, updates, ahead) for sampler in samplers]
    states = [sampler.state_dict() for sampler in samplers]
    assert all(each == states[0] for each in states)
    work = [[len(share) for share in rank] for rank in shares]
    assert all(each == work[0] for each in work)
    return [flat(parts) for parts in zip(*shares, strict=True)], states[0]


schedules = st.lists(st.integers(1, 5).map(lambda k: 12 * k), min_size=1, max_size=12)


@st.composite
def interrupted_runs(draw):
    """A schedule, and stretches of updates: (ranks, micro-batch, updates, taken ahead)."""
    batches, stretches = draw(schedules), []
    left = len(batches)
    while left:
        updates = draw(st.integers(0, left)) if len(stretches) < 3 else left
        micro = draw(st.none() | st.integers(1, 30))
        stretches.append((draw(st.sampled_from(RANKS)), micro, updates, draw(st.integers(0, 9))))
        left -= updates
    return batches, stretches


@given(interrupted_runs(), st.integers(0, 2**53))
def test_one_pass_sees_every_sample_once_in_one_order_whatever_is_killed(case, seed):
    batches, stretches = case
    total, state, seen = sum(batches), None, []
    for ranks, micro, updates, ahead in stretches:
        options = {"dataset_size": total, "seed": seed, "max_micro_batch": micro, "ahead": ahead}
        parts, state = run(batches, ranks, updates, state, **options)
        seen += parts
    assert [len(part) for part in seen] == batches
    order = flat(seen)
    assert sorted(order) == list(range(total))
    one_by_one, _ = run([1] * total, 1, total, dataset_size=total, seed=seed)
    assert order == flat(one_by_one)
    assert state["samples"] == total


@given(interrupted_runs(), st.sampled_from(SAMPLINGS[1:]), st.integers(60, 200))
def test_every_sampling_resumes_to_the_samples_of_the_undisturbed_run(case, sampling, size):
    batches, stretches = case
    options = {"dataset_size": size, "seed": 3, "sampling": sampling}
    state, seen = None, []
    for ranks, micro, updates, ahead in stretches:
        parts, state = run(
            batches, ranks, updates, state, max_micro_batch=micro, ahead=ahead, **options
        )
        seen += parts
    whole, end = run(batches, 1, len(batches), **options)
    assert seen == whole
    assert state == end
    assert state["samples"] == sum(batches)


@given(schedules, st.sampled_from(["reshuffled epochs", "with replacement"]))
def test_the_order_does_not_depend_on_the_schedule(batches, sampling):
    options = {"dataset_size": 50, "seed": 11, "sampling": sampling}
    total = sum(batches)
    seen, _ = run(batches, 1, len(batches), **options)
    one_by_one, _ = run([1] * total, 1, total, **options)
    assert flat(seen) == flat(one_by_one)


def test_epochs_are_permutations_and_differ():
    seen, _ = run([7] * 30, 1, 30, dataset_size=70, seed=1, sampling="reshuffled epochs")
    passes = np.array(flat(seen)).reshape(3, 70)
    assert (np.sort(passes) == np.arange(70)).all()
    assert (passes[0] != passes[1]).any()


def test_independent_batches_are_prefixes_of_a_permutation_for_each_update():
    options = {"dataset_size": 60, "seed": 5, "sampling": "independent batches"}
    seen, _ = run([12, 48, 24], 3, 3, **options)
    whole, _ = run([60] * 3, 1, 3, **options)
    assert [sorted(part) for part in whole] == [list(range(60))] * 3
    assert seen == [part[:size] for part, size in zip(whole, [12, 48, 24], strict=True)]


@given(st.integers(1, 3 * MAX_SORTED_SIZE), st.integers(0, 2**53), st.integers(0, 5))
def test_a_permutation_has_every_sample_once(size, seed, epoch):
    order = Order(size, "reshuffled epochs", seed)
    positions = np.arange(size) + epoch * size
    assert (np.sort(order.indices(positions, positions, positions)) == np.arange(size)).all()


def test_all_permutations_of_four_are_equally_likely():
    draws = 24 * 100
    updates, offsets = np.divmod(np.arange(4 * draws), 4)
    order = Order(4, "independent batches", 2)
    drawn = order.indices(updates, updates, offsets).reshape(-1, 4)
    counts = np.array(list(Counter(map(tuple, drawn.tolist())).values()))
    chi = ((counts - 100.0) ** 2 / 100.0).sum()
    assert counts.size == 24
    assert abs(chi - 23) < 4 * math.sqrt(2 * 23)


@pytest.mark.parametrize("size", [300, 1500, 10**5])
def test_means_of_independent_batches_vary_as_those_of_uniform_subsets(size):
    draws, batch = 3000, 24
    updates, offsets = np.divmod(np.arange(draws * batch), batch)
    drawn = Order(size, "independent batches", 9).indices(updates, updates, offsets)
    side = math.isqrt(size - 1) + 1
    # Rows and columns of the grid are where too few rounds would show.
    for values in (np.arange(size) % side, np.arange(size) // side, np.arange(size)):
        means = values[drawn].reshape(draws, batch).mean(axis=1)
        expected = values.var() / batch * (size - batch) / (size - 1)
        assert abs(means.mean() - values.mean()) < 4 * math.sqrt(expected / draws)
        assert abs(means.var() / expected - 1) < 4 * math.sqrt(2 / draws)


def test_neighbours_in_the_order_are_independent():
    size = 10**5
    at = np.arange(size)
    drawn = Order(size, "one pass", 4).indices(at, at, at).astype(float)
    for lag in (1, 2, 316, 317):
        assert abs(np.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 4 / math.sqrt(size)


def test_seeds_and_epochs_have_orders_of_their_own():
    size, at = 10**4, np.arange(3 * 10**4)
    orders = [Order(size, "reshuffled epochs", seed).indices(at, at, at) for seed in (0, 1, 2**53)]
    alike = np.corrcoef(np.reshape(orders, (9, size))) - np.eye(9)
    assert abs(alike).max() < 4 / math.sqrt(size)


def test_a_run_of_many_blocks_has_the_samples_of_its_order():
    batches = np.arange(200, 600, 2)
    total = int(batches.sum())  # 79800, in blocks of 8192 a rank
    at = np.arange(total)
    seen, _ = run(batches, 2, batches.size, dataset_size=total, seed=8, max_micro_batch=7)
    assert flat(seen) == Order(total, "one pass", 8).indices(at, at, at).tolist()


def test_the_order_is_the_same_for_every_version_of_numpy():
    def first(size, sampling):
        at = np.arange(6)
        return Order(size, sampling, 42).indices(at, np.zeros_like(at), at).tolist()

    assert first(10, "one pass") == [7, 1, 6, 4, 3, 5]
    assert first(10**6, "one pass") == [327240, 194699, 177492, 29220, 227254, 78050]
    assert first(10**6, "with replacement") == [379406, 278910, 231875, 373529, 45267, 412892]


def test_ten_billion_samples_need_little_memory():
    size = 10**10
    sampler = PlanSampler([4096] * 100, size, seed=1, allow_unused=True)
    tracemalloc.start()
    seen = list(itertools.chain.from_iterable(itertools.islice(sampler, 8)))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(set(seen)) == 8 * 4096
    assert 0 <= min(seen) < max(seen) < size
    assert peak < 40e6  # a permutation would take 80 GB


def test_a_plan_and_its_batches_give_the_same_lists():
    plan = bl.Plan(bl.wsd(40, 0.1), stages=((10, 8), (30, 20), (40, 12)), budget=600)
    options = {"dataset_size": plan.samples, "seed": 0, "max_micro_batch": 8}
    assert list(PlanSampler(plan, **options)) == list(PlanSampler(plan.batches, **options))


@given(st.integers(1, 40), st.integers(1, 40))
def test_micro_batches_are_even_and_their_weights_sum_to_one(share, micro):
    sampler = PlanSampler(
        [2 * share], 2 * share, seed=0, max_micro_batch=micro, rank=1, world_size=2
    )
    sizes = [len(part) for part in sampler]
    assert len(sizes) == math.ceil(share / micro) == len(sampler)
    assert max(sizes) <= micro
    assert max(sizes) - min(sizes) <= 1
    places = [place for _, place in sampler.follow(sampler)]
    assert [place.size for place in places] == sizes
    assert math.isclose(sum(place.weight for place in places), 1.0)
    assert [place.last for place in places] == [False] * (len(sizes) - 1) + [True]


def test_weighted_micro_batches_of_all_ranks_give_the_gradient_of_the_update():
    torch.manual_seed(0)
    x, y = torch.randn(30, 5, dtype=torch.float64), torch.randn(30, dtype=torch.float64)
    w = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    ((x @ w - y) ** 2).mean().backward()
    whole, w.grad = w.grad.clone(), None
    for rank in range(3):
        sampler = PlanSampler([30], 30, seed=1, max_micro_batch=4, rank=rank, world_size=3)
        for indices, place in sampler.follow(sampler):
            loss = ((x[indices] @ w - y[indices]) ** 2).mean() * place.weight / 3
            loss.backward()
    torch.testing.assert_close(w.grad, whole, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("persistent", [False, True])
def test_the_saved_position_is_the_loops_and_not_the_workers(persistent):
    batches = [4, 4, 8, 8, 16, 8]
    options = {"dataset_size": 48, "seed": 2, "max_micro_batch": 4}
    dataset = TensorDataset(torch.arange(48))
    settings = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": persistent}

    def loop(sampler, micro_batches):
        loader = DataLoader(dataset, batch_sampler=sampler, **settings)
        followed = itertools.islice(sampler.follow(loader), micro_batches)
        return flat(batch.tolist() for (batch,), _ in followed)

    whole = loop(PlanSampler(batches, **options), None)
    sampler = PlanSampler(batches, **options)
    seen = loop(sampler, 5)  # updates 1 to 3, and the first half of update 4
    assert (sampler.updates, sampler.samples) == (3, 16)
    resumed = PlanSampler(batches, **options)
    resumed.load_state_dict(sampler.state_dict())
    assert seen[:16] + loop(resumed, None) == whole
    assert (resumed.updates, resumed.samples, len(resumed)) == (6, 48, 0)


def test_a_new_iterator_of_the_same_loader_goes_on_at_the_first_incomplete_update():
    sampler = PlanSampler([2, 4, 2], 8, seed=0, max_micro_batch=2)
    loader = DataLoader(TensorDataset(torch.arange(8)), batch_sampler=sampler)
    first = [batch for (batch,), _ in itertools.islice(sampler.follow(loader), 2)]
    assert len(sampler) == len(loader) == len(list(sampler)) == 3
    second = [batch for (batch,), _ in sampler.follow(loader)]
    assert torch.equal(first[1], second[0])
    assert sorted(torch.cat([first[0], *second]).tolist()) == list(range(8))


def test_a_state_is_plain_data(tmp_path):
    sampler = PlanSampler([2, 2], 4, seed=7)
    take(sampler, 1)
    torch.save(sampler.state_dict(), tmp_path / "state.pt")
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    again = PlanSampler([2, 2], 4, seed=7)
    again.load_state_dict(state)
    assert again.samples == 2


def make(batches=(4, 8), dataset_size=12, seed=0, **options):
    return PlanSampler(batches, dataset_size, seed=seed, **options)


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"dataset_size": 11}, "plan"),
        ({"dataset_size": 13}, "plan"),
        ({"sampling": "epoch"}, "sampling"),
        (
            {"sampling": "independent batches", "dataset_size": 7},
            "batches",
        ),
        (
            {"rank": 0, "world_size": 8},
            "plan",
        ),
        ({"rank": 2, "world_size": 2}, "rank"),
        ({"rank": 1}, "rank"),
        ({"max_micro_batch": 0}, "max_micro_batch"),
        ({"seed": -1}, "seed"),
        ({"seed": None}, "seed"),
        ({"dataset_size": 0}, "dataset_size"),
        (
            {"batches": []},
            "plan",
        ),
        ({"batches": [4, 0]}, "batches"),
        ({"batches": [4.5, 7.5]}, "batches"),
        ({"batches": [[4, 8]]}, "plan"),
    ],
)
def test_bad_input_is_refused_in_one_line(options, field):
    with refused(field) as caught:
        make(**options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"seed": 1}, "state"),
        ({"dataset_size": 13}, "state"),
        ({"sampling": "with replacement"}, "state"),
        ({"schedule": "0" * 16}, "state"),
        ({"samples": 5}, "state"),
        ({"updates": 3}, "state"),
        ({"updates": None}, "state"),
    ],
)
def test_a_state_of_another_run_is_refused(change, field):
    sampler = make()
    take(sampler, 1)
    with refused(field):
        make().load_state_dict(sampler.state_dict() | change)


def test_a_state_of_another_schedule_or_kind_is_refused():
    with refused("state"):
        make().load_state_dict(make((8, 4)).state_dict())
    with refused("state"):
        make().load_state_dict({"epoch": 3})


def test_batches_are_counted_once_and_in_order():
    sampler = make()
    for _ in range(2):  # what an iterator took and nobody received dies with it
        indices = iter(sampler)
        with refused("receive"):
            sampler.receive()
        next(indices)
    data = TensorDataset(torch.arange(12))
    with refused("loader"):
        sampler.follow(DataLoader(data, batch_size=4))
    with refused("loader"):
        sampler.follow(DataLoader(data, batch_sampler=sampler, num_workers=1, in_order=False))


@pytest.mark.parametrize(
    ("disturb", "workers"),
    [
        (list, 0),
        (list, 2),
        (lambda sampler: sampler.load_state_dict(sampler.state_dict()), 0),
        (lambda sampler: sampler.load_state_dict(sampler.state_dict()), 2),
        (PlanSampler.receive, 2),  # without workers nothing is ahead, and receive itself refuses
    ],
)
def test_a_loop_whose_sampler_is_moved_by_another_is_refused(disturb, workers):
    sampler = PlanSampler([2, 4, 2, 2], 10, seed=0, max_micro_batch=2)
    data = TensorDataset(torch.arange(10))
    loop = sampler.follow(DataLoader(data, batch_sampler=sampler, num_workers=workers))
    list(itertools.islice(loop, 2))  # to the middle of update 2
    disturb(sampler)
    with refused("loader"):
        next(loop)


def test_an_older_iterator_is_refused_where_batches_are_received_by_hand():
    sampler = make()
    old, new = iter(sampler), iter(sampler)
    with refused("loader"):
        next(old)
    next(new)
    assert sampler.receive().last


def test_a_position_loaded_before_the_first_batch_is_where_the_loop_starts():
    sampler, later = make(), make()
    take(later, 1)
    loop = sampler.follow(sampler)
    sampler.load_state_dict(later.state_dict())
    assert [indices for indices, _ in loop] == list(make())[1:]


def test_a_loader_of_another_dataset_is_refused():
    sampler = make()
    loader = DataLoader(TensorDataset(torch.arange(40)), batch_sampler=sampler)
    with refused("loader"):
        sampler.follow(loader)


def test_a_launch_of_many_processes_must_say_which_one_this_is(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with refused("rank"):
        make()
    assert make(rank=0, world_size=1).world_size == 1


def test_a_schedule_without_stages_needs_little_memory():
    batches = np.arange(1, 4001)  # two million micro-batches, all updates of different sizes
    tracemalloc.start()
    sampler = PlanSampler(batches, int(batches.sum()), seed=0, max_micro_batch=4)
    for _ in itertools.islice(sampler.follow(sampler), 1000):
        pass
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(sampler) > 1.9e6
    assert peak < 10e6  # their places would take 250 MB


@pytest.mark.process
def test_without_torch_the_import_says_what_to_install():
    code = "import sys; sys.modules['torch'] = None; import batchlaw.torch_support"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "batchlaw.torch_support must have PyTorch" in done.stderr.splitlines()[-1]
