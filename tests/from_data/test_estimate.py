import csv
import json
import sys
import zipfile

import numpy as np
import pytest
from scipy.optimize import nnls

import batchlaw as bl
from batchlaw.faces.cli import main
from batchlaw.from_data import (
    data_kernels,
    estimate_spectrum,
    fit_tail,
    influence_band,
    plug_in_regret,
    population_spectrum,
    sample_eigenvalues,
)
from batchlaw.from_data.feature_file import read_features
from batchlaw.from_data.survival import KnotTable
from batchlaw.from_data.tail import effective_dimensions
from batchlaw.theory.bounds import empirical_kernels
from refused import refused

RATES = bl.wsd(64, 0.05)
FLAT = np.full(64, 1 / 64)
SPIKE = np.append(0.5, np.full(99, 0.5 / 99))


def _gaussian(mu, n, seed):
    return np.random.default_rng(seed).standard_normal((n, mu.size)) * np.sqrt(mu)


def _rotation(size, seed=3):
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))[0]


@pytest.mark.parametrize(("mu", "n"), [(FLAT, 32), (SPIKE, 64), (np.arange(1.0, 401) ** -1.5, 200)])
def test_the_fitted_masses_meet_the_conditions_of_their_least_squares(mu, n, monkeypatch):
    """The Karush-Kuhn-Tucker conditions, with columns of length one."""
    problems = []

    def recorded(design, values):
        x, distance = nnls(design, values)
        problems.append((design, values, x.copy()))
        return x, distance

    monkeypatch.setattr("scipy.optimize.nnls", recorded)
    estimate_spectrum(_gaussian(mu, n, 0))
    ((design, values, x),) = problems
    unit = design / np.linalg.norm(design, axis=0)
    slope = unit.T @ (design @ x - values) / np.abs(unit.T @ values).max()
    assert (x >= 0.0).all()
    assert (slope >= -1e-12).all()
    assert np.abs(slope[x > 0.0]).max() < 1e-12


def test_a_few_rows_of_very_many_columns_give_the_second_moment():
    """tr(Sigma^2), and with it the level of kappa: 20 rows leave an error of a tenth."""
    spectrum = estimate_spectrum(_gaussian(np.ones(50_000), 20, 0))
    assert spectrum.multiplicity @ spectrum.eigenvalues**2 == pytest.approx(50_000, rel=0.3)


@pytest.mark.parametrize("shape", [(20, 50), (50, 20)])
def test_sample_eigenvalues_are_those_of_the_covariance(shape):
    Z = np.random.default_rng(1).standard_normal(shape)
    nu, samples = sample_eigenvalues(Z)
    expected = np.linalg.svd(Z, compute_uv=False) ** 2 / shape[0]
    assert samples == shape[0]
    np.testing.assert_allclose(nu, expected, rtol=1e-10)
    nu, samples = sample_eigenvalues(Z + 3.0, centre=True)
    covariance = np.linalg.eigvalsh(np.cov(Z.T))[::-1][: nu.size]
    assert samples == shape[0] - 1
    np.testing.assert_allclose(nu, covariance, rtol=1e-9)


@pytest.mark.parametrize(
    ("mu", "n", "rates"), [(FLAT, 32, RATES), (FLAT, 256, RATES), (SPIKE, 64, bl.wsd(512, 0.05))]
)
def test_the_correction_removes_most_of_the_bias_of_the_influence(mu, n, rates):
    truth = bl.influence(mu, rates)
    logs = []
    for seed in range(12):
        spectrum = estimate_spectrum(_gaussian(mu, n, seed))
        plain = bl.influence(spectrum.sample_eigenvalues, rates)
        logs.append(np.log([bl.influence(spectrum, rates) / truth, plain / truth]))
    # At the first step: late steps depend mostly on the largest eigenvalue, whose bias is small.
    corrected, plain = np.mean(logs, axis=0)[:, 0]
    assert abs(corrected) < 0.3 * abs(plain)
    assert abs(corrected) < 0.1


def test_many_samples_give_the_population_back():
    mu = np.array([1.0, 0.5, 0.5, 0.1, 0.1, 0.1])
    spectrum = estimate_spectrum(_gaussian(mu, 200_000, 0))
    np.testing.assert_allclose(spectrum.each(), mu, rtol=0.15)
    np.testing.assert_allclose(bl.influence(spectrum, RATES), bl.influence(mu, RATES), rtol=0.02)
    assert spectrum.participation == pytest.approx(mu.sum() ** 2 / (mu**2).sum(), rel=0.02)


@pytest.mark.parametrize("n", [16, 64, 300])
def test_trace_and_number_of_directions_are_kept(n):
    spectrum = estimate_spectrum(_gaussian(SPIKE, n, 4))
    assert spectrum.multiplicity @ spectrum.eigenvalues == pytest.approx(spectrum.trace, rel=1e-9)
    assert spectrum.multiplicity.sum() <= SPIKE.size
    assert spectrum.eigenvalues[0] <= spectrum.sample_eigenvalues[0] * (1 + 1e-9)
    assert (np.diff(spectrum.eigenvalues) < 0.0).all()


def test_more_columns_than_rows_and_fewer_agree_on_the_same_population():
    truth = bl.influence(FLAT, RATES)
    for n in (40, 64, 90):
        logs = [
            np.log(bl.influence(estimate_spectrum(_gaussian(FLAT, n, seed)), RATES) / truth)
            for seed in range(10)
        ]
        assert abs(np.mean(logs)) < 0.08


def test_columns_of_zeros_change_nothing_but_the_count():
    Z = _gaussian(SPIKE, 40, 5)
    wide = np.hstack([Z, np.zeros((40, 7))])
    spectrum = estimate_spectrum(wide, allow_constant=True)
    assert spectrum.dim == 107
    np.testing.assert_allclose(
        bl.influence(spectrum, RATES), bl.influence(estimate_spectrum(Z), RATES), rtol=0.05
    )


@pytest.mark.parametrize("n", [20, 150])
def test_rotations_and_signs_of_the_features_do_not_matter(n):
    Z = _gaussian(SPIKE, n, 6)
    turned = (Z @ _rotation(SPIKE.size)) * np.random.default_rng(1).choice([-1.0, 1.0], (n, 1))
    band, turned_band = (influence_band(x, RATES, draws=9) for x in (Z, turned))
    for name in ("influence", "lower", "upper", "shape_lower", "shape_upper"):
        np.testing.assert_allclose(getattr(band, name), getattr(turned_band, name), rtol=1e-5)


@pytest.mark.parametrize("scale", [2.0**40, 3e-7, 1e150])
def test_scaling_features_and_rates_together_changes_nothing(scale):
    Z = _gaussian(FLAT, 24, 7)
    band = influence_band(Z, RATES, draws=9)
    scaled = influence_band(Z * scale, RATES / scale**2, draws=9)
    for name in ("influence", "lower", "upper", "shape_lower", "shape_upper"):
        np.testing.assert_allclose(getattr(band, name), getattr(scaled, name), rtol=1e-6)


def test_the_tables_give_influence_and_its_derivative(paper):
    table = KnotTable.of(RATES, 4.0)
    mu = paper.eigenvalues
    knots = table.knots.astype(int)
    exact = bl.influence(mu, RATES)[knots] / RATES[knots] ** 2
    np.testing.assert_allclose(np.exp(table.log_influence(mu, np.ones(64))), exact, rtol=1e-4)
    value, slope = table.values_and_slopes(np.array([0.3, 0.1]))
    up, _ = table.values_and_slopes(np.array([0.3, 0.1]) * 1.1)
    down, _ = table.values_and_slopes(np.array([0.3, 0.1]) * 0.9)
    np.testing.assert_allclose(
        slope, (up - down) / (0.2 * np.array([0.3, 0.1])), rtol=0.03, atol=0.02 * value.max()
    )


def _coverage(mu, n, datasets, draws=39):
    kappa = bl.influence(mu, RATES)
    shape = np.sqrt(kappa) / np.sqrt(kappa).mean()
    hits = []
    for seed in range(datasets):
        band = influence_band(_gaussian(mu, n, (9, seed)), RATES, draws=draws, seed=seed)
        level = (band.lower <= kappa) & (kappa <= band.upper)
        hits.append(
            [level.mean(), ((band.shape_lower <= shape) & (shape <= band.shape_upper)).mean()]
        )
    return np.mean(hits, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize(("spectrum", "n"), [("paper", 32), ("flat", 24), ("spike", 32)])
def test_the_band_covers_the_truth_at_its_rate(paper, spectrum, n):
    mu = {"paper": paper.eigenvalues, "flat": FLAT, "spike": SPIKE}[spectrum]
    share = _coverage(mu, n, 30)
    # Steps of one dataset are covered together: 30 datasets have a standard error of 0.055 at 0.9.
    assert (np.abs(share - 0.9) < 2.5 * 0.055).all()


def test_a_band_without_draws_is_normal_around_the_estimate():
    Z = _gaussian(FLAT, 400, 1)
    band = influence_band(Z, RATES, draws=0)
    np.testing.assert_allclose(band.lower * band.upper, band.influence**2, rtol=1e-9)
    assert band.draws == 0
    wider = influence_band(Z, RATES, draws=0, level=0.99)
    assert (wider.upper > band.upper).all()


def test_a_band_without_draws_is_as_wide_as_estimates_spread(paper):
    bands = [
        influence_band(_gaussian(paper.eigenvalues, 400, (5, seed)), RATES, draws=0)
        for seed in range(60)
    ]
    for middle, upper in (("influence", "upper"), ("shape", "shape_upper")):
        logs = np.log([getattr(band, middle) for band in bands])
        width = np.log([getattr(band, upper) for band in bands]) - logs
        # The spread over 60 datasets is known to a tenth; bands are the widest among near steps.
        ratio = width.mean(axis=0) / (1.645 * logs.std(axis=0, ddof=1))
        assert 0.85 < np.median(ratio) < 1.3


def test_bounds_are_the_widest_among_steps_that_eigenvalues_cannot_tell_apart():
    table = KnotTable.of(RATES, 4.0)
    rng = np.random.default_rng(0)
    low, high = -rng.uniform(size=(2, table.knots.size)), rng.uniform(size=(2, table.knots.size))
    lowest, highest = table.widest(low, high, 32)
    after = [RATES[int(t) + 1 :].sum() for t in table.knots]
    factor = np.exp(0.5 * np.sqrt(2.0 / 32))
    for k, rest in enumerate(after):
        alike = [
            max(rest, other) <= factor * min(rest, other) * (1 + 1e-9) + 1e-12 for other in after
        ]
        np.testing.assert_array_equal(lowest[:, k], low[:, alike].min(axis=1))
        np.testing.assert_array_equal(highest[:, k], high[:, alike].max(axis=1))


def test_rates_that_vanish_have_no_influence_and_no_band():
    rates = np.append(RATES, 0.0)
    band = influence_band(_gaussian(FLAT, 20, 1), rates, draws=9)
    assert band.influence[-1] == band.lower[-1] == band.upper[-1] == 0.0


def test_effective_dimensions_are_the_populations():
    q = np.geomspace(0.05, 0.002, 5)
    exact = np.array([(SPIKE / (SPIKE + x)).sum() for x in q])
    squared = np.array([((SPIKE / (SPIKE + x)) ** 2).sum() for x in q])
    for n in (60, 400):
        estimate = np.mean(
            [
                effective_dimensions(*sample_eigenvalues(_gaussian(SPIKE, n, s)), q)
                for s in range(20)
            ],
            axis=0,
        )
        np.testing.assert_allclose(estimate[0], exact, rtol=0.05)
        np.testing.assert_allclose(estimate[1], squared, rtol=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("a", [1.5, 2.0, 3.0])
def test_the_exponent_of_a_power_law_is_in_its_interval(a):
    mu = np.arange(1.0, 401.0) ** -a
    tails = [fit_tail(_gaussian(mu, 80, (2, seed))) for seed in range(16)]
    inside = [low <= a <= high for low, high in (tail.interval for tail in tails)]
    assert np.mean(inside) >= 0.8
    assert np.mean([tail.exponent for tail in tails]) == pytest.approx(a, rel=0.03)
    assert all(tail.settled for tail in tails)
    assert all(tail.ranks[0] < tail.ranks[1] <= 40.1 for tail in tails)


def test_a_bent_spectrum_is_not_settled():
    i = np.arange(1.0, 1001.0)
    mu = np.where(i < 12.0, i**-1.2, 12.0**-1.2 * (i / 12.0) ** -5.0)
    assert not fit_tail(_gaussian(mu, 400, 0)).settled


def test_a_flat_spectrum_has_no_exponent():
    with refused("features"):
        fit_tail(_gaussian(FLAT, 64, 0))


def test_data_kernels_are_those_of_the_appendix(paper):
    Z = _gaussian(paper.eigenvalues, 48, 2)
    known = empirical_kernels(paper.eigenvalues, Z, RATES)
    turned = data_kernels(Z @ _rotation(64), RATES)
    np.testing.assert_allclose(turned.plain, known.plain, rtol=1e-9)
    np.testing.assert_allclose(turned.square, known.square, rtol=1e-9)
    np.testing.assert_allclose(turned.cross, known.square, rtol=1e-6)
    others = [_gaussian(paper.eigenvalues, 32, (3, seed)) for seed in range(40)]
    cross = np.array([data_kernels(Z, RATES, other).cross for other in others])
    error = cross.std(axis=0, ddof=1) / np.sqrt(len(others))
    assert (np.abs(cross.mean(axis=0) - known.cross) < 4 * error).all()


@pytest.mark.parametrize(("steps", "targets"), [(64, (0.98, 0.995)), (512, (0.98, 0.995))])
def test_pilot_schedules_reach_the_efficiency_that_was_asked_for(paper, steps, targets):
    rates = bl.wsd(steps, 0.05)
    for row, target in zip(
        plug_in_regret(paper.eigenvalues, rates, 8 * steps, (16, 64)), targets, strict=True
    ):
        assert row.efficiency.size == 50
        assert row.mean > target
        assert row.efficiency.max() <= 1.0 + 1e-12
        assert row.worst <= row.mean


def test_the_correction_pays_where_the_spectrum_is_flat():
    rates = bl.wsd(512, 0.05)
    options = {"samples": (16,), "pilots": 10}
    (corrected,) = plug_in_regret(FLAT, rates, 4096, **options)
    (plain,) = plug_in_regret(FLAT, rates, 4096, method="plug-in", **options)
    assert corrected.mean > 0.999 > 0.96 > plain.mean


BAD = {
    "one row": (np.ones((1, 3)), "at least 8 rows, got 1"),
    "a vector": (np.ones(30), "must be a table, one row per sample, got shape (30,)"),
    "nothing": (np.ones((0, 3)), "must be a table"),
    "nan": (np.where(np.eye(9) > 0, np.nan, 1.0), "must be finite, got nan in row 1, column 1"),
    "constant": (np.eye(9)[:, :1] * [[1.0, 0.0]] + [[0, 2.0]], "1 of 2 are constant"),
    "huge": (np.eye(9) * 1e200, "squares that floating point can hold"),
    "tiny": (np.eye(9) * 1e-200, "squares that floating point can hold"),
    "words": ([["a", "b"]] * 9, "must be an array of numbers"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_features_are_refused_in_one_line(name):
    features, sentence = BAD[name]
    with refused("features") as error:
        influence_band(features, RATES)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_other_bad_arguments_are_named():
    Z = _gaussian(FLAT, 20, 0)
    with refused("rates", bl.Unstable):
        influence_band(Z, np.full(5, 1000.0), draws=0)
    with refused("rates", bl.Unstable):
        influence_band(Z * 1e18, RATES, draws=0)
    with refused("level"):
        influence_band(Z, RATES, level=1.5)
    with refused("eigenvalues"):
        population_spectrum(np.ones(5), 4, 10)
    with refused("features"):
        estimate_spectrum(np.zeros((9, 2)), allow_constant=True)
    with refused("features"):
        estimate_spectrum(np.ones((9, 2)), allow_constant=True, centre=True)
    with refused("held_out"):
        data_kernels(Z, RATES, np.ones((5, 2)))
    with refused("method"):
        plug_in_regret(FLAT, RATES, 512, method="guess")


# The command line.


@pytest.fixture
def table(tmp_path, paper):
    Z = _gaussian(paper.eigenvalues, 40, 8)
    np.savez(tmp_path / "z.npz", features=Z)
    header = ",".join([*(f"x{k}" for k in range(64)), "label"])
    both = np.column_stack([Z, np.arange(40)])
    np.savetxt(tmp_path / "z.csv", both, delimiter=",", header=header, comments="", fmt="%.17g")
    return Z, tmp_path


def test_files_of_every_kind_give_the_same_features(table):
    Z, folder = table
    np.save(folder / "z.npy", Z)
    assert (read_features(folder / "z.npz") == Z).all()
    assert (read_features(folder / "z.npy") == Z).all()
    assert (read_features(folder / "z.csv", drop=["label"]) == Z).all()
    np.savetxt(folder / "bare.csv", Z, delimiter=",", fmt="%.17g")
    assert (read_features(folder / "bare.csv") == Z).all()


@pytest.mark.parametrize(
    "first",
    ["", "\n", "\ufeff", "\ufeffa,b,c\n", '"a","b\nb","c"\n', ",x,1\n", "0,1,2\n"],
)
def test_no_row_of_a_csv_file_is_lost_or_made_up(tmp_path, first):
    (tmp_path / "z.csv").write_text(first + '1,2,3\n"4",5,-6e1\n', encoding="utf-8")
    np.testing.assert_array_equal(read_features(tmp_path / "z.csv"), [[1, 2, 3], [4, 5, -60]])


def test_parquet_is_read_with_pyarrow(table):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    Z, folder = table
    columns = {f"x{k}": Z[:, k] for k in range(64)} | {"label": np.arange(40)}
    parquet.write_table(pa.table(columns), folder / "z.parquet")
    assert (read_features(folder / "z.parquet", drop=["label"]) == Z).all()
    for values in (["1", "2"], pa.array([1, 2], pa.timestamp("s"))):
        parquet.write_table(pa.table({"word": values}), folder / "words.parquet")
        with refused("drop"):
            read_features(folder / "words.parquet")
    twice = pa.table([[1.0, 2.0], [3.0, 4.0]], names=["a", "a"])
    parquet.write_table(twice, folder / "twice.parquet")
    with refused("path"):
        read_features(folder / "twice.parquet")


def test_parquet_without_pyarrow_is_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    (tmp_path / "z.parquet").write_bytes(b"")
    assert main(["estimate", str(tmp_path / "z.parquet")]) == 2
    assert capsys.readouterr().err == (
        "batchlaw: parquet files need pyarrow: pip install 'batchlaw[parquet]'\n"
    )


def test_estimate_prints_a_summary_and_a_plan_that_runs(table, capsys):
    _, folder = table
    out = folder / "out"
    options = ["--steps", "100", "--draws", "19", "--output-dir", str(out)]
    assert main(["estimate", str(folder / "z.npz"), *options]) == 0
    text = capsys.readouterr().out
    assert "40 samples, 64 features" in text
    assert "eigenvalues fall as i^-" in text
    assert "90 % band, each step" in text
    command = text.split("A plan for this spectrum:\n\n    batchlaw ")[1].split()
    assert command[-4:] == ["--steps", "100", "--budget", "800"]
    assert main(command) == 0
    assert "noise left in the final risk" in capsys.readouterr().out
    with (out / "influence.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 100
    assert all(float(r["lower"]) < float(r["upper"]) for r in rows)


def test_estimate_json_is_what_python_gives(table, capsys):
    Z, folder = table
    options = ["--drop", "label, x63", "--draws", "9", "--json"]
    assert main(["estimate", str(folder / "z.csv"), *options]) == 0
    document = json.loads(capsys.readouterr().out)
    band = influence_band(Z[:, :63], RATES, draws=9)
    assert [row["upper"] for row in document["influence"]] == band.upper.tolist()
    assert document["trace"] == band.spectrum.trace
    assert document["tail"]["exponent"] == fit_tail(Z[:, :63]).exponent


def _refusal(capsys, *arguments):
    assert main(["estimate", *map(str, arguments)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_bad_files_are_one_line(table, capsys):
    _, folder = table
    (folder / "gap.csv").write_text("a,b\n1,2\n3,\n")
    (folder / "ragged.csv").write_text("a,b\n1,2\n3,4,5\n")
    (folder / "broken.npz").write_bytes(b"PK\x03\x04 no")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b\n")
    (folder / "semicolons.csv").write_text("1;2\n3;4\n")
    (folder / "wide.csv").write_text(f"{'a' * 200_000},b\n1,2\n")
    (folder / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00\x10\x00{this is bad hdr")
    np.save(folder / "objects.npy", np.array([[1, "b"]] * 9, dtype=object), allow_pickle=True)
    with zipfile.ZipFile(folder / "text.npz", "w") as archive:
        archive.writestr("a.txt", "no array")
    np.savez(folder / "two.npz", x=np.ones((9, 2)), y=np.ones(9))
    assert "must end in one of .npz" in _refusal(capsys, folder / "z.txt")
    assert "No such file" in _refusal(capsys, folder / "none.csv")
    assert "every cell, got '' in line 3, column 2" in _refusal(capsys, folder / "gap.csv")
    assert "every cell, got 3 cells in line 3" in _refusal(capsys, folder / "ragged.csv")
    assert "must have at least one row" in _refusal(capsys, folder / "empty.csv")
    assert "got a header alone" in _refusal(capsys, folder / "header.csv")
    assert "separate cells by commas, got '1;2'" in _refusal(capsys, folder / "semicolons.csv")
    assert "must be a CSV file of text" in _refusal(capsys, folder / "wide.csv")
    assert "it is broken" in _refusal(capsys, folder / "broken.npz")
    assert "it is broken" in _refusal(capsys, folder / "broken.npy")
    assert "objects.npy must hold a table of numbers" in _refusal(capsys, folder / "objects.npy")
    assert "must have an array, got none" in _refusal(capsys, folder / "text.npz")
    assert "has 2 arrays, name one of x, y" in _refusal(capsys, folder / "two.npz")
    assert "got shape (9,)" in _refusal(capsys, folder / "two.npz", "--array", "y")
    assert "must have a column q to drop" in _refusal(capsys, folder / "z.csv", "--drop", "q")
    assert "2 of 2 are constant" in _refusal(capsys, folder / "two.npz", "--array", "x")
