"""Two classes: from labels of any kind to 0 and 1, and from probabilities to labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._tools.arrays import Floats
from ..data.checks import quoted
from ..data.outcomes import Classes, one_series
from ..exceptions import DataError
from ..prediction.calibration import log_odds
from .intervals import IntervalRegressor


class ClassProbabilities(ClassifierMixin, IntervalRegressor):
    """A classifier by a model of the probability of the second of two classes."""

    @property
    def classes_(self) -> NDArray:
        """(2,) the labels, the one that probabilities are of last"""
        check_is_fitted(self)
        assert self._outcome.classes is not None
        return _as_array(self._outcome.classes)

    def predict(self, X: Any, return_std: bool = False) -> NDArray:
        """(n,) the more probable class, which has no standard deviation: return_std=True is refused."""
        if return_std:
            self._outcome.check_intervals()
        return self.classes_[(self._probability(X) > 0.5).astype(np.intp)]

    def predict_proba(self, X: Any) -> Floats:
        """(n, 2) the probability of each of classes_, by the fit to all rows"""
        probability = self._probability(X)
        return np.column_stack([1.0 - probability, probability])

    def decision_function(self, X: Any) -> Floats:
        """(n,) log odds of the second class"""
        return log_odds(self._probability(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose class is predicted."""
        return float(super().score(X, _alike(_one_column(y)), sample_weight))

    def _probability(self, X: Any) -> Floats:
        return np.asarray(super().predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # As regressors here: fit(X, y) alone has no environments to learn from.
        tags.classifier_tags.poor_score = True
        tags.regressor_tags = None
        return tags


def two_classes(y: Any) -> tuple[Classes, Floats]:
    """The two labels, sorted, and (n,) 1 for the second, 0 for the first, NaN where a label is missing."""
    import pandas as pd

    try:
        given = _one_column(y, warn=True)
        present = ~pd.isna(given)
        labels = _alike(given[present])
        kind = type_of_target(labels, input_name="y") if len(labels) else "binary"
    except ValueError as error:
        raise DataError(str(error)) from None
    if kind not in ("binary", "multiclass"):
        raise DataError(f"Unknown label type: {kind}. For an outcome that is a number use BIP.")
    found = np.unique(labels)
    _check_two(found.tolist())
    coded = np.full(len(given), np.nan)
    coded[present] = labels == found[1]
    first, second = found.tolist()
    return (first, second), coded


def _one_column(y: Any, warn: bool = False) -> NDArray:
    """(n,) as scikit-learn takes it, but that truth values of any library stay so"""
    import narwhals as nw
    import pandas as pd

    series, _ = one_series(pd.Series(y) if isinstance(y, pd.api.extensions.ExtensionArray) else y, "y")
    if series is not None and series.dtype == nw.Boolean:
        y = np.array(series.to_list(), dtype=object)
    return np.asarray(column_or_1d(y, warn=warn))


def _alike(labels: NDArray) -> NDArray:
    """Objects as numbers, truth values or text, whatever they are all of."""
    if labels.dtype != object:
        return labels
    kinds = sorted({type(label).__name__ for label in labels})
    if len(kinds) > 1:
        raise DataError(f"y holds labels of several types, {quoted(kinds)}: make them one, for example text.")
    return np.array(labels.tolist())


def _check_two(found: list[Any]) -> None:
    """Raise unless there are two labels. Scikit-learn's checks look for the words that one message begins with."""
    if len(found) > 2:
        raise DataError(
            f"Only binary classification is supported. y has {len(found)} classes, {quoted(found, 4)}: compare one of "
            f"them with the rest, y = [label == {found[0]!r} for label in y]."
        )
    if len(found) < 2:
        raise DataError(f"y has labels of one class only, {quoted(found)}: pass rows of another class too.")


def _as_array(classes: Classes) -> NDArray:
    """(2,) of the type that both have, objects where they have not the same"""
    alike = type(classes[0]) is type(classes[1])
    return np.array(classes) if alike else np.array(classes, dtype=object)
