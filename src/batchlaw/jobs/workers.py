"""Where cells run: local threads or processes, with one BLAS thread per cell."""

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

THREAD_LIMITS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
)


@dataclass(frozen=True)
class Workers:
    """An executor, and the number of cells it computes at a time (which may change).

    ``killed`` lists the exceptions that mean a task killed its worker.
    """

    pool: Executor
    capacity: Callable[[], int]
    killed: tuple[type[BaseException], ...] = ()


@contextmanager
def worker_threads(count: int) -> Iterator[Workers]:
    """Threads of this process: suited to compiled loops, which release the GIL."""
    with one_blas_thread(), ThreadPoolExecutor(count) as pool:
        yield Workers(pool, lambda: count)


@contextmanager
def worker_processes(count: int) -> Iterator[Workers]:
    """New single-threaded processes.

    They are terminated if the block raises, and exit if this process dies.
    """
    before = {name: os.environ.get(name) for name in THREAD_LIMITS}
    # Libraries read these when a worker loads them, before any of our code runs there.
    os.environ.update(dict.fromkeys(THREAD_LIMITS, "1"))
    other_children = set(multiprocessing.active_children())
    pool = _Processes(count, multiprocessing.get_context("spawn"), initializer=_initialize_worker)
    try:
        yield Workers(pool, lambda: count)
        pool.shutdown()
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(multiprocessing.active_children()) - other_children:
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
    """Block SIGINT in threads and processes started in this block.

    Ctrl-C at a terminal reaches workers too, even while they start; only the driver may react
    to it, and stop them.
    """
    # Otherwise it would start with the first process, and unblock SIGINT.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Processes(ProcessPoolExecutor):
    """Starts its processes in ``submit``, hence with SIGINT blocked there."""

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        with starting_workers():
            return super().submit(*arguments, **named)


def one_blas_thread() -> AbstractContextManager[Any]:
    """For a ``with`` block or the rest of the process: sums have the same order everywhere."""
    return _controller().limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@lru_cache(maxsize=1)
def _controller() -> ThreadpoolController:
    import numpy as np

    np.dot(np.ones((2, 2)), np.ones((2, 2)))
    return ThreadpoolController()


def _initialize_worker() -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    one_blas_thread()


def _exit_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)
