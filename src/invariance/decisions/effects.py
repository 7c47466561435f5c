"""Effects of the selected features in readable units: differences of the outcome, or ratios of odds, rates, hazards."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.stats import t

from .._tools.arrays import Floats
from ..data.terms import Dummies, SplineBasis
from ..exceptions import DataError, SettingError
from ..models.base import Predicts, moments_of, rows_of
from ..models.gaussian_mean import MeanGaussian
from ..models.random_deviations import GaussianRandomDeviations
from ..models.regression import RegressionModel, separates
from ..models.structured import StructuredDeviations
from ..models.survival import PiecewiseExponential

if TYPE_CHECKING:
    import pandas as pd

    from .decision import Decision

# {what is predicted: the ratio that the exponential of a coefficient is after a fit with a log link}
_RATIOS = {
    Predicts.number: "ratio of means",
    Predicts.probability: "ratio of probabilities",
    Predicts.rate: "rate ratio",
    Predicts.time: "hazard ratio",
}
# Two values explain all of the variance but for rounding.
_ROUNDING = 1e-9


class Unit(NamedTuple):
    """size : of the change that an effect is of; text : "per 10", "1 against 0", or "" of a column of a curve"""

    size: float
    text: str


def scale_of(decision: Decision) -> str:
    """What effects are, by the kind of outcome and the link: "difference", "odds ratio", "ratio of means" …"""
    assert decision.predictions is not None
    outcome = decision.predictions.outcome
    known = {"identity": "difference", "logit": "odds ratio", "log": _RATIOS[outcome.predicts]}
    if outcome.link not in known:
        told = f"effects with a {outcome.link} link are neither differences nor ratios of {outcome.name}"
        raise SettingError(f"{told}: decision_.coefficients() has its coefficients.")
    return known[outcome.link]


def effects(decision: Decision, coverage: float = 0.95) -> pd.DataFrame:
    """Coefficients of `Decision.coefficients` per unit, as ratios where that is the scale, those of all rows without
    pseudo-data. Columns: feature, column, unit, size, environment, estimate, lower, upper, note; columns of curves,
    which have no unit, are left out."""
    assert decision.predictions is not None
    scale = scale_of(decision)
    found, data = decision.coefficients(coverage), decision.predictions.selection.data
    plain = _of_all_rows(decision, coverage)
    if plain is not None:
        found.loc[: len(plain) - 1, ["estimate", "lower", "upper"]] = plain  # the pool comes first
    features, units = data.features.chosen(decision.mask), units_of(data)
    owners = dict(zip(features.columns, np.repeat(np.array(features.names, object), features.widths), strict=True))
    found.insert(0, "feature", [owners[name] for name in found["column"]])
    found.insert(2, "unit", [units[name].text for name in found["column"]])
    found.insert(3, "size", [units[name].size for name in found["column"]])
    values = found[["estimate", "lower", "upper"]].to_numpy(dtype=float) * found[["size"]].to_numpy()
    with np.errstate(over="ignore"):
        found[["estimate", "lower", "upper"]] = values if scale == "difference" else np.exp(values)
    return found[found["unit"] != ""].reset_index(drop=True)


def _of_all_rows(decision: Decision, coverage: float) -> Floats | None:
    """(k, 3) estimates and ends of the columns by the likelihood of all rows alone, where the pooled fit has
    pseudo-data besides; None where it has none, or where without them nothing is finite"""
    model = decision.findings.target.model.untilted
    if not isinstance(model, RegressionModel) or not decision.selected or not model.specification.pseudo_rows:
        return None
    data, family = model.data.narrowed(decision.mask), replace(model.specification, pseudo_rows=0.0)
    if isinstance(family, PiecewiseExponential):
        family = replace(family, intervals=len(family.cuts(model.data)) + 1)
    one = replace(data, environment_index=np.zeros(data.n_rows, dtype=np.intp), environments=("all",))
    every = np.ones(data.n_features, dtype=bool)
    try:
        alone = family.bind(one)
        values, errors = alone.fit(every, local=False).coefficients, alone.standard_errors(every)
        if separates(alone, every):
            return None
    except DataError:
        return None
    assert errors is not None
    margins = t.ppf(0.5 + coverage / 2.0, errors.freedom[-1]) * errors.values[-1]
    found = np.column_stack([values, values - margins, values + margins])
    return found if np.isfinite(found).all() else None


def effect_name(feature: str, column: str) -> str:
    """The feature where the unit says which of its levels is meant, else the column."""
    return feature if column.startswith(f"{feature}=") else column


def units_of(data: Any) -> dict[str, Unit]:
    """{column: unit}: levels against the reference, the larger of two values against the smaller, else the pooled
    standard deviation, rounded to 1, 2 or 5 times a power of ten"""
    names, rows, encoding = data.features.columns, rows_of(data), data.encoding
    if rows is not None:
        mean, low, high = rows.X.mean(axis=0), rows.X.min(axis=0), rows.X.max(axis=0)
        variance = rows.X.var(axis=0)
    else:
        moments = moments_of(data)
        at = moments.feature_columns
        mean, low, high = (
            moments.pooled_mean[at],
            moments.minimum[:, at].min(axis=0),
            moments.maximum[:, at].max(axis=0),
        )
        variance = np.diagonal(moments.scatter[-1])[at] / moments.n_rows
    two = np.abs(variance - (mean - low) * (high - mean)) <= _ROUNDING * (high - low) ** 2
    units = {}
    for j, name in enumerate(names):
        size = float(high[j] - low[j]) if two[j] else _rounded(float(np.sqrt(variance[j])))
        units[name] = Unit(size, f"{high[j]:g} against {low[j]:g}" if two[j] else f"per {size:,g}")
    for term in () if encoding is None else encoding.terms:
        if isinstance(term, Dummies) and len(term.levels) > 1:
            of_levels = zip(term.names, term.levels[1:], strict=True)
            units |= {name: Unit(1.0, f"{level} against {term.levels[0]}") for name, level in of_levels}
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
    """Of which likelihood the intervals of the pooled effects are; empty where there are none."""
    model = decision.findings.target.model.untilted
    if model.standard_errors(decision.mask) is None:
        return ""
    if isinstance(model, GaussianRandomDeviations):
        return "standard errors by leaving out each environment, with a degree of freedom less than environments"
    if isinstance(model, MeanGaussian):
        return "standard errors of weighted least squares, each environment with its own variance, rows independent"
    if isinstance(model, StructuredDeviations) and model.design.variable is not None and model.design.variable.ar:
        return "standard errors of least squares on prewhitened rows"
    if model.by_least_squares is not None:
        return "standard errors of least squares on all rows, as independent"
    pseudo = ""
    if getattr(getattr(model, "specification", None), "pseudo_rows", 0.0):
        finite = _of_all_rows(decision, 0.95) is not None
        pseudo = ", without pseudo-data" if finite else ", with pseudo-data, without which it has no maximum"
    return f"standard errors from the inverse of the information of the likelihood of all rows, as independent{pseudo}"
