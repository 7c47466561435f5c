"""Features that became curves: which ones do, and that tables to predict go the same way."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.interpolate import CubicSpline

from invariance import MultiEnvironmentData, spline
from invariance.data.basis import SplineBasis
from invariance.models.additive import FEWEST_VALUES, with_curves

N = 120


def table() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 10, N),
            "few": rng.integers(0, FEWEST_VALUES - 1, N),
            "enough": np.resize(np.arange(FEWEST_VALUES), N),
            "mostly_zero": np.where(rng.random(N) < 0.95, 0.0, rng.normal(size=N)),
            "tied": np.where(rng.random(N) < 0.45, 0.0, rng.normal(size=N)),
            "sex": np.resize(["m", "f", "f"], N),
            "flat": 1.0,
            "left": rng.normal(size=N),
            "right": rng.normal(size=N),
            "y": rng.normal(size=N),
            "site": np.resize(["a", "b"], N),
        }
    )


def data(**how: Any) -> MultiEnvironmentData:
    with pytest.warns(UserWarning, match="constant over all rows: 'flat'"):
        return MultiEnvironmentData.from_table(
            table(), "y", "site", groups={"hands": ["left", "right"]}, **how
        )


def test_numbers_with_many_values_become_curves_and_all_else_stays() -> None:
    before = data()
    curved = with_curves(before, 5)
    assert curved.feature_names == before.feature_names
    widths = dict(zip(curved.feature_names, curved.features.widths.tolist(), strict=True))
    assert widths == {
        "age": 4,
        "few": 1,
        "enough": 4,
        "mostly_zero": 1,
        "tied": 2,
        "sex": 1,
        "hands": 2,
    }
    assert curved.features.columns[:4] == ("age", "age~2", "age~3", "age~4")
    for name in before.features.columns:
        new = curved.features.columns.index(name)
        old = before.features.columns.index(name)
        np.testing.assert_array_equal(curved.X[:, new], before.X[:, old])
    assert curved.X.flags.c_contiguous
    np.testing.assert_array_equal(curved.y, before.y)
    assert curved.dropped_features == ("flat",)


def test_arrays_and_groups_without_a_table() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    environment = np.repeat(range(2), 30)
    plain = MultiEnvironmentData.from_arrays(X, rng.normal(size=60), environment)
    curved = with_curves(plain, 4)
    assert curved.features.widths.tolist() == [3, 3, 3]
    again = with_curves(curved.narrowed(np.array([True, False, True])), 4)
    assert again.features.columns == ("x0", "x0~2", "x0~3", "x2", "x2~2", "x2~3")
    assert with_curves(curved, 6).features.columns == curved.features.columns


def test_splines_of_the_user_stay() -> None:
    before = MultiEnvironmentData.from_table(
        table().drop(columns="flat"), "y", "site", groups=[spline("age", 7)]
    )
    assert (
        dict(zip(before.feature_names, with_curves(before, 4).features.widths, strict=True))["age"]
        == 6
    )


@pytest.mark.parametrize("knots", [3, 4, 7])
@pytest.mark.parametrize("scale", [1.0, 1e90])
def test_the_columns_span_all_natural_cubic_splines(knots: int, scale: float) -> None:
    """Any natural spline with these knots is an intercept and a combination of them, also beyond
    the outer knots."""
    rng = np.random.default_rng(knots)
    places = np.sort(rng.normal(size=knots))
    target = CubicSpline(places, rng.normal(size=knots), bc_type="natural")
    x = np.linspace(places[0], places[-1], 200)
    outside = np.concatenate(
        [places[0] - np.linspace(0.1, 2, 20), places[-1] + np.linspace(0.1, 2, 20)]
    )
    lines = np.where(
        outside < places[0],
        target(places[0]) + target(places[0], 1) * (outside - places[0]),
        target(places[-1]) + target(places[-1], 1) * (outside - places[-1]),
    )
    values = np.concatenate([x, outside])
    wanted = np.concatenate([target(x), lines])
    columns = SplineBasis("x", tuple(scale * places)).encode(scale * values) / scale
    assert columns.shape[1] == knots - 1
    design = np.column_stack([np.ones(len(values)), columns])
    np.testing.assert_allclose(
        design @ np.linalg.lstsq(design, wanted, rcond=None)[0], wanted, atol=1e-7
    )
