"""Requests about a setting: a drawing, a download, a check."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, Field, create_model

from batchlaw._base.words import COUNT, Word
from batchlaw.faces.app.checks import FEWEST_REPETITIONS, MOST_REPETITIONS
from batchlaw.faces.app.downloads import Format
from batchlaw.faces.app.fields import field_of
from batchlaw.faces.app.page_setting import STRICT, PageSetting
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.plans.trainers import Layout


class SettingRequest(BaseModel):
    """A request about a setting."""

    model_config = STRICT

    setting: PageSetting


class Drawing(SettingRequest):
    """A drawn schedule: heights at evenly spaced steps."""

    heights: Annotated[
        list[Annotated[float, Field(ge=1e-9, le=1e12)]], Field(min_length=2, max_length=2000)
    ]


class Download(SettingRequest):
    """A plan in one of its formats; a refusal names what else the trainer needs."""

    format: Format

    def layout(self) -> dict[str, int | None]:
        """Sequence length, replicas and micro-batch, as far as given."""
        return {field.name: getattr(self, field.name) for field in fields(Layout)}


class CheckRequest(SettingRequest):
    """A Monte Carlo check."""

    repetitions: int = Field(default=200, ge=FEWEST_REPETITIONS, le=MOST_REPETITIONS)


RequestT = TypeVar("RequestT", bound=SettingRequest)


@dataclass(frozen=True)
class Models:
    """The models of all requests, for what is registered when they are built."""

    setting: type[PageSetting]
    drawing: type[Drawing]
    download: type[Download]
    check: type[CheckRequest]

    @classmethod
    def now(cls) -> Models:
        setting = page_setting()

        def with_setting(kind: type[RequestT], **more: Any) -> type[RequestT]:
            rows: dict[str, Any] = {"setting": (setting, ...)} | more
            return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **rows)

        return cls(
            setting,
            with_setting(Drawing),
            with_setting(Download, **_layout()),
            with_setting(CheckRequest),
        )


def _layout() -> dict[str, Any]:
    help_texts = {
        "sequence_length": "Tokens per sample.",
        "data_parallel": "Number of data-parallel replicas.",
        "micro_batch": "Samples per replica in one forward pass.",
        "epoch_samples": "Samples in the dataset.",
    }
    words = (
        Word(field.name, COUNT, help_texts.get(field.name, field.name), low=1)
        for field in fields(Layout)
    )
    return {word.name: field_of(word, None, "Layout") for word in words}
