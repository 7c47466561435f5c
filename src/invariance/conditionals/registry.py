"""The family of conditional models by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._tools.family import Family, Member
from ..exceptions import SettingError

if TYPE_CHECKING:
    from .base import Conditional

AUTO, GAUSSIAN = "auto", "linear_gaussian"
CONDITIONALS = Family(
    {
        AUTO: Member("conditionals.by_outcome:ByOutcome", "chooses by the outcome"),
        GAUSSIAN: Member("conditionals.linear_gaussian:LinearGaussian", "for outcomes that are numbers"),
        "linear_gaussian_mean": Member(
            "conditionals.linear_gaussian:linear_gaussian_mean",
            "for outcomes that are numbers, whose noise may differ between environments",
        ),
        "bayesian_linear_gaussian": Member(
            "conditionals.bayesian_gaussian:BayesianLinearGaussian", "for outcomes that are numbers, by Bayes factors"
        ),
        "logistic": Member("conditionals.logistic:Logistic", "for two classes"),
        "poisson": Member("conditionals.poisson:Poisson", "for counts that scatter no more than by chance"),
        "negative_binomial": Member("conditionals.negative_binomial:NegativeBinomial", "for counts"),
        "piecewise_exponential": Member(
            "conditionals.piecewise_exponential:PiecewiseExponential", "for times to an event"
        ),
        "additive": Member("conditionals.additive:Additive", "for outcomes that are numbers, by smooth curves"),
    }
)


def as_conditional(given: str | Conditional) -> Conditional:
    """The conditional that a name stands for, or the one that is given."""
    if isinstance(given, str):
        if given not in CONDITIONALS:
            from ..data.checks import did_you_mean

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
