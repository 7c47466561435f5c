"""Remedies of errors, warnings and notes, worded as the options of the command line are typed."""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ..exceptions import Message
from .options import write_merges, write_names

if TYPE_CHECKING:
    from ..baselines.comparison import Comparison
    from ..posterior.posterior import Posterior

AnyPosterior = TypeVar("AnyPosterior", bound="Posterior")

# Parameters whose option has another name.
_OPTIONS = {
    "n_jobs": "jobs",
    "random_state": "seed",
    "drop_environments": "drop-environment",
    "merge_environments": "merge",
    "handle_unknown": "unknown",
    "kind": "plot-kind",
}
# Settings that are no options: of a family, or of Python alone.
_NO_OPTIONS = ("pseudo_rows", "knots", "intervals", "groups", "regressor", "second_moments", "trusted", "partial")


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
            option, value = "--methods", f"Oracle(support=[{', '.join(map(str, value))}])"
        case "predict_with", str():
            return "--average" if value == "average" else "no --average"
        case "family", str():
            value = next((short for short, family in SHORT.items() if family == value), value)
        case "select", Threshold():
            return f"--select threshold --threshold {value.threshold:g}"
        case "merge_environments", dict():
            value = write_merges(value)
    if isinstance(value, list | tuple):
        value = write_names(map(str, value))
    if name in _NO_OPTIONS or not isinstance(value, str | int | float):
        return f"{name}={value!r}"
    # A sign is quoted, or the full stop of the sentence looks like part of it.
    return f"{option} {repr(value) if value in ('.', ',') else shlex.quote(str(value))}"


def for_shell(text: str) -> str:
    """A message in the words of the command line; other text as it is."""
    return text.worded(in_shell) if isinstance(text, Message) else str(text)


def said_by(error: Exception) -> str:
    """The text of an error or a warning for the command line."""
    return for_shell(error.args[0] if error.args and isinstance(error.args[0], Message) else str(error))


def posterior_for_shell(posterior: AnyPosterior) -> AnyPosterior:
    notes = tuple(map(for_shell, posterior.notes))
    reason = posterior.model_reason.replace("family='linear_gaussian'", "--family gaussian")
    return replace(posterior, notes=notes, model_reason=reason)


def comparison_for_shell(comparison: Comparison) -> Comparison:
    return replace(
        comparison, methods=tuple(replace(m, notes=tuple(map(for_shell, m.notes))) for m in comparison.methods)
    )
