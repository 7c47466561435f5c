"""A machine learner's job: predict at a site that was never seen, in a Pipeline with GridSearchCV
and polars."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from invariance import BIP, Columns

pl = pytest.importorskip("polars", reason="needs polars")
pytestmark = pytest.mark.integration
SITES = {"Bern": 1.0, "Graz": 0.6, "Lyon": 1.4, "Pisa": 0.2}
UNSEEN = {"Riga": -1.5}


def rows_of(sites: dict[str, float], n: int = 150) -> Any:
    """dose and age act on the response alike everywhere; the marker follows the response, by a
    factor of the site."""
    rng = np.random.default_rng(0)
    tables = []
    for number, (site, factor) in enumerate(sites.items()):
        age = rng.normal(50 + 4 * number, 8, n)
        dose = rng.normal(2 + 0.5 * number, 1, n)
        response = 3 * dose - 0.2 * age + rng.normal(size=n)
        marker = factor * response + rng.normal(size=n)
        noise = rng.normal(size=n)
        columns = {"age": age, "dose": dose, "marker": marker, "noise": noise, "response": response}
        tables.append(pl.DataFrame({"site": [site] * n, **columns}))
    return pl.concat(tables)


@pytest.fixture
def table(tmp_path: Path) -> Any:
    rows_of(SITES).write_csv(tmp_path / "trial.csv")
    return pl.read_csv(tmp_path / "trial.csv")


def gain_at_unseen_site(model: Any, features: list[str], table: Any, scored: list[str]) -> float:
    """How many times smaller the squared error is than that of least squares on all features."""
    new = rows_of(UNSEEN, 400)
    squares = LinearRegression().fit(table.select(features), table["response"])
    truth = new["response"].to_numpy()
    error = np.mean((model.predict(new.select(scored)) - truth) ** 2)
    return float(np.mean((squares.predict(new.select(features)) - truth) ** 2) / error)


FEATURES = ["age", "dose", "marker", "noise"]


@sklearn.config_context(enable_metadata_routing=True)
def test_environments_come_by_metadata_routing(table: Any) -> None:
    bip = BIP(random_state=0).set_fit_request(environments=True)
    pipeline = make_pipeline(StandardScaler(), bip).set_output(transform="polars")
    settings = {
        "bip__select": ["predictive", "median"],
        "bip__predict_with": ["selected", "average"],
    }
    search = GridSearchCV(pipeline, settings, cv=LeaveOneGroupOut())
    X = table.select(FEATURES)
    y = table["response"]
    site = table["site"].to_numpy()
    search.fit(X, y, environments=site, groups=site)
    best = search.best_estimator_[-1]
    assert best.selected_features_ == ("age", "dose")
    assert best.environments_ == tuple(SITES)
    assert best.posterior_.outcome_name == "response"
    assert search.best_score_ > 0.8
    assert gain_at_unseen_site(search, FEATURES, table, FEATURES) > 3.0


def test_environments_are_a_column(table: Any) -> None:
    """A pipeline whose first step selects, and a grid over both steps."""
    scored = ["site", *FEATURES]
    pipeline = make_pipeline(
        BIP(columns=Columns(environment="site")).set_output(transform="polars"),
        PolynomialFeatures(),
        LinearRegression(),
    )
    settings = {"bip__select": ["predictive", "mode"], "polynomialfeatures__degree": [1, 2]}
    search = GridSearchCV(pipeline, settings, cv=LeaveOneGroupOut())
    search.fit(table.select(scored), table["response"], groups=table["site"].to_numpy())
    chosen = search.best_estimator_[0]
    assert chosen.selected_features_ == ("age", "dose")
    assert search.best_params_["polynomialfeatures__degree"] == 1
    assert gain_at_unseen_site(search, FEATURES, table, scored) > 3.0
