"""Monte Carlo checks in the background: progress, cancellation, and few at a time."""

from __future__ import annotations

import itertools
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from batchlaw.app.setting import Setting
from batchlaw.app.view import Solved, collapse_schedules, term_of
from batchlaw.simulate import simulate_multi_pass, simulate_one_pass

# Repetitions of a block: after each the page sees the dots move.
BLOCK = 20
MOST_REPETITIONS = 2000
# Numbers that one check may touch: schedules, repetitions, samples, directions.
MOST_WORK = 2 * 10**11
# Finished checks that are kept, and the seconds for which they are.
KEPT, SECONDS = 16, 600.0


class TooMuchError(ValueError):
    """A check that is refused because it would take too long, or because others are running."""


@dataclass
class Check:
    """One background run, as the page sees it."""

    setting: Setting
    repetitions: int
    done: int = 0
    points: list[dict[str, Any]] = field(default_factory=list)
    error: str = ""
    finished: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    touched: float = field(default_factory=time.monotonic)

    def as_json(self) -> dict[str, Any]:
        return {
            "done": self.done,
            "repetitions": self.repetitions,
            "finished": self.finished,
            "cancelled": self.cancelled.is_set(),
            "error": self.error,
            "points": self.points,
        }


class Checks:
    """All checks of a server: one runs at a time, a second waits, more are refused."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="check")
        self._checks: dict[str, Check] = {}
        self._lock = threading.Lock()

    def start(self, setting: Setting, repetitions: int) -> str:
        if setting.problem == "sketch":
            raise ValueError(
                "samples can't be drawn from the average of all sketches: take the paper's "
                "problem, a truncation or a spectrum"
            )
        work = 32.0 * repetitions * setting.directions * _touched(setting)
        if work > MOST_WORK:
            raise TooMuchError(
                f"a check may touch {MOST_WORK:.0e} numbers, this would be {work:.1e}: "
                "take fewer repetitions, samples or steps"
            )
        with self._lock:
            self._forget()
            waiting = sum(not check.finished for check in self._checks.values())
            if waiting >= 2:
                raise TooMuchError("another check is running: wait, or cancel it")
            name = secrets.token_urlsafe(12)
            check = self._checks[name] = Check(setting, repetitions)
        self._pool.submit(_run, check)
        return name

    def get(self, name: str) -> Check | None:
        check = self._checks.get(name)
        if check is not None:
            check.touched = time.monotonic()
        return check

    def close(self) -> None:
        for check in self._checks.values():
            check.cancelled.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _forget(self) -> None:
        old = [
            name
            for name, check in self._checks.items()
            if check.finished and time.monotonic() - check.touched > SECONDS
        ]
        spare = [name for name, check in self._checks.items() if check.finished]
        for name in {*old, *spare[: max(0, len(self._checks) - KEPT)]}:
            del self._checks[name]


def _touched(setting: Setting) -> float:
    """Samples that one schedule reads."""
    return float(setting.budget + (setting.samples if setting.procedure == "multi-pass" else 0))


def _run(check: Check) -> None:
    try:
        _simulate(check)
    except (ValueError, ArithmeticError, MemoryError) as error:
        check.error = " ".join(str(error).split()) or type(error).__name__
    finally:
        check.finished = True


def _simulate(check: Check) -> None:
    """Blocks of repetitions with seeds of their own; their means, with standard errors."""
    setting = check.setting
    solved = Solved.of(setting)
    rows, sizes = collapse_schedules(solved)
    term = term_of(setting)
    means, errors = [], []
    for block in itertools.count():
        if check.cancelled.is_set() or check.done >= check.repetitions:
            return
        options: dict[str, Any] = {"repetitions": BLOCK, "seed": block, "threads": 1}
        if setting.procedure == "one-pass":
            risk = simulate_one_pass(solved.problem, solved.gamma, sizes, **options)
        else:
            risk = simulate_multi_pass(
                solved.problem,
                solved.gamma,
                sizes,
                samples=setting.samples,
                replacement=setting.replacement,
                **options,
            )
        means.append(np.asarray(getattr(risk, term)))
        errors.append(np.asarray(risk.standard_error(term)))
        value = np.mean(means, axis=0)
        error = np.sqrt(np.sum(np.square(errors), axis=0)) / len(errors)
        check.points = [
            row | {"value": float(v), "error": float(e)}
            for row, v, e in zip(rows, value, error, strict=True)
        ]
        check.done += BLOCK
