"""The plan as a file: for each trainer, as a table, or as a picture."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, Field

from batchlaw._base import checks
from batchlaw._base.errors import InputError, arg
from batchlaw._base.files import write_csv
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.solution import search, solve, staged_plan
from batchlaw.plans.plan import Plan
from batchlaw.plans.trainers import TRAINERS, Trainer, export


class File(NamedTuple):
    content: bytes
    media_type: str
    name: str
    warning: str = ""


class View(NamedTuple):
    """A file of the plan for people, not for a trainer."""

    title: str
    media_type: str
    name: str
    content: Callable[[Plan], bytes]


def _table(plan: Plan) -> bytes:
    table = io.StringIO()
    write_csv(table, plan.step_table())
    return table.getvalue().encode()


def _picture(plan: Plan) -> bytes:
    from batchlaw import plots

    buffer = io.BytesIO()
    plots.plan_figure(plan.rates, plan.batches).savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


VIEWS = {
    "csv": View("CSV", "text/csv", "plan.csv", _table),
    "png": View("picture", "image/png", "plan.png", _picture),
}


def titles() -> dict[str, str]:
    """Format -> display name, in the order of the page."""
    return {name: format_.title for name, format_ in (TRAINERS | VIEWS).items()}


def media_types() -> list[str]:
    """Media types of all formats."""
    return sorted({format_.media_type for format_ in (TRAINERS | VIEWS).values()})


def _known(name: str) -> str:
    return checks.choice("format", name, titles())


def _describe(schema: dict[str, Any]) -> None:
    """The page builds its buttons from this: formats in ``enum``, labels in ``x-titles``."""
    schema["enum"] = list(titles())
    schema["x-titles"] = titles()


# Evaluated when the schema is requested, so that trainers registered by then are included.
Format = Annotated[str, AfterValidator(_known), Field(json_schema_extra=_describe)]


def plan_file(setting: PageSetting, format_: str, layout: dict[str, int | None]) -> File:
    """The planned schedule as a file; ``layout`` holds what trainers need besides it."""
    unit = (layout["data_parallel"] or 1) * (layout["micro_batch"] or 1)
    if setting.multiple_of % unit:
        raise InputError(
            "multiple_of",
            f"must be a multiple of {arg('data_parallel')} x {arg('micro_batch')} = {unit}",
            f"{setting.multiple_of}",
        )
    if format_ in VIEWS:
        view = VIEWS[format_]
        return File(view.content(_plan(setting)), view.media_type, view.name)
    return _trainer_file(setting, TRAINERS[format_], layout)


def _plan(setting: PageSetting) -> Plan:
    """The plan of the view, searched for where the view has none."""
    plan = solve(setting).plan or search(setting).plan
    assert plan is not None  # a search has one, or refuses
    return plan


def _trainer_file(setting: PageSetting, trainer: Trainer, layout: dict[str, int | None]) -> File:
    case, notes = solve(setting).case, []
    if case.rule.has_influence:
        # With the prediction of the whole risk, which a view's plan may lack.
        plan = staged_plan(setting, case, trainer.batch_factor)
    elif trainer.batch_factor is None:
        plan = _plan(setting)
    else:
        needed = f"must be one without powers of {trainer.batch_factor} for {case.rule.name}"
        raise InputError("format", needed, trainer.name, hint="its plan here has any batches")
    if trainer.batch_factor is not None:
        notes.append(
            f"batches are rounded to powers of {trainer.batch_factor}; {plan.samples} of "
            f"{setting.budget} are spent"
        )
    written = export(plan, trainer.name, **layout)
    if written.warning:
        notes.append(written.warning)
    content = written.text.encode()
    return File(content, trainer.media_type, trainer.file_name, "; ".join(notes))
