"""Any method behind a screen."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..estimators.selector import EnvironmentSelector, refuse_inside
from ..exceptions import SettingError, use
from ..prediction.predictor import PredictedOutcome
from ..screening import LassoScreen, Screening
from .base import Baseline


class Screened(Baseline):
    """A method that sees only the features that pass a screen, and those that its prior includes for certain.

    Parameters
    ----------
    estimator : the method, for example ICP()
    screen : LassoScreen(); None is the default one
    columns : how a data frame X is read; the method itself must not have them

    Attributes
    ----------
    estimator_ : the fitted method, over the screened features
    screened_features_ : tuple of names; screened_ : (n_features_in_,) bool
    used_fallback_ : whether correlation decided because the Lasso kept nothing
    p_values_, inclusion_probabilities_ : (n_features_in_,) those of the method, where it has them; NaN for features
        that the screen left out

    Examples
    --------
    >>> from invariance.baselines import ICP
    >>> from invariance.datasets import make_example
    >>> from invariance.baselines import LassoScreen, Screened
    >>> model = Screened(ICP(), LassoScreen(k=4)).fit(make_example())
    >>> len(model.screened_features_), model.used_fallback_
    (4, False)
    """

    def __init__(self, estimator: Any, screen: LassoScreen | None = None, columns: Columns | None = None) -> None:
        self.estimator = estimator
        self.screen = screen
        self.columns = columns

    def fit_screened(self, data: MultiEnvironmentData, screening: Screening) -> Screened:
        """As `fit`, with a screening that several methods share."""
        self._given = screening
        return self.fit(data)

    @property
    def used_screen(self) -> LassoScreen:
        """The screen, also where the constructor was given none."""
        return LassoScreen() if self.screen is None else self.screen

    def _check_settings(self) -> None:
        refuse_inside("Screened", self.estimator)

    def _select(self, data: MultiEnvironmentData) -> Mask:
        _refuse_other_predictors(self.estimator)
        given: Screening | None = self.__dict__.pop("_given", None)
        screening = self.used_screen.screen(data) if given is None else given
        kept = screening.kept | self._forced(data)
        reduced = data.narrowed(kept)
        self.estimator_ = clone(self.estimator).fit(reduced)
        self.screened_features_ = reduced.feature_names
        self.screened_ = self._expand(kept, False)
        self.used_fallback_ = screening.used_fallback

        def unfolded(name: str, fill: Any) -> NDArray:
            return _unfold(feature_values(self.estimator_, name, reduced), kept, fill)

        for name in ("p_values_", "inclusion_probabilities_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, self._expand(unfolded(name, np.nan), np.nan))
        return unfolded("support_", False)

    def _forced(self, data: MultiEnvironmentData) -> Mask:
        """(p,) what the method's prior includes for certain, whatever the screen thinks of it."""
        prior = getattr(self.estimator, "prior", None)
        names = set() if prior is None else set(prior.forced(data.original_features))
        return np.array([name in names for name in data.feature_names])

    def _mean(self, predictor: Floats) -> Floats:
        return self.estimator_._mean(predictor)

    def _predicted(self, data: Any) -> PredictedOutcome:
        return self.estimator_._outcome

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        kept = data.features.expand(feature_values(self, "screened_", data))
        return _unfold(self.estimator_.coef_, kept, 0.0), self.estimator_.intercept_


def _refuse_other_predictors(estimator: Any) -> None:
    """Raise where the method would predict by something else than its coefficients, which is all that is passed on."""
    averages = getattr(estimator, "predict_with", "selected") != "selected"
    if averages or is_classifier(estimator) or getattr(estimator, "regressor", None) is not None:
        what = f"Screened predicts by coefficients, not as this {type(estimator).__name__} does"
        by_coefficients = use(regressor=None, predict_with="selected")
        raise SettingError(what, by_coefficients, use(" in a BIP for probabilities", family="logistic"))


def feature_values(model: EnvironmentSelector, name: str, data: MultiEnvironmentData) -> NDArray:
    """(p,) a fitted attribute (n_features_in_,) of `model` by the features of the data that it was fitted to."""
    owner = model._expand(np.arange(data.n_features), -1)
    features, first = np.unique(owner, return_index=True)
    return getattr(model, name)[first[features >= 0]]


def _unfold(values: NDArray, kept: Mask, fill: Any) -> NDArray:
    full = np.full(kept.shape, fill, dtype=values.dtype)
    full[kept] = values
    return full
