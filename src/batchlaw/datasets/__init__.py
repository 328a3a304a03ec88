"""Public data of the project's own: training runs under batch schedules."""

from batchlaw.datasets.reading import batch_schedules, blocks, pilot_spectrum

__all__ = ["batch_schedules", "blocks", "pilot_spectrum"]
