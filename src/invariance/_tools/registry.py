"""Interchangeable parts by name, each loaded when it is first asked for; names with settings from
text."""

from __future__ import annotations

import ast
from collections import UserDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from inspect import signature
from operator import attrgetter
from typing import Any

from ..exceptions import SettingError


@cache
def load(home: str) -> Any:
    """The class at "room.module:Class", or what makes one, at "room.module:Class.method"."""
    module, _, found = home.partition(":")
    return attrgetter(found)(import_module("." + module, __name__.partition(".")[0]))


class Registry(UserDict[str, Any]):
    """{name: class}, made from {name: "room.module:Class"}; a class is loaded when it is asked
    for."""

    def __getitem__(self, name: str) -> Any:
        return load(super().__getitem__(name))


SettingValue = bool | int | float | str | list[str] | None

_WORDS = {"none": None, "true": True, "false": False}


def split_outside_brackets(text: str) -> list[str]:
    """The parts between commas, those inside brackets apart; empty parts are left out."""
    parts = [""]
    depth = 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def read_call(text: str) -> tuple[str, dict[str, SettingValue]]:
    """The name and the settings of `name` or `name(key=value, ...)`.
    A value is a number, a word, none, true, false or a [list, of, words]."""
    name, bracket, arguments = (part.strip() for part in text.partition("("))
    with suppress(SyntaxError):
        call = ast.parse(f"f({arguments}" if bracket else "f()", mode="eval").body
        if isinstance(call, ast.Call) and not call.args and name and not set(name) & set(" )="):
            return name, {
                str(keyword.arg): _setting_value(keyword.value) for keyword in call.keywords
            }
    raise SettingError(
        f"cannot read {text!r}: write a name, or name(key=value, ...) to change its settings."
    )


def _setting_value(node: ast.expr) -> SettingValue:
    match node:
        case ast.List(items):
            return [str(_setting_value(item)) for item in items]
        case ast.Constant(bool() | int() | float() | str() | None as value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
    word = ast.unparse(node)
    return _WORDS.get(word.lower(), word)


def check_settings(
    name: str, kind: Callable[..., Any], settings: Mapping[str, SettingValue]
) -> None:
    """Raise where a class, or a function that makes one, has no such setting, or one of another
    type."""
    from .json import from_json  # which loads numpy, and the command line's help does not

    known = {
        key: parameter.annotation
        for key, parameter in signature(kind, eval_str=True).parameters.items()
    }
    for key, value in settings.items():
        if key not in known:
            raise SettingError(
                f"{name} has no setting {key!r}, it has {', '.join(known) or 'none'}."
            )
        try:
            read = from_json(known[key], value, key)
            fits = not isinstance(value, str) or isinstance(read, str)  # in JSON "inf" is a number
        except (ValueError, TypeError):
            fits = False
        if not fits:
            wanted = signature(kind).parameters[key].annotation
            raise SettingError(f"{name}: {key} cannot be {value!r}, it is of the type {wanted}.")
