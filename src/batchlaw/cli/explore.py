"""``batchlaw explore``: the page, on this machine."""

from __future__ import annotations

import socket
import webbrowser

from batchlaw import _check
from batchlaw.cli.inputs import Flag


def explore(*, port: int = 0, host: str = "127.0.0.1", quiet: Flag = False) -> int:
    """Start the explorer and open its page in a browser; Ctrl-C ends it.

    Parameters
    ----------
    port
        A free one by default.
    host
        Address to listen on. Others than loopback's let other machines in: there is no password.
    quiet
        Do not open a browser.
    """
    try:
        import uvicorn

        from batchlaw.app.server import make_app
    except ModuleNotFoundError:
        raise ValueError("explore must have FastAPI: install the extra, explore") from None
    if port:
        _check.count("port", port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise ValueError(f"{host}:{port} must be free to listen on: {error}") from None
    name = f"[{host}]" if family == socket.AF_INET6 else host
    address = f"http://{name}:{listener.getsockname()[1]}/"
    print(f"{address}  (Ctrl-C ends it)", flush=True)
    if not quiet:
        webbrowser.open(address)
    settings = uvicorn.Config(
        make_app(frozenset({name})), log_level="warning", server_header=False, timeout_keep_alive=30
    )
    uvicorn.Server(settings).run(sockets=[listener])
    return 0
