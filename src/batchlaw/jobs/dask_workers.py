"""Cells on a Dask cluster, an existing one or one of this machine; the only file with Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

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
        from distributed import Client, LocalCluster
    except ModuleNotFoundError:
        raise ValueError("--dask must have Dask: install the extra, dask") from None
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
            yield Workers(client.get_executor(pure=False), lambda: _threads(client))


def _client(kind: Any, found: Any, address: str) -> Any:
    from distributed.comm.addressing import get_address_host_port

    try:
        if address != LOCAL:
            if not address.startswith("tcp://"):
                raise ValueError("it must be tcp://HOST:PORT or local")
            # A client that was given no address leaves a thread that complains at the end.
            get_address_host_port(address)
        client = kind(found, timeout=REACH, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(
            f"--dask must be a scheduler's address, got {address!r}: {error}"
        ) from None
    try:
        client.wait_for_workers(1, timeout=FIRST)
    except TimeoutError:
        client.close()
        raise ValueError(f"{address} must have workers: none came in {FIRST:g} s") from None
    return client


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
