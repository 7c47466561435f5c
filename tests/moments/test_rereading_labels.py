"""Labels of rows that are read again may be of another type than those of the moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Moments

RNG = np.random.default_rng(5)
YEAR = np.repeat([2019, 2020, 2021], 40)
X = RNG.normal(size=120) + YEAR - 2020
NUMBERS = pd.DataFrame({"x": X, "y": X + RNG.normal(size=120), "year": YEAR})
WORDS = NUMBERS.assign(year=YEAR.astype(str))


@pytest.mark.parametrize(
    ("first", "second"), [(NUMBERS, WORDS), (WORDS, NUMBERS)], ids=["numbers first", "words first"]
)
@pytest.mark.parametrize("merge", [{}, {"early": [2019, 2020]}], ids=["apart", "merged"])
def test_labels_of_another_type(first: pd.DataFrame, second: pd.DataFrame, merge: dict[str, list[Any]]) -> None:
    kind = type(first["year"].tolist()[0])
    merged = {new: [kind(label) for label in labels] for new, labels in merge.items()}
    moments = Moments.from_rows(first, "y", "year", merge_environments=merged)
    model, same = (BIP(environment="year").fit_moments(moments, rows=rows) for rows in (second, first))
    assert model.posterior_.log_probabilities.tobytes() == same.posterior_.log_probabilities.tobytes()
    assert model.new_environments().to_frame().equals(same.new_environments().to_frame())
