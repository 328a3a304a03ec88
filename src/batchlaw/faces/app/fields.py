"""Request fields built from words: types, bounds, descriptions, and hints for the page."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field
from pydantic.fields import FieldInfo

from batchlaw._base.words import CHOICE, COUNT, FLAG, PHASE_END, PHASE_ENDS, REAL, TEXT, Word
from batchlaw.faces.app.controls import MOST_SAMPLES, control, label, page_name

# Key in a field's JSON schema that holds what the page builds its control from.
PAGE = "x-page"
LONGEST_TEXT = 100

# Values of other fields for which a field is shown.
ShownWith = Mapping[str, Sequence[str]]


def field_of(
    word: Word, default: Any, group: str, shown_with: ShownWith | None = None
) -> tuple[Any, Any]:
    """Type and description of the field for a word, as ``create_model`` takes them."""
    name = page_name(word.name)
    if word.kind == PHASE_ENDS and default is not None:
        default = ",".join(f"{end:g}" for end in default)
    choices = word.choices if word.kind in (CHOICE, TEXT) else ()
    extra = described(name, group, shown_with or {})
    if choices:
        titles = control(name).titles
        extra["x-titles"] = {choice: titles.get(choice, choice) for choice in choices}
    kind: Any = Literal.__getitem__(choices) if choices else _type(word, name)
    text = control(name).help or word.help
    return (
        kind if default is not None else kind | None,
        Field(default=default, description=text, json_schema_extra=extra),
    )


def described(name: str, group: str, shown_with: ShownWith) -> dict[str, Any]:
    """What the page builds the control of a field from."""
    shown_as = control(name)
    page = {
        "group": group,
        "label": label(name),
        "slider": shown_as.slider,
        "empty": shown_as.empty,
        "shown_with": {other: list(values) for other, values in shown_with.items()},
        "hidden_with": {other: list(values) for other, values in shown_as.hidden_with.items()},
    }
    return {PAGE: {key: value for key, value in page.items() if value}}


def page_of(info: FieldInfo) -> dict[str, Any]:
    """What ``described`` stored in a field."""
    extra = info.json_schema_extra
    page = extra.get(PAGE) if isinstance(extra, dict) else None
    return page if isinstance(page, dict) else {}


def _type(word: Word, name: str) -> Any:
    if word.kind == FLAG:
        return bool
    if word.kind in (TEXT, PHASE_ENDS):
        return Annotated[str, Field(min_length=1, max_length=LONGEST_TEXT)]
    if word.kind == PHASE_END:
        # Shares only: a step number would have to change with the number of steps.
        return Annotated[float, Field(ge=0.0, lt=1.0)]
    low, high = _bounds(word, name)
    if word.kind == COUNT or control(name).whole:
        return Annotated[int, Field(ge=math.ceil(low), le=math.floor(high))]
    if word.kind == REAL:
        return Annotated[float, Field(ge=low, le=high)]
    raise TypeError(f"the page has no control for the kind {word.kind} of {word.name}")


def _bounds(word: Word, name: str) -> tuple[float, float]:
    """The tighter of the word's and the page's bounds; every number gets both."""
    page = control(name)
    low = max(word.low, -math.inf if page.low is None else page.low, -MOST_SAMPLES)
    high = min(word.high, math.inf if page.high is None else page.high, MOST_SAMPLES)
    return low, high
