from __future__ import annotations

import doctest
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from decision_cases import made
from invariance import BIP, BetaBinomialPrior, Columns, Enumeration, InclusionPrior, LinearGaussian, UniformPrior
from invariance.baselines import ICP
from invariance.datasets import make_example
from invariance.estimators import bip
from invariance.exceptions import DataWarning, NotInvariantWarning
from invariance.models.gaussian import GaussianOnDemand

EXAMPLE = make_example()


def frame(with_site: bool = True) -> tuple[pd.DataFrame, pd.Series]:
    table = pd.DataFrame(EXAMPLE.X, columns=list(EXAMPLE.feature_names))
    if with_site:
        table["hospital"] = [EXAMPLE.environments[e] for e in EXAMPLE.environment_index]
    return table, pd.Series(EXAMPLE.y)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.PredictionWarning")
@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
@parametrize_with_checks([BIP()])
def test_scikit_learn_conventions(estimator, check) -> None:
    check(estimator)


def test_finds_the_truth_and_predicts() -> None:
    X, y = frame(with_site=False)
    model = BIP().fit(X, y, environments=EXAMPLE.environment_index)
    assert model.get_feature_names_out().tolist() == ["age", "exercise", "smoking"]
    np.testing.assert_array_equal(model.get_support(), EXAMPLE.truth)
    assert model.n_environments_ == 4
    assert model.environments_ == (0, 1, 2, 3)
    assert model.n_features_in_ == 8
    assert model.inclusion_probabilities_.shape == (8,)
    assert model.score(X, y) > 0.7
    design = np.column_stack([np.ones(len(X)), X[["age", "exercise", "smoking"]]])
    coefficients = np.linalg.lstsq(design, EXAMPLE.y, rcond=None)[0]
    np.testing.assert_allclose([model.intercept_, *model.coef_[model.support_]], coefficients, rtol=1e-9)
    np.testing.assert_allclose(model.predict(X), design @ coefficients, rtol=1e-9)
    assert model.transform(X).shape == (600, 3)


def test_environment_column_of_a_data_frame() -> None:
    X, y = frame()
    model = BIP(columns=Columns(environment="hospital")).fit(X, y)
    assert model.environments_ == EXAMPLE.environments
    assert model.feature_names_in_.tolist() == list(EXAMPLE.feature_names)
    without = X.drop(columns="hospital")
    np.testing.assert_array_equal(model.predict(X), model.predict(without))
    np.testing.assert_array_equal(model.transform(X), model.transform(without))
    expected = BIP().fit(without, y, environments=X["hospital"]).inclusion_probabilities_
    np.testing.assert_array_equal(model.inclusion_probabilities_, expected)


def test_without_environments_the_posterior_is_the_prior() -> None:
    with pytest.warns(NotInvariantWarning, match="the posterior is the prior"):
        model = BIP(prior=InclusionPrior(0.3), select="mode").fit(EXAMPLE.X, EXAMPLE.y)
    np.testing.assert_allclose(model.inclusion_probabilities_, 0.3, rtol=1e-12)
    assert not model.support_.any()
    np.testing.assert_allclose(model.predict(EXAMPLE.X), EXAMPLE.y.mean(), rtol=1e-12)


def test_pipeline_and_search_with_plain_arguments() -> None:
    site = EXAMPLE.environment_index
    pipeline = make_pipeline(StandardScaler(), BIP())
    pipeline.fit(EXAMPLE.X, EXAMPLE.y, bip__environments=site)
    np.testing.assert_array_equal(pipeline[-1].support_, EXAMPLE.truth)
    search = GridSearchCV(BIP(), {"prior": [UniformPrior(), BetaBinomialPrior(1, 3)]}, cv=3)
    search.fit(EXAMPLE.X, EXAMPLE.y, environments=site)
    assert search.best_score_ > 0.3
    scores = cross_validate(
        BIP(), EXAMPLE.X, EXAMPLE.y, groups=site, cv=LeaveOneGroupOut(), params={"environments": site}
    )
    assert scores["test_score"].min() > 0.3


def test_clone_keeps_the_parameters() -> None:
    model = BIP(prior=UniformPrior(max_size=3), engine=Enumeration(keep=5), columns=Columns(environment="hospital"))
    copy = clone(model)
    assert copy.get_params()["prior"] == UniformPrior(max_size=3)
    assert copy.fit(*frame()).posterior_.masks.shape == (5, 8)


def test_moments_that_do_not_fit_are_computed_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every engine works with that model; sampling with it, whose kernels compile anew, is tested beside the engine."""
    monkeypatch.setattr("invariance.models.gaussian.free_bytes", lambda: 1000)
    with pytest.warns(
        DataWarning, match=r"second moments of 8 features take 0\.0 GB, more than is free, and are computed"
    ):
        model = BIP().fit(EXAMPLE)
    assert isinstance(model.posterior_.source.target.model, GaussianOnDemand)
    np.testing.assert_array_equal(model.support_, EXAMPLE.truth)
    expected = BIP(family=LinearGaussian(second_moments="all")).fit(EXAMPLE).posterior_
    np.testing.assert_allclose(model.posterior_.inclusion, expected.inclusion, atol=1e-9)


def test_docstring_examples() -> None:
    outcome = doctest.testmod(bip)
    assert outcome.attempted > 3
    assert outcome.failed == 0


@pytest.mark.parametrize("engine", ["exact", "tempering", "vi"])
def test_progress_as_a_function(engine: str) -> None:
    """It hears of every stage from 0 to 1, changes no result, and what it raises reaches the caller."""
    heard: list[tuple[float, str]] = []
    model = BIP(engine=engine, random_state=0, progress=lambda *said: heard.append(said)).fit(made())
    silent = BIP(engine=engine, random_state=0, progress=False).fit(made())
    assert model.selected_features_ == silent.selected_features_
    for stage in {message.split(":")[0] for _, message in heard} - {"preparing"}:
        own = [done for done, message in heard if message == stage]
        assert (min(own), max(own)) == (0.0, 1.0)

    def refuse(done: float, message: str) -> None:
        if done > 0.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BIP(engine=engine, random_state=0, progress=refuse).fit(made())


def test_other_methods_and_diagnoses_tell_their_progress_too() -> None:
    heard: set[str] = set()
    ICP(progress=lambda done, message: heard.add(message)).fit(made())
    clone(BIP(progress=lambda done, message: heard.add(message))).fit(made()).diagnose()
    assert heard >= {"testing subsets", "without each environment"}


def test_columns_that_are_read_again() -> None:
    """Where there are too many: selected features first and then those that predict."""
    worth = np.array([0.1, 0.2, 0.9, 0.8, 0.3])
    target = SimpleNamespace(model=SimpleNamespace(r2_many=lambda masks: masks @ worth))
    decision: Any = SimpleNamespace(mask=np.arange(5) == 1, findings=SimpleNamespace(target=target))
    assert np.flatnonzero(bip._leading(decision, np.ones(5, np.int64), 3)).tolist() == [1, 2, 3]
    assert np.flatnonzero(bip._leading(decision, np.array([1, 1, 3, 1, 1]), 3)).tolist() == [1, 3, 4]
