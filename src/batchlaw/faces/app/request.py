"""Requests about a setting: a drawing, a download, a check. Their models are made with it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from batchlaw._base.words import COUNT, Word
from batchlaw.faces.app.checks import FEWEST_REPETITIONS, MOST_REPETITIONS
from batchlaw.faces.app.downloads import Format
from batchlaw.faces.app.fields import field_of
from batchlaw.faces.app.page_setting import EXACTLY, PageSetting
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.plans.trainers import Layout


class Asked(BaseModel):
    """A request about a setting."""

    model_config = EXACTLY

    setting: PageSetting


class Drawing(Asked):
    """A drawn schedule: heights at evenly spaced steps."""

    heights: Annotated[
        list[Annotated[float, Field(ge=1e-9, le=1e12)]], Field(min_length=2, max_length=2000)
    ]


class Download(Asked):
    """A plan in one of its formats; what a trainer needs beside it is said by its refusal."""

    format: Format

    def layout(self) -> dict[str, int | None]:
        """How samples are shaped and spread."""
        return {each.name: getattr(self, each.name) for each in fields(Layout)}


class Ordered(Asked):
    """A Monte Carlo check."""

    repetitions: int = Field(default=200, ge=FEWEST_REPETITIONS, le=MOST_REPETITIONS)


AskedT = TypeVar("AskedT", bound=Asked)


@dataclass(frozen=True)
class Models:
    """The models of all requests, with what is registered when they are made."""

    setting: type[PageSetting]
    drawing: type[Drawing]
    download: type[Download]
    ordered: type[Ordered]

    @classmethod
    def now(cls) -> Models:
        setting = page_setting()

        def about(kind: type[AskedT], **more: Any) -> type[AskedT]:
            rows: dict[str, Any] = {"setting": (setting, ...)} | more
            return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **rows)

        return cls(setting, about(Drawing), about(Download, **_layout()), about(Ordered))


def _layout() -> dict[str, Any]:
    help_texts = {
        "sequence_length": "Tokens of a sample.",
        "data_parallel": "Replicas.",
        "micro_batch": "Samples that a replica takes at once.",
        "epoch_samples": "Size of the dataset.",
    }
    words = (
        Word(each.name, COUNT, help_texts.get(each.name, each.name), low=1)
        for each in fields(Layout)
    )
    return {word.name: field_of(word, None, "Layout") for word in words}
