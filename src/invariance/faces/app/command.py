"""`invariance app`."""

from __future__ import annotations

import threading
import webbrowser
from typing import Annotated

import typer

from ...exceptions import OutputError
from ..cli.console import plain_speech, show

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
            from .server import serve
        except ImportError as error:
            raise OutputError(f"the page needs {error.name}: install it with pip install 'invariance[app]'.") from error
        serve(port, announce)
    show("The page is closed.")
