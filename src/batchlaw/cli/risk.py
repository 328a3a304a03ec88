"""``batchlaw risk``: the decomposition of a schedule's risk, without Monte Carlo."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from cyclopts import Parameter

from batchlaw._check import FloatArray
from batchlaw._files import OutputDirectory
from batchlaw._version import __version__
from batchlaw.allocation import effective_batch, effective_fluctuation
from batchlaw.cli.inputs import BatchOptions, ProblemOptions, RateOptions, Whole, parse_average
from batchlaw.cli.table import text_table
from batchlaw.exact.multi_pass import gradient_descent_risk, multi_pass_risk
from batchlaw.exact.one_pass import one_pass_risk
from batchlaw.influence_weights import influence
from batchlaw.risk import Risk

PARTS = {
    "one-pass": ("bias", "variance", "variance_noise", "variance_covariance"),
    "multi-pass": ("bias", "variance", "fluctuation"),
    "gd": ("bias", "variance"),
}


def risk(
    *,
    problem: ProblemOptions = ProblemOptions(),  # noqa: B008 - frozen
    rates: RateOptions = RateOptions(),  # noqa: B008
    batches: BatchOptions = BatchOptions(),  # noqa: B008
    procedure: Literal["one-pass", "multi-pass", "gd"] = "one-pass",
    samples: Whole | None = None,
    replacement: Annotated[bool, Parameter(negative=())] = False,
    method: Literal["mean-field", "simple"] | None = None,
    momentum: float = 0.0,
    nesterov: Annotated[bool, Parameter(negative=())] = False,
    pytorch: Annotated[bool, Parameter(negative=())] = False,
    average: str = "last",
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    trajectory: Path | None = None,
) -> int:
    """Print the expected risk of batch schedules in its parts, exactly or with its error.

    Parameters
    ----------
    procedure
        one-pass is exact. multi-pass and gd are expectations over datasets of ``samples``,
        an approximation that says how good it is.
    samples
        N of multi-pass and gd; 512 by default.
    replacement
        Multi-pass batches with replacement.
    method
        Of multi-pass: mean-field (all parts, the default), or simple (the fluctuation alone,
        cheaper).
    momentum
        beta of one-pass SGD.
    nesterov
        Nesterov's momentum instead of heavy ball.
    pytorch
        The velocity is multiplied by the current rate, as in torch.optim.SGD.
    average
        last, tail:SHARE or ema:DECAY: what is read out of the iterates.
    json_
        Print JSON instead of a table.
    trajectory
        Directory for trajectory.csv and trajectory.png: the one-pass risk after every step.
    """
    at, gamma = problem.build(), rates.build()
    reuse = procedure == "multi-pass"
    if procedure != "one-pass" and (momentum or average != "last" or trajectory):
        raise ValueError("momentum, average and trajectory exist for procedure one-pass only")
    if (nesterov or pytorch) and not momentum:
        raise ValueError("nesterov and pytorch are forms of momentum, which is zero")
    if not reuse and (replacement or method):
        raise ValueError("replacement and method exist for procedure multi-pass only")
    if procedure == "one-pass" and samples is not None:
        raise ValueError("samples exists for procedures multi-pass and gd; one pass has a budget")
    N = 512 if samples is None else samples
    options: dict[str, Any] = {"momentum": momentum, "nesterov": nesterov, "pytorch": pytorch}
    weights = parse_average(average, gamma.size)
    kappa = influence(at, gamma, average=weights, **options)
    schedules: dict[str, FloatArray] = {"full batch": np.zeros(0)}
    if procedure != "gd":
        schedules = batches.build(kappa, N if reuse and not replacement else None)
    sizes = list(schedules.values())
    effective: dict[str, FloatArray] = {}
    if procedure == "gd":
        result = gradient_descent_risk(at, gamma, samples=N)
    elif reuse:
        how = (method or "mean-field").replace("-", "_")
        result = multi_pass_risk(at, gamma, sizes, samples=N, replacement=replacement, method=how)
        rho = effective_fluctuation(kappa, sizes, N, replacement=replacement)
        effective["rho_eff"] = np.asarray(rho)
    else:
        result = one_pass_risk(at, gamma, sizes, average=weights, **options)
        effective["b_eff"] = np.asarray(effective_batch(kappa, sizes))
    rows = _rows(list(schedules), result, PARTS[procedure], effective)
    setting = {"problem": asdict(problem), "rates": asdict(rates), "batches": asdict(batches)}
    if trajectory is not None:
        path = one_pass_risk(at, gamma, sizes, average=weights, trajectory=True, **options)
        _write_trajectory(OutputDirectory(trajectory), list(schedules), gamma, path)
    if json_:
        print(json.dumps(_document(result, rows, setting), indent=2))
    else:
        print(_report(result, rows, gamma))
    return 0


def _rows(
    names: Sequence[str], result: Risk, terms: Sequence[str], effective: dict[str, FloatArray]
) -> list[dict[str, Any]]:
    order = ("total", "irreducible", "approximation", *terms)
    parts = {part: np.asarray(getattr(result, part)) for part in order}
    many = {
        name: np.broadcast_to(values, len(names)) for name, values in (effective | parts).items()
    }
    return [
        {"schedule": name} | {part: float(values[row]) for part, values in many.items()}
        for row, name in enumerate(names)
    ]


def _report(result: Risk, rows: list[dict[str, Any]], gamma: FloatArray) -> str:
    header = [name.replace("_", " ") for name in rows[0]]
    cells = [
        [row["schedule"], *(f"{value:.8g}" for value in list(row.values())[1:])] for row in rows
    ]
    lines = [
        f"{result.procedure}, {gamma.size} steps, peak rate {gamma.max():.6g}; {result.method}",
        "",
        text_table(header, cells),
    ]
    if np.any(result.uncertainty):
        error = float(np.max(result.uncertainty))
        said = "unknown" if np.isinf(error) else f"{error:.1e}"
        lines.append(f"\nestimated relative error of the excess: {said}")
    lines += [f"\nnote: {note}" for note in result.notes]
    return "\n".join(lines)


def _document(result: Risk, rows: list[dict[str, Any]], setting: dict[str, Any]) -> dict[str, Any]:
    error = float(np.max(result.uncertainty))
    return {
        "procedure": result.procedure,
        "method": result.method,
        "schedules": rows,
        "relative_error_of_excess": None if np.isinf(error) else error,
        "notes": list(result.notes),
        "setting": setting,
        "batchlaw": __version__,
    }


def _write_trajectory(
    output: OutputDirectory, names: Sequence[str], gamma: FloatArray, path: Risk
) -> None:
    from batchlaw import plots

    parts = ("bias", "variance_noise", "variance_covariance", "total")
    curves = {part: np.asarray(getattr(path, part)) for part in parts}
    rows = [
        {"schedule": name, "step": t, "rate": gamma[t - 1] if t else 0.0}
        | {part: values[row, t] for part, values in curves.items()}
        for row, name in enumerate(names)
        for t in range(gamma.size + 1)
    ]
    with output.transaction() as files:
        files.csv("trajectory.csv", rows)
        figure = plots.trajectory_figure(names, curves["bias"], np.asarray(path.variance))
        plots.save(figure, files.path("trajectory.png"))
