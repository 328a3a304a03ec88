"""read_run: a log of one training run as a ``Run``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from batchlaw._base import checks
from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError, arg
from batchlaw.from_data.logs import cleaning, names
from batchlaw.from_data.logs.cleaning import Entry
from batchlaw.from_data.logs.formats import read_table
from batchlaw.from_data.logs.table import Table, refusal
from batchlaw.from_data.run import Run
from batchlaw.schedule.update_rule import UpdateRule

UNITS = ("samples", "tokens")
# The default of ``rates``: the log's own.
LOG = "log"


def read_run(
    path: str | Path,
    *,
    format: str | None = None,
    step: str | None = None,
    loss: str | None = None,
    rates: ArrayLike | str = LOG,
    batch: ArrayLike | str | None = None,
    unit: str = "samples",
    sequence_length: int | None = None,
    steps: int | None = None,
    rule: UpdateRule | None = None,
) -> Run:
    """Read the log of one training run.

    A log has losses, rates and batches at some steps; step t is after t updates. These rules
    make a run of it, and what they did is counted in ``facts``:

    - *Rates between logged steps* lie on a straight line. At most 10 % of the run may lie between
      two logged rates.
    - *Rates before the first logged step and after the last* (a warmup that is not in the log)
      lie on the line through the two nearest logged rates, not below zero. At most 5 % of the
      run may lie there; give ``rates`` if it is more. A rate that is NaN counts as not logged.
    - *A batch* in a column stands from its step until the next logged one. If batches vary, the
      same gaps as for rates are refused.
    - *Restarts*: where the step of the losses, rates or batches falls, everything logged before
      at that step or later is left out. Of values at the same step the last one stands.
    - *Losses that are NaN or infinite* are dropped. They are refused if they are more than 10 %
      of the losses, or the last one. Gaps between losses are fine, fewer than 3 losses are not.
    - *Spikes are kept*, and counted: losses above the median of five neighbours on either side by
      6 robust standard deviations and by 2 %.
    - *A last row that breaks off*, as a killed run leaves it, is left out.

    Anything else that is wrong is refused: a broken file, a row with too many cells, a text where
    a number must be, a wrong checksum, contradictory batches.

    Parameters
    ----------
    path
        A file: CSV (separated by commas; or by semicolons or tabs, then also with decimal commas),
        JSON lines, ``trainer_state.json`` of the Hugging Face Trainer, a CSV export of one run
        from Weights & Biases, or a TensorBoard event file; or a folder with several event files of
        one run.
    format
        "csv", "jsonl", "trainer-state", "wandb" or "tensorboard"; recognised by default.
    step
        The column of the steps; by default one with a usual name (step, global_step, iteration).
        The Trainer's and TensorBoard's steps have no other name.
    loss
        The column of the losses; by default the first of the usual names with three losses,
        validation before training (eval_loss, val/loss, loss, train/loss).
    rates : (T,) array or str
        The rate of every update, as from ``bl.cosine``; or the column of the rates; "log" is
        the column with a usual name (learning_rate, lr).
    batch : float, (T,) array or str
        The batch of every update: one number, one per update, or the column of the batches; by
        default a column with a usual name (batch_size, batch).
    unit
        What batches are counted in: "samples" or "tokens".
    sequence_length
        Tokens of a sample; needed for batches in tokens, which it must divide.
    steps
        T, the number of updates; by default the length of an array of rates or batches, else the
        last step of the losses, rates and batches.
    rule
        The optimizer, such as ``bl.adam()``.

    Returns
    -------
    Run
        ``columns`` has the other columns of numbers, at the steps of the losses. ``facts`` has
        format, loss (the column), restarts, replaced (losses of restarts and repeated steps),
        dropped, spikes, truncated (rows that break off), and for rates from the log
        rates (the column), rates_interpolated and rates_extrapolated (updates).
    """
    log = _path(path)
    kind, table = read_table(log, format)
    at = _step_column(log, table, step)
    loss = _loss_column(log, table, at, loss)
    rate_column = _rate_column(log, table, rates)
    batch_column = _batch_column(log, table, batch)
    used = [name for name in (loss, rate_column, batch_column) if name]
    if len({at, *used}) <= len(used):
        twice = "step" if at in used else "loss"
        raise InputError(twice, "must be a column of its own", repr(at if at in used else loss))
    found = cleaning.entries(log, table, at, used)
    kept, restarts = cleaning.last_branch(found, used)
    values = cleaning.series(log, kept, loss)
    measured_at, losses = cleaning.finite_losses(log, loss, values)
    facts: dict[str, str | int | float] = {
        "format": kind,
        "loss": loss,
        "restarts": restarts,
        "replaced": sum(loss in entry.row for entry in found) - len(values),
        "dropped": len(values) - losses.size,
        "spikes": cleaning.spikes(losses),
        "truncated": table.truncated,
    }
    last = max(entry.step for entry in kept if any(name in entry.row for name in used))
    gamma = None if rate_column else _vector("rates", rates)
    sizes = None if batch_column else _vector("batch", batch)
    updates = _updates(steps, gamma, sizes, last)
    if gamma is None:
        logged = cleaning.series(log, kept, rate_column)
        gamma, between, beyond = cleaning.rates_of_all(log, rate_column, logged, updates)
        facts |= {"rates": rate_column}
        facts |= {"rates_interpolated": between, "rates_extrapolated": beyond}
    if sizes is None:
        logged = cleaning.series(log, kept, batch_column)
        sizes = cleaning.batches_of_all(log, batch_column, logged, updates)
    return Run(
        gamma,
        _samples(np.broadcast_to(sizes, updates), unit, sequence_length),
        measured_at,
        losses,
        rule=rule,
        columns=_columns(table, kept, {at, *used}, measured_at.tolist()),
        facts=facts,
    )


def _path(path: str | Path) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise InputError("path", "must be a path", repr(path)[:60]) from None


def _step_column(path: Path, table: Table, given: str | None) -> str:
    if given is not None and table.step and given != table.step:
        raise InputError("step", f"is {table.step!r} in this format", repr(given))
    if given is not None or table.step:
        return names.column(path, "step", given or table.step, table.names)
    found = names.usual(table.names, names.STEP)
    if not found:
        hint = "name it with step" if table.names else ""
        got = names.listed(table.names)
        raise refusal(path, "must have a column of steps", got, hint=hint)
    return found[0]


def _loss_column(path: Path, table: Table, step: str, given: str | None) -> str:
    if given is not None:
        return names.column(path, "loss", given, table.names)
    found = names.usual((name for name in table.names if name != step), names.LOSS)
    if not found:
        got = names.listed(table.names)
        raise refusal(path, "must have a column of losses", got, hint="name it with loss")
    counts = {name: sum(name in row for row in table.rows) for name in found}
    enough = [name for name in found if counts[name] >= cleaning.FEWEST_LOSSES]
    return enough[0] if enough else found[0]


def _rate_column(path: Path, table: Table, given: ArrayLike | str) -> str:
    """The column of the rates; empty where they are given as numbers."""
    if not isinstance(given, str):
        return ""
    if given != LOG:
        return names.column(path, "rates", given, table.names)
    found = names.usual(table.names, names.RATE)
    if not found:
        needed = f"must be given for {path}, whose columns are {names.listed(table.names)}"
        raise InputError("rates", needed, hint="an array, or the name of a column")
    return found[0]


def _batch_column(path: Path, table: Table, given: ArrayLike | str | None) -> str:
    """The column of the batches; empty where they are given as numbers."""
    if isinstance(given, str):
        return names.column(path, "batch", given, table.names)
    found = names.usual(table.names, names.BATCH) if given is None else [""]
    if not found:
        needed = f"must be given for {path}, whose columns are {names.listed(table.names)}"
        raise InputError("batch", needed, hint="a number, an array, or the name of a column")
    return found[0]


def _vector(name: str, given: ArrayLike | None) -> FloatArray:
    """Rates, or batches; a single batch stands for every update."""
    try:
        array = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            name, "must be numbers or the name of a column", repr(given)[:60]
        ) from None
    if name == "batch":
        return checks.vector(name, np.atleast_1d(array), positive=True)
    return checks.vector(name, array)


def _updates(
    steps: int | None, rates: FloatArray | None, batches: FloatArray | None, last: int
) -> int:
    """T: as given, or the length of what is given, or the last step."""
    if steps is not None:
        updates, argument = checks.count("steps", steps), "steps"
        if not max(last, 1) <= updates <= cleaning.MOST_UPDATES:
            needed = f"must be from the log's last step, {last}, to {cleaning.MOST_UPDATES}"
            raise InputError("steps", needed, f"{steps}")
    elif rates is not None:
        updates, argument = rates.size, "rates"
    elif batches is not None and batches.size > 1:
        updates, argument = batches.size, "batch"
    else:
        updates, argument = max(last, 1), ""
    if updates < last:
        needed = f"must have one entry for every update, of which the log has {last}"
        raise InputError(argument, needed, f"{updates}")
    for name, given in (("rates", rates), ("batch", batches)):
        if given is not None and not (name == "batch" and given.size == 1):
            checks.same_length(name, given.size, updates, "updates")
    return updates


def _samples(batches: FloatArray, unit: str, sequence_length: int | None) -> FloatArray:
    """Batches in samples."""
    if checks.choice("unit", unit, UNITS) == "samples":
        if sequence_length is not None:
            needed = f"is used with {arg('unit')} 'tokens' alone"
            raise InputError("sequence_length", needed, f"{sequence_length}")
        return batches
    if sequence_length is None:
        raise InputError("sequence_length", f"must be given with {arg('unit')} 'tokens'")
    length = checks.count("sequence_length", sequence_length)
    wrong = np.flatnonzero(batches % length)
    if wrong.size:
        needed = f"must be a multiple of {arg('sequence_length')} = {length} in tokens"
        raise InputError("batch", needed, f"{batches[wrong[0]]:g} at update {wrong[0] + 1}")
    return batches / length


def _columns(
    table: Table, kept: list[Entry], used: set[str], at: list[int]
) -> dict[str, FloatArray]:
    """The other columns that hold numbers alone, at the steps of the losses."""
    place = {step: k for k, step in enumerate(at)}
    columns = {name: np.full(len(at), np.nan) for name in table.names if name not in used}
    texts = set()
    for entry in kept:
        k = place.get(entry.step)
        for name, value in entry.row.items():
            if isinstance(value, str):
                texts.add(name)
            elif name in columns and k is not None:
                columns[name][k] = value
    return {
        name: values
        for name, values in columns.items()
        if name not in texts and not np.isnan(values).all()
    }
