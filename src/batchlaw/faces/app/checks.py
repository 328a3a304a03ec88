"""Monte Carlo checks in the background, with progress and cancellation, few at a time."""

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
from batchlaw.faces.app.page_setting import PageSetting, with_influence
from batchlaw.faces.app.refusals import BUG, log
from batchlaw.faces.app.replies import CheckState, Measured
from batchlaw.faces.app.solution import solve

# Repetitions per block, fewer if they are slow: after each block the page updates, and a
# cancelled check ends.
BLOCK, SMALLEST_BLOCK = 20, 4
# With fewer, the standard errors themselves are too uncertain.
FEWEST_REPETITIONS, MOST_REPETITIONS = 100, 2000
# Limits on schedules x repetitions x samples x directions: per block (seconds), and per check
# (minutes).
BLOCK_WORK, MOST_WORK = 4 * 10**9, 10**11
# Checks that may run or wait, and finished checks that are kept.
MAX_ACTIVE, MAX_FINISHED = 2, 16
# A check that no page has polled for this long ends; a hidden page polls once a minute.
IDLE_TIMEOUT_S = 150.0


class BusyError(Exception):
    """Too many checks are active."""


@dataclass
class Check:
    """One check, with its progress."""

    setting: PageSetting
    repetitions: int
    done: int = 0
    points: list[Measured] = field(default_factory=list)
    error: str = ""
    finished: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    polled: float = field(default_factory=time.monotonic)

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
    def abandoned(self) -> bool:
        return self.cancelled.is_set() or time.monotonic() - self.polled > IDLE_TIMEOUT_S


class Checks:
    """All checks of a server: one runs, a second waits, more are refused."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._checks: dict[str, Check] = {}
        self._lock = threading.Lock()

    def start(self, setting: PageSetting, repetitions: int) -> str:
        """Start a check and return its name; an InputError says why it can't run."""
        _refuse_unmeasured(setting, repetitions)
        with self._lock:
            active = [c for c in self._checks.values() if not (c.finished or c.cancelled.is_set())]
            if len(active) >= MAX_ACTIVE:
                raise BusyError("other checks are running: wait, or stop them")
            self._drop_old()
            name = secrets.token_urlsafe(12)
            check = self._checks[name] = Check(setting, repetitions)
        # A daemon thread: Ctrl-C does not wait for its block.
        threading.Thread(target=self._run, args=(check,), daemon=True).start()
        return name

    def get(self, name: str) -> Check | None:
        check = self._checks.get(name)
        if check is not None:
            check.polled = time.monotonic()
        return check

    def close(self) -> None:
        """Cancel all checks, without waiting for their current blocks."""
        for check in list(self._checks.values()):
            check.cancelled.set()

    def _run(self, check: Check) -> None:
        with self._turn:
            _run(check)

    def _drop_old(self) -> None:
        finished = [name for name, check in self._checks.items() if check.finished]
        for name in finished[: max(0, len(finished) - MAX_FINISHED + 1)]:
            del self._checks[name]


def _refuse_unmeasured(setting: PageSetting, repetitions: int) -> None:
    """Refuse settings without samples, without exact values to check, or with too much work."""
    setting.refuse_unsampled()
    procedure, rule = setting.procedure_and_rule()
    if not rule.has_influence:
        needed = f"must be {' or '.join(with_influence())} for a check of the four families"
        raise InputError("optimizer", needed, rule.name)
    if not procedure.solves(rule):
        raise InputError("procedure", "is simulated already, there is nothing to check")
    _check_work(setting, repetitions)


def _repetition_work(setting: PageSetting) -> float:
    """Numbers touched by one repetition of all schedules."""
    procedure, _ = setting.procedure_and_rule()
    return setting.repetition_work(procedure, MOST_SCHEDULES, 1.5 * setting.budget)


def _check_work(setting: PageSetting, repetitions: int) -> None:
    work = _repetition_work(setting)
    if SMALLEST_BLOCK * work > BLOCK_WORK:
        raise InputError(
            "budget",
            f"must touch at most {BLOCK_WORK // SMALLEST_BLOCK:.1e} numbers",
            f"{work:.1e}",
            hint="take fewer samples or directions",
            subject="a repetition of a check",
        )
    if repetitions * work > MOST_WORK:
        raise InputError(
            "repetitions",
            f"must be at most {int(MOST_WORK / work)}: a check may touch {MOST_WORK:.0e} numbers",
            f"{repetitions}",
        )


def _blocks(check: Check) -> list[int]:
    """Repetitions in each block, as even as possible."""
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
    """Simulate block by block, each with its own seed; update means and standard errors."""
    solution = solve(check.setting)
    rows, sizes = families(solution)
    exact = exact_collapse(solution, rows, sizes).points
    schedules: list[FloatArray] = list(sizes.astype(np.float64))
    case = solution.case.with_batches(schedules)
    total, squares = np.zeros(len(rows)), np.zeros(len(rows))
    for seed, size in enumerate(_blocks(check)):
        if check.abandoned:
            check.cancelled.set()
            return
        # One thread, to leave the other cores to the page's views.
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
