"""The lines of Python on a page make the same fit again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import BIP, Columns, Enumeration, LinearGaussian, Tolerance, spline
from invariance.data.settings import FileFormat
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.moments import Moments
from invariance.priors import BetaBinomialPrior, InclusionPrior, UniformPrior
from invariance.report.methods import Source, Subject, python_lines, typed

DATA = make_example()


def _lines(model: BIP, source: Source | None = None) -> str:
    return python_lines(Subject.of(model, source))


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
    {"engine": Enumeration(keep=9), "random_state": np.int64(5)},
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


def test_lines_of_data_and_of_moments(tmp_path: Path) -> None:
    assert _lines(BIP().fit(DATA)).splitlines()[-2] == "model = BIP().fit(data)"
    assert ".fit(moments)" in _lines(BIP().fit(Moments.from_data(DATA)))
    labelled = DATA.to_frame()
    model = BIP(columns=Columns(environment="hospital")).fit(labelled.drop(columns="blood_pressure"), DATA.y)
    assert _lines(model).splitlines()[-2] == "model = BIP(columns=Columns(environment='hospital')).fit(X, y)"


def test_lines_of_a_second_pass_name_the_column_of_environments(tmp_path: Path) -> None:
    file = str(tmp_path / "table.csv")
    DATA.to_frame().to_csv(file, index=False, sep="|")
    table = {"rows": file, "outcome": "blood_pressure", "environment": "hospital", "form": FileFormat(sep="|")}
    model = BIP().fit(Moments.from_rows(**table), environments="hospital", rows=file, format=FileFormat(sep="|"))
    again = _again(_lines(model, Source(table)))
    assert again.posterior_.log_evidence == model.posterior_.log_evidence
    assert again._data.second is not None
    assert "environments=environments" in _lines(model)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (UniformPrior(), "UniformPrior()"),
        (UniformPrior(max_size=3), "UniformPrior(max_size=3)"),
        (replace(Tolerance(), delta=0.5), "Tolerance(delta=0.5)"),
        (("a",), "('a',)"),
        ({"a": [np.float64(0.5)]}, "{'a': [0.5]}"),
        (np.random.default_rng(0), "rng"),
        (object(), "<object object>"),
    ],
)
def test_settings_as_typed(value: Any, text: str) -> None:
    assert typed(value) == text
