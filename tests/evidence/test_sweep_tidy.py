"""Tables and figures of a sweep: the same numbers, their units, and no trace of the machine."""

import csv
import json
import socket

import pytest

from batchlaw.evidence.sweep.curves import Curves, Line, curves
from batchlaw.evidence.sweep.design import parse_design
from batchlaw.evidence.sweep.figure import sweep_figure
from batchlaw.evidence.sweep.tidy import columns, export, records, unit
from batchlaw.faces.cli import main
from batchlaw.jobs.execution import execute
from batchlaw.jobs.store import DONE, Store
from batchlaw.jobs.workers import worker_threads
from batchlaw.plots import save
from refused import refused
from sweep_cells import put, root

# All kinds of columns: integers, floats, texts, an m that may be text, and refused cells.
TEXT = """
[problem]
kind = ["power-law", "paper"]
d = 60
m = [4, 6]
prior = [false, true]
[rates]
steps = 20
gamma = [0.03, 0.1, 77.0]
[solver]
kind = "simulated"
repetitions = 4
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A sweep that was run and exported, as a.csv and a.parquet."""
    pytest.importorskip("pyarrow")
    folder = tmp_path_factory.mktemp("tidy")
    (folder / "grid.toml").write_text(TEXT)
    for name in ("a.csv", "a.parquet"):
        assert _sweep(folder, "a", name) == 1
    return folder


def _sweep(folder, store, name):
    options = ["--store", folder / f"{store}.sqlite", "--workers", 1, "--pool", "threads"]
    arguments = ["sweep", folder / "grid.toml", *options, "--export", folder / name]
    return main([str(argument) for argument in arguments])


def _rows(folder):
    design = parse_design(TEXT)
    with Store(folder / "a.sqlite", read_only=True) as store:
        return list(records(store, design.cells()))


def test_a_csv_file_holds_the_same_numbers_exactly(folder):
    rows = _rows(folder)
    assert len(rows) == 24
    kinds = columns(rows)
    with (folder / "a.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert list(lines[0]) == list(kinds)
    for text, row in zip(lines, rows, strict=True):
        for name, kind in kinds.items():
            if name not in row:
                assert text[name] == ""
            elif kind is bool:
                assert text[name] == str(row[name])
            else:
                assert kind(text[name]) == row[name]
    assert {row["status"] for row in rows} == {"done", "refused"}
    assert {row["reason"][:20] for row in rows if "reason" in row} == {"peak rate 77 is unst"}
    assert kinds["total"] is kinds["total_se"] is float
    assert list(kinds)[-2:] == ["status", "reason"]


def test_a_parquet_file_holds_the_same_numbers_exactly(folder):
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "a.parquet")
    rows = _rows(folder)
    full = [{name: row.get(name) for name in columns(rows)} for row in rows]
    assert table.to_pylist() == full
    assert table.schema.field("total").metadata == {b"unit": b"squared units of the label"}
    about = json.loads(table.schema.metadata[b"batchlaw"])
    assert about["units"]["gamma"] == "1 / squared units of the features"


def test_units_and_origin_are_beside_the_table_and_nothing_of_the_machine(folder):
    about = json.loads((folder / "a.csv.json").read_text())
    assert about["rows"] == 24
    assert about["design"] == TEXT
    assert about["units"]["bias_se"] == "squared units of the label"
    assert about["units"]["m"] == ""
    assert {"batchlaw", "numerical_version", "python", "numpy"} < about.keys()
    for path in folder.glob("a.[cp]*"):
        content = path.read_bytes()
        for private in (socket.gethostname(), str(folder), folder.name, "/tmp", "/home", "/root"):
            assert private.encode() not in content, path.name


def test_every_number_of_a_sweep_has_a_unit_or_is_known_to_have_none(folder):
    pure = {"sweep", "problem", "d", "m", "prior", "solver", "status", "reason"}
    names = columns(_rows(folder))
    assert {name for name in names if not unit(name)} == pure


def test_two_runs_give_the_same_bytes(folder):
    for name in ("csv", "parquet"):
        assert _sweep(folder, "b", f"b.{name}") == 1
        assert (folder / f"a.{name}").read_bytes() == (folder / f"b.{name}").read_bytes()
        about = [(folder / f"{store}.{name}.json").read_bytes() for store in "ab"]
        assert about[0] == about[1]


def test_a_column_of_numbers_and_texts_is_texts(tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    cells = [{"m": 4, "x": 1}, {"m": "inf", "x": 0.5}]
    with Store(tmp_path / "s") as store:
        for cell in cells:
            put(store, cell, {"total": 0.1})
        export(store, lambda: iter(cells), tmp_path / "t.parquet", "")
    table = pq.read_table(tmp_path / "t.parquet").to_pydict()
    assert table["m"] == ["4", "inf"]
    assert table["x"] == [1.0, 0.5]


def test_the_store_is_not_written_over_by_its_export(tmp_path, capsys):
    grid = tmp_path / "grid.toml"
    grid.write_text('[problem]\nkind = "truncation"\nm = 4\n')
    for store in ("r.csv", "r.csv.json"):
        target = str(tmp_path / "r.csv")
        assert main(["sweep", str(grid), "--store", str(tmp_path / store), "--export", target]) == 2
        assert "--export must be another file than the store" in capsys.readouterr().err
        assert not (tmp_path / store).exists()


def test_an_empty_sweep_is_not_exported(tmp_path):
    with (
        Store(tmp_path / "s") as store,
        refused("export"),
    ):
        export(store, lambda: iter([{"k": 1}]), tmp_path / "t.csv", "")
    assert not (tmp_path / "t.csv").exists()


def test_status_counts_and_says_why(folder, capsys, monkeypatch):
    assert main(["sweep", "status", "--store", str(folder / "a.sqlite")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines if line.startswith(("done", "refus", "miss"))] == [
        ["done", "16"],
        ["refused", "8"],
        ["missing", "0"],
        *[["refused,", line.split()[1]] for line in lines if line.startswith("refused,")],
    ]
    counts = [int(line.split()[1]) for line in lines if line.startswith("refused,")]
    assert sum(counts) == 8
    assert not any("traceback" in line or line.startswith("failed") for line in lines)
    monkeypatch.chdir(folder)
    for arguments, part in (
        ([], "--store must be given unless results/sweep has one sweep, it has none"),
        (["--store", "none.sqlite"], "none.sqlite must exist to be read"),
        (["--store", "grid.toml"], "grid.toml must be a file of results"),
    ):
        assert main(["sweep", "status", *arguments]) == 2
        error = capsys.readouterr().err
        assert part in error
        assert error.count("\n") == 1


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_figure_has_the_same_bytes_each_time(folder, suffix, capsys):
    draw = ["sweep", "plot", "gamma", "total", "--by", "m", "--store", str(folder / "a.sqlite")]
    for name in "xy":
        assert main([*draw, "--output", str(folder / f"{name}.{suffix}")]) == 0
    # Two kinds of problem, with and without the prior, for each of the two m.
    assert "8 lines in " in capsys.readouterr().out
    assert (folder / f"x.{suffix}").read_bytes() == (folder / f"y.{suffix}").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["rate", "total"], "x must be one of sweep, d, steps, solver, "),
        (["gamma", "loss"], "y must be one of sweep, d, steps, solver, "),
        (["gamma", "total", "--by", "M"], "--by must be one of sweep, d, steps, "),
        (["problem", "total"], "problem and total must be numbers in the same cells"),
        (["gamma", "total", "--where", "m"], "--where must be NAME=VALUE, each name once, got 'm'"),
        (["gamma", "total", "--where", "m=4", "--where", "m=6"], "each name once, got 'm=6'"),
        (["gamma", "total", "--where", "M=4"], "--where must be one of sweep, d, steps, "),
        (["gamma", "total", "--where", "m=5"], "--where m must be one of 4, 6, got '5'"),
        (["gamma", "total", "--output", "x.jpg"], "must be a .png, .pdf or .svg file, got 'x.jpg'"),
        (["gamma", "total", "--output", "x"], "must be a .png, .pdf or .svg file, got 'x'"),
    ],
)
def test_a_bad_request_for_a_figure_is_refused_in_one_line(folder, arguments, part, capsys):
    assert main(["sweep", "plot", *arguments, "--store", str(folder / "a.sqlite")]) == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1


def test_lines_are_joined_along_a_parameter_of_a_grid_only(folder):
    with Store(folder / "a.sqlite", read_only=True) as store:
        along = curves(store, parse_design(TEXT), "gamma", "total", "m")
        assert along.joined
        assert (along.lines[0].label, along.lines[0].rest) == (
            "4",
            "problem power-law, prior False",
        )
        assert [len(line.x) for line in along.lines] == [2] * 8
        assert all(len(line.errors) == 2 for line in along.lines)
        assert along.y == "total (squared units of the label)"
        some = curves(
            store, parse_design(TEXT), "gamma", "total", None, {"m": "4.0", "prior": "False"}
        )
        assert [line.rest for line in some.lines] == ["problem power-law", "problem paper"]
        assert [line.y for line in some.lines] == [
            line.y for line in along.lines if line.label == "4" and line.rest.endswith("False")
        ]
        assert some.where == "m 4.0, prior False"
        against = curves(store, parse_design(TEXT), "b_eff", "total", "m")
        assert not against.joined
        assert [len(line.x) for line in against.lines] == [8, 8]


def test_the_legend_of_many_lines_is_beside_them(tmp_path):
    text = "[design]\nkind = 'random'\ncount = 60\n[rates]\nsteps = {from = 1, to = 9999}"
    design = parse_design(text + "\nwarmup = [" + ", ".join(map(str, range(30))) + "]")
    with Store(tmp_path / "s") as store, worker_threads(1) as workers:
        execute(store, design.cells(), _square, workers)
        drawn = curves(store, design, "steps", "root", "warmup")
        with refused("by"):
            curves(store, design, "steps", "root", "root")
        assert {store.status(cell) for cell in design.cells()} == {DONE}
    figure = sweep_figure(drawn)
    save(figure, tmp_path / "x.png")
    (legend,), (axes,) = figure.legends, figure.axes
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    assert legend.get_window_extent().x1 <= figure.bbox.x1


@pytest.mark.parametrize(
    ("x", "y", "scales"),
    [
        ([64.0, 640.0], [0.1, 0.04], ("log", "log")),
        ([64.0, 640.0], [1.5, 1.2], ("log", "linear")),
        ([64.0, 640.0], [0.1, 0.0], ("log", "linear")),
        ([64.0, 128.0], [0.1, 0.04], ("linear", "linear")),
        ([64.0, 128.0], [0.1, 0.01], ("linear", "log")),
    ],
)
def test_axes_are_logarithmic_over_a_decade_and_where_power_laws_are_straight(x, y, scales):
    line = Line(label="", rest="", x=x, y=y, errors=[])
    (axes,) = sweep_figure(Curves("x", "y", None, "", [line], joined=True)).axes
    assert (axes.get_xscale(), axes.get_yscale()) == scales


def _square(cell):
    return root({"k": cell["steps"]})
