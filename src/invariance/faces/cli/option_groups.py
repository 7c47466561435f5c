"""Options that several commands take together: a dataclass whose fields are options is one parameter of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def with_option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer reads it: each group among its parameters is replaced by its options, in its place."""
    groups: dict[str, Any] = {name: kind for name, kind in get_type_hints(command).items() if is_dataclass(kind)}
    options = list(_options(command))

    @wraps(command)
    def grouping(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    grouping.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    grouping.__annotations__ = {option.name: option.annotation for option in options}
    return grouping


def _options(taker: Callable[..., Any]) -> Iterator[inspect.Parameter]:
    """Of a command or of a group."""
    hints = get_type_hints(taker, include_extras=True)
    for name, parameter in inspect.signature(taker).parameters.items():
        if is_dataclass(hints[name]):
            yield from _options(hints[name])
        else:
            yield parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
