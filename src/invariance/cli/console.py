"""What the command line prints: results on standard output; warnings and errors as single lines on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..exceptions import InvarianceError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from .._tools.progress import ProgressMode

_ONE_LINE = 1_000_000
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


# "quiet", "usual" or "verbose"
_LOUDNESS = ContextVar("loudness", default="usual")


@contextmanager
def loudness(quiet: bool, verbose: bool) -> Iterator[None]:
    """How much is said inside the block; verbose: in the end, how long it took."""
    import typer

    if quiet and verbose:
        raise typer.BadParameter("--quiet and --verbose ask for opposite things: use one of them.")
    before = _LOUDNESS.set("quiet" if quiet else "verbose" if verbose else "usual")
    start = time.perf_counter()
    try:
        yield
        detail(f"finished after {time.perf_counter() - start:.1f} s")
    finally:
        _LOUDNESS.reset(before)


def detail(message: str) -> None:
    """A note for those who asked for more of them."""
    if _LOUDNESS.get() == "verbose":
        say("note", message)


def shown_progress() -> ProgressMode:
    return False if _LOUDNESS.get() == "quiet" else "auto"


def _console(stderr: bool = False) -> Console:
    """Without any escape sequence where NO_COLOR asks for plain text."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(stderr=stderr, color_system=None if plain else "auto", force_terminal=False if plain else None)


def say(kind: str, message: str) -> None:
    """One line `kind: message` on standard error; a terminal gets it broken between words."""
    if kind == "note" and _LOUDNESS.get() == "quiet":
        return
    from rich.text import Text

    from .._tools.text import wrap

    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else _ONE_LINE
    text = Text("\n".join(wrap(message, f"{kind}: ", "  ", max(width, 20))))
    text.stylize(_STYLES[kind], 0, len(kind) + 1)
    _console(stderr=True).print(text, soft_wrap=True)


def show(content: object) -> None:
    """Print text, or a summary with colours where standard output is a terminal."""
    from rich.text import Text

    text = Text(content) if isinstance(content, str) else _coloured(str(content))
    _console().print(text, soft_wrap=True)


def _coloured(summary: str) -> Text:
    """The text of a summary, unchanged, with styles by what its paragraphs are."""
    from rich.text import Text

    paragraphs = [Text(paragraph) for paragraph in summary.split("\n\n")]
    for paragraph in paragraphs:
        title = paragraph.plain.split("\n", 1)[0]
        if title.startswith(("Decision", "Posterior over")):
            paragraph.highlight_regex(r"\n  [a-z]+  ", "dim")
        elif title == "Inclusion probability":
            paragraph.highlight_regex(r"(?m)[█▏▎▍▌▋▊▉]+$", "cyan")
        elif title == "Most probable subsets":
            paragraph.highlight_regex(r"\n +prob\. .*", "dim")
        paragraph.stylize("bold", 0, len(title))
    return Text("\n\n").join(paragraphs)


@contextmanager
def plain_speech() -> Iterator[None]:
    """Inside the block: warnings become `warning:` lines, bad input an `error:` line and exit code 2.

    An interrupt exits with 130. Any other exception passes through: it is a bug, and its traceback the report.
    """
    import typer

    try:
        with _warnings_as_lines():
            yield
    except KeyboardInterrupt:
        # A terminal has just echoed ^C.
        sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
        raise typer.Exit(130) from None
    except InvarianceError as error:
        from .remedies import said_by

        say("error", said_by(error))
        raise typer.Exit(2) from None


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    said: set[str] = set()

    def say_once(message: Warning | str, *details: Any, **more: Any) -> None:
        from .remedies import said_by

        if str(message) not in said:
            said.add(str(message))
            say("warning", said_by(message) if isinstance(message, Warning) else message)

    with warnings.catch_warnings():
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = say_once
        yield
