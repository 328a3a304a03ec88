"""Where cells run: threads or processes of this machine, with one BLAS thread for each cell."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import connection, resource_tracker
from typing import Any

from threadpoolctl import ThreadpoolController

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Workers:
    """An executor, and how many cells it computes at a time (which may change).

    ``killed`` are the exceptions that say that a task took its worker down.
    """

    pool: Executor
    capacity: Callable[[], int]
    killed: tuple[type[BaseException], ...] = ()


@contextmanager
def worker_threads(count: int) -> Iterator[Workers]:
    """Threads of this process: right for compiled loops, which let go of the interpreter."""
    with one_blas_thread(), ThreadPoolExecutor(count) as pool:
        yield Workers(pool, lambda: count)


@contextmanager
def worker_processes(count: int) -> Iterator[Workers]:
    """Fresh processes with one thread each.

    An error ends those still at work; they end with this process, too.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    # Read when a process loads its libraries, which is before any code of ours runs there.
    os.environ.update(dict.fromkeys(THREADS, "1"))
    others = set(multiprocessing.active_children())
    pool = _Processes(count, multiprocessing.get_context("spawn"), initializer=_worker)
    try:
        yield Workers(pool, lambda: count)
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - others:
            child.terminate()
        raise
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


@contextmanager
def starting_workers() -> Iterator[None]:
    """An interrupt at the terminal reaches workers too, even those that only start.

    What starts in here, threads and their processes too, inherits that it is blocked; the
    driver says when workers end.
    """
    # It starts with the first process otherwise, and unblocks interrupts as it does.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Processes(ProcessPoolExecutor):
    """Starts its processes when it is given tasks."""

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        with starting_workers():
            return super().submit(*arguments, **named)


def one_blas_thread() -> AbstractContextManager[Any]:
    """For a ``with`` block, or for the rest of this process: sums in one order everywhere."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import numpy as np

    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return ThreadpoolController()


def _worker() -> None:
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    one_blas_thread()


def _end_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
