"""BIP in scikit-learn: conventions, pipelines, progress; and with the additive model."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from decision_cases import made
from invariance import (
    BIP,
    Additive,
    BetaBinomialPrior,
    Columns,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Tempering,
    Tolerance,
    UniformPrior,
    Variational,
)
from invariance.datasets import make_example
from invariance.decisions.environments import environment_tests
from invariance.estimators import bip
from invariance.exceptions import DataError, NotInvariantWarning

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
    model = BIP(predict_with="selected").fit(X, y, environments=EXAMPLE.environment_index)
    assert model.get_feature_names_out().tolist() == ["age", "exercise", "smoking"]
    np.testing.assert_array_equal(model.get_support(), EXAMPLE.truth)
    assert (model.n_environments_, model.environments_, model.n_features_in_) == (
        6,
        tuple(range(6)),
        8,
    )
    assert model.inclusion_probabilities_.shape == (8,)
    design = np.column_stack([np.ones(len(X)), X[["age", "exercise", "smoking"]]])
    coefficients = np.linalg.lstsq(design, EXAMPLE.y, rcond=None)[0]
    np.testing.assert_allclose(
        [model.intercept_, *model.coef_[model.support_]], coefficients, rtol=1e-9
    )
    np.testing.assert_allclose(model.predict(X), design @ coefficients, rtol=1e-9)
    assert model.score(X, y) == pytest.approx(1.0 - np.var(y - model.predict(X)) / np.var(y))
    np.testing.assert_array_equal(model.transform(X), X[["age", "exercise", "smoking"]])


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
    with pytest.warns(NotInvariantWarning, match="no environments were given"):
        model = BIP(prior=InclusionPrior(0.3), select="mode", predict_with="selected").fit(
            EXAMPLE.X, EXAMPLE.y
        )
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
        BIP(),
        EXAMPLE.X,
        EXAMPLE.y,
        groups=site,
        cv=LeaveOneGroupOut(),
        params={"environments": site},
    )
    assert scores["test_score"].min() > 0.3


def test_moments_that_do_not_fit_into_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.models.gaussian.free_bytes", lambda: 1000)
    monkeypatch.setattr("invariance.models.gaussian._ALWAYS_FREE", 0)
    with pytest.raises(DataError, match=r"second moments of 8 features .*LassoScreen"):
        BIP().fit(EXAMPLE)


def test_docstring_examples() -> None:
    outcome = doctest.testmod(bip)
    assert outcome.attempted > 3
    assert outcome.failed == 0


@pytest.mark.parametrize(
    "engine", ["exact", Tempering(chains=2, steps=75, searches=1), Variational(iterations=60)]
)
def test_progress_as_a_function(engine: Any) -> None:
    """It hears of every stage from 0 to 1, and what it raises reaches the caller."""
    heard: list[tuple[float, str]] = []
    BIP(engine=engine, random_state=0, progress=lambda *said: heard.append(said)).fit(made())
    stages = {message.split(":")[0] for _, message in heard} - {"preparing"}
    assert stages
    for stage in stages:
        own = [done for done, message in heard if message == stage]
        assert (min(own), max(own)) == (0.0, 1.0)

    def refuse(done: float, message: str) -> None:
        if done > 0.0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        BIP(engine=engine, random_state=0, progress=refuse).fit(made())


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """y follows curves of a and b alike at all sites; d follows y, otherwise at each."""
    rng = np.random.default_rng(0)
    site = np.repeat(range(4), 80)
    X = rng.normal(size=(320, 3)) + rng.normal(size=(4, 3))[site]
    y = 2.0 * np.tanh(X[:, 0]) + 0.5 * X[:, 1] ** 2 + rng.normal(scale=0.4, size=320)
    d = y * np.array([1.0, -0.5, 2.0, 0.3])[site] + rng.normal(size=320)
    columns = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "d": d, "sex": rng.choice(["m", "f"], 320)}
    return pd.DataFrame(
        columns | {"few": rng.integers(0, 4, 320), "flat": 1.0, "y": y, "site": site}
    )


FEATURES = ["a", "b", "c", "d", "sex", "few", "flat"]


@pytest.fixture(scope="module")
def model(table: pd.DataFrame) -> BIP:
    with pytest.warns(UserWarning, match="constant"):
        return BIP("additive", progress=False).fit(
            table[FEATURES], table["y"], environments=table["site"]
        )


def test_finds_what_straight_lines_miss(model: BIP, table: pd.DataFrame) -> None:
    assert model.selected_features_ == ("a", "b")
    assert model.support_.tolist() == [name in ("a", "b") for name in FEATURES]
    assert model.columns_[:6] == ("a", "a~2", "a~3", "a~4", "a~5", "b")
    data = MultiEnvironmentData.from_table(table[["a", "b", "y", "site"]], "y", "site")
    straight = LinearGaussian().bind(data)
    curves = Additive().bind(data)
    both = np.ones((1, 2), dtype=bool)
    assert straight.invariance_test(both, Tolerance()).joint[0] < 1e-4
    assert curves.invariance_test(both, Tolerance()).joint[0] > 0.1
    predicted = model.predict(table[FEATURES])
    assert np.corrcoef(predicted, table["y"])[0, 1] > 0.93
    pieces = [model.predict(table[FEATURES].iloc[rows]) for rows in (slice(0, 7), slice(7, None))]
    np.testing.assert_allclose(np.concatenate(pieces), predicted)
    far = table[FEATURES].iloc[:3].assign(a=[100.0, 200.0, 300.0])
    with pytest.warns(UserWarning, match="has a = 300"):
        line = model.predict(far.assign(b=0.0))
    assert line[2] - line[1] == pytest.approx(line[1] - line[0])
    low, high = model.predict_interval(table[FEATURES]).T
    assert np.mean((low < table["y"]) & (table["y"] < high)) > 0.85


def test_the_diagnosis_compares_what_the_posterior_does(model: BIP) -> None:
    diagnosis = model.diagnose()
    assert diagnosis.whole is not None
    bound = model.decision_.findings.target.model
    assert diagnosis.whole.deviance == pytest.approx(-2.0 * bound.log_ratio(["a", "b"]), abs=1e-6)
    assert not diagnosis.alarm
    assert model.diagnose(["d"]).alarm
    assert (
        environment_tests(bound, np.zeros(bound.n_features, dtype=bool)).deviation(None) is not None
    )


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_search_warns_of_one_thing_once(n_jobs: int | None) -> None:
    """Another search warns again, as every fit does outside of searches."""
    rng = np.random.default_rng(0)
    site = np.repeat(list("abcdef"), 40)
    X = pd.DataFrame(rng.normal(size=(240, 2)), columns=["a", "b"]).assign(site=site)
    y = (
        X["a"] * np.repeat([3.0, -3.0, 2.0, -2.0, 1.0, -1.0], 40)
        + np.repeat(range(6), 40)
        + rng.normal(size=240)
    )
    model = BIP(columns=Columns(environment="site"))
    for _ in range(2):
        search = GridSearchCV(
            model, {"select": ["mode", "predictive"]}, cv=LeaveOneGroupOut(), n_jobs=n_jobs
        )
        with pytest.warns(NotInvariantWarning) as warned:
            search.fit(X, y, groups=site)
        assert len(warned) == 1
        assert "shown once" in str(warned[0].message)
    if n_jobs is None:
        for _ in range(2):
            with pytest.warns(NotInvariantWarning) as alone:
                model.fit(X, y)
            assert "shown once" not in str(alone[0].message)
        with pytest.warns(NotInvariantWarning) as warned:
            cross_validate(model, X, y, groups=site, cv=LeaveOneGroupOut())
        assert len(warned) == 1
