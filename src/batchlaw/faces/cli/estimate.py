"""``batchlaw estimate``: spectrum and influence, estimated from a sample of features."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design.by_words import rates_by_words
from batchlaw.faces.cli.estimate_model import estimate_model, print_model
from batchlaw.faces.cli.inputs import Flag, RateOptions, Whole
from batchlaw.faces.cli.table import sparkline
from batchlaw.from_data import EstimatedSpectrum, InfluenceBand, Tail, fit_tail, influence_band
from batchlaw.from_data.feature_file import read_features

# The band's coverage was measured with this many samples or more (docs/estimate.md).
MIN_MEASURED_SAMPLES = 16


def estimate(
    features: Path,
    /,
    *,
    rates: RateOptions = RateOptions(),  # noqa: B008 - frozen
    array: str | None = None,
    drop: str | None = None,
    centre: Flag = False,
    allow_constant: Flag = False,
    level: float = 0.9,
    draws: Whole = 199,
    seed: Whole = 0,
    count: Whole = 50,
    kind: Literal["gauss-newton", "hessian", "gradient-covariance"] = "gauss-newton",
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    output_dir: Path | None = None,
) -> int:
    """Estimate the spectrum and the influence from features, to plan batches for your data.

    Parameters
    ----------
    features
        A .npz, .npy, .csv or .parquet file with one row per sample and one column per feature;
        or module:function, a Python function that returns a PyTorch (model, loss, data).
    array
        Name of the array in an .npz file.
    drop
        Columns that are not features, separated by commas.
    centre
        Subtract the mean of every column, as a model with an intercept does.
    allow_constant
        Accept columns with a single value.
    level
        Probability that the band covers the influence of a given step.
    draws
        Gaussian samples that calibrate the band; 0 for a normal approximation.
    seed
        Seed of those draws; for a model, of the probes that estimate its trace.
    count
        For a model: how many of the largest eigenvalues to compute.
    kind
        For a model: the matrix whose spectrum is estimated.
    json_
        Print JSON instead of text.
    output_dir
        Directory for estimate.json, spectrum.csv (for plan) and influence.csv.
    """
    gamma = rates_by_words(rates.words())
    if ":" in str(features) and not features.exists():
        if array or drop or centre or allow_constant:
            unused = {"array": array, "drop": drop, "centre": centre}
            name = next((key for key, value in unused.items() if value), "allow_constant")
            raise InputError(name, "is for files", str(features))
        print_model(*estimate_model(str(features), gamma, count, kind, seed, output_dir), json_)
        return 0
    output = None if output_dir is None else OutputDirectory(output_dir)
    dropped = [name.strip() for name in drop.split(",")] if drop else ()
    Z = read_features(features, array=array, drop=dropped)
    options = {"centre": centre, "allow_constant": allow_constant}
    band = influence_band(Z, gamma, level=level, draws=draws, seed=seed, **options)
    try:
        tail, why = fit_tail(Z, **options), ""
    except InputError as error:
        tail, why = None, str(error)
    setting = {"features": features.name, "rates": rates.words(), "seed": seed, **options}
    document = _document(band, tail, why, gamma, setting)
    if output is not None:
        _write(output, document, band, gamma)
    if json_:
        print(json.dumps(document, indent=2))
    else:
        print(_report(band, tail, why))
        if output_dir is not None:
            print(f"\nestimate.json, spectrum.csv and influence.csv in {output_dir}")
            print(f"\nA plan for this spectrum:\n\n    {_plan_command(output_dir, rates, gamma)}")
    return 0


def _report(band: InfluenceBand, tail: Tail | None, why: str) -> str:
    spectrum = band.spectrum
    top = ", ".join(f"{x:.4g}" for x in spectrum.each()[:5])
    sample_top = ", ".join(f"{x:.4g}" for x in spectrum.sample_eigenvalues[:5])
    wide = (sys.stdout.encoding or "").lower().startswith("utf")
    middle = band.influence > 0.0
    spread = [
        np.sqrt(high[middle] / low[middle])
        for low, high in ((band.lower, band.upper), (band.shape_lower, band.shape_upper))
    ]
    percent = f"{100 * band.level:g} % band"
    lines = [
        f"{spectrum.samples} samples, {spectrum.dim} features",
        f"trace {spectrum.trace:.6g}, effective ranks: {spectrum.stable_rank:.4g} "
        f"(trace / largest), {spectrum.participation:.4g} (trace^2 / trace of the square)",
        f"largest eigenvalues {top} (of the sample itself: {sample_top})",
        _tail_line(tail, why),
        "",
        f"influence {sparkline(band.influence, wide)}",
        f"batches   {sparkline(band.shape, wide)}",
        f"influence within a factor of {_range(spread[0])} ({percent}, each step)",
        f"batches over their mean within a factor of {_range(spread[1])}, from "
        f"{band.shape.min():.3g} to {band.shape.max():.3g}",
    ]
    return "\n".join([*lines, *(f"note: {text}" for text in _notes(band))])


def _range(spread: FloatArray) -> str:
    low, high = float(spread.min()), float(spread.max())
    return f"{low:.3g} to {high:.3g}"


def _tail_line(tail: Tail | None, why: str) -> str:
    if tail is None:
        return f"no exponent: {why}"
    low, high = tail.interval
    text = (
        f"eigenvalues fall as i^-{tail.exponent:.3g} (95 % interval {low:.3g} to {high:.3g}), seen "
        f"from {tail.window[0]:.3g} to {tail.window[1]:.3g}, about directions "
        f"{tail.ranks[0]:.0f} to {tail.ranks[1]:.0f}"
    )
    return text if tail.settled else f"{text}; a power law fits poorly there"


def _notes(band: InfluenceBand) -> list[str]:
    notes = []
    if band.spectrum.samples < MIN_MEASURED_SAMPLES:
        notes.append(
            f"fewer than {MIN_MEASURED_SAMPLES} samples: how often the band covers is not known"
        )
    if not band.draws:
        notes.append("the band is normal around the estimate, without draws")
    return notes


def _plan_command(directory: Path, rates: RateOptions, gamma: FloatArray) -> str:
    given = [(f"--{name.replace('_', '-')}", str(value)) for name, value in rates.words().items()]
    words = ["batchlaw", "plan", "--optimizer", "sgd", "--problem", str(directory / "spectrum.csv")]
    words += [word for pair in given for word in pair]
    return shlex.join([*words, "--budget", f"{8 * gamma.size}"])


def _document(
    band: InfluenceBand, tail: Tail | None, why: str, gamma: FloatArray, setting: dict[str, Any]
) -> dict[str, Any]:
    spectrum = band.spectrum
    return {
        "samples": spectrum.samples,
        "features": spectrum.dim,
        "trace": spectrum.trace,
        "stable_rank": spectrum.stable_rank,
        "participation": spectrum.participation,
        "eigenvalues": spectrum.eigenvalues.tolist(),
        "multiplicity": spectrum.multiplicity.tolist(),
        "sample_eigenvalues": spectrum.sample_eigenvalues.tolist(),
        "tail": why if tail is None else _finite(asdict(tail)),
        "level": band.level,
        "draws": band.draws,
        "influence": _steps(band, gamma),
        "notes": _notes(band),
        "setting": setting,
        "batchlaw": __version__,
    }


def _finite(tail: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: an open end of the interval is null."""
    low, high = tail["interval"]
    return tail | {"interval": [low, high if np.isfinite(high) else None]}


def _steps(band: InfluenceBand, gamma: FloatArray) -> list[dict[str, float]]:
    names = ("influence", "lower", "upper", "shape", "shape_lower", "shape_upper")
    columns: Sequence[FloatArray] = [getattr(band, name) for name in names]
    return [
        {"step": t + 1, "rate": float(gamma[t])}
        | {name: float(column[t]) for name, column in zip(names, columns, strict=True)}
        for t in range(gamma.size)
    ]


def _write(
    output: OutputDirectory, document: dict[str, Any], band: InfluenceBand, gamma: FloatArray
) -> None:
    with output.transaction() as files:
        files.json("estimate.json", document)
        files.csv("spectrum.csv", _spectrum_rows(band.spectrum))
        files.csv("influence.csv", _steps(band, gamma))


def _spectrum_rows(spectrum: EstimatedSpectrum) -> list[dict[str, float]]:
    """Rows that plan and risk read. Features do not determine a target: its energy is zero."""
    return [
        {"eigenvalue": float(mu), "energy": 0.0, "multiplicity": float(count)}
        for mu, count in zip(spectrum.eigenvalues, spectrum.multiplicity, strict=True)
    ]
