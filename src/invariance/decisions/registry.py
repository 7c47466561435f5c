"""The rules by name."""

from __future__ import annotations

from collections.abc import Callable

from ..exceptions import SettingError
from .base import Rule
from .mode import Mode
from .threshold import Threshold

RULES: dict[str, Callable[[float], Rule]] = {
    "mode": lambda threshold: Mode(),
    "threshold": Threshold,
}


def as_rule(select: str | Rule, threshold: float) -> Rule:
    """The rule that a name stands for, or the one that is given; `threshold` is checked whether it is used or not."""
    Threshold(threshold)
    if not isinstance(select, str):
        return select
    if select not in RULES:
        raise SettingError(f"select={select!r} is not known: use {' or '.join(map(repr, RULES))}.")
    return RULES[select](threshold)
