"""Two classes given as words are scored as they were fitted, whatever model is fitted to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

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
