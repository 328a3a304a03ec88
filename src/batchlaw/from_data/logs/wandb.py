"""CSV files that Weights & Biases exports from a chart: "Step", "<run> - <metric>", ...

Each metric has companions "...__MIN" and "...__MAX", the range within the points that the chart
drew as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from batchlaw.from_data.logs import csv_log
from batchlaw.from_data.logs.table import Table, refusal

COMPANIONS = ("__MIN", "__MAX")
BETWEEN = " - "


def recognised(names: Sequence[str]) -> bool:
    """Whether these are the columns of such an export."""
    return any(name.endswith(COMPANIONS) for name in names) or (
        len(names) > 1 and all(BETWEEN in name for name in names[1:])
    )


def read(path: Path) -> Table:
    """The metrics of one run under their own names."""

    def metrics(names: Sequence[str]) -> list[str]:
        kept = [name for name in names if not name.endswith(COMPANIONS)]
        runs = {name.rpartition(BETWEEN)[0] for name in kept if BETWEEN in name}
        if len(runs) > 1:
            listed = ", ".join(sorted(runs)[:3])
            raise refusal(path, "must have the metrics of one run", f"{len(runs)} runs: {listed}")
        return [name.rpartition(BETWEEN)[2] if name in kept else "" for name in names]

    return csv_log.read_renamed(path, metrics)
