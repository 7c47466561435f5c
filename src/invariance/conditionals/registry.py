"""The family of conditional models by name."""

from __future__ import annotations

from .._tools.family import Family, Member
from ..data.checks import did_you_mean
from ..exceptions import SettingError
from .base import Conditional

CONDITIONALS = Family(
    {
        "linear_gaussian": Member("conditionals.linear_gaussian:LinearGaussian", "for outcomes that are numbers"),
        "bayesian_linear_gaussian": Member(
            "conditionals.bayesian_gaussian:BayesianLinearGaussian", "for outcomes that are numbers, by Bayes factors"
        ),
        "additive": Member("conditionals.additive:Additive", "for outcomes that are numbers, by smooth curves"),
    }
)


def as_conditional(given: str | Conditional) -> Conditional:
    """The conditional that a name stands for, or the one that is given."""
    if isinstance(given, str):
        if given not in CONDITIONALS:
            hint = did_you_mean(given, list(CONDITIONALS)) or ":"
            known = ", ".join(map(repr, CONDITIONALS))
            raise SettingError(f"conditional={given!r} is not known{hint} use {known} or a conditional with settings.")
        named: Conditional = CONDITIONALS[given]()
        return named
    if isinstance(given, type) or not hasattr(given, "bind"):
        raise SettingError(
            f"conditional={given!r} cannot be bound to data: pass a specification, such as LinearGaussian()."
        )
    return given
