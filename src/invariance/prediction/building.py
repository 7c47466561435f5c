"""Predictors from what was found: with the selected features, or averaged over the compatible subsets."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._tools.arrays import Floats, Mask
from ..conditionals.base import Fit
from ..conditionals.piecewise_exponential import PiecewiseExponentialFit
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.base import Findings
from ..exceptions import SettingError
from ..moments.moments import Moments
from .design import Design, columns_of
from .outcome import as_observed
from .predictor import LinearPredictor, Member, Predictor, RefittedPredictor
from .survival import SurvivalPredictor

PREDICT_WITH = ("selected", "average")
# The leading subsets of the predictive posterior that hold so much of it are averaged.
AVERAGED_MASS = 0.999
# Where functions are compared: those that agree here are the same.
PROBE = np.array([-2.0, 0.0, 0.5, 3.0])


def check_predict_with(kind: Any, regressor: Any) -> None:
    if kind not in PREDICT_WITH:
        raise SettingError(f"predict_with={kind!r} is not known: use {' or '.join(map(repr, PREDICT_WITH))}.")
    if kind == "average" and regressor is not None:
        raise SettingError(
            "predict_with='average' averages linear fits of several subsets, and a regressor is fitted to the selected "
            "one: use predict_with='selected', or regressor=None."
        )


def refuse_moments(regressor: Any) -> None:
    if regressor is not None:
        raise SettingError(
            f"regressor={type(regressor).__name__}(...) is fitted to rows, and moments hold none: set "
            "regressor=None, or use fit or fit_data."
        )


def refuse_beside(regressor: Any, data: MultiEnvironmentData | Moments) -> None:
    """Raise where a regressor would not know what comes with the outcome."""
    for role in () if regressor is None or isinstance(data, Moments) else data.beside:
        raise SettingError(
            f"regressor={type(regressor).__name__}(...) is fitted to {data.outcome_name!r} alone and knows nothing of "
            f"the {role} {getattr(data, f'{role}_name')!r}: use regressor=None."
        )


def build(
    kind: str, findings: Findings, selected: Mask, data: MultiEnvironmentData | Moments, regressor: Any = None
) -> Predictor:
    """kind: one of PREDICT_WITH; selected: (p,). Where no subset is compatible, there is nothing to average, and the
    average is the selected one."""
    if kind == "selected" or findings.predictive is None:
        if regressor is not None and selected.any():
            return _refitted(data, selected, regressor)
        masks, weights = selected[None], np.ones(1)
    else:
        masks, weights = _leading(np.exp(findings.predictive.log_probabilities), findings.predictive.masks)
    fits = [findings.target.model.fit(mask, local=False) for mask in masks]
    used = data.features.chosen(np.logical_or.reduce(masks)).columns
    members = tuple(_member(fit, weight, data, used) for fit, weight in zip(fits, weights, strict=True))
    whole = Design.of(data, used), members, _link(fits[0])
    baselines = tuple(fit.baseline for fit in fits if isinstance(fit, PiecewiseExponentialFit))
    return SurvivalPredictor(*whole, baselines) if baselines else LinearPredictor(*whole)


def _leading(probabilities: Floats, masks: Mask) -> tuple[Mask, Floats]:
    """Of a table, most probable first: those that hold AVERAGED_MASS of it, and their weights, which sum to one."""
    share = np.cumsum(probabilities) / probabilities.sum()
    n = int(np.searchsorted(share, AVERAGED_MASS)) + 1
    return masks[:n], probabilities[:n] / probabilities[:n].sum()


def _refitted(data: MultiEnvironmentData | Moments, selected: Mask, regressor: Any) -> RefittedPredictor:
    assert isinstance(data, MultiEnvironmentData)
    columns = data.features.chosen(selected).columns
    return RefittedPredictor.fitted(Design.of(data, columns), regressor, columns_of(data, columns), data.y)


def _member(fit: Fit, weight: float, data: MultiEnvironmentData | Moments, used: tuple[str, ...]) -> Member:
    design = Design.of(data, fit.columns)
    freedom = max(design.n_rows - 1.0 - design.rank, 1.0)
    at = np.array([used.index(name) for name in fit.columns], dtype=np.int64)
    coefficients = np.ascontiguousarray(fit.coefficients, dtype=float)
    return Member(
        at, coefficients, float(fit.intercept), float(weight), _squared_residuals(fit, data) / freedom, freedom, design
    )


def _squared_residuals(fit: Fit, data: MultiEnvironmentData | Moments) -> float:
    """Their sum over all rows."""
    if isinstance(data, Moments):
        return data.n_rows * squared_error(data, -1, fit.columns, fit.coefficients, fit.intercept)
    residuals = data.y - as_observed(fit.predict(columns_of(data, fit.columns)), data)
    return float(residuals @ residuals)


def squared_error(
    moments: Moments, group: int, columns: tuple[str, ...], coefficients: Floats, intercept: float
) -> float:
    """Mean squared error of a linear prediction in an environment, or in all rows where group is -1."""
    used = [*(moments.columns.index(name) for name in columns), moments.outcome]
    pooled = group == -1
    mean = moments.pooled_mean if pooled else moments.means[group]
    n_rows = moments.n_rows if pooled else moments.counts[group]
    slopes = np.append(-coefficients, 1.0)
    scatter = max(float(slopes @ moments.scatter[group][np.ix_(used, used)] @ slopes), 0.0)
    return scatter / float(n_rows) + (float(slopes @ mean[used]) - intercept) ** 2


def _link(fit: Fit) -> Any:
    """None where the model's mean is its linear predictor itself."""
    return None if np.array_equal(fit.mean(PROBE), PROBE) else fit.mean
