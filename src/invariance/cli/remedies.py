"""Remedies of errors, warnings and notes, worded as they are typed in a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from ..baselines.registry import CLASS_NAMES
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
_NO_OPTIONS = ("pseudo_rows", "knots", "intervals", "groups", "regressor", "second_moments", "trusted")


@cache
def _names() -> dict[str, str]:
    """{class: name on the command line}"""
    from ..inference.registry import ENGINES
    from ..models.registry import MODELS
    from ..priors.priors import PRIORS

    families = {kind: _short(name) for kind, name in MODELS.class_names.items()}
    return ENGINES.class_names | PRIORS.class_names | families | CLASS_NAMES


def _short(family: str) -> str:
    from ..models.registry import SHORT

    return {name: typed for typed, name in SHORT.items()}.get(family, family)


def in_shell(name: str, value: Any) -> str:
    """--missing drop for missing='drop'; no --features for features=None; --features A,B,C for features=..."""
    option = f"--{_OPTIONS.get(name, name).replace('_', '-')}"
    if name in _NO_OPTIONS:
        return f"{name}={value!r}"
    if name == "support":
        return _typed("--methods", f"Oracle(support={_plain(value)})")
    if value is None:
        return f"no {option}"
    if value is ...:
        return f"{option} A,B,C"
    if isinstance(value, bool):
        return option if value else f"--no-{option[2:]}"
    if name == "predict_with":
        return "--average" if value == "average" else "no --average"
    if name == "family" and isinstance(value, str):
        return _typed(option, _short(value))
    if name in ("tolerance", "columns", "select", "format") and is_dataclass(value):
        return _settings(value)
    if name == "prior" and is_dataclass(value):
        return _prior(value)
    if isinstance(value, Mapping):
        return _typed(option, write_merges(value))
    if isinstance(value, list | tuple):
        return _typed(option, ",".join(write_names([item]) if isinstance(item, str) else _call(item) for item in value))
    return _typed(option, _call(value))


def _typed(option: str, value: str) -> str:
    return f"{option} {shlex.quote(value)}"


def _settings(group: Any) -> str:
    """The options of a group of settings that differ from the defaults."""
    if hasattr(group, "strict") and group == type(group).strict():
        return "--strict"
    return " ".join(in_shell(name, value) for name, value in _changed(group).items())


def _changed(value: Any) -> dict[str, Any]:
    """Settings of a dataclass or an estimator that differ from the defaults."""
    usual: Any = type(value)()
    given = vars(value) if is_dataclass(value) else value.get_params(deep=False)
    return {name: setting for name, setting in given.items() if setting != getattr(usual, name)}


def _prior(prior: Any) -> str:
    """ "--prior 'beta-binomial(1,3)' --max-size 5"; the uniform prior is the default."""
    numbers = [getattr(prior, field.name) for field in fields(prior) if field.name != "max_size"]
    called = f"{_names()[type(prior).__name__]}({','.join(f'{number:g}' for number in numbers)})"
    typed = [_typed("--prior", called)] if numbers else []
    return " ".join([*typed, *([] if prior.max_size is None else [in_shell("max_size", prior.max_size)])])


def _call(value: Any) -> str:
    """tempering(chains=8) for Tempering(chains=8); ICP-screen(k=4) for Screened(ICP(), LassoScreen(k=4))"""
    kind = type(value).__name__
    if kind == "Screened":
        name = f"{_names()[type(value.estimator).__name__]}-screen"
        changed = {} if value.screen is None else _changed(value.screen)
    elif kind in _names():
        name, changed = _names()[kind], _changed(value)
    else:
        return str(value)
    typed = ", ".join(f"{key}={_plain(setting)}" for key, setting in changed.items())
    return f"{name}({typed})" if typed else name


def _plain(value: Any) -> str:
    return f"[{', '.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value)


def for_shell(text: str) -> str:
    """A message in the words of the command line; other text as it is."""
    return text.worded(in_shell) if isinstance(text, Message) else str(text)


def said_by(error: Exception) -> str:
    """The text of an error or a warning for the command line."""
    return for_shell(error.args[0] if error.args and isinstance(error.args[0], Message) else str(error))


def _all(notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(for_shell, notes))


def posterior_for_shell(posterior: AnyPosterior) -> AnyPosterior:
    return replace(posterior, notes=_all(posterior.notes), model_reason=for_shell(posterior.model_reason))


def comparison_for_shell(comparison: Comparison) -> Comparison:
    return replace(comparison, methods=tuple(replace(m, notes=_all(m.notes)) for m in comparison.methods))
