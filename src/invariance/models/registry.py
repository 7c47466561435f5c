"""The families (outcome models) by name, and the selection of a family by "auto"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast, get_args

from .._tools.names import Deviations, FamilyName
from .._tools.registry import Registry, check_settings, read_call
from ..data.checks import did_you_mean, warn
from ..data.outcomes import at_two_values
from ..exceptions import SettingError, use
from ..moments.moments import Moments
from .additive import Additive
from .base import BoundModel, EnvironmentData, Family, kind_of, link_of, moments_of, rows_of
from .gaussian import LinearGaussian
from .likelihood import ByLikelihood
from .random_coefficients import too_small_for_free
from .regression import Regression

AUTO = "auto"
GAUSSIAN = "linear_gaussian"
MODELS = Registry(
    {
        AUTO: "models.registry:ByOutcome",
        GAUSSIAN: "models.gaussian:LinearGaussian",
        "linear_gaussian_mean": "models.gaussian:linear_gaussian_mean",
        "bayesian_linear_gaussian": "models.bayesian:BayesianLinearGaussian",
        "logistic": "models.regression:Logistic",
        "poisson": "models.counts:Poisson",
        "negative_binomial": "models.counts:NegativeBinomial",
        "piecewise_exponential": "models.survival:PiecewiseExponential",
        "additive": "models.additive:Additive",
    }
)
# {short name: what it is short for}
SHORT = {"gaussian": GAUSSIAN, "mean": "linear_gaussian_mean"}
FAMILIES = tuple(dict.fromkeys((AUTO, *SHORT, *MODELS)))


def as_family(given: str | Family) -> Family:
    """The family that a name stands for, or the one that is given."""
    if isinstance(given, str):
        if given not in MODELS:
            raise _unknown(given, tuple(MODELS))
        return MODELS[given]()
    if isinstance(given, type) or not hasattr(given, "bind"):
        raise SettingError(
            f"family={given!r} cannot be bound to data: pass a specification, such as "
            "LinearGaussian()."
        )
    if not isinstance(given, ByOutcome):
        kind_of(given)
        link_of(given)
    return given


def _unknown(name: str, known: Sequence[str]) -> SettingError:
    return SettingError(
        f"family={name!r} is not known{did_you_mean(name, known)}", *(use(family=k) for k in known)
    )


def parse_family(text: str) -> FamilyName | Family:
    """The name of a family, or a family with settings, such as logistic(pseudo_rows=0)."""
    typed, settings = read_call(text)
    name = typed.lower().replace("-", "_")
    name = SHORT.get(name, name)
    if name not in MODELS:
        raise _unknown(typed, FAMILIES)
    if not settings:
        return cast(FamilyName, name)
    check_settings(typed, MODELS[name], settings)
    built: Family = MODELS[name](**settings)
    return built


# {kind of outcome: the name of the family that is fitted to it}
FAMILY_OF_KIND = {
    "time": "piecewise_exponential",
    "classes": "logistic",
    "count": "negative_binomial",
    "number": GAUSSIAN,
}


@dataclass(frozen=True)
class ByOutcome:
    """The family by what the outcome is.

    A time, where a column of events is named, gets PiecewiseExponential(); two values Logistic(); a
    count, as `invariance.data.outcomes` tells it, or whatever has an exposure, NegativeBinomial();
    any other number, and second moments without rows, LinearGaussian().
    """

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> BoundModel:
        return family_of(data).bind(data, n_jobs)


@dataclass(frozen=True)
class Chosen:
    """A family that the outcome chose, which is kept when rows are left out: its name in MODELS, a
    clause that begins with the name of the outcome, and whether the linear Gaussian model could be
    fitted as well, and is not."""

    name: str
    reason: str
    overridable: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def family(self) -> Family:
        found: Family = MODELS[self.name](**self.settings)
        return found

    @property
    def takes(self) -> tuple[str, ...]:
        return taken_by(self.family)

    @property
    def kind(self) -> str:
        family: Any = self.family
        return str(family.kind)

    @property
    def link(self) -> str:
        return link_of(self.family)

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> BoundModel:
        model = self.family.bind(data, n_jobs)
        model.reason = (
            f"{self.reason}; family={GAUSSIAN!r} overrides" if self.overridable else self.reason
        )
        return model


def family_of(data: EnvironmentData) -> Chosen:
    """Return the family that is fitted to these data by default."""
    rows = rows_of(data)
    if rows is not None:
        name = FAMILY_OF_KIND[rows.outcome_kind.kind]
        return Chosen(name, rows.outcome_kind.reason, name != GAUSSIAN and not rows.outcome_columns)
    kind = moments_of(data).kind
    if kind is not None and FAMILY_OF_KIND[kind.kind] == GAUSSIAN:
        return Chosen(GAUSSIAN, kind.reason)
    return Chosen(
        GAUSSIAN, f"{data.outcome_name} is known by second moments alone, which fit no other family"
    )


def _by_outcome(data: EnvironmentData) -> Chosen:
    """Choose the family by the outcome, and warn if that is doubtful."""
    rows = rows_of(data)
    doubt = None if rows is None else rows.outcome_kind.doubt
    if doubt is not None:
        warn(doubt)
    return family_of(data)


# Features of which "auto" takes random deviations: those of more, whose subsets must be sampled,
# take minutes.
MOST_RANDOM = 20


def resolve_family(family: Family, data: EnvironmentData, deviations: str = AUTO) -> Family:
    """The family that is fitted to the data: "auto" is replaced by its choice for all of them.
    deviations : of coefficients between environments, "free", "random" or "auto"."""
    if deviations not in get_args(Deviations):
        known = (use(deviations=value) for value in get_args(Deviations))
        raise SettingError(f"deviations={deviations!r} is not known", *known)
    found: Any = _by_outcome(data) if isinstance(family, ByOutcome) else family
    design = getattr(data, "design", None)
    if design is not None:
        if deviations == "random":
            what = f"deviations='random' is for one column of labels, not {design.in_words}"
            raise SettingError(what, use(deviations=AUTO))
        return found
    linear: Any = found.family if isinstance(found, Chosen) else found
    if not isinstance(linear, LinearGaussian) or linear.invariance == "mean":
        if deviations == "random":
            what = "deviations='random' is for linear Gaussian models of all that may differ"
            raise SettingError(what, use(family=GAUSSIAN), use(deviations=AUTO))
        return found
    few = data.features.n_features <= MOST_RANDOM
    small = deviations == AUTO and linear == LinearGaussian() and few and too_small_for_free(data)
    if deviations == "random" or small:
        random = {"deviations": "random"}
        return (
            replace(found, settings=random)
            if isinstance(found, Chosen)
            else replace(found, **random)
        )
    return found


def with_family_columns(family: Family, data: Any) -> tuple[Family, Any]:
    """The family, and the data with what it makes of them: spline columns, or an outcome of 0 and
    1."""
    if isinstance(family, Additive):
        return family.with_splines(data)
    rows = rows_of(data)
    return family, rows.with_classes() if rows is not None and kind_of(family).classifies else data


def taken_by(family: Any) -> tuple[str, ...]:
    """Return the outcome columns that a family uses: "event", "exposure"."""
    return tuple(getattr(family, "takes", ()))


def refuse_unused(family: Family, data: EnvironmentData) -> None:
    """Raise where the data have an outcome column, or a design, that the family does not use."""
    rows = rows_of(data)
    fitted = family.family if isinstance(family, Chosen) else family
    if rows is not None and rows.design is not None and not isinstance(fitted, LinearGaussian):
        what = f"{type(fitted).__name__} knows no environments {rows.design.in_words}"
        periods = (
            ""
            if rows.design.variable is None
            else f" cut {rows.design.variable.column!r} into periods,"
        )
        labels = f"{periods} and name one column of labels as environment"
        raise SettingError(
            f"{what}:{labels.removeprefix(' and')}; for numbers family={GAUSSIAN!r} does."
        )
    for role in () if rows is None else rows.outcome_columns:
        if role not in taken_by(family):
            name = getattr(data, f"{role}_name")
            what = f"{type(family).__name__} does not know of the {role} {name!r}"
            raise SettingError(what, use(family=AUTO), use(**{role: None, "exclude": [name]}))


def two_valued(moments: Moments, column: int) -> bool:
    """Return whether second moments show that a column has two values."""
    low = float(moments.minimum[:, column].min())
    high = float(moments.maximum[:, column].max())
    mean = float(moments.pooled_mean[column])
    scatter = float(moments.scatter[-1, column, column])
    return at_two_values(moments.n_rows, low, high, mean, scatter)


def needs_rows(family: Family) -> bool:
    """Return whether a family of this package needs all rows; False for "auto"."""
    return isinstance(family, Regression | ByLikelihood | Additive)
