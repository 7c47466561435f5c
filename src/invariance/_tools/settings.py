"""Names with settings, as they are typed in a shell: tempering(chains=8, steps=20000)."""

from __future__ import annotations

import re

from ..exceptions import SettingError

Value = bool | int | float | str | list[str] | None

_WORDS = {"none": None, "true": True, "false": False}


def split_outside_brackets(text: str) -> list[str]:
    """The parts between commas, those inside brackets apart; empty parts are left out."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([") - (character in ")]")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def read_call(text: str) -> tuple[str, dict[str, Value]]:
    """The name and the settings of `name` or `name(key=value, ...)`.

    A value is a number, a word, none, true, false or a [list, of, words].
    """
    match = re.fullmatch(r"\s*([^\s()=]+)\s*(?:\((.*)\))?\s*", text, re.DOTALL)
    if match is None:
        raise SettingError(f"cannot read {text!r}: write a name, or name(key=value, ...) to change its settings.")
    settings = {}
    for part in split_outside_brackets(match[2] or ""):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not (key.isidentifier() and equals and value):
            raise SettingError(f"cannot read {part!r} in {text!r}: a setting is written key=value.")
        settings[key] = _value(value)
    return match[1], settings


def _value(text: str) -> Value:
    if text.startswith("[") and text.endswith("]"):
        return [_word(part) for part in split_outside_brackets(text[1:-1])]
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return _word(text)


def _word(text: str) -> str:
    return text.strip("'\"")


def is_a(value: Value, annotation: str) -> bool:
    """Whether a value that was read from text can be meant by a parameter with this annotation."""
    if annotation == "Any":
        return True
    if value is None:
        return "None" in annotation
    if isinstance(value, list):
        return annotation.startswith("tuple") or "Sequence[str]" in annotation or "Iterable[str]" in annotation
    if isinstance(value, bool):
        return "bool" in annotation or annotation == "ProgressMode"
    if isinstance(value, str):
        return "Literal" in annotation or "str" in annotation.split(" | ")
    return "float" in annotation or (isinstance(value, int) and "int" in annotation)
