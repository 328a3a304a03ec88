"""Who may ask, and how much: in front of everything else the server does."""

from __future__ import annotations

import asyncio
import ipaddress
import re
from collections.abc import MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

# Bytes of a request.
LARGEST = 256 * 1024
# Seconds that a part of it may take to come.
PATIENCE = 20.0
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
    """Every request is for this server, from its own page, and small; every reply is marked.

    ``names`` are the names beside loopback's that a request may be for. Where there are any,
    the server is open to other machines, and addresses in digits are taken as well: a page
    elsewhere can point a name of its own at this server, but not digits.
    """

    def __init__(self, app: ASGIApp, names: frozenset[str] = frozenset()) -> None:
        self.app = app
        self.names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def mark(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        whole = False

        async def soon() -> MutableMapping[str, Any]:
            """A body that does not come is given up, as if the client had gone."""
            nonlocal whole
            if whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), PATIENCE)
            except TimeoutError:
                return {"type": "http.disconnect"}
            whole = not message.get("more_body", False)
            return message

        refused = self._refused(scope["scheme"], Headers(scope=scope))
        await (refused or self.app)(scope, soon, mark)

    def _refused(self, scheme: str, headers: Headers) -> JSONResponse | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._ours(host):
            return _no(
                421, "the host must be this machine's loopback, or the one it was opened for"
            )
        if origin is not None and origin != f"{scheme}://{host}":
            return _no(403, "a request must come from this server's own page, or from none")
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers or not re.fullmatch(r"\d{1,12}", length):
            return _no(411, "a request must say how long it is")
        if int(length) > LARGEST:
            return _no(413, f"a request must have at most {LARGEST} bytes, got {length}")
        return None

    def _ours(self, host: str) -> bool:
        match = re.fullmatch(
            r"(\[[0-9a-f:.]+\]|[\w.-]+)(:\d{1,5})?", host, re.ASCII | re.IGNORECASE
        )
        if match is None:
            return False
        name = match[1].lower()
        if LOOPBACK.fullmatch(name) or name in self.names:
            return True
        return bool(self.names) and _digits(name)


def _digits(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def _no(status: int, detail: str) -> JSONResponse:
    return JSONResponse({"detail": detail}, status)
