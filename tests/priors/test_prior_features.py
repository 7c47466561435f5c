"""A prior speaks about the features that the user gave, whichever of them are dropped on the
way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_validate

from invariance import BIP, InclusionPrior, MultiEnvironmentData, UniformPrior
from invariance.baselines import LassoScreen, Screened
from invariance.exceptions import DataWarning
from twins import simulated

NAMES = ["a", "flat", "b", "c"]
BY_NAME = {"a": 0.9, "flat": 0.2, "c": 0.1}
STATED: list[Any] = [BY_NAME, [0.9, 0.2, 0.5, 0.1], pd.Series(BY_NAME)]
DATA = simulated(3, (40, 50, 45), seed=60)
TABLE = pd.DataFrame(np.insert(DATA.X, 1, 3.3, axis=1), columns=NAMES)

constant = pytest.mark.filterwarnings("ignore:dropped features that are constant")


@pytest.fixture(scope="module")
def expected() -> np.ndarray:
    """Inclusion probabilities of a, b and c where nobody gave a constant feature."""
    prior = InclusionPrior([0.9, 0.5, 0.1])
    return BIP(prior=prior).fit(DATA.X, DATA.y, DATA.environment_index).posterior_.inclusion


@constant
@pytest.mark.parametrize("stated", STATED, ids=["by name", "per feature", "series"])
def test_fit_with_a_constant_feature(stated: Any, expected: np.ndarray) -> None:
    model = BIP(prior=InclusionPrior(stated), select="mode").fit(
        TABLE, DATA.y, environments=DATA.environment_index
    )
    np.testing.assert_allclose(
        model.inclusion_probabilities_, np.insert(expected, 1, 0.0), rtol=1e-12
    )
    data = MultiEnvironmentData.from_table(
        TABLE.assign(y=DATA.y, site=DATA.environment_index), "y", "site"
    )
    found = BIP(prior=InclusionPrior(stated)).fit(data).posterior_.inclusion
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    for wrong, named in (
        ({"flatt": 0.2}, "did you mean 'flat'"),
        ([0.5] * 3, "3 .* for 4 features"),
    ):
        with pytest.raises(ValueError, match=named):
            BIP(prior=InclusionPrior(wrong)).fit(data)


@constant
@pytest.mark.filterwarnings("error::sklearn.exceptions.FitFailedWarning")
@pytest.mark.parametrize("stated", [{"x0": 0.9, "x1": 0.2}, [0.9, 0.2, 0.5, 0.1]])
def test_folds_may_drop_features(stated: Any) -> None:
    """Feature 1 differs from 0 in the last rows only, so that it is constant without the last
    fold."""
    X = TABLE.to_numpy().copy()
    folds = KFold(5)
    prior = InclusionPrior(stated)
    X[:, 1] = np.append(np.zeros(len(X) - 20), np.arange(20.0))
    given = {"environments": DATA.environment_index}
    scores = cross_validate(
        BIP(prior=prior), X, DATA.y, cv=folds, params=given, error_score="raise"
    )
    assert np.isfinite(scores["test_score"]).all()
    search = GridSearchCV(BIP(), {"prior": [UniformPrior(), prior]}, cv=folds, error_score="raise")
    assert np.isfinite(search.fit(X, DATA.y, **given).best_score_)


@constant
def test_a_certain_feature_that_is_constant_is_announced() -> None:
    prior = InclusionPrior({"flat": 1.0, "b": 1.0})
    with pytest.warns(DataWarning, match="'flat' for certain"):
        model = BIP(prior=prior).fit(TABLE, DATA.y, environments=DATA.environment_index)
    assert model.inclusion_probabilities_[[1, 2]].tolist() == [0.0, 1.0]


def wide() -> MultiEnvironmentData:
    """Features 3 and 7 of 40 cause y."""
    rng = np.random.default_rng(0)
    env = np.repeat(np.arange(3), 60)
    X = rng.normal(size=(180, 40)) * (1 + 0.5 * env[:, None])
    return MultiEnvironmentData.from_arrays(
        X, 2 * X[:, 3] - 1.5 * X[:, 7] + rng.normal(size=180), env
    )


@pytest.mark.parametrize(
    "stated", [{"x3": 0.9, "x20": 0.2}, np.where(np.arange(40) == 3, 0.9, 0.3)]
)
def test_a_screen_may_drop_features(stated: Any) -> None:
    data = wide()
    model = Screened(BIP(prior=InclusionPrior(stated)), LassoScreen(k=4)).fit(data)
    kept = np.flatnonzero(model.screened_)
    assert 2 <= len(kept) <= 4
    values = InclusionPrior(stated).inclusion(data.feature_names)[kept]
    alone = BIP(prior=InclusionPrior(values)).fit(data.X[:, kept], data.y, data.environment_index)
    np.testing.assert_allclose(
        model.inclusion_probabilities_[kept], alone.inclusion_probabilities_, rtol=1e-12
    )


def test_a_screen_keeps_what_the_prior_includes_for_certain() -> None:
    model = Screened(BIP(prior=InclusionPrior({"x20": 1.0})), LassoScreen(k=2)).fit(wide())
    assert model.screened_features_ == ("x3", "x7", "x20")
    assert model.inclusion_probabilities_[20] == 1.0
