"""The explorer's server: a small typed API over the package, and one page."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from threadpoolctl import threadpool_limits

from batchlaw._base.version import __version__
from batchlaw.faces.app.checks import BusyError, Check, Checks
from batchlaw.faces.app.collapse import collapse
from batchlaw.faces.app.downloads import media_types, plan_file
from batchlaw.faces.app.guard import Guard
from batchlaw.faces.app.page_setting import PageSetting
from batchlaw.faces.app.refusals import Bugs, handle_bad_input
from batchlaw.faces.app.replies import (
    Along,
    CheckState,
    Collapse,
    Drawn,
    Refusal,
    Searched,
    Started,
    View,
)
from batchlaw.faces.app.request import CheckRequest, Download, Drawing, Models
from batchlaw.faces.app.view import along, score, searched, view

STATIC = Path(__file__).parent / "static"
# Computations that run at a time, and requests that may wait for one.
MAX_RUNNING, MAX_WAITING = 2, 256
# Error replies that every request may get.
REFUSALS: dict[int | str, dict[str, Any]] = {
    400: {"model": Refusal, "description": "not JSON"},
    403: {"model": Refusal, "description": "sent from another page"},
    411: {"model": Refusal, "description": "no Content-Length"},
    413: {"model": Refusal, "description": "too long"},
    421: {"model": Refusal, "description": "for another host"},
    422: {"model": Refusal, "description": "out of bounds or impossible, with the reason"},
    429: {"model": Refusal, "description": "too many requests at a time"},
    500: {"model": Refusal, "description": "a bug in batchlaw"},
}
NO_SUCH_CHECK: dict[int | str, dict[str, Any]] = {
    404: {"model": Refusal, "description": "no such check"}
}

P = ParamSpec("P")
R = TypeVar("R")


class Turns:
    """Runs a few computations at a time; skips those whose client has disconnected."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(MAX_RUNNING)
        self._waiting = 0

    async def run(
        self, request: Request, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        if self._waiting >= MAX_WAITING:
            raise HTTPException(429, f"at most {MAX_WAITING} requests may wait")
        self._waiting += 1
        try:
            async with self._turns:
                if await request.is_disconnected():
                    raise HTTPException(499, "the client has disconnected")
                return await in_thread(lambda: work(*args, **kwargs))
        except asyncio.CancelledError:
            raise HTTPException(503, "the server is shutting down") from None
        finally:
            self._waiting -= 1


async def in_thread(work: Callable[[], R]) -> R:
    """Run ``work`` in a daemon thread, which Ctrl-C does not wait for."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[R] = loop.create_future()

    def settle(result: R | None, error: BaseException | None) -> None:
        if future.cancelled():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(cast(R, result))

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except BaseException as raised:  # any kind: re-raised in the coroutine that waits
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await future


def make_app(names: frozenset[str] = frozenset()) -> FastAPI:
    """The application; ``names`` are host names to accept besides loopback."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.turns, app.state.checks = Turns(), Checks()
        # Computations run in parallel already: more BLAS threads would only compete.
        with threadpool_limits(1, "blas"):
            yield
        app.state.checks.close()

    app = FastAPI(
        title="batchlaw explorer",
        version=__version__,
        description="Influence, schedules and risks of mini-batch SGD and Adam, as the page shows "
        "them.",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        responses=REFUSALS,
    )
    app.add_middleware(Bugs)
    app.add_middleware(Guard, names=names)
    handle_bad_input(app)
    models = Models.now()
    _add_computations(app, models)
    _add_checks(app, models)

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app


def _takes(**models: type) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Annotate an endpoint with models that were built for this application."""

    def annotate(endpoint: Callable[P, R]) -> Callable[P, R]:
        endpoint.__annotations__.update(models)
        return endpoint

    return annotate


async def _compute(request: Request, work: Callable[P, R], *args: P.args, **kw: P.kwargs) -> R:
    turns: Turns = request.app.state.turns
    return await turns.run(request, work, *args, **kw)


def _add_computations(app: FastAPI, models: Models) -> None:
    @app.post("/api/view")
    @_takes(setting=models.setting)
    async def get_view(request: Request, setting: PageSetting) -> View:
        """Rates, influence, schedules and their risks."""
        return await _compute(request, view, setting)

    @app.post("/api/along")
    @_takes(setting=models.setting)
    async def get_along(request: Request, setting: PageSetting) -> Along:
        """The risk of each schedule after the updates so far."""
        return await _compute(request, along, setting)

    @app.post("/api/search")
    @_takes(setting=models.setting)
    async def get_search(request: Request, setting: PageSetting) -> Searched:
        """A view with the plan and the best schedule found, for optimizers without influence."""
        return await _compute(request, searched, setting)

    @app.post("/api/collapse")
    @_takes(setting=models.setting)
    async def get_collapse(request: Request, setting: PageSetting) -> Collapse:
        """The noise of four families of schedules against one summary of them."""
        return await _compute(request, collapse, setting)

    @app.post("/api/score")
    @_takes(drawing=models.drawing)
    async def get_score(request: Request, drawing: Drawing) -> Drawn:
        """A drawn schedule, scaled to the budget, against the greedy one."""
        return await _compute(request, score, drawing.setting, np.array(drawing.heights))

    @app.post(
        "/api/plan",
        response_class=Response,
        responses={
            200: {"description": "the file", "content": {kind: {} for kind in media_types()}}
        },
    )
    @_takes(asked=models.download)
    async def get_plan(request: Request, asked: Download) -> Response:
        """The planned schedule as a file."""
        file = await _compute(request, plan_file, asked.setting, asked.format, asked.layout())
        headers = {"Content-Disposition": f'attachment; filename="{file.name}"'}
        if file.warning:
            headers["Batchlaw-Warning"] = file.warning
        return Response(file.content, media_type=file.media_type, headers=headers)


def _add_checks(app: FastAPI, models: Models) -> None:
    def find(request: Request, name: str) -> Check:
        checks: Checks = request.app.state.checks
        check = checks.get(name)
        if check is None:
            raise HTTPException(404, "there is no such check")
        return check

    @app.post("/api/checks", status_code=202)
    @_takes(asked=models.check)
    async def start_check(request: Request, asked: CheckRequest) -> Started:
        """Start a Monte Carlo check of the collapse."""
        checks: Checks = request.app.state.checks
        try:
            return Started(id=checks.start(asked.setting, asked.repetitions))
        except BusyError as error:
            raise HTTPException(429, str(error)) from None

    @app.get("/api/checks/{name}", responses=NO_SUCH_CHECK)
    async def get_check(request: Request, name: str) -> CheckState:
        """Progress of a check, and its points so far."""
        return find(request, name).state()

    @app.delete("/api/checks/{name}", status_code=204, responses=NO_SUCH_CHECK)
    async def cancel_check(request: Request, name: str) -> None:
        """Stop a check after its current block."""
        find(request, name).cancelled.set()
