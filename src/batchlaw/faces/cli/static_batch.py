"""``batchlaw static-batch``: the best constant batch size, and where a larger one saturates."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from cyclopts import Parameter

from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.design import constant_batch as questions
from batchlaw.design.by_words import problem_by_words, word
from batchlaw.design.constant_batch import BatchChoice, Model
from batchlaw.design.run_length import MIN_STEPS
from batchlaw.faces.cli.inputs import Whole
from batchlaw.faces.cli.law import LawProblem, law_words
from batchlaw.faces.cli.table import text_table
from batchlaw.model.problem import Problem

# The figure shows the risk for N divided by these, and saturation at this many horizons.
DIVISORS = (100, 10, 1)
HORIZONS = 7
# Exact risks of this many updates take seconds each.
MAX_SAMPLES = 10**7


def static_batch(
    *,
    problem: LawProblem = LawProblem(),  # noqa: B008 - frozen
    samples: Whole = 10_000,
    gamma: float = 0.05,
    share: float = 0.1,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
    plot: Path | None = None,
) -> int:
    """Print the best constant batch for N samples, by the law and from the exact risk.

    Best means the smallest reducible risk, E R_M - sigma^2: the excess and the approximation. Also
    prints the largest batch for which that is at most a share above the best, and, at the best
    horizon, the batch at which the variance is that share of approximation + bias, next to the
    gradient noise scale. Rates follow WSD.

    Parameters
    ----------
    samples
        Sample budget N; 10000 by default.
    gamma
        Peak rate; 0.05 by default.
    share
        Relative size that counts as small; 0.1 by default.
    json_
        Print JSON instead of a table.
    plot
        PNG or PDF file: reducible risk against B for N/100, N/10 and N, and saturation against T.
    """
    if plot is not None and plot.suffix not in (".png", ".pdf"):
        raise InputError("plot", "must end in .png or .pdf", repr(str(plot)))
    if samples > MAX_SAMPLES:
        raise InputError(
            "samples", f"must be at most {MAX_SAMPLES:g} for exact risks", f"{samples}"
        )
    output = None if plot is None else OutputDirectory(plot.parent)
    words = law_words(problem)
    instance = problem_by_words(words)
    a, b, sketch = (float(word(words, name)) for name in ("a", "b", "m"))
    models = {
        "law": questions.by_law(a, b, sketch, gamma),
        "exact": questions.exact(instance, gamma),
    }
    rows = {name: _answers(model, samples, share) for name, model in models.items()}
    steps = rows["exact"]["best"].steps
    saturation = questions.saturation(instance, models["law"], steps, gamma, share=share)
    if plot is not None and output is not None:
        with output.transaction() as files:
            _draw(files.path(plot.name), instance, models, samples, gamma, share)
    if json_:
        document = {name: {k: asdict(v) for k, v in row.items()} for name, row in rows.items()}
        print(
            json.dumps(document | {"saturation": asdict(saturation)} | _setting(instance), indent=2)
        )
        return 0
    cells = [
        [f"{what}, {name}", f"{c.steps}", f"{c.batch:.4g}", f"{c.parts.reducible:.6g}"]
        for name, row in rows.items()
        for what, c in row.items()
    ]
    print(f"{samples} samples, gamma = {gamma:g}; {instance.described('exact')}\n")
    print(text_table(["constant batch", "updates", "batch", "risk - sigma^2"], cells))
    print(
        f"\n{steps} updates: variance is {share:g} of approximation + bias from a batch of "
        f"{saturation.batch:.4g} (law {saturation.batch_by_law:.4g});\nthe gradient noise scale is "
        f"{saturation.noise.final:.4g} at the last update, {saturation.noise.mean:.4g} weighted by "
        "the rates"
    )
    return 0


def _answers(model: Model, samples: int, share: float) -> dict[str, BatchChoice]:
    best = questions.best_batch(model, samples)
    harmless = questions.largest_harmless_batch(model, samples, share=share, best=best)
    return {"best": best, f"within {share:.0%} of the best": harmless}


def _setting(problem: Problem) -> dict[str, Any]:
    return {"method": problem.described("exact"), "batchlaw": __version__}


def _draw(
    path: Path, problem: Problem, models: dict[str, Model], samples: int, gamma: float, share: float
) -> None:
    from batchlaw import plots

    sizes = [samples // divisor for divisor in DIVISORS if samples // divisor >= 10 * MIN_STEPS]
    curves = [questions.reducible_curve(models["exact"], N) for N in sizes or [samples]]
    horizons = np.unique(np.geomspace(MIN_STEPS, min(samples, 10**5), HORIZONS).astype(int))
    rows = [
        questions.saturation(problem, models["law"], int(T), gamma, share=share) for T in horizons
    ]
    plots.save(plots.static_batch_figure(curves, rows), path)
