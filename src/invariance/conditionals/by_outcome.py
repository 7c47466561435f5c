"""The conditional that the outcome itself asks for: a model by what is fitted, and the reason for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from ..data.beside import left_out
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcome_kinds import at_two_values
from ..exceptions import SettingError
from ..moments.moments import Moments
from .base import BoundConditional, Conditional
from .predicts import Predicts, predicts_of
from .registry import AUTO, CONDITIONALS, GAUSSIAN

# {kind of outcome: the name of the conditional that is fitted to it}
FAMILIES = {
    "time": "piecewise_exponential",
    "classes": "logistic",
    "count": "negative_binomial",
    "number": GAUSSIAN,
}


class Choice(NamedTuple):
    """name: of a member of CONDITIONALS; reason: a clause that begins with the name of the outcome; overridable:
    whether the linear Gaussian model could be fitted as well, and is not"""

    name: str
    reason: str
    overridable: bool = False

    @property
    def in_words(self) -> str:
        """The reason and, where there is another way, how that is asked for."""
        return f"{self.reason}; conditional={GAUSSIAN!r} overrides" if self.overridable else self.reason


@dataclass(frozen=True)
class ByOutcome:
    """The conditional by what the outcome is.

    A time, where a column of events is named, gets PiecewiseExponential(); two values Logistic(); a count, as
    `invariance.data.outcome_kinds` tells it, or whatever has an exposure, NegativeBinomial(); any other number, and
    second moments without rows, LinearGaussian().
    """

    def chosen(self, data: MultiEnvironmentData | Moments) -> Chosen:
        """The choice for these data, which is kept when rows are left out of them."""
        choice = family_of(data)
        return Chosen(CONDITIONALS[choice.name](), choice.in_words)

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> BoundConditional:
        return self.chosen(data).bind(data, n_jobs)


@dataclass(frozen=True)
class Chosen:
    """A conditional, and why it was chosen."""

    conditional: Conditional
    reason: str

    @property
    def takes(self) -> tuple[str, ...]:
        return taken_by(self.conditional)

    @property
    def predicts(self) -> Predicts:
        return predicts_of(self.conditional)

    def bind(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> BoundConditional:
        model = self.conditional.bind(data, n_jobs)
        model.reason = self.reason
        return model


def family_of(data: MultiEnvironmentData | Moments) -> Choice:
    """What is fitted to these data unless somebody asks for something else."""
    if isinstance(data, Moments):
        return Choice(GAUSSIAN, _why_gaussian(data))
    kind, reason = data.outcome_kind
    return Choice(FAMILIES[kind], reason, FAMILIES[kind] != GAUSSIAN and not data.beside)


def _why_gaussian(moments: Moments) -> str:
    looked_at = moments.second is not None and moments.second.fourths is not None
    known = "second and fourth moments" if looked_at else "second moments alone"
    alone = f"but {known} are known, which fit this model only"
    two = two_valued(moments, moments.outcome)
    if two:
        return f"{moments.outcome_name} has two values, {two[0]:g} and {two[1]:g}, {alone}"
    if moments.kind is None:
        return f"{moments.outcome_name} is known by {known}"
    return moments.kind.reason if FAMILIES[moments.kind.kind] == GAUSSIAN else f"{moments.kind.reason}, {alone}"


def settled(conditional: Conditional, data: MultiEnvironmentData | Moments) -> Conditional:
    """The conditional that is fitted to the data, and to any part of them."""
    return conditional.chosen(data) if isinstance(conditional, ByOutcome) else conditional


def as_fitted(conditional: Conditional, data: MultiEnvironmentData) -> MultiEnvironmentData:
    """The data as a settled conditional predicts them: two values are 0 and 1, whose mean is a probability."""
    return data.with_classes() if predicts_of(conditional) is Predicts.probability else data


def taken_by(conditional: Any) -> tuple[str, ...]:
    """What a conditional uses of that which comes with an outcome: "event", "exposure"."""
    return tuple(getattr(conditional, "takes", ()))


def refuse_unused(conditional: Conditional, data: MultiEnvironmentData | Moments) -> None:
    """Raise where something comes with the outcome that the conditional does not know of."""
    unused = [] if isinstance(data, Moments) else [role for role in data.beside if role not in taken_by(conditional)]
    for role in unused:
        name = getattr(data, f"{role}_name")
        raise SettingError(
            f"{type(conditional).__name__} does not know of the {role} {name!r}: use conditional={AUTO!r}, or "
            f"{left_out(role, name)}."
        )


def two_valued(moments: Moments, column: int) -> tuple[float, float] | None:
    """The two values of a column, where second moments show that it has no others."""
    low, high = float(moments.minimum[:, column].min()), float(moments.maximum[:, column].max())
    if not moments.scatter.size:
        return None
    mean, scatter = float(moments.pooled_mean[column]), float(moments.scatter[-1, column, column])
    return (low, high) if at_two_values(moments.n_rows, low, high, mean, scatter) else None
