"""Two classes given as words are scored as they were fitted, whatever model is fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import invariance
from invariance import BIP
from invariance.baselines import ICP, LassoSelection
from invariance.exceptions import DataError
from two_classes import LABELS, SITE, X, Y


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "model", [BIP("linear_gaussian"), BIP("poisson"), BIP("logistic"), ICP(), LassoSelection()], ids=str
)
def test_words_are_scored_as_0_and_1(model: Any) -> None:
    model.fit(X, LABELS, environments=SITE)
    residual = Y - model.predict(X)
    expected = 1.0 - residual @ residual / (len(Y) * Y.var())
    assert model.score(X, LABELS) == pytest.approx(expected)
    assert model.score(X, pd.Series(LABELS, dtype="category")) == pytest.approx(expected)
    with pytest.raises(DataError, match="y holds 'maybe', and the model tells 'yes' from 'no'"):
        model.score(X, np.where(SITE == 0, "maybe", LABELS))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["linear_gaussian", "poisson"])
def test_saved_models_score_words_too(family: str, tmp_path: Any) -> None:
    model = BIP(family).fit(X, LABELS, environments=SITE)
    model.save(tmp_path / "model.json")
    assert invariance.load(tmp_path / "model.json").score(X, LABELS) == pytest.approx(model.score(X, LABELS))
    assert str(model.new_environments()).startswith("New environments: y\n")
