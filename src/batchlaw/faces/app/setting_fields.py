"""The fields of a setting, from the registries of problems, rates, procedures and update rules.

The registries are read when the model is built: everything registered by then is on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from typing import Any

from pydantic import Field, create_model

from batchlaw._base.errors import InputError
from batchlaw._base.words import CHOICE, COUNT, Word
from batchlaw.batches.limits import Limits
from batchlaw.design.vocabulary import (
    DEFAULTS,
    DRAWN,
    PROBLEMS,
    problem_words,
    rate_words,
    solver_words,
)
from batchlaw.faces.app.controls import control, page_name
from batchlaw.faces.app.fields import PAGE, ShownWith, described, field_of
from batchlaw.faces.app.page_setting import (
    LIMITS,
    UPLOADED,
    PageSetting,
    SpectrumFile,
    shown_presets,
)
from batchlaw.risk.procedure import PROCEDURES, Procedure
from batchlaw.schedule.registry import RATE_PARAMETERS, RATE_SCHEDULES, users_of
from batchlaw.schedule.update_rule import OPTIMIZERS, SGD, Optimizer

# A word, its default, its group, and the values of other fields that it is shown with.
Row = tuple[Word, Any, str, ShownWith]


def page_setting() -> type[PageSetting]:
    """Build the model of a setting from the current registries."""
    upload = Field(
        default=None,
        description="An uploaded spectrum.",
        json_schema_extra=described(UPLOADED, "Problem", {"problem": [UPLOADED]}),
    )
    rows = (
        _fields(_rates())
        | _fields(_problem())
        | {UPLOADED: (SpectrumFile | None, upload)}
        | _fields(_procedure())
        | _fields(_budget())
    )
    # Choosing an optimizer fills in its presets.
    rows["optimizer"][1].json_schema_extra[PAGE]["presets"] = {
        name: shown_presets(name) for name in OPTIMIZERS
    }
    return create_model("PageSetting", __base__=PageSetting, **rows)


def _fields(rows: Iterable[Row]) -> dict[str, Any]:
    return {page_name(word.name): field_of(word, *rest) for word, *rest in rows}


def _rates() -> Iterator[Row]:
    for word in rate_words():
        users = users_of(word.name) if word.name in RATE_PARAMETERS else ()
        default = DEFAULTS.get(word.name)
        if users:
            # The default of its first user, so that a slider stays put when the schedule changes.
            default = RATE_SCHEDULES[users[0]].default(word.name)
        everywhere = len(users) in (0, len(RATE_SCHEDULES))
        yield word, default, "Learning rate", {} if everywhere else {"rates": users}


def _problem() -> Iterator[Row]:
    drawn = {"d", "seed", "prior"}
    for word in problem_words():
        if word.name == "problem":
            word = replace(word, choices=(*word.choices, UPLOADED))
        default = DEFAULTS.get(word.name, False)
        shown: ShownWith = {} if word.name in ("problem", "sigma") else {"problem": PROBLEMS}
        yield word, default, "Problem", {"problem": DRAWN} if word.name in drawn else shown


def _procedure() -> Iterator[Row]:
    """Procedures with batches, their options, optimizers and their options."""
    group = "Procedure"
    known = {name: kind for name, kind in PROCEDURES.items() if kind.summary}
    with_rules = [name for name, kind in known.items() if _takes_rules(kind)]
    for word in solver_words():
        users = [name for name, kind in known.items() if word.name in _defaults(kind)]
        owners = [name for name, each in OPTIMIZERS.items() if _can_set(each, word.name)]
        if word.name == "procedure":
            yield replace(word, choices=tuple(known)), DEFAULTS[word.name], group, {}
        elif users:
            yield word, _defaults(known[users[0]])[word.name], group, {"procedure": users}
        elif word.name == "optimizer":
            names = tuple(OPTIMIZERS)
            yield replace(word, choices=names), names[0], group, {"procedure": with_rules}
        elif owners:
            shown: ShownWith = {"procedure": with_rules}
            if len(owners) < len(OPTIMIZERS):
                shown = {**shown, "optimizer": owners}
            offered = control(word.name).choices
            if offered:
                yield replace(word, kind=CHOICE, choices=offered), offered[0], group, shown
            else:
                default = _defaults(OPTIMIZERS[owners[0]].kind)[word.name]
                yield word, default, group, shown


def _can_set(optimizer: Optimizer, option: str) -> bool:
    """Whether an optimizer has an option that is not settled by its name, as a preset flag is."""
    return option in _defaults(optimizer.kind) and optimizer.presets.get(option) is not True


def _defaults(kind: type[Any]) -> dict[str, Any]:
    return {option.name: option.default for option in fields(kind)}


def _takes_rules(kind: type[Procedure]) -> bool:
    """Whether a procedure accepts update rules other than plain SGD."""
    try:
        kind().check_rule(SGD(momentum=0.5))
    except InputError:
        return False
    return True


def _budget() -> Iterator[Row]:
    help_texts = {
        "budget": "Sum of all batches, in samples.",
        "min_batch": "Smallest batch of the greedy schedule and the plan.",
        "max_batch": "Largest batch; empty for no limit.",
        "multiple_of": "Every batch is a multiple of this: ranks times micro-batch.",
        "stages": "Maximum number of stages of the plan.",
    }
    for name in ("budget", *LIMITS):
        default = control(name).default
        if default is None:
            default = _defaults(Limits)[name]
        yield Word(name, COUNT, help_texts.get(name, name), low=1), default, "Budget", {}
