"""Replies to requests that cannot be met: 422 for bad input, 500 for a bug."""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from batchlaw._base.errors import InputError, Unstable
from batchlaw.faces.app.controls import label, page_name

log = logging.getLogger("batchlaw.explorer")
BUG = "a bug in batchlaw; see the server's log"
# Our wording of pydantic's errors, by type; names in braces come from the error's context.
_NEEDED = {
    "missing": "must be given",
    "extra_forbidden": "is not a field of this request",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "finite_number": "must be finite",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "bool_type": "must be true or false",
    "string_type": "must be text",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "literal_error": "must be {expected}",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entries",
    "too_long": "must have at most {max_length} entries",
}
# Errors for a body that is not a JSON object.
_NOT_AN_OBJECT = ("json_invalid", "model_attributes_type", "model_type", "dict_type")


def handle_bad_input(app: FastAPI) -> None:
    """Answer bad input with 422: one line, the field at fault, and the reason without the field."""

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        inner = first.get("ctx", {}).get("error")
        if isinstance(inner, InputError):
            return _refusal(inner)
        if first["type"] in _NOT_AN_OBJECT or first["loc"] == ("body",):
            needed = "the request must be a JSON object, with Content-Type application/json"
            return JSONResponse({"detail": needed, "field": None, "reason": None}, 422)
        return _refusal(_input_error(first))

    @app.exception_handler(InputError)
    async def refused(_: Request, error: InputError) -> JSONResponse:
        return _refusal(error)


def _refusal(error: InputError) -> JSONResponse:
    """The page puts the field's label before the reason, unless it has another subject."""
    # An unstable schedule is mended by its peak, not by its shape.
    field = "peak" if isinstance(error, Unstable) else page_name(error.field)
    reason = None if error.subject or error.where else error.predicate(label)
    detail = error.sentence(page_name)
    return JSONResponse({"detail": detail, "field": field, "reason": reason}, 422)


def _input_error(details: dict[str, Any]) -> InputError:
    """An error of pydantic's, in our words."""
    _, *path = details["loc"]
    if len(path) > 1 and path[0] == "setting":
        path = path[1:]
    needed = _NEEDED.get(details["type"], "").format_map(details.get("ctx", {}))
    needed = needed or f"is refused: {details['msg']}"
    field, *inner = map(str, path)
    if inner:
        needed = f"{needed} at {'.'.join(inner)}"
    scalar = isinstance(details["input"], int | float | str)
    return InputError(field, needed, f"{details['input']!r:.40}" if scalar else "")


class Bugs:
    """Any other exception is a bug: logged with its traceback, answered with 500."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def watched_send(message: MutableMapping[str, Any]) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, receive, watched_send)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            log.exception("%s %s failed", scope["method"], scope["path"])
            await JSONResponse({"detail": BUG}, 500)(scope, receive, send)
