"""How the benchmark of batch schedules is laid out in files: a folder for each block.

Tables are compressed CSV. ``CHECKSUMS`` has a line for each of them, as sha256sum writes it. It
leaves out ``FACTS``, which says how long the runs took: a block that is made again on a machine of
the same kind has the same checksums.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from batchlaw.schedule.observation import CURVE

FOLDER = Path(__file__).parent / "batch_schedules"
RUNS, CURVES, RATES, BATCHES, PILOTS = TABLES = (
    "runs.csv.gz",
    "curves.csv.gz",
    "rates.csv.gz",
    "batches.csv.gz",
    "pilots.csv.gz",
)
FACTS, CHECKSUMS = "facts.json", "SHA256SUMS"
# Facts of a run that are numbers, and whole ones.
NUMBERS = ("peak", "weight_decay", "beta1", "beta2", "momentum")
WHOLE = ("seed", "parameters", "mean_batch")
# Columns of a run's facts, of its curves, and of a pilot's spectrum.
RUN_COLUMNS = (
    *("run", "task", "parameters", "optimizer", "beta1", "beta2", "momentum", "weight_decay"),
    *("rates", "peak", "mean_batch", "schedule", "also", "seed", "updates", "samples"),
    *("rates_id", "batches_id", "status", "validation", "training"),
)
DONE, DIVERGED = "done", "diverged"
CURVE_COLUMNS = ("run", *CURVE)
PILOT_COLUMNS = ("rates", "peak", "name", "index", "value")


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums(folder: Path) -> str:
    """The content of ``CHECKSUMS``."""
    return "".join(f"{digest(folder / name)}  {name}\n" for name in sorted(TABLES))
