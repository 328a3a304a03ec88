"""Tables as plain text: the same on a terminal and in a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from batchlaw._base.checks import FloatArray


def text_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded to their widest cell; the first is left-aligned, the others right."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]

    def line(row: Sequence[str]) -> str:
        first, *others = (
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  ".join((first, *others)).rstrip()

    return "\n".join([line(header), "  ".join("-" * width for width in widths), *map(line, rows)])


def sparkline(values: FloatArray, wide: bool, width: int = 64) -> str:
    """A curve in one line of text: means over ``width`` intervals, from zero to the maximum."""
    levels = "▁▂▃▄▅▆▇█" if wide else ".:-=+*#@"
    intervals = np.array_split(values, min(width, values.size))
    means = np.array([interval.mean() for interval in intervals])
    top = means.max() if means.max() > 0.0 else 1.0
    return "".join(levels[min(int(x / top * len(levels)), len(levels) - 1)] for x in means)


def without_infinities(value: Any) -> Any:
    """The same for JSON, which has no infinity: M = inf becomes the text "inf"."""
    if isinstance(value, dict):
        return {name: without_infinities(item) for name, item in value.items()}
    if isinstance(value, list):
        return [without_infinities(item) for item in value]
    return str(value) if isinstance(value, float) and np.isinf(value) else value
