"""The page as a program: a port of this machine, and an end that leaves nothing behind."""

from __future__ import annotations

import errno
import secrets
import signal
import socket
import threading
import webbrowser
from collections.abc import Callable
from typing import Annotated

import typer
import uvicorn

from ..cli.console import plain_speech, show
from ..exceptions import FileError
from .pages import application
from .session import open_session

HOST = "127.0.0.1"
_SIGNALS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def serve(port: int | None, announce: Callable[[str], object]) -> None:
    """Serve until a signal comes; announce: called with the address as soon as it answers."""
    listening = listen(port)
    port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    # The application comes later: it needs the session, which is opened when signals no longer end this process.
    config = uvicorn.Config(
        "", log_level="warning", lifespan="off", ws="none", proxy_headers=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    # After its end uvicorn raises the signal again: without these handlers that would go past what is to be cleaned up.
    before = {number: signal.signal(number, server.handle_exit) for number in _SIGNALS}
    try:
        with open_session() as session:
            config.app = application(session, token, port)
            listening.listen()
            announce(f"http://{HOST}:{port}/{token}/")
            server.run(sockets=[listening])
    finally:
        listening.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def listen(port: int | None) -> socket.socket:
    """A socket of this machine alone; None is any free port."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port or 0))
    except OSError as error:
        listening.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        why = "is taken" if error.errno == errno.EADDRINUSE else "is for administrators"
        raise FileError(f"port {port} {why}: use --port {_free_port()}, or leave --port out.") from None
    return listening


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


_EXAMPLES = """\b
Examples:
  invariance app
  invariance app --port 8800 --no-browser
"""


def register(app: typer.Typer) -> None:
    app.command("app", epilog=_EXAMPLES)(open_page)


def open_page(
    port: Annotated[
        int | None, typer.Option(metavar="N", min=1, max=65535, help="Port to use.", show_default="a free one")
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
) -> None:
    """Open a page in the browser: bring a table, choose by clicking, read the report.

    The page is served to this machine alone, to whoever has its address. Tables are kept until it is closed.
    """

    def announce(address: str) -> None:
        show(f"The page is at\n  {address}\nIt ends with Ctrl-C, and keeps nothing of the tables.")
        if not no_browser:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    with plain_speech():
        try:
            pass
        except ImportError as error:
            raise FileError(f"the page needs {error.name}: install it with pip install 'invariance[app]'.") from error
        serve(port, announce)
    show("The page is closed.")
