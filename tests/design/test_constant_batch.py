"""One batch size for the whole run: searches against brute force, exponents against theorem 1."""

import json
import math

import numpy as np
import pytest

import batchlaw as bl
from batchlaw.design.constant_batch import (
    best_batch,
    by_law,
    exact,
    horizon_exponent,
    largest_harmless_batch,
    noise_scale,
    reducible_curve,
    saturation,
    saturation_batch,
)
from batchlaw.design.noise_scale import noise_scales
from batchlaw.faces.cli import main
from batchlaw.plots import save, static_batch_figure
from refused import refused


@pytest.fixture(scope="module")
def smooth():
    """b > a: batches above one sample pay."""
    return bl.Problem.power_law_nodes(1.5, 2.2, 10**6, kind="sketch", nodes=64)


@pytest.fixture(scope="module")
def rough():
    """b < a: single samples are best."""
    return bl.Problem.power_law_nodes(2.0, 1.5, 10**6, kind="sketch", nodes=64)


def test_the_models_are_the_law_and_the_exact_risk(paper):
    law = bl.one_pass_law(2.0, 1.5, 64, steps=100, peak=0.1, batches=3)
    parts = by_law(2.0, 1.5, 64, 0.1)(100, 3.0)
    assert vars(parts) == pytest.approx(law.terms, rel=1e-12)
    assert by_law(2.0, 1.5, 64, 0.1, bias=2.0, variance=3.0)(100, 3.0).reducible == pytest.approx(
        law.terms["approximation"] + 2.0 * law.terms["bias"] + 3.0 * law.terms["variance"]
    )
    risk = bl.one_pass_risk(paper, bl.wsd(100, 0.1), np.full(100, 2.5))
    parts = exact(paper, 0.1)(100, 2.5)
    assert (parts.approximation, parts.bias, parts.variance) == (
        paper.approximation,
        risk.bias,
        risk.variance,
    )
    assert parts.reducible == pytest.approx(risk.total - 1.0)


@pytest.mark.parametrize("peak", [0.05, 0.5])
def test_the_best_batch_is_best_among_all_horizons(smooth, peak):
    for model in (exact(smooth, peak), by_law(1.5, 2.2, 10**6, peak)):
        values = {T: model(T, 1000 / T).reducible for T in range(10, 1001)}
        best = best_batch(model, 1000)
        assert best.parts.reducible == pytest.approx(min(values.values()), rel=2e-3)
        assert best.batch == 1000 / best.steps
        harmless = largest_harmless_batch(model, 1000, share=0.2)
        allowed = [T for T, value in values.items() if value <= 1.2 * min(values.values())]
        assert harmless.steps == pytest.approx(min(allowed), rel=0.01, abs=2)
        assert harmless.batch >= best.batch


def test_a_curve_holds_its_best(smooth):
    curve = reducible_curve(exact(smooth, 0.5), 1000, points=9)
    assert curve.batches[0] == 100.0
    assert curve.batches[-1] == 1.0
    assert curve.best.parts.reducible <= curve.reducible.min()


@pytest.mark.parametrize("share", [0.1, 0.5])
def test_the_saturation_batch_is_where_the_variance_is_a_share_of_the_rest(smooth, share):
    model = exact(smooth, 0.2)
    B = saturation_batch(model, 500, share=share)
    parts = model(500, B)
    assert parts.variance == pytest.approx(share * (parts.approximation + parts.bias), rel=1e-11)
    law = by_law(1.5, 2.2, 10**6, 0.2)
    time = 500 / math.log(500)
    rest = 10 ** (6 * -1.2) + 100 ** (-1.2 / 1.5)
    expected = (0.2 * time) ** (1 / 1.5) / time / (share * rest)
    assert saturation_batch(law, 500, share=share) == pytest.approx(expected, rel=1e-11)


def test_one_sample_may_already_be_enough(rough):
    assert saturation_batch(exact(rough, 0.05), 1000) == 1.0


def test_theorem_1_single_samples_are_best_for_rough_targets(rough):
    assert horizon_exponent(2.0, 1.5) == 1.0
    for model in (exact(rough, 0.05), by_law(2.0, 1.5, 10**6, 0.05)):
        for N in (1000, 30_000):
            assert best_batch(model, N).steps == N


def test_theorem_1_the_best_horizon_of_smooth_targets_grows_like_n_to_the_a_over_b(smooth):
    """Static consequence (i): measured on the exact risk, a decade and a half of N."""
    assert horizon_exponent(1.5, 2.2) == pytest.approx(1.5 / 2.2)
    for model in (exact(smooth, 0.05), by_law(1.5, 2.2, 10**6, 0.05)):
        small, large = (best_batch(model, N, points=15).steps for N in (15_000, 450_000))
        slope = math.log(large / small) / math.log(30)
        assert slope == pytest.approx(1.5 / 2.2, abs=0.02)


def test_theorem_1_the_saturation_batch_grows_like_t_to_the_b_over_a_minus_one(smooth):
    """Static consequence (ii); log T to the power 1 - 1/a comes on top."""
    model = exact(smooth, 0.05)
    found = [saturation_batch(model, T) / math.log(T) ** (1 - 1 / 1.5) for T in (3000, 100_000)]
    slope = math.log(found[1] / found[0]) / math.log(100 / 3)
    assert slope == pytest.approx(2.2 / 1.5 - 1, abs=0.02)


def test_the_noise_scale_is_not_the_saturation_batch(smooth):
    """It grows like T^(1+(b-1)/a): faster by T^(2-1/a), up to logarithms."""
    rows = [saturation(smooth, by_law(1.5, 2.2, 10**6, 0.05), T, 0.05) for T in (300, 3000, 30_000)]
    final = np.array([row.noise.final for row in rows])
    slopes = np.log10(final[1:] / final[:-1])
    assert slopes == pytest.approx([1 + 1.2 / 1.5] * 2, abs=0.1)
    ratio = [row.noise.final / row.batch for row in rows]
    assert ratio[0] > 100
    assert ratio[2] > 100 * ratio[0]
    for row in rows:
        assert row.batch_by_law == pytest.approx(row.batch, rel=0.25)


def test_the_noise_scale_is_read_before_the_last_update_and_averaged(paper):
    rates = bl.wsd(50, 0.2)
    scale = noise_scales(paper, rates)
    found = noise_scale(paper, rates)
    assert found.final == scale[-1]
    assert found.mean == pytest.approx(sum(scale * rates) / sum(rates), rel=1e-12)


def test_bad_arguments_of_static_batches_are_named(rough):
    model = exact(rough, 0.05)
    with refused("samples"):
        best_batch(model, 9)
    with refused("share"):
        saturation_batch(model, 100, share=0)
    with refused("share"):
        largest_harmless_batch(model, 100, share=-1)
    with refused("points"):
        best_batch(model, 100, points=1)
    with refused("b"):
        by_law(2.0, 1.0, 64, 0.05)
    with refused("rates", bl.Unstable):
        best_batch(exact(rough, 3.0), 100)


def test_the_figure_marks_every_minimum(smooth, tmp_path):
    model, law = exact(smooth, 0.5), by_law(1.5, 2.2, 10**6, 0.5)
    curves = [reducible_curve(model, N, points=6) for N in (200, 800)]
    rows = [saturation(smooth, law, T, 0.5) for T in (20, 80)]
    figure = static_batch_figure(curves, rows)
    left, right = figure.axes
    marked = [line.get_xdata()[0] for line in left.lines[1:4:2]]
    assert marked == [curve.best.batch for curve in curves]
    assert len(right.lines) == 4
    save(figure, tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 10_000


def test_the_command_prints_what_the_functions_find(capsys, tmp_path):
    options = ["--a", "1.5", "--b", "2.2", "--m", "1e4", "--samples", "2000", "--gamma", "0.2"]
    picture = tmp_path / "out.png"
    assert main(["static-batch", *options, "--json", "--plot", str(picture)]) == 0
    document = json.loads(capsys.readouterr().out)
    problem = bl.Problem.power_law_nodes(1.5, 2.2, 10**4, kind="sketch")
    best = best_batch(exact(problem, 0.2), 2000)
    assert document["exact"]["best"]["steps"] == best.steps
    assert document["exact"]["best"]["batch"] == best.batch
    assert document["saturation"]["steps"] == best.steps
    assert picture.exists()
    assert main(["static-batch", *options]) == 0
    out = capsys.readouterr().out
    assert f"{best.parts.reducible:.6g}" in out
    assert f"{best.steps} updates: variance is 0.1 of approximation + bias" in out


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: by_law(2.0, 1.5, 0, 0.05), "sketch"),
        (lambda: by_law(2.0, 1.5, "x", 0.05), "sketch"),
        (lambda: by_law(2.0, 1.5, 64, 0.05, bias=-1.0), "bias"),
        (lambda: by_law(2.0, 1.5, 64, 0.05)(1, 1.0), "steps"),
        (lambda: horizon_exponent(2.0, -1.0), "b"),
        (lambda: exact(bl.Problem.from_spectrum([1.0], [1.0], 1.0), -1.0), "peak"),
    ],
)
def test_bad_numbers_are_refused_in_one_line(call, field):
    with refused(field):
        call()


def test_a_run_without_bias_never_saturates():
    model = exact(bl.Problem.from_spectrum([1.0], [1.0], 1.0), 0.9)
    assert saturation_batch(model, 2000) == math.inf
