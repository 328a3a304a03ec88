"""What the explorer's views of Adam cost, in processor time, which other jobs hardly change.

.venv/bin/python benchmarks/explorer_adam.py

A view with its plan at the largest size that has one, the search for the best schedule at the
largest size that may be asked for, and the view and the run of the longest run allowed. Each is
measured with settings that differ in the peak rate, so that none is cached; the first is left out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

from batchlaw.faces.app.controls import MOST_STEPS
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.setting_fields import page_setting
from batchlaw.faces.app.solution import MOST_SEARCHED, SEARCHED_AT_ONCE
from batchlaw.faces.app.view import along, searched, view
from batchlaw.faces.cli.table import text_table

SKETCH, ROUNDS = 64, 3
AT_ONCE, SEARCHED = SEARCHED_AT_ONCE // SKETCH, MOST_SEARCHED // SKETCH
CASES: tuple[tuple[str, Callable[[PageSetting], Any], int], ...] = (
    ("view with its plan, the paper's size", view, 64),
    ("view with its plan, the largest", view, AT_ONCE),
    ("search for the best schedule, the paper's size", searched, 64),
    ("search for the best schedule, the largest", searched, SEARCHED),
    ("view without a plan, the longest", view, MOST_STEPS),
    ("the run, the longest", along, MOST_STEPS),
)


def seconds(work: Callable[[PageSetting], Any], steps: int) -> float:
    """Median processor time over different settings, after one to compile."""
    model, times = page_setting(), []
    for k in range(ROUNDS + 1):
        setting = model(
            optimizer="adamw", steps=steps, budget=8 * steps, m=SKETCH, peak=0.02 / (1 + 0.01 * k)
        )
        start = time.process_time()
        work(setting)
        times.append(time.process_time() - start)
    return median(times[1:])


def main() -> None:
    rows = [(name, f"{steps}", f"{seconds(work, steps):.2f}") for name, work, steps in CASES]
    print(text_table(("AdamW, M = 64", "T", "seconds"), rows))


if __name__ == "__main__":
    main()
