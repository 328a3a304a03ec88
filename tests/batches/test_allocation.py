import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import batchlaw as bl
import reference
from batchlaw.batches.effective import fluctuation_factors
from refused import refused

weights = st.lists(st.floats(1e-6, 1.0) | st.just(0.0), min_size=2, max_size=4)


@given(st.lists(st.tuples(st.floats(1e-3, 1.0), st.integers(1, 9)), min_size=1, max_size=8))
def test_effective_summaries_match_their_definitions(pairs):
    kappa, batches = map(list, zip(*pairs, strict=True))
    ours = bl.effective_batch(kappa, batches)
    assert ours == pytest.approx(reference.effective_batch(kappa, batches), rel=1e-12)
    assert min(batches) * (1 - 1e-12) <= ours <= max(batches) * (1 + 1e-12)
    for replacement in (False, True):
        ours = bl.effective_fluctuation(kappa, batches, 10, replacement=replacement)
        expected = reference.effective_fluctuation(kappa, batches, 10, replacement)
        assert ours == pytest.approx(expected, rel=1e-12)


def test_full_batches_have_no_fluctuation_without_replacement_only():
    assert bl.effective_fluctuation([1.0, 2.0], [8, 8], 8) == 0.0
    assert bl.effective_fluctuation([1.0, 2.0], [8, 8], 8, replacement=True) == 1 / 8


def test_many_schedules_are_scored_at_once():
    kappa, batches = [1.0, 2.0], [[1, 2], [3, 4]]
    expected = [reference.effective_batch(kappa, row) for row in batches]
    np.testing.assert_allclose(bl.effective_batch(kappa, batches), expected)
    assert fluctuation_factors(batches, 2, 8).shape == (2, 2)


@given(weights, st.integers(0, 9), st.integers(1, 3), st.integers(1, 2), st.booleans())
def test_greedy_is_optimal_among_all_integer_schedules(kappa, extra, low, unit, bounded):
    low_unit = -(-low // unit) * unit
    budget = (len(kappa) * low_unit // unit + extra) * unit
    high = low_unit + (extra + 1) // 2 * unit if bounded else budget
    if not len(kappa) * low_unit <= budget <= len(kappa) * high:
        return
    batches = bl.allocate(
        kappa, budget, min_batch=low, max_batch=high if bounded else None, multiple_of=unit
    )
    assert batches.sum() == budget
    assert batches.min() >= low
    assert batches.max() <= high
    assert (batches % unit == 0).all()
    best = reference.best_integers(kappa, budget, low, high, unit)
    assert (np.array(kappa) / batches).sum() == pytest.approx(best, rel=1e-12)


@given(
    st.lists(st.floats(1e-12, 1.0) | st.just(0.0), min_size=1, max_size=30).filter(any),
    st.floats(1.0, 50.0),
    st.integers(1, 4),
    st.floats(1.0, 60.0),
)
def test_continuous_satisfies_the_kkt_conditions(kappa, mean, low, room):
    kappa = np.array(kappa)
    high = int(np.ceil(low * room))
    budget = int(np.clip(mean * kappa.size, kappa.size * low, kappa.size * high))
    batches = bl.allocate(kappa, budget, method="continuous", min_batch=low, max_batch=high)
    assert batches.sum() == pytest.approx(budget, rel=1e-12)
    assert (batches >= low).all()
    assert (batches <= high).all()
    gain = kappa / batches**2  # what one more sample is worth
    can_give, can_take = batches > low * (1 + 1e-9), batches < high * (1 - 1e-9)
    if can_give.any() and can_take.any():
        assert gain[can_give].min() >= gain[can_take].max() * (1 - 1e-9)


def test_continuous_without_active_bounds_is_the_square_root_rule():
    """Corollary 1: B_t = N sqrt(kappa_t) / sum_s sqrt(kappa_s)."""
    kappa = np.array([1.0, 4.0, 9.0])
    np.testing.assert_allclose(bl.allocate(kappa, 60, method="continuous"), [10, 20, 30])


@given(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=12), st.integers(0, 60))
def test_paper_rounding_matches_its_description(sqrt_kappa, extra):
    budget = len(sqrt_kappa) + extra
    ours = bl.allocate(np.square(sqrt_kappa), budget, method="paper")
    expected = reference.paper_rounding(sqrt_kappa, budget)
    assert ours.sum() == budget
    # Rounding may break a tie of remainders either way; nothing else may differ.
    assert np.abs(ours - expected).sum() <= 2


def test_paper_rounding_redistributes_what_exceeds_the_cap():
    batches = bl.allocate([100.0, 1.0, 1.0], 12, method="paper", max_batch=5)
    assert batches.tolist() == [5, 4, 3]


def test_ties_go_to_the_earliest_step():
    for method in ("paper", "greedy"):
        assert bl.allocate(np.ones(4), 6, method=method).tolist() == [2, 2, 1, 1]


def test_greedy_is_between_continuous_and_paper(paper):
    kappa = bl.influence(paper.eigenvalues, bl.wsd(64, 0.05))
    cost = {
        m: (kappa / bl.allocate(kappa, 512, method=m)).sum()
        for m in ("continuous", "greedy", "paper")
    }
    assert cost["continuous"] <= cost["greedy"] <= cost["paper"]
    assert cost["paper"] / cost["continuous"] == pytest.approx(1.014, abs=0.002)


def _heap_greedy(kappa, budget, low, high):
    """One sample at a time to the largest gain, ties to the earliest step."""
    batches = [low] * len(kappa)
    heap = [(-k / (low * (low + 1)), i) for i, k in enumerate(kappa) if low < high]
    heapq.heapify(heap)
    for _ in range(budget - low * len(kappa)):
        _, i = heapq.heappop(heap)
        batches[i] += 1
        if batches[i] < high:
            heapq.heappush(heap, (-kappa[i] / (batches[i] * (batches[i] + 1)), i))
    return batches


def test_greedy_hands_out_samples_as_a_heap_would():
    rng = np.random.default_rng(1)
    for _ in range(300):
        T, low = rng.integers(2, 30), rng.integers(1, 4)
        kappa = rng.random(T) ** rng.integers(1, 8)
        high = low + rng.integers(1, 40)
        budget = rng.integers(T * low, T * high + 1)
        ours = bl.allocate(kappa, budget, min_batch=low, max_batch=high)
        expected = _heap_greedy(kappa, budget, low, high)
        assert (kappa / ours).sum() <= (kappa / expected).sum() * (1 + 1e-13)


def test_samples_beyond_the_cap_go_to_the_earliest_idle_steps():
    batches = bl.allocate([1.0, 0.0, 0.0, 0.0], 12, max_batch=4)
    assert batches.tolist() == [4, 3, 3, 2]


def test_paper_rounding_keeps_minimum_and_multiples():
    batches = bl.allocate([9.0, 1.0, 4.0], 48, method="paper", min_batch=5, multiple_of=4)
    assert batches.tolist() == [20, 12, 16]
    assert bl.allocate([9.0, 1.0, 4.0], 12, method="paper", min_batch=4).tolist() == [4, 4, 4]


@pytest.mark.parametrize("method", ["greedy", "paper"])
@pytest.mark.parametrize("budget", [2**53, 4070870283425532, 10**15 + 7])
def test_the_largest_budgets_are_spent_exactly(method, budget):
    """T x budget exceeds 2^63 here, and quotas are rounded."""
    for kappa in (np.ones(2048), np.random.default_rng(0).random(7)):
        assert int(bl.allocate(kappa, budget, method=method).sum()) == budget


def test_a_million_steps_and_fifteen_trillion_samples_are_allocated():
    kappa = np.random.default_rng(0).random(10**6)
    assert int(bl.allocate(kappa, 15 * 10**12).sum()) == 15 * 10**12


def test_huge_influence_does_not_overflow():
    assert bl.effective_batch([1e308, 1e308], [1, 2]) == pytest.approx(4 / 3)


def test_a_huge_budget_is_spent_exactly_and_costs_as_many_rounds_as_a_small_one(monkeypatch):
    from batchlaw.batches import allocation

    kappa = np.random.default_rng(0).random(1000) ** 4
    rounds = {}
    real = np.clip

    for budget in (2000, 10**12):
        calls = 0

        def counted(*args, **kwargs):
            nonlocal calls
            calls += 1
            return real(*args, **kwargs)

        monkeypatch.setattr(allocation.np, "clip", counted)
        batches = bl.allocate(kappa, budget)
        assert batches.sum() == budget
        rounds[budget] = calls
    monkeypatch.undo()
    # Bisection of the logarithm of the gain: precision, not budget, sets the number of rounds.
    assert rounds[10**12] < 3 * rounds[2000] + 20
    ideal = bl.allocate(kappa, 10**12, method="continuous")
    assert np.abs(batches - ideal).max() < 2


def test_families_sum_to_the_budget_and_have_their_shapes(paper):
    kappa = bl.influence(paper.eigenvalues, bl.wsd(64, 0.05))
    families = bl.schedule_families(kappa, 512)
    assert list(families) == [
        "oracle",
        "constant",
        "early_large_late_small",
        "early_small_late_large",
    ]
    assert all(batches.sum() == 512 for batches in families.values())
    assert (families["constant"] == 8).all()
    assert (np.diff(families["early_large_late_small"]) <= 0).all()
    assert (families["early_small_late_large"] == families["early_large_late_small"][::-1]).all()


def test_an_uneven_constant_schedule_puts_the_extra_samples_first(paper):
    """At N = 96 the order of the extra samples changes sum kappa/B by 46 %."""
    kappa = bl.influence(paper.eigenvalues, bl.wsd(64, 0.05))
    constant = bl.schedule_families(kappa, 96)["constant"]
    assert (kappa / constant).sum() == pytest.approx(0.01008, abs=5e-6)
    assert (kappa / constant[::-1]).sum() == pytest.approx(0.01473, abs=5e-6)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"budget": 2}, "budget"),
        ({"budget": 14, "multiple_of": 4}, "budget"),
        ({"budget": 10, "max_batch": 3}, "budget"),
        ({"budget": 10, "min_batch": 4}, "budget"),
        ({"budget": 9, "min_batch": 4, "max_batch": 2}, "min_batch"),
        ({"budget": 16, "min_batch": 5, "max_batch": 7, "multiple_of": 8}, "multiple_of"),
        ({"budget": 9, "min_batch": 0}, "min_batch"),
        ({"budget": 9, "method": "best"}, "method"),
        ({"budget": 9, "method": "continuous", "multiple_of": 3}, "multiple_of"),
        ({"budget": -9}, "budget"),
    ],
)
def test_a_bad_allocation_is_named(arguments, field):
    with refused(field):
        bl.allocate([1.0, 2.0, 3.0], **arguments)


def test_bad_influence_and_batches_are_named():
    with refused("influence"):
        bl.allocate([1.0, -1.0], 4)
    with refused("influence"):
        bl.effective_batch([0.0], [1])
    with refused("batches"):
        bl.effective_batch([1.0, 1.0], [1, 2, 3])
    with refused("batches"):
        bl.effective_fluctuation([1.0, 1.0], [1, 9], 8)
    with refused("samples"):
        bl.effective_fluctuation([1.0], [1], 1)
