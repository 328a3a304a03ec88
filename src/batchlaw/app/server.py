"""The explorer's server: a small typed API over the package, and one page. Loopback only."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel, ConfigDict, Field

from batchlaw._version import __version__
from batchlaw.app.checks import MOST_REPETITIONS, Checks, TooMuchError
from batchlaw.app.setting import Setting
from batchlaw.app.view import Solved, collapse, drawn, view
from batchlaw.export import export

STATIC = Path(__file__).parent / "static"
# Bytes of a request, and computations at a time; more wait.
LARGEST, AT_A_TIME = 256 * 1024, 2
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = re.compile(r"(localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?\Z")


class Drawing(BaseModel):
    """A drawn schedule: heights at evenly spaced steps."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    setting: Setting
    heights: Annotated[
        list[Annotated[float, Field(gt=0.0, le=1e12)]], Field(min_length=2, max_length=2000)
    ]


class Download(BaseModel):
    """A plan in one of its formats."""

    model_config = ConfigDict(extra="forbid")

    setting: Setting
    format: Literal["json", "megatron", "olmo", "accumulation", "pytorch", "csv", "png"]
    sequence_length: int | None = Field(default=None, ge=1, le=10**9)
    data_parallel: int | None = Field(default=None, ge=1, le=10**6)
    micro_batch: int | None = Field(default=None, ge=1, le=10**6)


class Asked(BaseModel):
    """A Monte Carlo check."""

    model_config = ConfigDict(extra="forbid")

    setting: Setting
    repetitions: int = Field(default=200, ge=20, le=MOST_REPETITIONS)


def make_app(hosts: frozenset[str] = frozenset()) -> FastAPI:
    """The application; ``hosts`` are names beside loopback's that a request may be for."""
    checks = Checks()
    turns = asyncio.Semaphore(AT_A_TIME)

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        yield
        checks.close()

    app = FastAPI(
        title="batchlaw explorer",
        version=__version__,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
    )
    _guard(app, hosts)
    _errors(app)

    async def compute(work: Callable[..., Any], *arguments: Any) -> Any:
        async with turns:
            return await asyncio.to_thread(work, *arguments)

    @app.post("/api/view")
    async def get_view(setting: Setting) -> dict[str, Any]:
        """Rates, influence, schedules and their risks."""
        return dict(await compute(view, setting))

    @app.post("/api/collapse")
    async def get_collapse(setting: Setting) -> dict[str, Any]:
        """The noise of four families of schedules against one summary of them."""
        return dict(await compute(collapse, setting))

    @app.post("/api/score")
    async def get_score(drawing: Drawing) -> dict[str, Any]:
        """A drawn schedule, scaled to the budget, against the oracle."""
        return dict(await compute(drawn, drawing.setting, np.array(drawing.heights)))

    @app.post("/api/plan")
    async def get_plan(asked: Download) -> Response:
        """The planned schedule as a file."""
        content, kind, name = await compute(_file, asked)
        disposition = f'attachment; filename="{name}"'
        return Response(content, media_type=kind, headers={"Content-Disposition": disposition})

    @app.post("/api/checks", status_code=202)
    async def start_check(asked: Asked) -> dict[str, str]:
        """Start a Monte Carlo check of the collapse."""
        try:
            return {"id": checks.start(asked.setting, asked.repetitions)}
        except TooMuchError as error:
            raise HTTPException(429, str(error)) from None

    @app.get("/api/checks/{name}")
    async def get_check(name: str) -> dict[str, Any]:
        """How far a check is, and its points so far."""
        found = checks.get(name)
        if found is None:
            raise HTTPException(404, "there is no such check")
        return found.as_json()

    @app.delete("/api/checks/{name}", status_code=204)
    async def cancel_check(name: str) -> None:
        """Stop a check after the block it is in."""
        found = checks.get(name)
        if found is None:
            raise HTTPException(404, "there is no such check")
        found.cancelled.set()

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(STATIC / "index.html")

    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    return app


def _guard(app: FastAPI, hosts: frozenset[str]) -> None:
    """Every request is for this server, from its own page, and small; every reply is marked."""

    def ours(host: str) -> bool:
        return LOOPBACK.match(host) is not None or host.rpartition(":")[0] in hosts or host in hosts

    @app.middleware("http")
    async def check(
        request: Request, proceed: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        host, origin = request.headers.get("host", ""), request.headers.get("origin")
        if not ours(host):
            reply: Response = PlainTextResponse("this server is for loopback only", 421)
        elif origin is not None and origin != f"{request.url.scheme}://{host}":
            reply = PlainTextResponse("requests must come from this server's own page", 403)
        elif not _small(request):
            reply = PlainTextResponse(f"a request may have {LARGEST} bytes", 413)
        else:
            reply = await proceed(request)
        reply.headers.update(HEADERS)
        return reply


def _small(request: Request) -> bool:
    """A body must say how long it is, and be short."""
    if request.method not in ("POST", "PUT", "PATCH"):
        return True
    length = request.headers.get("content-length", "")
    return length.isdigit() and int(length) <= LARGEST


def _errors(app: FastAPI) -> None:
    """Bad input is 422 with one line that says what, what was needed, what came."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part != "body")
        said = str(first["msg"]).removeprefix("Value error, ")
        return JSONResponse({"detail": f"{where}: {said}" if where else said}, 422)

    @app.exception_handler(ValueError)
    @app.exception_handler(ArithmeticError)
    async def refused(_: Request, error: Exception) -> JSONResponse:
        return JSONResponse({"detail": " ".join(str(error).split())}, 422)


def _file(asked: Download) -> tuple[bytes, str, str]:
    """Content, media type and name."""
    plan = Solved.of(asked.setting).plan()
    if asked.format == "png":
        from batchlaw import plots

        buffer = io.BytesIO()
        plots.plan_figure(plan.rates, plan.batches).savefig(buffer, format="png", dpi=150)
        return buffer.getvalue(), "image/png", "plan.png"
    if asked.format == "csv":
        lines = [
            f"{t},{rate!r},{batch}"
            for t, (rate, batch) in enumerate(
                zip(plan.rates.tolist(), plan.batches.tolist(), strict=True), start=1
            )
        ]
        return "\n".join(["step,rate,batch", *lines, ""]).encode(), "text/csv", "plan.csv"
    text = export(
        plan,
        asked.format,
        sequence_length=asked.sequence_length,
        data_parallel=asked.data_parallel,
        micro_batch=asked.micro_batch,
    )
    if asked.format == "json":
        return text.encode(), "application/json", "plan.json"
    return text.encode(), "text/plain", f"plan-{asked.format}.txt"
