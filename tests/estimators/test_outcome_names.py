"""The name of a series is the outcome's name, wherever it comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import invariance
from invariance import BIP, BIPClassifier, BIPSurvival, MultiEnvironmentData
from invariance.baselines import ICP, LassoSelection, PooledRegression
from invariance.datasets import make_example

DATA = make_example()
WHERE = DATA.environment_index
HIGH = DATA.y > DATA.y.mean()
TIMES = np.exp(-DATA.y / DATA.y.std())


@pytest.mark.parametrize(
    "made", [lambda values: pd.Series(values, name="days"), lambda values: pl.Series("days", values)]
)
def test_a_series_names_the_outcome(made: Any, tmp_path: Path) -> None:
    model = BIP().fit(DATA.X, made(DATA.y), WHERE)
    model.save(tmp_path / "model.json")
    assert invariance.load(tmp_path / "model.json").outcome_name_ == "days"
    np.testing.assert_array_equal(model.coef_, BIP().fit(DATA.X, DATA.y, WHERE).coef_)
    assert BIPClassifier().fit(DATA.X, made(HIGH.tolist()), WHERE).posterior_.outcome_name == "days"
    assert BIPSurvival().fit(DATA.X, made(TIMES), WHERE, event=TIMES < 2).posterior_.outcome_name == "days"


def test_other_names() -> None:
    names = {0: "0", None: "y", "age": "age_"}  # a feature of the same name keeps it
    X = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
    for given, kept in names.items():
        assert BIP().fit(X, pd.Series(DATA.y, name=given), WHERE).posterior_.outcome_name == kept
    for method in (ICP(), LassoSelection(), PooledRegression()):
        assert method.fit(DATA.X, pd.Series(DATA.y, name="a"), WHERE)._outcome.name == "a"
    given = MultiEnvironmentData.from_arrays(DATA.X, pd.Series(DATA.y, name="a"), WHERE, outcome_name="b")
    assert BIP().fit(given).posterior_.outcome_name == "b"
