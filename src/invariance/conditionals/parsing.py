"""From text to a conditional: the forms that the command line accepts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from .._tools.settings import is_a, read_call
from ..exceptions import SettingError
from .registry import AUTO, CONDITIONALS, GAUSSIAN

if TYPE_CHECKING:
    from .base import Conditional

# {short name: what it is short for}
SHORT = {"gaussian": GAUSSIAN, "mean": "linear_gaussian_mean"}
FAMILIES = tuple(dict.fromkeys((AUTO, *SHORT, *CONDITIONALS)))


def parse_family(text: str) -> str | Conditional:
    """The name of a conditional, or one with settings, such as logistic(pseudo_rows=0)."""
    from ..data.checks import did_you_mean

    typed, settings = read_call(text)
    name = typed.lower().replace("-", "_")
    name = SHORT.get(name, name)
    if name not in CONDITIONALS:
        hint = did_you_mean(name, FAMILIES) or ":"
        raise SettingError(f"--family {typed} is not known{hint} use one of {', '.join(FAMILIES)}.")
    if not settings:
        return name
    member: Any = CONDITIONALS[name]()
    known = {field.name: str(field.type) for field in fields(member)}
    for key, value in settings.items():
        if key not in known:
            listed = f"It has {', '.join(known)}." if known else "It has none."
            raise SettingError(f"{typed} has no setting {key!r}{did_you_mean(key, list(known)) or '.'} {listed}")
        if not is_a(value, known[key]):
            raise SettingError(f"{text}: {key} cannot be {value!r}, it is of the kind {known[key]}.")
    built: Conditional = replace(member, **settings)
    return built
