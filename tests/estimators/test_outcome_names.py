"""The name of a series is the outcome's name, wherever it comes from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariance
from invariance import BIP, BIPClassifier, BIPSurvival, MultiEnvironmentData
from invariance.baselines import ICP, LassoSelection, PooledRegression
from invariance.datasets import make_example

DATA = make_example()
WHERE = {"environments": DATA.environment_index}


def series(library: str, values: Any, name: str | None = "blood_pressure") -> Any:
    if library == "pandas":
        return pd.Series(values, name=name)
    return pytest.importorskip("polars").Series(name, values)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_a_series_names_the_outcome(library: str, tmp_path: Path) -> None:
    model = BIP().fit(DATA.X, series(library, DATA.y), **WHERE)
    assert model.posterior_.outcome_name == "blood_pressure"
    assert "blood_pressure" in str(model.summary())
    assert json.loads(model.posterior_.to_json())["outcome_name"] == "blood_pressure"
    model.save(tmp_path / "model.json")
    assert invariance.load(tmp_path / "model.json").outcome_name_ == "blood_pressure"
    plain = BIP().fit(DATA.X, DATA.y, **WHERE)
    np.testing.assert_array_equal(model.posterior_.inclusion, plain.posterior_.inclusion)
    np.testing.assert_array_equal(model.coef_, plain.coef_)


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_a_name_it_is_y(library: str) -> None:
    assert BIP().fit(DATA.X, series(library, DATA.y, None), **WHERE).posterior_.outcome_name == "y"


def test_any_name_is_a_text() -> None:
    assert BIP().fit(DATA.X, pd.Series(DATA.y, name=0), **WHERE).posterior_.outcome_name == "0"
    assert BIP().fit(DATA.X, pd.DataFrame({"risk": DATA.y})["risk"], **WHERE).posterior_.outcome_name == "risk"


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_classes_and_times(library: str) -> None:
    words = np.where(DATA.y > DATA.y.mean(), "high", "low").tolist()
    for y in (words, (DATA.y > DATA.y.mean()).tolist(), (DATA.y > DATA.y.mean()).astype(float)):
        assert BIPClassifier().fit(DATA.X, series(library, y), **WHERE).posterior_.outcome_name == "blood_pressure"
    assert BIP().fit(DATA.X, series(library, words), **WHERE).posterior_.outcome_name == "blood_pressure"
    times = np.exp(-DATA.y / DATA.y.std())
    survival = BIPSurvival().fit(DATA.X, series(library, times, "days"), event=times < 2, **WHERE)
    assert survival.posterior_.outcome_name == "days"


@pytest.mark.parametrize("method", [ICP(), LassoSelection(), PooledRegression()])
def test_other_methods(method: Any) -> None:
    assert method.fit(DATA.X, series("pandas", DATA.y), **WHERE)._outcome.name == "blood_pressure"


def test_a_feature_of_the_same_name_keeps_it() -> None:
    X = pd.DataFrame(DATA.X, columns=["dose", *(f"z{j}" for j in range(1, DATA.X.shape[1]))])
    model = BIP().fit(X, pd.Series(DATA.y, name="dose"), **WHERE)
    assert model.posterior_.outcome_name == "dose_"
    assert model.posterior_.feature_names[0] == "dose"


def test_data_keep_a_name_that_is_given() -> None:
    named = MultiEnvironmentData.from_arrays(DATA.X, pd.Series(DATA.y, name="a"), WHERE["environments"])
    given = MultiEnvironmentData.from_arrays(
        DATA.X, pd.Series(DATA.y, name="a"), WHERE["environments"], outcome_name="b"
    )
    assert (named.outcome_name, given.outcome_name) == ("a", "b")
    assert BIP().fit(given).posterior_.outcome_name == "b"
