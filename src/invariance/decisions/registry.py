"""The family of rules that select features, by name."""

from __future__ import annotations

from dataclasses import fields

from .._tools.family import Family, Member
from ..exceptions import SettingError
from .base import Rule

RULES = Family(
    {
        "mode": Member("decisions.mode:Mode", "selects the most probable subset"),
        "threshold": Member("decisions.threshold:Threshold", "selects every feature that is probable enough"),
    }
)


def as_rule(select: str | Rule, **settings: float) -> Rule:
    """The rule that a name stands for, with those of the settings that it has; or the rule that is given."""
    if not isinstance(select, str):
        return select
    if select not in RULES:
        raise SettingError(f"select={select!r} is not known: use {' or '.join(map(repr, RULES))}.")
    known = {field.name for field in fields(RULES[select])}
    rule: Rule = RULES[select](**{name: value for name, value in settings.items() if name in known})
    return rule
