"""The family of rules that select features, by name."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from .._tools.family import Family, Member
from ..exceptions import SettingError

if TYPE_CHECKING:
    from .base import Rule

RULES = Family(
    {
        "predictive": Member(
            "decisions.best_compatible:BestCompatible", "selects the best predictor that is invariant"
        ),
        "mode": Member("decisions.mode:Mode", "selects the most probable subset"),
        "threshold": Member("decisions.threshold:Threshold", "selects every feature that is probable enough"),
        "median": Member("decisions.median:Median", "selects what most compatible subsets hold, by how they predict"),
    }
)


def as_rule(select: str | Rule, **settings: float) -> Rule:
    """The rule that a name stands for, with those of the settings that it has; or the rule that is given.

    All settings are checked, also those of other rules: a wrong one is a mistake, whether it matters or not.
    """
    made = {name: _made(name, settings) for name in RULES}
    if not isinstance(select, str):
        if isinstance(select, type) or not hasattr(select, "select"):
            raise SettingError(f"select={select!r} is not a rule: use {' or '.join(map(repr, RULES))}, or a rule.")
        return select
    if select not in RULES:
        raise SettingError(f"select={select!r} is not known: use {' or '.join(map(repr, RULES))}.")
    return made[select]


def _made(name: str, settings: dict[str, float]) -> Rule:
    known = {field.name for field in fields(RULES[name])}
    rule: Rule = RULES[name](**{key: value for key, value in settings.items() if key in known})
    return rule
