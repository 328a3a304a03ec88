"""The file of a sweep: which cells it describes, and what is refused."""

import itertools
import math
import tracemalloc
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchlaw.evidence.sweep.design import parse_design, read_design
from batchlaw.faces.cli import main
from refused import refused

DRAWN = ("random", "sobol")
ENDS = st.tuples(
    st.floats(1e-6, 1e6, allow_subnormal=False), st.floats(1.0001, 1e6, allow_subnormal=False)
).map(lambda pair: (pair[0], pair[0] * pair[1]))


def _drawn(kind, count, seed=0):
    return parse_design(f"""
        [design]
        kind = "{kind}"
        count = {count}
        seed = {seed}
        [problem]
        m = {{from = 4, to = 64, scale = "log"}}
        [rates]
        gamma = {{from = 0.01, to = 0.3, scale = "log"}}
        warmup = {{from = 1, to = 5}}
        stable = {{from = 0.2, to = 0.7}}
        [batches]
        kind = ["oracle", "constant", "greedy"]
    """)


@given(
    axes=st.tuples(
        st.lists(st.integers(1, 10**6), min_size=1, max_size=4, unique=True),
        st.lists(st.floats(0.0, 10.0), min_size=1, max_size=4, unique=True),
        st.lists(st.sampled_from(["oracle", "constant", "greedy"]), min_size=1, unique=True),
    )
)
def test_the_cells_of_a_grid_are_the_product_of_its_lists(axes):
    steps, gamma, kinds = axes
    text = f"[rates]\nsteps = {steps}\ngamma = {gamma}\n[batches]\nkind = {kinds}\nbudget = 9\n"
    design = parse_design(text)
    cells = [(cell["steps"], cell["gamma"], cell["batches"]) for cell in design.cells()]
    assert cells == list(itertools.product(*axes))
    assert len(design) == len(cells)
    assert all(cell["budget"] == 9 and cell["sweep"] == 1 for cell in design.cells())


@given(ends=ENDS, count=st.integers(2, 9), scale=st.sampled_from(["linear", "log"]))
def test_a_range_of_a_grid_goes_from_end_to_end_in_even_steps(ends, count, scale):
    low, high = ends
    text = f"[rates]\ngamma = {{from = {low!r}, to = {high!r}, count = {count}, scale = '{scale}'}}"
    values = [cell["gamma"] for cell in parse_design(text).cells()]
    assert (values[0], values[-1], len(values)) == (low, high, count)
    moved = [math.log(value) for value in values] if scale == "log" else values
    steps = [after - before for before, after in itertools.pairwise(moved)]
    assert steps == pytest.approx([(moved[-1] - moved[0]) / (count - 1)] * (count - 1), rel=1e-6)


def test_whole_numbers_stay_whole_and_come_once():
    design = parse_design("[rates]\nsteps = {from = 16, to = 64, count = 3, scale = 'log'}")
    assert [cell["steps"] for cell in design.cells()] == [16, 32, 64]
    design = parse_design("[rates]\nsteps = {from = 1, to = 4, count = 20}")
    assert [cell["steps"] for cell in design.cells()] == [1, 2, 3, 4]
    # An integer warmup counts steps, a float is a share of them.
    for ends, values in (("from = 2, to = 6", [2, 4, 6]), ("from = 0, to = 0.5", [0, 0.25, 0.5])):
        design = parse_design(f"[rates]\nwarmup = {{{ends}, count = 3}}")
        warmups = [cell["warmup"] for cell in design.cells()]
        assert warmups == values
        assert {type(value) for value in warmups} == {type(values[1])}
    assert {type(cell["m"]) for cell in _drawn("random", 9).cells()} == {int}
    cells = parse_design("[problem]\nm = [8.0, inf]\n[rates]\nwarmup = [1, 1.0]").cells()
    assert [(cell["m"], repr(cell["warmup"])) for cell in cells] == [
        *((8, text) for text in ("1", "1.0")),
        *(("inf", text) for text in ("1", "1.0")),
    ]


@pytest.mark.parametrize("kind", DRAWN)
@given(ends=ENDS, scale=st.sampled_from(["linear", "log"]), seed=st.integers(0, 2**40))
def test_every_drawn_point_lies_in_its_range(kind, ends, scale, seed):
    text = f"[design]\nkind = '{kind}'\ncount = 20\nseed = {seed}\n[rates]\n"
    text += f"gamma = {{from = {ends[0]!r}, to = {ends[1]!r}, scale = '{scale}'}}\n"
    text += "steps = {from = 3, to = 9}\nwarmup = [1, 5]"
    cells = list(parse_design(text).cells())
    assert len(cells) == 20
    for cell in cells:
        assert ends[0] <= cell["gamma"] <= ends[1]
        assert cell["steps"] in range(3, 10)
        assert cell["warmup"] in (1, 5)


@pytest.mark.parametrize("kind", DRAWN)
@pytest.mark.parametrize("longer", [13, 1024, 3000])
def test_a_longer_design_begins_with_the_shorter_one(kind, longer):
    cells = list(_drawn(kind, longer).cells())
    assert len(cells) == longer
    assert cells == list(_drawn(kind, longer).cells())
    assert cells[:12] == list(_drawn(kind, 12).cells())
    assert cells[:12] != list(_drawn(kind, 12, seed=1).cells())


def test_sobol_points_are_spread_more_evenly_than_random_ones():
    counts = []
    for kind in DRAWN:
        points = [cell["stable"] for cell in _drawn(kind, 256).cells()]
        boxes = [sum(0.2 + k / 128 <= x < 0.2 + (k + 1) / 128 for x in points) for k in range(64)]
        counts.append(boxes)
    assert max(counts[0]) > 6
    assert set(counts[1]) <= {3, 4, 5}


@pytest.mark.parametrize("kind", ["grid", *DRAWN])
def test_a_million_cells_take_little_memory(kind):
    if kind == "grid":
        axes = "\n".join(f"{name} = {{from = 1, to = 100, count = 100}}" for name in "abm")
        design = parse_design(f"[problem]\n{axes}")
    else:
        design = _drawn(kind, 10**6)
        next(design.cells())  # imports the generators
    tracemalloc.start()
    first = list(islice(design.cells(), 3000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(design) == 10**6
    assert len(first) == 3000
    assert peak < 8e6


def test_a_file_without_lists_is_one_cell():
    assert list(parse_design("[rates]\nsteps = 32").cells()) == [{"sweep": 1, "steps": 32}]
    assert list(parse_design("").cells()) == [{"sweep": 1}]


SMALL = "[problem]\nkind = 'power-law'\nd = 50\nm = 4\n"
REFUSED = [
    ("[grid]\nx = 1", "section"),
    ("steps = 3", "section"),
    ("rates = 3", "[rates]"),
    ("[[rates]]\nsteps = 3", "[rates]"),
    ("[rates]\nstep = 3", "rates.step"),
    ("[rates]\nrates = 'wsd'", "rates.rates"),
    ("[design]\nnumber = 3", "design.number"),
    ("[rates]\nsteps = 3.5", "rates.steps"),
    ("[rates]\nsteps = '3'", "rates.steps"),
    ("[rates]\nsteps = true", "rates.steps"),
    ("[rates]\nsteps = -3", "rates.steps"),
    ("[rates]\ngamma = nan", "rates.gamma"),
    ("[rates]\ngamma = 2020-01-01", "rates.gamma"),
    ("[rates]\nkind = 3", "rates.kind"),
    ("[problem]\nprior = 1", "problem.prior"),
    ("[rates]\nsteps = []", "rates.steps"),
    ("[rates]\nsteps = [[3]]", "rates.steps"),
    ("[rates]\nsteps = [3, 4, 3.0]", "rates.steps"),
    ("[rates]\nkind = ['wsd', 'wsd']", "rates.kind"),
    ("[rates]\ngamma = {from = 1, to = 1, count = 3}", "rates.gamma"),
    ("[rates]\ngamma = {from = 2, to = 1, count = 3}", "rates.gamma"),
    ("[rates]\ngamma = {to = 1, count = 3}", "rates.gamma"),
    ("[rates]\ngamma = {from = 1, to = 2}", "rates.gamma.count"),
    ("[rates]\ngamma = {from = 1, to = 2, count = 1}", "rates.gamma.count"),
    ("[rates]\ngamma = {from = 1, to = 2, step = 1}", "rates.gamma.step"),
    (
        "[rates]\ngamma = {from = 0, to = 2, count = 3, scale = 'log'}",
        "rates.gamma",
    ),
    ("[rates]\ngamma = {from = 1, to = 2, count = 3, scale = 'ln'}", "rates.gamma.scale"),
    ("[rates]\nkind = {from = 'a', to = 'b', count = 3}", "rates.kind"),
    ("[problem]\nm = {from = 1, to = inf, count = 3}", "problem.m"),
    ("[design]\nkind = 'cube'", "design.kind"),
    ("[design]\nkind = ['grid']", "design.kind"),
    ("[design]\ncount = 3", "design.count"),
    ("[design]\nseed = 3", "design.seed"),
    ("[design]\nkind = 'random'\ncount = 3", "design.kind"),
    ("[design]\nkind = 'random'\n[rates]\nsteps = [3, 4]", "design.count"),
    (
        "[design]\nkind = 'sobol'\ncount = 4\nseed = [1, 2]\n[rates]\nsteps = [3, 4]",
        "design.seed",
    ),
    (
        "[design]\nkind = 'random'\ncount = 4\n[rates]\nsteps = {from = 1, to = 9, count = 3}",
        "rates.steps.count",
    ),
    ("[rates\nsteps = 3", "grid"),
    ("not a design", "grid"),
    (f"{SMALL}[rates]\nkind = 'cosine'\ndecay = 'linear'", "rates.decay"),
    (f"{SMALL}[rates]\nkind = 'rates.csv'", "rates.kind"),
    (f"{SMALL}[batches]\nkind = 'oracle,constant'", "batches.kind"),
    (f"{SMALL}[batches]\nbudget = 640\nmean_batch = 3", "batches.mean_batch"),
    (f"{SMALL}[batches]\nmean_batch = 0", "batches.mean_batch"),
    (f"{SMALL}[solver]\nrepetitions = 3", "solver.repetitions"),
    (f"{SMALL}[solver]\ndata_seed = [1, 2]", "solver.data_seed"),
    (f"{SMALL}[solver]\nkind = 'guess'", "solver.kind"),
    (
        f"{SMALL}[solver]\nprocedure = 'multi-pass'\nkind = ['exact', 'simulated']\nmomentum = 0.5",
        "solver.kind",
    ),
    (f"{SMALL}[solver]\nsamples = 64", "solver.samples"),
    (f"{SMALL}[solver]\nprocedure = ['one-pass', 'gd']\naverage = 'half'", "solver.average"),
    ("[problem]\nkind = 'truncation'\nseed = 3", "problem.seed"),
    ("[problem]\nkind = 'mu.csv'", "problem.kind"),
]


@pytest.mark.parametrize(("text", "field"), REFUSED)
def test_a_bad_file_is_refused_in_one_line_that_names_it(text, field, tmp_path):
    path = tmp_path / "grid.toml"
    path.write_text(text)
    with refused(field) as caught:
        read_design(path)
    assert caught.value.where == str(path)
    message = str(caught.value)
    assert "\n" not in message
    assert "--" not in message


def test_the_command_refuses_a_bad_file_before_it_creates_a_store(tmp_path, capsys):
    (tmp_path / "list.toml").write_text(REFUSED[0][0])
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "good.toml").write_text(SMALL)
    for name, options, part in (
        ("list.toml", [], "section must be one of"),
        ("bytes.toml", [], "must be a TOML file of text"),
        ("none.toml", [], "must be a readable file: No such file"),
        ("good.toml", ["--workers", "0"], "workers must be a whole number of at least 1"),
        ("good.toml", ["--export", "x.txt"], "must be a .csv or .parquet file, got 'x.txt'"),
        ("good.toml", ["--export", "/proc/none/x.csv"], "output directory must be writable"),
    ):
        store = tmp_path / "s.sqlite"
        assert main(["sweep", str(tmp_path / name), "--store", str(store), *options]) == 2
        error = capsys.readouterr().err
        assert part in error
        assert error.count("\n") == 1
        assert not store.exists()
