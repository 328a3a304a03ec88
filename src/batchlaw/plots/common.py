"""What the pictures share: colours, sizes, and how a file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from batchlaw._base.errors import InputError

# Colours that the colour-blind can tell apart (Okabe and Ito), and a marker each.
STYLES: dict[str, tuple[str, str, str]] = {
    "oracle": ("#0072B2", "o", "oracle"),
    "constant": ("#000000", "s", "constant"),
    "early_large_late_small": ("#E69F00", "^", "early large, late small"),
    "early_small_late_large": ("#CC79A7", "D", "early small, late large"),
}
RATE, INFLUENCE, ROOT = "#999999", "#D55E00", "#009E73"
# One colour a case where there are many of them, in Okabe and Ito's order.
CYCLE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")

RC: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "pdf.fonttype": 42,
    # Names inside an SVG file: the same at every writing.
    "svg.hashsalt": "batchlaw",
}


def save(figure: Figure, path: Path) -> None:
    """Write PNG, PDF or SVG, the same bytes for the same figure."""
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": None},
        ".pdf": {"CreationDate": None, "ModDate": None, "Producer": None, "Creator": None},
        ".svg": {"Date": None, "Creator": None},
    }
    if path.suffix not in metadata:
        raise InputError(
            "path", "must be a .png, .pdf or .svg file", repr(path.name), subject="a picture"
        )
    with matplotlib.rc_context(RC):
        figure.savefig(path, dpi=150, metadata=metadata[path.suffix])
