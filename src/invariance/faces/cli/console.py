"""What the command line prints: results on standard output; warnings and errors as single lines on standard error."""

from __future__ import annotations

import shutil
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...exceptions import InvarianceError
from .advice import for_command_line

if TYPE_CHECKING:
    from rich.text import Text

    from ...decisions.decision import FitSummary

_ONE_LINE = 1_000_000
_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}


def say(kind: str, message: str) -> None:
    """One line `kind: message` on standard error; a terminal gets it broken between words."""
    from rich.console import Console
    from rich.text import Text

    from ...posterior.summary import wrap

    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else _ONE_LINE
    text = Text("\n".join(wrap(message, f"{kind}: ", "  ", max(width, 20))))
    text.stylize(_STYLES[kind], 0, len(kind) + 1)
    Console(stderr=True).print(text, soft_wrap=True)


def show(content: FitSummary | str) -> None:
    """Print text, or a summary with colours where standard output is a terminal."""
    from rich.console import Console
    from rich.text import Text

    text = Text(content) if isinstance(content, str) else _coloured(str(content))
    Console().print(text, soft_wrap=True)


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
        with _warnings_as_lines(), _compilation_announced():
            yield
    except KeyboardInterrupt:
        # A terminal has just echoed ^C.
        sys.stderr.write("\ninterrupted\n" if sys.stderr.isatty() else "interrupted\n")
        raise typer.Exit(130) from None
    except InvarianceError as error:
        say("error", for_command_line(str(error)))
        raise typer.Exit(2) from None


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    said: set[str] = set()

    def say_once(message: Warning | str, *details: Any, **more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            say("warning", for_command_line(str(message)))

    with warnings.catch_warnings():
        for category in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", category)
        warnings.showwarning = say_once
        yield


@contextmanager
def _compilation_announced() -> Iterator[None]:
    """Tell someone at a terminal why the first run is slow."""
    if not sys.stderr.isatty():
        yield
        return
    from ..._tools.compiling import compilation_watched

    said = False

    def tell(begun: bool) -> None:
        nonlocal said
        if begun and not said:
            said = True
            say("note", "compiling for the first run, about a quarter of a minute; later runs start at once")

    with compilation_watched(tell):
        yield
