"""The lines of Python on a page make the same fit again."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import BIP, Columns, LinearGaussian, Tolerance, spline
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.inference.tempering.engine import Tempering
from invariance.moments.second_pass import SecondPassResult
from invariance.priors import BetaBinomialPrior, InclusionPrior, UniformPrior
from invariance.report.methods import python_lines, typed
from invariance.report.subject import Source, Subject

DATA = make_example()


def _lines(model: BIP, source: Source | None = None) -> str:
    import inspect

    return python_lines(
        Subject(
            decision=model.decision_,
            data=model._data,
            family=model._family,
            diagnosis="",
            estimator=type(model).__name__,
            settings=model._settings,
            defaults={name: given.default for name, given in inspect.signature(type(model)).parameters.items()},
            by_name=model._by_name,
            source=source or Source(),
        )
    )


def _again(lines: str, **known: Any) -> BIP:
    namespace = dict(known)
    exec(lines, namespace)
    return namespace["model"]


SETTINGS: list[dict[str, Any]] = [
    {},
    {"family": "linear_gaussian_mean", "select": Threshold(0.4)},
    {"family": LinearGaussian(invariance="mean"), "tolerance": Tolerance.strict(0.01)},
    {"prior": InclusionPrior({"age": 0.9}, max_size=3), "random_state": 7},
    {"prior": BetaBinomialPrior(1.0, 3.0), "columns": Columns(groups=[spline("age", knots=4)])},
    {"engine": Tempering(chains=2, steps=50), "random_state": np.int64(5)},
    {"regressor": RandomForestRegressor(n_estimators=3, random_state=0)},
    {"regressor": make_pipeline(StandardScaler(), GridSearchCV(Ridge(), {"alpha": [0.5, 2.0]}))},
]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("settings", SETTINGS, ids=lambda given: "-".join(given) or "defaults")
def test_lines_make_the_same_fit(settings: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
    model = BIP(**settings, progress=False).fit(X, DATA.y, environments=DATA.environment_index)
    lines = _lines(model)
    assert "progress" not in lines
    again = _again(lines, X=X, y=DATA.y, environments=DATA.environment_index)
    assert again.posterior_.log_evidence == model.posterior_.log_evidence
    assert again.selected_features_ == model.selected_features_
    assert {name: typed(value) for name, value in again.get_params(deep=False).items() if name != "progress"} == {
        name: typed(value) for name, value in model._settings.items() if name != "progress"
    }


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lines_of_one_environment_name_none() -> None:
    X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
    model = BIP().fit(X, DATA.y)
    assert _again(_lines(model), X=X, y=DATA.y).selected_features_ == model.selected_features_


def test_a_long_regressor_is_typed_in_full() -> None:
    alphas = np.linspace(0.1, 0.9, 300)
    lines = typed(make_pipeline(RidgeCV(alphas=alphas)))
    assert lines == f"Pipeline(steps=[('ridgecv', RidgeCV(alphas={alphas.tolist()}))])"


def test_lines_of_data_and_of_moments() -> None:
    from invariance.moments import Moments

    assert _lines(BIP().fit(DATA)).splitlines()[-2] == "model = BIP().fit(data)"
    moments = Moments.from_data(DATA)
    assert ".fit(moments)" in _lines(BIP().fit(moments))
    looked_at = replace(moments, second=SecondPassResult(None))
    assert ".fit(moments, rows=rows)" in _lines(BIP().fit(looked_at))
    labelled = DATA.to_frame()
    model = BIP(columns=Columns(environment="hospital")).fit(labelled.drop(columns="blood_pressure"), DATA.y)
    assert _lines(model).splitlines()[-2] == "model = BIP(columns=Columns(environment='hospital')).fit(X, y)"


def test_lines_read_the_table_where_that_is_known(tmp_path: Path) -> None:
    from invariance import MultiEnvironmentData

    file = tmp_path / "a table.csv"
    DATA.to_frame().to_csv(file, index=False)
    table = {"table": file, "outcome": "blood_pressure", "environment": "hospital"}
    given = table | {"exclude": ["salt"], "numeric": [], "missing": "error", "drop_environments": ["west"]}
    model = BIP(random_state=0).fit(MultiEnvironmentData.from_table(**given))
    lines = _lines(model, Source(given))
    assert "numeric" not in lines
    assert "missing" not in lines
    assert lines.startswith("from pathlib import Path\n")
    assert _again(lines).posterior_.log_evidence == model.posterior_.log_evidence


def test_no_address_of_memory_is_typed() -> None:
    generator = np.random.default_rng(0)
    model = BIP(random_state=generator).fit(DATA)
    assert "random_state=rng" in _lines(model)
    assert not re.search(r"0x[0-9a-f]+", typed([generator, object(), print]))


def test_settings_as_typed() -> None:
    assert typed(UniformPrior()) == "UniformPrior()"
    assert typed(UniformPrior(max_size=3)) == "UniformPrior(max_size=3)"
    assert typed(replace(Tolerance(), delta=0.5)) == "Tolerance(delta=0.5)"
    assert typed(("a",)) == "('a',)"
    assert typed({"a": [np.float64(0.5)]}) == "{'a': [0.5]}"
