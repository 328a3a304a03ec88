"""The plan of a study: chosen once from timed steps, and kept in a file for when it resumes."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from batchlaw._base.errors import InputError
from batchlaw._base.files import OutputDirectory
from batchlaw._base.version import __version__
from batchlaw.evidence.study.data import python_sources
from batchlaw.evidence.study.groups import Group, chosen, full_groups, quick_groups
from batchlaw.evidence.study.timing import STARTUP_S, Cost, measured_costs, within
from batchlaw.evidence.sweep.timing import described
from batchlaw.jobs.workers import Workers

FILE = "plan.json"


@dataclass(frozen=True)
class StudyPlan:
    """Groups with their costs, and the names of those that did not fit the hours."""

    asked: dict[str, Any]
    kept: list[Cost]
    dropped: list[str]
    versions: dict[str, str]

    @property
    def groups(self) -> list[Group]:
        return [cost.group for cost in self.kept]

    @property
    def cells(self) -> int:
        return sum(cost.cells for cost in self.kept)

    @property
    def core_seconds(self) -> float:
        return sum(cost.seconds for cost in self.kept)

    def described(self, workers: int) -> str:
        """How many runs, and how long they take."""
        seconds = STARTUP_S + self.core_seconds / workers
        return f"{self.cells} cells in {len(self.kept)} groups, about {described(seconds)}"


def make_plan(asked: dict[str, Any], workers: Workers) -> StudyPlan:
    """``asked`` has quick, tasks, optimizers, schedules, rates and hours."""
    groups = chosen(
        quick_groups() if asked["quick"] else full_groups(),
        asked["tasks"],
        asked["optimizers"],
        asked["schedules"],
        asked["rates"],
    )
    kept, dropped = within(measured_costs(groups, workers), asked["hours"], workers.capacity())
    if not kept:
        raise InputError("hours", "must be enough for one comparison", f"{asked['hours']:g}")
    text = {"text": python_sources().digest}
    return StudyPlan(asked, kept, [cost.group.name for cost in dropped], versions() | text)


def write_plan(plan: StudyPlan, output: OutputDirectory) -> None:
    with output.transaction() as files:
        files.json(FILE, asdict(plan))


def read_plan(folder: Path) -> StudyPlan | None:
    """The plan of an earlier run, if there is one."""
    path = folder / FILE
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_text())
        kept = [Cost(**(cost | {"group": _group(cost["group"])})) for cost in content["kept"]]
        return StudyPlan(content["asked"], kept, content["dropped"], content["versions"])
    except (ValueError, KeyError, TypeError):
        raise InputError(
            "output_dir",
            "must be the plan of a study; remove it to start anew",
            subject=str(path),
        ) from None


def _group(fields: dict[str, Any]) -> Group:
    lists = {name: tuple(fields[name]) for name in ("peaks", "schedules", "few")}
    return Group(**(fields | lists))


def versions() -> dict[str, str]:
    """Of the software that a result can depend on."""
    from importlib.metadata import version

    return {
        "batchlaw": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "torch": version("torch"),
        "scikit-learn": version("scikit-learn"),
    }
