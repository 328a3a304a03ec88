"""The file of a law that was fitted, as commands read it."""

from __future__ import annotations

from pathlib import Path

from batchlaw._base.errors import InputError
from batchlaw.from_data.laws.training_law import TrainingLaw


def read_law(path: Path) -> TrainingLaw:
    """A law from its file."""
    try:
        return TrainingLaw.from_json(path.read_text())
    except OSError as error:
        needed, hint = "must be a readable law", error.strerror or ""
        raise InputError("law", needed, hint=hint, subject=str(path)) from None
    except UnicodeDecodeError:
        raise InputError("law", "must be a JSON file of text", subject=str(path)) from None
    except InputError as error:
        raise error.within(path) from None
