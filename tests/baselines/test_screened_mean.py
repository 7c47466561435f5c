"""A screened method predicts as the method does, also where its mean is no linear function of the columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from conformance_cases import StatsmodelsLogistic, table
from invariance import BIP, BIPClassifier, InclusionPrior
from invariance.baselines import ICP, LassoScreen, Screened
from invariance.exceptions import SettingError
from two_classes import LABELS, SITE, X, Y


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("forced", ["x0", "g"])
def test_a_screened_logistic_model_predicts_probabilities(forced: str) -> None:
    data = table(grouped=forced == "g", binary=True)
    method = BIP(StatsmodelsLogistic(), prior=InclusionPrior({forced: 1.0}), engine="exact")
    model = Screened(method, LassoScreen(k=2)).fit(data)
    assert forced in model.selected_features_
    kept = data.features.chosen(np.isin(data.feature_names, model.screened_features_))
    X = pd.DataFrame(data.X, columns=data.features.columns)
    predicted = model.predict(X)
    np.testing.assert_allclose(predicted, model.estimator_.predict(X[list(kept.columns)]), rtol=1e-12)
    linear = data.X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(predicted, 1.0 / (1.0 + np.exp(-linear)), rtol=1e-12)
    assert np.ptp(predicted) > 0.3


def test_a_screened_linear_model_predicts_linearly() -> None:
    data = table(grouped=False, binary=False)
    model = Screened(ICP(), LassoScreen(k=3)).fit(data)
    X = pd.DataFrame(data.X, columns=data.feature_names)
    np.testing.assert_allclose(model.predict(X), data.X @ model.coef_ + model.intercept_, rtol=1e-12)
    np.testing.assert_allclose(
        model.predict(X), model.estimator_.predict(X[list(model.screened_features_)]), rtol=1e-12
    )


def test_a_screened_classifier_is_refused_and_a_logistic_model_scores_words() -> None:
    with pytest.raises(SettingError, match=r"BIPClassifier predicts classes: use BIP\('logistic'\)"):
        Screened(BIPClassifier(), LassoScreen(k=3)).fit(X, LABELS, environments=SITE)
    model = Screened(BIP("logistic"), LassoScreen(k=3)).fit(X, LABELS, environments=SITE)
    residual = Y - model.predict(X)
    assert model.score(X, LABELS) == pytest.approx(1.0 - residual @ residual / (len(Y) * Y.var()))
