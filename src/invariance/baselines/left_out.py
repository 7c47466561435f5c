"""The error of a method in an environment that it was not fitted to."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import xlogy
from sklearn.base import is_classifier

from .._tools.arrays import Floats
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..models.base import Predicts, predicts_of
from ..models.registry import family_of
from ..prediction.predictor import concordance, log_odds

# {what is predicted: the error that is told of it}, smaller is better
ERRORS = {
    Predicts.number: "RMSE",
    Predicts.probability: "log loss",
    Predicts.rate: "Poisson deviance",
    Predicts.time: "1 − concordance",
}


def predicts_for(data: MultiEnvironmentData) -> Predicts:
    """What a model of this outcome should predict."""
    return predicts_of(family_of(data))


def error_of(
    predicts: Predicts, observed: Floats, predicted: Floats, exposure: Floats | None = None, event: Floats | None = None
) -> float:
    """One of ERRORS, a mean over rows, of outcomes (n,), classes as 0 and 1, and predictions (n,), per unit of exposure
    (n,); of times, in the order that was predicted; NaN where no pair of times can be ordered."""
    if predicts is Predicts.number:
        return float(np.sqrt(np.mean((observed - predicted) ** 2)))
    if predicts is Predicts.probability:
        odds = log_odds(predicted)
        return float(np.mean(np.logaddexp(0.0, odds) - observed * odds))
    if predicts is Predicts.rate:
        mean = predicted if exposure is None else predicted * exposure
        return float(2.0 * np.mean(xlogy(observed, observed) - xlogy(observed, mean) - observed + mean))
    assert event is not None
    return 1.0 - concordance(observed, event, predicted)


def error_in(environment: int, model: Any, data: MultiEnvironmentData, table: Any) -> float:
    """Of a model that was fitted without this environment, given by its place; table: the data as a data frame."""
    rows, predicts = data.rows(environment), predicts_for(data)
    if model._outcome.predicts is not predicts:
        what = f"it predicts {data.outcome_name} as a {model._outcome.predicts}"
        raise DataError(f"{what}, which has no {ERRORS[predicts]}.")
    X, fitted = table.iloc[rows], np.delete(data.y, rows)
    if predicts is Predicts.time:
        # Medians are infinite for all rows that are likely to outlive the longest time.
        predicted = model.predict_restricted_mean(X, fitted.max())
    elif is_classifier(model):
        predicted = model.predict_proba(X)[:, 1]
    else:
        predicted = model.predict(X)
    beside = {role: values[rows] for role, values in data.outcome_columns.items()}
    return error_of(predicts, data.y[rows], np.asarray(predicted), **beside)
