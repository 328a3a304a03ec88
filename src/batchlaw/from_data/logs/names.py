"""The names that columns of logs usually have."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from batchlaw.from_data.logs.table import refusal

# Each list is in order of preference; case and what separates words do not matter, so that
# "val_loss" is also "Val/Loss" and "val-loss".
STEP = "step steps global_step trainer_global_step train_global_step iteration iter update updates"
LOSS = (
    "eval_loss val_loss validation_loss valid_loss dev_loss loss_eval loss_val loss_validation "
    "loss_valid validation loss train_loss training_loss loss_train lm_loss training"
)
RATE = "learning_rate lr rate rates train_learning_rate train_lr lr_adam lr_adamw lr_sgd"
BATCH = "batch batch_size batches global_batch_size train_batch_size"


def usual(names: Iterable[str], preferred: str) -> list[str]:
    """Those of the names that are in a list above, in its order."""
    known = preferred.split()
    plain = {name: re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in names}
    found = [name for name in plain if plain[name] in known]
    return sorted(found, key=lambda name: known.index(plain[name]))


def column(path: Path, argument: str, name: str, names: tuple[str, ...]) -> str:
    """Check that the log has the column that an argument names."""
    if name not in names:
        needed = f"must be a column of {path}, which has {listed(names)}"
        raise refusal(path, needed, repr(name), field=argument)
    return name


def listed(names: tuple[str, ...]) -> str:
    return ", ".join(names[:8]) + (", ..." if len(names) > 8 else "") if names else "none"
