"""What the command line prints: results on standard output; warnings and errors as single lines on standard error."""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import typer

from ..exceptions import InvarianceError
from .options import SpeechOptions
from .remedies import said_by

if TYPE_CHECKING:
    from rich.console import Console

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
# "quiet", "usual" or "verbose"
_LOUDNESS = ContextVar("loudness", default="usual")


@contextmanager
def messages(options: SpeechOptions) -> Iterator[None]:
    """Inside the block: warnings become `warning:` lines, bad input an `error:` line and exit code 2.

    An interrupt exits with 130. Any other exception passes through: it is a bug, and its traceback the report.
    """
    if options.quiet and options.verbose:
        raise typer.BadParameter("--quiet and --verbose ask for opposite things: use one of them.")
    before = _LOUDNESS.set("quiet" if options.quiet else "verbose" if options.verbose else "usual")
    start, said = time.perf_counter(), set[str]()

    def say_once(message: Warning | str, *details: Any, **more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            say("warning", said_by(message) if isinstance(message, Warning) else message)

    try:
        with warnings.catch_warnings():
            for category in (UserWarning, RuntimeWarning):
                warnings.simplefilter("always", category)
            warnings.showwarning = say_once
            yield
        say("detail", f"finished after {time.perf_counter() - start:.1f} s")
    except KeyboardInterrupt:
        # A terminal has just echoed ^C.
        sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
        raise typer.Exit(130) from None
    except InvarianceError as error:
        say("error", said_by(error))
        raise typer.Exit(2) from None
    finally:
        _LOUDNESS.reset(before)


def _console(stderr: bool = False) -> Console:
    """Without any escape sequence where NO_COLOR asks for plain text."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(stderr=stderr, color_system=None if plain else "auto", force_terminal=False if plain else None)


def say(kind: str, message: str) -> None:
    """One line `kind: message` on standard error, which a terminal breaks between words.

    kind : error, warning, note (not if quiet) or detail (a note if verbose)
    """
    loudness = _LOUDNESS.get()
    if (kind == "note" and loudness == "quiet") or (kind == "detail" and loudness != "verbose"):
        return
    from rich.text import Text

    from .._tools.text import printable

    kind = "note" if kind == "detail" else kind
    text = Text(" ".join([f"{kind}:", *map(printable, message.split())]))
    text.stylize(_STYLES[kind], 0, len(kind) + 1)
    _console(stderr=True).print(text, soft_wrap=not sys.stderr.isatty())


def show(content: object) -> None:
    """Print text, or a summary with colours where standard output is a terminal: titles begin in the first column."""
    from rich.text import Text

    text = Text(str(content))
    if not isinstance(content, str):
        text.highlight_regex(r"(?m)^\S.*$", "bold")
        text.highlight_regex(r"(?m)[█▏▎▍▌▋▊▉]+$", "cyan")
    _console().print(text, soft_wrap=True)
