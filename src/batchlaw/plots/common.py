"""What all figures share: colours, sizes, and how a file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from batchlaw._base.errors import InputError

# Colour (safe for colour-blind readers, by Okabe and Ito), marker and label of each schedule.
STYLES: dict[str, tuple[str, str, str]] = {
    "oracle": ("#0072B2", "o", "oracle"),
    "constant": ("#000000", "s", "constant"),
    "early_large_late_small": ("#E69F00", "^", "early large, late small"),
    "early_small_late_large": ("#CC79A7", "D", "early small, late large"),
}
RATE, INFLUENCE, ROOT = "#999999", "#D55E00", "#009E73"
# One colour per case if there are many, in Okabe and Ito's order.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

RC: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    # Fixes the ids inside SVG files, which are otherwise random.
    "svg.hashsalt": "batchlaw",
}


def save(figure: Figure, path: Path) -> None:
    """Write a figure to a file, the same bytes for the same figure.

    Parameters
    ----------
    figure
        From one of the functions here, or any other.
    path
        A .png, .pdf or .svg file.
    """
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
        ".svg": {"Date": None, "Creator": None},
    }
    if path.suffix not in metadata:
        raise InputError(
            "path", "must be a .png, .pdf or .svg file", repr(path.name), subject="a figure"
        )
    with matplotlib.rc_context(RC):
        figure.savefig(path, dpi=150, metadata=metadata[path.suffix])
