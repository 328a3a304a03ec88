"""Workers on a Dask cluster, existing or local. The only file that imports Dask."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from batchlaw._base.errors import InputError
from batchlaw.jobs.workers import THREAD_LIMITS, Workers, one_blas_thread, starting_workers

LOCAL = "local"
# Time to wait for the scheduler, and for its first worker.
CONNECT_TIMEOUT_S, FIRST_WORKER_TIMEOUT_S = 30.0, 600.0
# A task whose worker dies is retried on another, this many times.
MAX_WORKER_DEATHS = 5


@contextmanager
def dask_workers(address: str, count: int) -> Iterator[Workers]:
    """Workers of the scheduler at ``address``; "local" starts ``count`` local processes."""
    try:
        import dask
        from distributed import Client, KilledWorker, LocalCluster
    except ModuleNotFoundError:
        raise InputError("dask", "must have Dask", hint="install the extra, dask") from None
    settings = {
        "distributed.scheduler.allowed-failures": MAX_WORKER_DEATHS,
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
                    env=dict.fromkeys(THREAD_LIMITS, "1"),
                )
        with cluster as target, _client(Client, target, address) as client:
            client.register_plugin(_one_thread_plugin())
            pool = client.get_executor(pure=False)
            yield Workers(pool, lambda: _threads(client), killed=(KilledWorker,))


def _client(client_class: Any, target: Any, address: str) -> Any:
    if address != LOCAL:
        _check_address(address)
    try:
        client = client_class(target, timeout=CONNECT_TIMEOUT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise _not_a_scheduler(address, str(error)) from None
    try:
        client.wait_for_workers(1, timeout=FIRST_WORKER_TIMEOUT_S)
    except TimeoutError:
        client.close()
        hint = f"none connected within {FIRST_WORKER_TIMEOUT_S:g} s"
        raise InputError("dask", "must have workers", hint=hint, subject=address) from None
    return client


def _check_address(address: str) -> None:
    """Checked first: a client given a bad address leaves a thread that logs errors at exit."""
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
        """Limits BLAS to one thread, also on workers that join later."""

        name = "batchlaw-one-blas-thread"

        def setup(self, worker: Any) -> None:
            one_blas_thread()

    return OneThread()
