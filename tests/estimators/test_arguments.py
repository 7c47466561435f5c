"""Arguments of one value per row: by their index, never by position in silence; and what `fit` does
not take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.model_selection import LeaveOneGroupOut, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import (
    BIP,
    BetaBinomialPrior,
    BIPClassifier,
    BIPSurvival,
    Columns,
    MultiEnvironmentData,
    UniformPrior,
)
from invariance.baselines import ICP
from invariance.exceptions import DataError, SettingError
from invariance.sweeps.data import read_sweep_data

N = 120


def rows(text: bool = False) -> tuple[pd.DataFrame, dict[str, pd.Series]]:
    """X, whose index is not the default, and what comes with its rows"""
    rng = np.random.default_rng(4)
    index = pd.Index(rng.permutation(N) + 1000)
    X = pd.DataFrame(rng.normal(size=(N, 2)), index, ["a", "b"])
    if text:
        X["level"] = rng.choice(["u", "v"], N)
    site = pd.Series(np.repeat(["north", "south", "west"], N // 3), index)
    rate = np.exp(0.5 * X["a"])
    given = {"y": rng.poisson(3 * rate), "environments": site, "exposure": rng.uniform(1, 2, N)}
    given |= {"event": rng.random(N) < 0.7, "time": rng.exponential(1 / rate)}
    return X, {name: pd.Series(values, index, name=name) for name, values in given.items()}


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("role", ["y", "environments", "exposure", "event"])
def test_series_are_aligned_or_refused(role: str, text: bool) -> None:
    X, given = rows(text)
    names = ["y", "environments", "exposure"]
    if role == "event":
        names = ["y", "environments", "event"]
        given["y"] = given["time"]
    model = BIPSurvival() if role == "event" else BIP()
    arguments = {name: given[name] for name in names}
    wanted = model.fit(X, **arguments).coef_
    # From the first row on in another order, with the same index.
    turned = arguments | {role: arguments[role].sort_index()}
    np.testing.assert_array_equal(model.fit(X, **turned).coef_, wanted)
    np.testing.assert_array_equal(
        model.fit(X, **turned | {role: arguments[role].to_numpy()}).coef_, wanted
    )
    data = MultiEnvironmentData.from_arrays(X, **turned)
    np.testing.assert_array_equal(data.y, arguments["y"])
    assert [data.environments[e] for e in data.environment_index] == arguments[
        "environments"
    ].tolist()
    others = arguments[role].reset_index(drop=True), arguments[role].set_axis([7] * N)
    for other in others:
        for fit in (model.fit, MultiEnvironmentData.from_arrays):
            with pytest.raises(DataError, match=rf"{role} has another index.*{role}\.to_numpy\(\)"):
                fit(X, **arguments | {role: other})


def test_series_agree_where_x_has_no_index() -> None:
    X, given = rows()
    arguments = {name: given[name] for name in ("y", "environments")}
    BIP().fit(X.to_numpy(), **arguments)
    with pytest.raises(
        DataError, match=r"environments has another index than y.*environments\.to_numpy\(\)"
    ):
        BIP().fit(X.to_numpy(), **arguments | {"environments": given["environments"].sort_index()})


def test_series_of_scores_and_sweeps() -> None:
    X, given = rows()
    y = given["time"]
    site = given["environments"]
    by_median = y > y.median()
    for model, outcome in ((BIP(), y), (BIPClassifier(), by_median)):
        model.fit(X, outcome, environments=site)
        assert model.score(X, outcome.sort_index()) == model.score(X, outcome)
        with pytest.raises(DataError, match="y has another index"):
            model.score(X, outcome.reset_index(drop=True))
    survival = BIPSurvival().fit(X, y, environments=site, event=given["event"])
    assert survival.score(X, y.sort_index(), given["event"].sort_index()) == survival.score(
        X, y, given["event"]
    )
    table = X.assign(y=y)
    moments = read_sweep_data(table, site.sort_index()).moments
    np.testing.assert_array_equal(moments.counts, [N // 3] * 3)
    np.testing.assert_allclose(
        moments.means[0],
        X.assign(y=y)[site == moments.environments[0]].mean()[list(moments.columns)],
    )
    with pytest.raises(DataError, match="environments has another index"):
        read_sweep_data(table, site.reset_index(drop=True))


@pytest.mark.parametrize("model", [BIP(), ICP()])
def test_groups_are_called_environments(model: Any) -> None:
    X, given = rows()
    with pytest.raises(TypeError, match="'groups': pass environments="):
        model.fit(X, given["time"], groups=given["environments"])
    with pytest.raises(TypeError, match="'offset': leave it out"):
        model.fit(X, given["time"], environments=given["environments"], offset=np.ones(N))


@pytest.mark.parametrize(
    ("make", "typed"),
    [
        (lambda: BIP(p_max=20), r"prior=UniformPrior\(max_size=20\)"),  # type: ignore[call-arg]
        (lambda: BIP(max_size=20), r"prior=UniformPrior\(max_size=20\)"),  # type: ignore[call-arg]
        (lambda: UniformPrior(p_max=20), r"max_size="),  # type: ignore[call-arg]
        (lambda: BetaBinomialPrior(p_max=20), r"max_size="),  # type: ignore[call-arg]
        (lambda: BIP(threshold=0.9), r"select='threshold\(0\.9\)'"),  # type: ignore[call-arg]
        (lambda: BIP(alpha=0.05), r"ICP\(alpha=0\.05\)"),  # type: ignore[call-arg]
        (lambda: BIPClassifier(gamma=36), r"EILLS\(gamma=36\)"),  # type: ignore[call-arg]
    ],
)
def test_words_of_the_paper_are_answered(make: Callable[[], object], typed: str) -> None:
    with pytest.raises(TypeError, match=typed):
        make()


@pytest.mark.parametrize(
    ("name", "typed"), [("bip-vi", "engine='vi-simulation' or engine='vi'"), ("BIP", "'exact'")]
)
def test_engines_as_the_paper_calls_them(name: str, typed: str) -> None:
    X, given = rows()
    with pytest.raises(SettingError, match=typed):
        BIP(engine=name).fit(X, given["time"], environments=given["environments"])  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [BIP(), ICP()])
def test_environments_that_are_not_requested_are_an_error(model: Any) -> None:
    X, given = rows()
    y = given["time"]
    site = given["environments"]
    splits = {"cv": LeaveOneGroupOut(), "params": {"groups": site}, "error_score": "raise"}
    with config_context(enable_metadata_routing=True):
        for estimator in (model, make_pipeline(StandardScaler(), model)):
            with pytest.raises(SettingError, match="set_fit_request"):
                cross_validate(estimator, X, y, **splits)
        requested = type(model)().set_fit_request(environments="groups")
        by_column = type(model)(columns=Columns(environment="site"))
        for estimator, features in ((requested, X), (by_column, X.assign(site=site))):
            scores = cross_validate(estimator, features, y, **splits)
            assert np.isfinite(scores["test_score"]).all()
        with pytest.warns(UserWarning, match="no environments were given"):
            type(model)().set_fit_request(environments=False).fit(X, y)
