"""The page as a program: a port of this machine, and an end that leaves no files or processes."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
from collections.abc import Callable

import uvicorn

from ..exceptions import FileError
from .pages import application
from .session import open_session

HOST = "127.0.0.1"
_SIGNALS = [
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
]


def serve(port: int | None, announce: Callable[[str], object]) -> None:
    """Serve until a signal comes; announce: called with the address as soon as it answers."""
    listening = listen(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    # The application comes later: it needs the session, which is opened when signals no longer end
    # this process.
    config = uvicorn.Config(
        "",
        log_level="warning",
        lifespan="off",
        ws="none",
        proxy_headers=False,
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    # After its end uvicorn raises the signal again: without these handlers that would go past what
    # is to be cleaned up.
    before = {number: signal.signal(number, server.handle_exit) for number in _SIGNALS}
    try:
        with open_session() as session:
            config.app = application(session, token, port)
            announce(f"http://{HOST}:{port}/{token}/")
            server.run(sockets=[listening])
    finally:
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def listen(port: int | None) -> socket.socket:
    """Return a socket of this machine alone; port None is any free port."""
    try:
        return socket.create_server((HOST, port or 0))
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken" if error.errno == errno.EADDRINUSE else "is for administrators"
        raise FileError(f"port {port} {why}: leave --port out to use a free one.") from None
