"""Checks the host, origin and size of every request before anything else."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

MAX_REQUEST_BYTES = 256 * 1024
# For each part of a request's body to arrive.
BODY_TIMEOUT_S = 20.0
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
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
LOOPBACK = re.compile(r"localhost|127(\.\d{1,3}){3}|\[::1\]")


class Guard:
    """Admits small requests for this host from its own page; adds security headers to replies.

    ``names`` are host names to accept besides loopback. If there are any, the server is open to
    other machines, and numeric addresses are accepted too: a hostile page can point its own
    name at this server (DNS rebinding), but not a numeric address.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str] = frozenset()) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def send_with_headers(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        complete = False

        async def receive_in_time() -> MutableMapping[str, Any]:
            """Gives up on a body that does not arrive, as if the client had disconnected."""
            nonlocal complete
            if complete:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), BODY_TIMEOUT_S)
            except TimeoutError:
                return {"type": "http.disconnect"}
            complete = not message.get("more_body", False)
            return message

        refusal = self._refusal(scope["scheme"], Headers(scope=scope))
        await (refusal or self.app)(scope, receive_in_time, send_with_headers)

    def _refusal(self, scheme: str, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_our_host(host):
            return _reply(421, "the host must be loopback, or the one the server was started for")
        if origin is not None and origin != f"{scheme}://{host}":
            return _reply(403, "a request must come from this server's own page, or from none")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not re.fullmatch(r"\d{1,12}", length):
            return _reply(411, "a request must have a Content-Length")
        if int(length) > MAX_REQUEST_BYTES:
            needed = f"a request must have at most {MAX_REQUEST_BYTES} bytes"
            return _reply(413, f"{needed}, got {length}")
        return None

    def _is_our_host(self, host: str) -> bool:
        match = re.fullmatch(
            r"(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?", host, re.ASCII | re.IGNORECASE
        )
        if match is None:
            return False
        name = match[1].lower()
        if LOOPBACK.fullmatch(name) or name in self.names:
            return True
        return bool(self.names) and _is_numeric(name)


def _is_numeric(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _reply(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)
