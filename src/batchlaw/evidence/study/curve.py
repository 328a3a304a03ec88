"""How the curves of a run are stored: lists beside its final losses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from batchlaw.schedule.observation import CURVE

# What the name of a stored column begins with.
PREFIX = "curve_"


def stored(columns: Mapping[str, list[float]]) -> dict[str, Any]:
    """The final losses, and the columns under their stored names."""
    final = {name: columns[name][-1] for name in ("validation", "training")}
    return final | {PREFIX + name: columns[name] for name in CURVE}


def columns_of(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """The columns of a stored run; empty where it was stored before there were curves."""
    if PREFIX + CURVE[0] not in result:
        return {}
    return {name: result[PREFIX + name] for name in CURVE}
