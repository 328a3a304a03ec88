"""``batchlaw explore``: serve the explorer's page from this machine."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import sys
import threading
import webbrowser

from batchlaw._base import checks
from batchlaw._base.errors import InputError
from batchlaw.faces.cli.inputs import Flag


def explore(*, port: int = 0, host: str = "127.0.0.1", quiet: Flag = False) -> int:
    """Start the explorer and open its page in a browser; Ctrl-C stops it.

    Parameters
    ----------
    port
        Port to listen on; any free port by default.
    host
        Address to listen on; 0.0.0.0 is every address of this machine. Any address other than
        loopback admits other machines, and there is no password.
    quiet
        Do not open a browser.
    """
    try:
        import uvicorn

        from batchlaw.faces.app.server import make_app
        from batchlaw.faces.app.setting_fields import page_setting
        from batchlaw.faces.app.view import view
    except ModuleNotFoundError as error:
        raise InputError(
            "explore",
            f"must have {error.name}",
            hint="install the extra explore (here: make explore)",
        ) from None
    if checks.count("port", port, minimum=0) > 65535:
        raise InputError("port", "must be at most 65535", f"{port}")
    with _listener(host, port) as listener:
        names = _names(host)
        name = f"[{host}]" if ":" in host else host
        if names and ipaddress.ip_address(listener.getsockname()[0]).is_unspecified:
            name = socket.gethostname()
        address = f"http://{name}:{listener.getsockname()[1]}/"
        print(f"{address}  (Ctrl-C ends it)", flush=True)
        if names:
            print("batchlaw: open to other machines, without a password", file=sys.stderr)
        # Load or compile the numba functions while the browser starts.
        threading.Thread(target=view, args=(page_setting()(),), daemon=True).start()
        if not quiet:
            webbrowser.open(address)
        settings = uvicorn.Config(
            make_app(names),
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=2,
            ws="none",
        )
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(settings).run(sockets=[listener])
    return 0


def _listener(host: str, port: int) -> socket.socket:
    """A socket that already listens when its address is printed: early requests wait."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise InputError(
            "port", "must be free to listen on", hint=f"{error}", subject=f"{host}:{port}"
        ) from None
    # Inherited by every connection. Without it the second packet of a reply waits 40 ms for the
    # browser to acknowledge the first.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _names(host: str) -> frozenset[str]:
    """Host names to accept besides loopback; empty if only loopback listens."""
    try:
        if ipaddress.ip_address(host).is_loopback:
            return frozenset()
    except ValueError:
        if host == "localhost":
            return frozenset()
    return frozenset({host.lower(), socket.gethostname().lower()})
