"""Effects of the selected features in readable units: differences of the outcome, or ratios of
odds, rates, hazards."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._tools.arrays import Fields, Floats
from .._tools.sections import Section
from .._tools.text import (
    COLUMNS,
    UNKNOWN,
    display_width,
    in_quotes,
    name_labels,
    with_equal_decimals,
)
from ..data.basis import Dummies, SplineBasis
from ..data.checks import listing
from ..exceptions import Message, SettingError, use
from ..models.base import moments_of, rows_of
from ..models.gaussian import GaussianFromMoments
from ..models.gaussian_mean import MeanGaussian
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.varying_coefficients import StructuredDeviations
from ..posterior.summary import format_p_value
from .heterogeneity import FEWEST_FOR_PREDICTION

if TYPE_CHECKING:
    import pandas as pd

    from .decision import Decision

# Notes on estimates that are infinite; the penalised one stands there if the model has pseudo-data.
SEPARATION = "infinite by separation"
ONE_VALUE = "no events, or only events"
PENALISED = ", penalised estimate"
# p-value of an interaction below which an effect counts as different between environments.
EFFECTS_DIFFER = 0.05
# Two values explain all of the variance but for rounding.
_ROUNDING = 1e-9


class Unit(NamedTuple):
    """size : of the change that an effect is of; text : "per 10", "1 against 0", or "" of a column
    of a curve"""

    size: float
    text: str


def scale_of(decision: Decision) -> str:
    """Return the name of effects, such as "difference", "odds ratio" or "ratio of means".

    It depends on the kind of outcome and the link.
    """
    outcome = decision.predictions.outcome
    known = {"identity": "difference", "logit": "odds ratio", "log": outcome.kind.ratio}
    if outcome.link not in known:
        told = (
            f"effects with a {outcome.link} link are neither differences nor ratios of "
            f"{outcome.name}"
        )
        raise SettingError(f"{told}: decision_.coefficients() has its coefficients.")
    return known[outcome.link]


def effects(
    decision: Decision, coverage: float = 0.95, by_environment: bool = False
) -> pd.DataFrame:
    """Return the table of `Decision.effects`."""
    import pandas as pd

    scale = scale_of(decision)
    units = units_of(decision.predictions.selection.data)
    found = decision.coefficients(coverage)
    features = decision.predictions.selection.data.features.chosen(decision.mask)
    owners = dict(
        zip(
            features.columns,
            np.repeat(np.array(features.names, object), features.widths),
            strict=True,
        )
    )
    size = np.array([units[name].size for name in found["column"]])
    pooled_first = np.roll(decision.estimates.errors, 1, axis=0).ravel()
    between = _between_environments(decision, coverage, len(found))

    def per_unit(values: Floats) -> Floats:
        with np.errstate(over="ignore"):
            return size * values if scale == "difference" else np.exp(size * values)

    table = pd.DataFrame(
        {
            "feature": [owners[name] for name in found["column"]],
            "column": found["column"],
            "unit": [units[name].text for name in found["column"]],
            "size": size,
            "environment": found["environment"],
            **{
                name: per_unit(found[name].to_numpy(dtype=float))
                for name in ("estimate", "lower", "upper")
            },
            "standard_error": size * np.where(found["estimate"].isna(), np.nan, pooled_first),
            "tau": size * between["tau"],
            "i2": between["i2"],
            "p_interaction": between["p_interaction"],
            "prediction_lower": per_unit(between["prediction_lower"]),
            "prediction_upper": per_unit(between["prediction_upper"]),
            "infinite": found["infinite"],
            "note": found["note"],
        }
    )
    shown = table if by_environment else table.iloc[: len(decision.columns)]
    return shown[shown["unit"] != ""].reset_index(drop=True)


_BETWEEN = "tau", "i2", "p_interaction", "prediction_lower", "prediction_upper"


def _between_environments(decision: Decision, coverage: float, n: int) -> dict[str, Floats]:
    """Return figures of the pool's rows, which come first, in columns (n,) that are else NaN."""
    found = decision.between_environments
    columns = {name: np.full(n, np.nan) for name in _BETWEEN}
    if found is not None:
        low, high = found.prediction_interval(coverage)
        for name, values in zip(
            _BETWEEN, (found.tau, found.i2, found.p_value, low, high), strict=True
        ):
            columns[name][: len(values)] = values
    return columns


def effect_records(decision: Decision) -> list[Fields] | None:
    """Return the rows of the table with those of environments, labels as text; None if there are no
    effects."""
    try:
        table = effects(decision, by_environment=True)
    except SettingError:  # with a link of a family's own
        return None
    records: Any = table.assign(environment=table["environment"].map(str)).to_dict("records")
    return records


# ---------------------------------------------------------------- in words

_MOST_SHOWN = 20
_SHORTEST_LABEL = 10


def effect_section(decision: Decision) -> Section | None:
    """Return the effects of all rows together as text within 80 columns; None if there are none."""
    if not decision.columns:
        return None
    try:
        table = effects(decision)
    except SettingError:  # with a link of a family's own
        return None
    if table.empty:
        return None
    scale = scale_of(decision)
    shown = table.iloc[:_MOST_SHOWN]
    intervals, compared, predicted = (
        bool(shown[name].notna().any()) for name in ("lower", "p_interaction", "prediction_lower")
    )
    head = ["difference" if scale == "difference" else "ratio", *["95% interval"] * intervals]
    head += [*["I²", "τ", "p"] * compared, *["in a new one"] * predicted]
    between = " to " if scale == "difference" else "–"
    rows = []
    labels = []
    each: list[Any] = list(shown.itertuples())
    for row in each:
        estimate, low, high = with_equal_decimals([row.estimate, row.lower, row.upper], 3)
        cells = [f"{estimate}{'*' if row.infinite else ''}", *[f"{low}{between}{high}"] * intervals]
        cells += [i2_text(row.i2), tau_text(row.tau), format_p_value(row.p_interaction)] * compared
        rows.append((*cells, *[prediction_text(row, between)] * predicted))
        labels.append(
            row.column if row.column.startswith(f"{row.feature}=") else f"{row.column} {row.unit}"
        )
    notes = ["* Infinite by separation: the penalised estimate."] * bool(table["infinite"].any())
    notes += infinite_in_words(decision)
    notes += differing_in_words(decision)
    if len(table) > len(shown):
        notes.append(f"… and {len(table) - len(shown):,} more: decision_.effects()")
    kind = "differences" if scale == "difference" else scale.replace("ratio", "ratios")
    about = f"{kind.capitalize()}{' with 95% intervals' * intervals}"
    assumed = intervals and intervals_take_effects_as_equal(decision)
    about += ", which take effects as the same everywhere." if assumed else "."
    if compared:
        about += (
            f" I², τ{' (of logarithms)' * (scale != 'difference')} and p: differences "
            "between environments"
        )
        about += "; in a new one: 95% prediction interval." if predicted else "."
    told: Fields = {"title": "Effects", "sentences": (about,), "notes": tuple(notes)}
    taken = sum(2 + max(map(display_width, cells)) for cells in zip(head, *rows, strict=True))
    if taken > COLUMNS - 2 - _SHORTEST_LABEL:
        facts = (
            ", ".join(f"{name} {cell}" for name, cell in zip(head, row, strict=True))
            for row in rows
        )
        return Section(facts=tuple(zip(labels, facts, strict=True)), **told)
    short = ["feature", *name_labels(labels, COLUMNS - 2 - taken)]
    lines = tuple((label, *cells) for label, cells in zip(short, [tuple(head), *rows], strict=True))
    return Section(table=lines, **told)


def infinite_in_words(decision: Decision) -> Iterator[str]:
    """Yield which estimates of environments are infinite and do not count in comparisons."""
    columns = np.array(decision.columns, dtype=object)
    labels = decision.findings.posterior.environments
    each = [
        f"{in_quotes(label)} ({'all' if mask.all() else listing(columns[mask])})"
        for label, mask in zip(labels, decision.estimates.infinite[:-1], strict=True)
        if mask.any()
    ]
    if each:
        yield f"Not compared, because infinite there: {listing(each)}."
    between = decision.between_environments
    if each and between is not None and (between.n_environments < FEWEST_FOR_PREDICTION).any():
        yield (
            f"Intervals for a new environment need the estimates of {FEWEST_FOR_PREDICTION} "
            "environments."
        )


def intervals_take_effects_as_equal(decision: Decision) -> bool:
    """Return whether the pooled intervals are too short if effects differ between environments."""
    random = isinstance(decision.model, GaussianRandomDeviations)
    several = decision.between_environments is not None
    return several and not random and bool(np.isfinite(decision.estimates.errors[-1]).any())


def differing_in_words(decision: Decision) -> Iterator[str]:
    """Yield which effects differ between environments, so that their pooled intervals hold for no
    other environments."""
    found = decision.between_environments
    if found is None or not intervals_take_effects_as_equal(decision):
        return
    differ = np.array(decision.columns, dtype=object)[found.p_value < EFFECTS_DIFFER]
    if len(differ):
        what = (
            f"If effects of {listing(differ)} differ (p below {EFFECTS_DIFFER:g}), their intervals "
            "are too short for other environments"
        )
        linear = isinstance(decision.model, GaussianFromMoments)
        remedy = use(deviations="random") if linear else use("the estimates of each environment")
        yield Message(what, remedy)


def i2_text(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.0%}"


def tau_text(value: float) -> str:
    return UNKNOWN if np.isnan(value) else f"{value:.2g}"


def prediction_text(row: Any, between: str = " to ") -> str:
    """Return the interval for the effect in a new environment, of a row of `effects`."""
    if not np.isfinite(row.prediction_lower):
        return UNKNOWN
    low, high = with_equal_decimals([row.prediction_lower, row.prediction_upper], 3)
    return f"{low}{between}{high}"


def effect_name(feature: str, column: str) -> str:
    """The feature where the unit says which of its levels is meant, else the column."""
    return feature if column.startswith(f"{feature}=") else column


def units_of(data: Any) -> dict[str, Unit]:
    """{column: unit}: levels against the reference, the larger of two values against the smaller,
    else the pooled standard deviation, rounded to 1, 2 or 5 times a power of ten"""
    names = data.features.columns
    rows = rows_of(data)
    encoding = data.encoding
    if rows is not None:
        mean = rows.X.mean(axis=0)
        low = rows.X.min(axis=0)
        high = rows.X.max(axis=0)
        variance = rows.X.var(axis=0)
    else:
        moments = moments_of(data)
        at = moments.feature_columns
        mean = moments.pooled_mean[at]
        low = moments.minimum[:, at].min(axis=0)
        high = moments.maximum[:, at].max(axis=0)
        variance = np.diagonal(moments.scatter[-1])[at] / moments.n_rows
    two = np.abs(variance - (mean - low) * (high - mean)) <= _ROUNDING * (high - low) ** 2
    units = {}
    for j, name in enumerate(names):
        size = float(high[j] - low[j]) if two[j] else _rounded(float(np.sqrt(variance[j])))
        units[name] = Unit(size, f"{high[j]:g} against {low[j]:g}" if two[j] else f"per {size:,g}")
    for term in () if encoding is None else encoding.terms:
        if isinstance(term, Dummies) and len(term.levels) > 1:
            of_levels = zip(term.names, term.levels[1:], strict=True)
            units |= {
                name: Unit(1.0, f"{level} against {term.levels[0]}") for name, level in of_levels
            }
        elif isinstance(term, SplineBasis):
            units |= dict.fromkeys(term.names, Unit(1.0, ""))
    return units


def _rounded(spread: float) -> float:
    """The nearest of 1, 2 and 5 times a power of ten, as a ratio."""
    if not spread > 0.0:
        return 1.0
    power = np.floor(np.log10(spread))
    steps = np.array([1.0, 2.0, 5.0, 10.0])
    step = steps[np.argmin(np.abs(np.log10(spread) - power - np.log10(steps)))]
    return float(f"{step * 10.0**power:.1g}")


def standard_errors_in_words(decision: Decision) -> str:
    """Return the likelihood of the intervals of the pooled effects; "" without intervals."""
    model = decision.model
    if np.isnan(decision.estimates.errors[-1]).all():
        return ""
    if isinstance(model, GaussianRandomDeviations):
        return (
            "standard errors by leaving out each environment, with a degree of freedom less "
            "than environments"
        )
    if isinstance(model, MeanGaussian):
        return (
            "standard errors of weighted least squares, each environment with its own "
            "variance, rows independent"
        )
    if (
        isinstance(model, StructuredDeviations)
        and model.design.variable is not None
        and model.design.variable.ar
    ):
        return "standard errors of least squares on prewhitened rows"
    if model.by_least_squares is not None:
        return "standard errors of least squares on all rows, as independent"
    pseudo = ""
    if getattr(getattr(model, "specification", None), "pseudo_rows", 0.0):
        finite = not decision.estimates.infinite[-1].any()
        pseudo = (
            ", without pseudo-data"
            if finite
            else ", with pseudo-data, without which it has no maximum"
        )
    return (
        "standard errors from the inverse of the information of the likelihood of all rows, "
        f"as independent{pseudo}"
    )
