"""Monte Carlo checks in the background: progress, cancellation, and few at a time."""

from __future__ import annotations

import math
import secrets
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from batchlaw._base.checks import FloatArray
from batchlaw._base.errors import InputError
from batchlaw.faces.app.collapse import MOST_SCHEDULES, exact_collapse, families
from batchlaw.faces.app.controls import label
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.refusals import BUG, log
from batchlaw.faces.app.replies import CheckState, Measured
from batchlaw.faces.app.solution import solve
from batchlaw.risk.procedures import check_simulated

# Repetitions of a block, fewer where they take long: after each the page sees the dots move,
# and a check that was cancelled ends.
BLOCK, SMALLEST_BLOCK = 20, 4
# With fewer the standard errors themselves are too rough to judge by.
FEWEST_REPETITIONS, MOST_REPETITIONS = 100, 2000
# Numbers that one block and one check may touch: schedules, repetitions, samples, directions.
# Some seconds, and some minutes.
BLOCK_WORK, MOST_WORK = 4 * 10**9, 10**11
# Checks that may run or wait, and finished ones that are kept.
AT_A_TIME, KEPT = 2, 16
# Seconds without a question after which a check ends; a hidden page asks once a minute.
ABANDONED = 150.0


class BusyError(Exception):
    """Others are running."""


@dataclass
class Check:
    """One background run."""

    setting: PageSetting
    repetitions: int
    done: int = 0
    points: list[Measured] = field(default_factory=list)
    error: str = ""
    finished: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    asked: float = field(default_factory=time.monotonic)

    def state(self) -> CheckState:
        points = self.points
        distances = [abs(p.value - p.exact) / p.error for p in points if p.error > 0.0]
        return CheckState(
            done=self.done,
            repetitions=self.repetitions,
            finished=self.finished,
            cancelled=self.cancelled.is_set(),
            error=self.error,
            points=points,
            apart=max(distances, default=None),
        )

    @property
    def unwanted(self) -> bool:
        return self.cancelled.is_set() or time.monotonic() - self.asked > ABANDONED


class Checks:
    """All checks of a server: one runs at a time, a second waits, more are refused."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._checks: dict[str, Check] = {}
        self._lock = threading.Lock()

    def start(self, setting: PageSetting, repetitions: int) -> str:
        """The name of a new check; an InputError says why there can't be one."""
        _refuse_unmeasured(setting, repetitions)
        with self._lock:
            wanted = [c for c in self._checks.values() if not (c.finished or c.cancelled.is_set())]
            if len(wanted) >= AT_A_TIME:
                raise BusyError("other checks are running: wait, or stop them")
            self._forget()
            name = secrets.token_urlsafe(12)
            check = self._checks[name] = Check(setting, repetitions)
        # A thread that dies with the process: Ctrl-C does not wait for its block.
        threading.Thread(target=self._run, args=(check,), daemon=True).start()
        return name

    def get(self, name: str) -> Check | None:
        check = self._checks.get(name)
        if check is not None:
            check.asked = time.monotonic()
        return check

    def close(self) -> None:
        """Cancel all, and do not wait for the blocks that they are in."""
        for check in list(self._checks.values()):
            check.cancelled.set()

    def _run(self, check: Check) -> None:
        with self._turn:
            _run(check)

    def _forget(self) -> None:
        finished = [name for name, check in self._checks.items() if check.finished]
        for name in finished[: max(0, len(finished) - KEPT + 1)]:
            del self._checks[name]


def _refuse_unmeasured(setting: PageSetting, repetitions: int) -> None:
    """Refuse what has no samples, no exact values to be checked, or too much work."""
    setting.refuse_unsampled()
    procedure, rule = setting.procedure_and_rule()
    if not procedure.solvable:
        raise InputError("procedure", "is simulated already, there is nothing to check")
    check_simulated(rule)
    _check_work(setting, repetitions)


def _repetition_work(setting: PageSetting) -> float:
    """Numbers that one repetition of all schedules touches."""
    procedure, _ = setting.procedure_and_rule()
    return setting.repetition_work(procedure, MOST_SCHEDULES, 1.5 * setting.budget)


def _check_work(setting: PageSetting, repetitions: int) -> None:
    one = _repetition_work(setting)
    if SMALLEST_BLOCK * one > BLOCK_WORK:
        raise InputError(
            "budget",
            f"must touch at most {BLOCK_WORK // SMALLEST_BLOCK:.1e} numbers",
            f"{one:.1e}",
            hint="take fewer samples or directions",
            subject="a repetition of a check",
        )
    if repetitions * one > MOST_WORK:
        raise InputError(
            "repetitions",
            f"must be at most {int(MOST_WORK / one)}: a check may touch {MOST_WORK:.0e} numbers",
            f"{repetitions}",
        )


def _blocks(check: Check) -> list[int]:
    """Repetitions of each block: as even as can be, three at least."""
    most = min(BLOCK, BLOCK_WORK // _repetition_work(check.setting))
    blocks = math.ceil(check.repetitions / most)
    size, larger = divmod(check.repetitions, blocks)
    return [size + 1] * larger + [size] * (blocks - larger)


def _run(check: Check) -> None:
    try:
        _simulate(check)
    except InputError as error:
        check.error = error.sentence(label)
    except Exception:
        log.exception("a check of %s failed", check.setting)
        check.error = BUG
    finally:
        check.finished = True


def _simulate(check: Check) -> None:
    """Blocks of repetitions with seeds of their own; their means, with standard errors."""
    solution = solve(check.setting)
    rows, sizes = families(solution)
    exact = exact_collapse(solution, rows, sizes).points
    schedules: list[FloatArray] = list(sizes.astype(np.float64))
    case = solution.case.with_batches(schedules)
    total, squares = np.zeros(len(rows)), np.zeros(len(rows))
    for seed, size in enumerate(_blocks(check)):
        if check.unwanted:
            check.cancelled.set()
            return
        # One thread: the page's views go on beside it.
        risk = case.simulate(size, seed, threads=1)
        total += size * np.asarray(getattr(risk, solution.noise))
        squares += np.square(size * np.asarray(risk.standard_error(solution.noise)))
        done = check.done + size
        check.points = [
            Measured(
                **(point.model_dump() | {"value": value, "error": error, "exact": point.value})
            )
            for point, value, error in zip(
                exact, (total / done).tolist(), (np.sqrt(squares) / done).tolist(), strict=True
            )
        ]
        check.done = done
