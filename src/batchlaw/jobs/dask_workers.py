"""Cells on a Dask cluster, an existing one or one of this machine; the only file with Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from batchlaw._base.errors import InputError
from batchlaw.jobs.workers import THREADS, Workers, one_blas_thread, starting_workers

LOCAL = "local"
# Seconds to wait for the scheduler, and for the first worker.
REACH, FIRST = 30.0, 600.0
# A task whose worker dies goes to another, so many times.
DEATHS = 5


@contextmanager
def dask_workers(address: str, count: int) -> Iterator[Workers]:
    """Workers of the scheduler at ``address``; "local" starts ``count`` processes here."""
    try:
        import dask
        from distributed import Client, KilledWorker, LocalCluster
    except ModuleNotFoundError:
        raise InputError("dask", "must have Dask", hint="install the extra, dask") from None
    settings = {
        "distributed.scheduler.allowed-failures": DEATHS,
        "distributed.worker.memory.terminate": False,
    }
    cluster: Any = nullcontext(address)
    with dask.config.set(settings):
        if address == LOCAL:
            with starting_workers():
                cluster = LocalCluster(  # type: ignore[no-untyped-call]
                    n_workers=count,
                    threads_per_worker=1,
                    dashboard_address=None,
                    env=dict.fromkeys(THREADS, "1"),
                )
        with cluster as found, _client(Client, found, address) as client:
            client.register_plugin(_one_thread_plugin())
            pool = client.get_executor(pure=False)
            yield Workers(pool, lambda: _threads(client), killed=(KilledWorker,))


def _client(kind: Any, found: Any, address: str) -> Any:
    if address != LOCAL:
        _check_address(address)
    try:
        client = kind(found, timeout=REACH, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _not_a_scheduler(address, str(error)) from None
    try:
        client.wait_for_workers(1, timeout=FIRST)
    except TimeoutError:
        client.close()
        raise InputError(
            "dask", "must have workers", hint=f"none came in {FIRST:g} s", subject=address
        ) from None
    return client


def _check_address(address: str) -> None:
    """A client that was given no address leaves a thread that complains at the end."""
    from distributed.comm.addressing import get_address_host_port

    if not address.startswith("tcp://"):
        raise _not_a_scheduler(address, "it must be tcp://HOST:PORT or local")
    try:
        get_address_host_port(address)
    except ValueError as error:
        raise _not_a_scheduler(address, str(error)) from None


def _not_a_scheduler(address: str, why: str) -> InputError:
    return InputError("dask", "must be a scheduler's address", repr(address), hint=why)


def _threads(client: Any) -> int:
    return max(1, int(sum(client.nthreads().values())))


def _one_thread_plugin() -> Any:
    from distributed import WorkerPlugin

    class OneThread(WorkerPlugin):
        """Also on workers that join later."""

        name = "batchlaw-one-blas-thread"

        def setup(self, worker: Any) -> None:
            one_blas_thread()

    return OneThread()
