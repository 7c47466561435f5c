"""Whole numbers that double precision cannot tell apart are refused wherever they are given."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from invariance import BIP
from invariance.exceptions import DataError

RNG = np.random.default_rng(0)
SITE = np.repeat(["u", "v"], 40)
A = RNG.normal(size=80)
LARGE = 2**60 + np.arange(80) % 2


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("made", [pd.DataFrame, pl.DataFrame])
def test_in_frames(made: Any, sign: int) -> None:
    with pytest.raises(DataError, match=r"column 'id' holds whole numbers beyond 2\*\*53"):
        BIP().fit(made({"id": sign * LARGE, "a": A}), A, environments=SITE)


def test_in_arrays_and_outcomes() -> None:
    with pytest.raises(DataError, match=r"'X' holds whole numbers beyond 2\*\*53"):
        BIP().fit(np.column_stack([LARGE, np.arange(80)]), A, environments=SITE)
    X = pd.DataFrame({"a": A})
    for y in (LARGE, pd.Series(LARGE, name="y")):
        with pytest.raises(DataError, match=r"'y' holds whole numbers beyond 2\*\*53"):
            BIP().fit(X, y, environments=SITE)


def test_smaller_ones_are_numbers() -> None:
    X = pd.DataFrame({"id": LARGE - 2**60, "a": A})
    assert BIP().fit(X, X["id"] + 0.1 * RNG.normal(size=80), environments=SITE).selected_features_ == ("id",)
