"""The machine that this runs on."""

from __future__ import annotations

import os


def cores() -> int:
    """Cores that this process may use; not all systems can tell them from all cores."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
