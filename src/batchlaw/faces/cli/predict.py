"""``batchlaw predict``: the loss of a training run by a law that was fitted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import numpy as np
from cyclopts import Parameter

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import OutputDirectory, is_number, read_schedule
from batchlaw._base.version import __version__
from batchlaw.design.logs_by_words import stated_rate_words, stated_rates
from batchlaw.faces.cli.check import read_plan
from batchlaw.faces.cli.inputs import Options, option_class
from batchlaw.faces.cli.law_file import read_law
from batchlaw.from_data.laws.training_law import LEVEL, Prediction

CONSTANT = "constant"

if TYPE_CHECKING:
    StatedRates: TypeAlias = Options
else:
    StatedRates = option_class("StatedRates", stated_rate_words())


def predict(
    law: Path,
    /,
    *,
    rates: StatedRates = StatedRates(),  # noqa: B008 - frozen
    batch: float | None = None,
    batches: Path | None = None,
    plan: Path | None = None,
    against: str | None = None,
    level: float = LEVEL,
    output: Path | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> int:
    """Predict the loss of a run with other rates and batches, with a band.

    Prints the final loss, and where the schedule leaves what the runs of the law have shown.

    Parameters
    ----------
    law
        JSON file of a law, from fit.
    batch
        Samples of every update.
    batches
        Instead, a CSV file with a column batch, one row per step.
    plan
        JSON file of a plan, instead of rates and batches.
    against
        Also the difference in the final loss to other batches at the same rates: "constant" (as
        many samples in all), a batch, or a CSV file with a column batch.
    level
        Probability that the bands claim.
    output
        CSV file for the loss along the run: step, loss, low, high.
    json_
        Print JSON instead of text.
    """
    fitted = read_law(law)
    target = None if output is None else OutputDirectory(output.parent)
    gamma, sizes = _schedule(rates, batch, batches, plan)
    prediction = fitted.predict(gamma, sizes, level=level)
    change = None
    if against is not None:
        other = _other(against, sizes)
        change = fitted.difference((gamma, sizes), (gamma, other), level=level)
    if target is not None and output is not None:
        with target.transaction() as files:
            files.csv(output.name, _rows(prediction))
    if json_:
        print(json.dumps(_document(prediction, change, against), indent=2))
        return 0
    loss, low, high = prediction.final
    print(f"final loss {loss:.4f} ({low:.4f} to {high:.4f}, {level:.0%})")
    if change is not None:
        print(f"against {against}: {_change(change, level)}")
    for note in (*prediction.notes, *(f"not identified: {n}" for n in fitted.unidentified)):
        print(f"note: {note}")
    if output is not None:
        print(f"the loss along the run is in {output}")
    return 0


def _schedule(
    rates: Options, batch: float | None, batches: Path | None, plan: Path | None
) -> tuple[FloatArray, FloatArray]:
    if plan is not None:
        given = {
            **rates.words(),
            **{n: v for n, v in (("batch", batch), ("batches", batches)) if v},
        }
        for name in given:
            raise InputError(name, f"must be left out with {arg('plan')}, which brings its own")
        made = read_plan(plan)
        return made.rates, made.batches.astype(float)
    gamma = stated_rates(rates.words())
    if (batch is None) == (batches is None):
        subject = f"either {arg('batch')} or {arg('batches')}"
        raise InputError("batch", "must be given", subject=subject)
    if batches is not None:
        sizes = read_schedule(batches, "batch")
        checks.same_length("batches", sizes.size, gamma.size, "updates")
        return gamma, sizes
    return gamma, np.full(gamma.size, checks.real("batch", batch, above=0.0))


def _other(against: str, sizes: FloatArray) -> FloatArray:
    """The batches that a schedule is compared with."""
    if against == CONSTANT:
        return np.full(sizes.size, sizes.mean())
    if is_number(against):
        return np.full(sizes.size, checks.real("against", against, above=0.0))
    if not Path(against).suffix:
        raise InputError("against", f'must be "{CONSTANT}", a batch or a CSV file', repr(against))
    other = read_schedule(Path(against), "batch")
    checks.same_length("against", other.size, sizes.size, "updates")
    return other


def _change(change: tuple[float, float, float], level: float) -> str:
    value, low, high = change
    if low == high == 0.0:
        return "the same batches"
    text = f"{value:+.4f} in the final loss ({low:+.4f} to {high:+.4f}, {level:.0%})"
    return text if not low <= 0.0 <= high else f"{text}: no difference that is known"


def _rows(prediction: Prediction) -> list[dict[str, Any]]:
    columns = (prediction.steps, prediction.losses, prediction.low, prediction.high)
    return [
        {"step": int(step), "loss": float(loss), "low": float(low), "high": float(high)}
        for step, loss, low, high in zip(*columns, strict=True)
    ]


def _document(
    prediction: Prediction, change: tuple[float, float, float] | None, against: str | None
) -> dict[str, Any]:
    return {
        "final": list(prediction.final),
        "against": None if change is None else {"batches": against, "difference": list(change)},
        "level": prediction.level,
        "notes": list(prediction.notes),
        "curve": _rows(prediction),
        "batchlaw": __version__,
    }
