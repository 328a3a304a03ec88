"""``trainer_state.json`` of the Hugging Face Trainer: its list ``log_history``.

An entry has "step" and either "loss" and "learning_rate", or "eval_loss"; the last one sums the
run up.
"""

from __future__ import annotations

from pathlib import Path

from batchlaw.from_data.logs.json_lines import parsed, row
from batchlaw.from_data.logs.table import Table, read_text, refusal

NAME = "trainer_state.json"
HISTORY = "log_history"


def read(path: Path) -> Table:
    try:
        state = parsed(read_text(path))
    except ValueError:
        raise refusal(path, "must be a JSON file, it is broken") from None
    history = state.get(HISTORY) if isinstance(state, dict) else None
    if not isinstance(history, list) or not all(isinstance(entry, dict) for entry in history):
        raise refusal(path, f"must be a JSON object with a list {HISTORY} of objects")
    return Table([row(entry) for entry in history], step="step")
