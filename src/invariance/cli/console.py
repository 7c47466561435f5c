"""What the command line prints: results on standard output; warnings and errors as single lines on
standard error, with remedies worded as options are typed."""

from __future__ import annotations

import logging
import os
import shlex
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import typer

from .._tools.sections import as_text
from .._tools.text import printable
from ..exceptions import InvarianceError, Message
from .options import STANDARD_OUTPUT, SpeechOptions, write_codes, write_names

if TYPE_CHECKING:
    from rich.console import Console

    from ..decisions.decision import FitSummary
    from ..posterior.posterior import Posterior

_STYLES = {"error": "bold red", "warning": "yellow", "note": "dim"}
_LOUDNESS = ContextVar("loudness", default="usual")  # or "quiet", "verbose"
# Where results go: standard error where a result as JSON takes standard output
_ASIDE = ContextVar("aside", default=False)


@contextmanager
def messages(options: SpeechOptions) -> Iterator[None]:
    """Inside the block: warnings become `warning:` lines, bad input an `error:` line and exit code
    2, an interrupt exit code 130. Any other exception passes through: it is a bug, and its
    traceback the report. Where the result as JSON takes standard output it has nothing else."""
    if options.quiet and options.verbose:
        raise typer.BadParameter("--quiet and --verbose ask for opposite things: use one of them.")
    before = _LOUDNESS.set("quiet" if options.quiet else "verbose" if options.verbose else "usual")
    aside = _ASIDE.set(getattr(options, "json", None) == STANDARD_OUTPUT)
    start = time.perf_counter()
    said = set[str]()
    logger = logging.getLogger("invariance")
    log = _Notes()
    logger.addHandler(log)
    level = logger.level
    logger.setLevel(logging.INFO)

    def say_once(message: Warning | str, *details: Any, **more: Any) -> None:
        if str(message) not in said:
            said.add(str(message))
            say("warning", said_by(message))

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
        logger.removeHandler(log)
        logger.setLevel(level)
        _LOUDNESS.reset(before)
        _ASIDE.reset(aside)


class _Notes(logging.Handler):
    """Show what the package logs as notes."""

    def emit(self, record: logging.LogRecord) -> None:
        say("note", record.getMessage())


def _console(stderr: bool = False) -> Console:
    """Without any escape sequence where NO_COLOR asks for plain text."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
    )


def say(kind: str, message: str) -> None:
    """One line on standard error. kind : error, warning, note (not if quiet) or detail (a note if
    verbose)"""
    loudness = _LOUDNESS.get()
    if (kind == "note" and loudness == "quiet") or (kind == "detail" and loudness != "verbose"):
        return
    from rich.text import Text

    kind = "note" if kind == "detail" else kind
    text = Text(" ".join([f"{kind}:", *map(printable, message.split())]))
    text.stylize(_STYLES[kind], 0, len(kind) + 1)
    _console(stderr=True).print(text, soft_wrap=not sys.stderr.isatty())


def show_found(summary: FitSummary) -> None:
    """Print each section as soon as it is known, so that nobody waits for the verdict until all is
    computed."""
    for n, section in enumerate(summary.found()):
        show(f"{chr(10) if n else ''}{as_text([section], summary.worded)}", titled=True)


def show(content: object, titled: bool = False) -> None:
    """Print text, or a summary with colours where standard output is a terminal: titles begin in
    the first column."""
    from rich.text import Text

    text = Text(str(content))
    if titled or not isinstance(content, str):
        text.highlight_regex(r"(?m)^\S.*$", "bold")
        text.highlight_regex(r"(?m)[█▏▎▍▌▋▊▉]+$", "cyan")
    _console(stderr=_ASIDE.get()).print(text, soft_wrap=True)


# Parameters whose option has another name.
_OPTIONS = {
    "n_jobs": "jobs",
    "random_state": "seed",
    "environments": "environment",
    "drop_environments": "drop-environment",
    "merge_environments": "merge",
    "handle_unknown": "unknown",
    "kind": "plot-kind",
    "weights": "weight",
}
# Settings that are no options: of a family, or of Python alone.
_NO_OPTIONS = (
    "pseudo_rows",
    "knots",
    "intervals",
    "groups",
    "regressor",
    "trusted",
    "partial",
    "as_text",
)


def in_shell(name: str, value: Any) -> str:
    """--missing drop for missing='drop'; no --features for features=None"""
    from ..decisions.rules import Threshold
    from ..models.registry import SHORT

    option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
    match name, value:
        case _, None:
            return f"no {option}"
        case _, bool():
            return option if value else f"--no-{option[2:]}"
        case "support", list():
            option = "--methods"
            value = f"Oracle(support=[{', '.join(map(str, value))}])"
        case "family", str():
            value = next((short for short, family in SHORT.items() if family == value), value)
        case "select", Threshold():
            return f"--select threshold --threshold {value.threshold:g}"
        case "na", dict():
            value = write_names(write_codes(value))
        case "merge_environments", dict():
            value = write_names(
                printable(f"{'+'.join(map(str, old))}={new}") for new, old in value.items()
            )
    if isinstance(value, list | tuple):
        value = write_names(map(str, value))
    if name in _NO_OPTIONS or not isinstance(value, str | int | float):
        return f"{name}={value!r}"
    # A sign is quoted, or the full stop of the sentence looks like part of it.
    typed = repr(value) if value in (".", ",") else shlex.quote(str(value))
    # What begins with - would be another option.
    return f"{option}={typed}" if str(value).startswith("-") else f"{option} {typed}"


def for_shell(text: str) -> str:
    """A message in the words of the command line; other text as it is."""
    return text.worded(in_shell, " ") if isinstance(text, Message) else str(text)


def said_by(error: Exception | str) -> str:
    """The text of an error or a warning for the command line."""
    args = getattr(error, "args", ())
    return for_shell(args[0] if args and isinstance(args[0], Message) else str(error))


def posterior_for_shell(posterior: Posterior) -> Posterior:
    reason = posterior.model_reason.replace("family='linear_gaussian'", "--family gaussian")
    return replace(posterior, notes=tuple(map(for_shell, posterior.notes)), model_reason=reason)
