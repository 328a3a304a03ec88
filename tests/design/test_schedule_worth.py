"""What a schedule is worth in the whole risk, at one setting and on a map."""

import csv
import itertools
import json

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.design import Worth, worth, worth_map
from batchlaw.faces.cli import main
from batchlaw.plots import save, worth_figure
from refused import refused

PAIRS = [(2.0, 1.5), (1.5, 2.2)]
SIGMAS = [0.5, 2.0]
STEPS = [20, 80, 300]
BATCHES = [1, 2, 8, 32]


@pytest.fixture(scope="module")
def small_map():
    return worth_map(PAIRS, SIGMAS, STEPS, BATCHES, peak=0.2, sketch=10**4)


def test_a_cell_of_the_map_is_the_optimum_against_the_constant_batch(small_map):
    """Through the exact solvers themselves, on 400 nodes in place of the map's 64."""
    problem = bl.Problem.power_law_nodes(1.5, 2.2, 10**4, kind="sketch", sigma=2.0)
    rates = bl.wsd(300, 0.2)
    best = bl.optimal_batches(problem, rates, 2400, integer=False)
    optimum, constant = (bl.one_pass_risk(problem, rates, b) for b in (best.batches, 8))
    cell = 1, 1, 2, 2
    for found, term in (
        (small_map.total, "total"),
        (small_map.excess, "excess"),
        (small_map.noise, "variance"),
    ):
        change = getattr(optimum, term) / getattr(constant, term) - 1.0
        assert change < -1e-3
        assert found[cell] == pytest.approx(change, rel=1e-4)
    assert small_map.noise_share[cell] == pytest.approx(constant.variance / constant.excess, 1e-4)


def test_no_whole_schedule_gains_more(paper):
    rates = bl.wsd(64, 0.05)
    found = worth(paper, rates, 512)
    whole = bl.optimal_batches(paper, rates, 512).batches
    schedules = bl.schedule_families(bl.influence(paper, rates), 512) | {"whole": whole}
    risk = bl.one_pass_risk(paper, rates, schedules)
    for term, bound in (("total", found.total), ("excess", found.excess)):
        changes = [risk.ratio(term, name, "constant")[0] - 1.0 for name in schedules]
        assert min(changes) == pytest.approx(bound, rel=0.01)
        assert min(changes) > bound
    assert found.noise == pytest.approx(0.67959 - 1.0, abs=5e-6)


def test_the_excess_changes_by_the_noises_share_of_it(small_map):
    np.testing.assert_allclose(
        small_map.excess, small_map.noise_share * small_map.noise, rtol=1e-9, atol=1e-14
    )


def test_single_samples_leave_nothing_to_choose(small_map):
    assert np.abs(small_map.excess[..., 0]).max() < 1e-12
    assert (small_map.excess[..., 1:] < -1e-5).all()


def test_a_problem_without_noise_gains_nothing():
    still = bl.Problem.from_spectrum([1.0, 0.5], [0.0, 0.0], 0.0)
    assert worth(still, bl.wsd(20, 0.1), 80) == Worth(0.0, 0.0, 0.0, 0.0)


def test_limits_and_rules_reach_the_optimum(paper):
    rates = bl.wsd(32, 0.2)
    free = worth(paper, rates, 256)
    assert free.noise < worth(paper, rates, 256, min_batch=4).noise < 0.0
    assert free.noise < worth(paper, rates, 256, max_batch=10).noise < 0.0
    averaged = worth(paper, rates, 256, rule=bl.sgd(average="tail:0.5"))
    best = bl.optimal_batches(paper, rates, 256, integer=False, average="tail:0.5")
    constant = bl.one_pass_risk(paper, rates, 8, average="tail:0.5")
    assert averaged.noise == pytest.approx(best.variance / constant.variance - 1.0, rel=1e-9)


def test_the_map_does_not_depend_on_threads(small_map):
    alone = worth_map(PAIRS, SIGMAS, STEPS, BATCHES, peak=0.2, sketch=10**4, threads=1)
    np.testing.assert_array_equal(alone.excess, small_map.excess)


def test_progress_counts_every_setting():
    counts = []
    worth_map([(2.0, 1.5)], [1.0], [20, 40], [2, 4], peak=0.1, progress=counts.append)
    assert sum(counts) == 4


@pytest.mark.parametrize("gain", [0.01, 0.1])
def test_the_largest_batch_is_the_last_that_gains_enough(small_map, gain):
    found = small_map.largest_batch(gain)
    assert found.max() > 0
    assert found.min() == 0
    for e, s, t in itertools.product(range(2), range(2), range(3)):
        enough = [B for B, c in zip(BATCHES, small_map.excess[e, s, t], strict=True) if c <= -gain]
        assert found[e, s, t] == max(enough, default=0)


def test_bad_arguments_of_a_map_are_named(small_map):
    good = {"exponents": PAIRS, "sigmas": SIGMAS, "steps": STEPS, "batches": BATCHES, "peak": 0.2}
    for name, bad in (("exponents", []), ("sigmas", []), ("steps", [0]), ("batches", [0.5])):
        with refused(name):
            worth_map(**(good | {name: bad}))
    with refused("peak"):
        worth_map(**(good | {"peak": 0.0}))
    with refused("threads"):
        worth_map(**good, threads=0)
    with refused("gain"):
        small_map.largest_batch(0.0)


def test_the_figure_has_a_contour_where_the_map_crosses_its_level(small_map, tmp_path):
    figure = worth_figure(small_map)
    assert [axes.get_title() for axes in figure.axes] == ["a = 2, b = 1.5", "a = 1.5, b = 2.2"]
    for e, axes in enumerate(figure.axes):
        levels = [(0.01, s) for s in range(2)], [(0.1, s) for s in range(2)]
        wanted = sorted(levels[0] + levels[1], key=lambda each: each[1])
        for (gain, s), lines in zip(wanted, axes.collections, strict=True):
            points = np.concatenate([p.vertices for p in lines.get_paths()] or [np.empty((0, 2))])
            assert bool(len(points)) == bool((small_map.excess[e, s] < -gain).any())
            last = small_map.largest_batch(gain)[e, s, -1]
            end = points[points[:, 0] > 0.99 * small_map.horizons[-1], 1]
            if last and last < BATCHES[-1]:
                assert last <= end.max() < BATCHES[BATCHES.index(last) + 1]
    save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_command_names_exponents_outside_the_theory(capsys):
    options = "--sigma 1 --horizon 3:6 --points 2 --batch 1:2 --m 1e4"
    words = ["worth", *options.split()]
    assert main([*words, "--exponents", "2:2.9,2:3"]) == 0
    note = "note: outside the paper's theory, which needs B < A + 1: 2:3; "
    assert note in capsys.readouterr().out
    assert main([*words, "--exponents", "2:3", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["notes"]) == 1
    assert main([*words, "--exponents", "2:2.9"]) == 0
    assert "note" not in capsys.readouterr().out


def test_the_command_prints_and_writes_what_the_function_finds(capsys, tmp_path):
    options = "--exponents 2:1.5,1.5:2.2 --sigma 0.5,2 --horizon 4:60 --points 3 --batch 1:32"
    words = ["worth", *options.split(), "--gamma", "0.2", "--m", "1e4"]
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    steps = sorted({row["steps"] for row in document["settings"]})
    assert (steps[0], steps[-1]) == (20, 300)
    sizes = [1, 2, 4, 8, 16, 32]
    found = worth_map(PAIRS, SIGMAS, steps, sizes, peak=0.2, sketch=10**4)
    assert document["settings"] == found.rows()
    assert main([*words, "--output-dir", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.startswith("1.5, 2.2      2"))
    ends = [int(found.largest_batch(gain)[1, 1, -1]) for gain in (0.01, 0.1)]
    assert row.endswith(f"{ends[0]} / {ends[1]}")
    assert out.endswith(f"worth.csv and worth.png in {tmp_path}\n")
    with (tmp_path / "worth.csv").open() as file:
        written = list(csv.DictReader(file))
    assert [float(row["excess_change"]) for row in written] == found.excess.ravel().tolist()
    assert (tmp_path / "worth.png").stat().st_size > 10_000
