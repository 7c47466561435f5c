"""What the methods that BIP is compared with refuse: the class of the error, and what it must
name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from invariance import BIPClassifier, MultiEnvironmentData, compare
from invariance.baselines import (
    EILLS,
    ICP,
    HiddenICP,
    LassoScreen,
    LassoSelection,
    Oracle,
    Screened,
)
from invariance.data.features import Features
from invariance.datasets import make_example
from invariance.exceptions import DataError, NotInvariantWarning, SettingError, WrongTypeError

Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def rows(n: int = 40, p: int = 4, E: int = 2) -> Rows:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n * E, p)), rng.normal(size=n * E), np.repeat(np.arange(E), n)


def with_value(column: int, value: float) -> Rows:
    X, y, env = rows()
    X[5, column] = value
    return X, y, env


def copied() -> Rows:
    X, y, env = rows()
    return np.column_stack([X, X[:, 2]]), y, env


def wide_group(width: int, n: int) -> tuple[MultiEnvironmentData]:
    """Two features of `width` columns each."""
    names = tuple(f"c{k}" for k in range(2 * width))
    features = Features.of(names, {"g": names[:width], "h": names[width:]})
    X, y, env = rows(n, 2 * width)
    return (MultiEnvironmentData(X, y, env, features.names, (0, 1), grouping=features),)


CLASSES = rows()[0], rows()[1] > 0, rows()[2]


@pytest.mark.parametrize(
    ("method", "given", "error", "named"),
    [
        (HiddenICP(alpha=2), rows(), SettingError, ["alpha"]),
        (ICP(max_size=-1), rows(), SettingError, ["max_size"]),
        (ICP(max_size=1.5), rows(), SettingError, ["max_size"]),  # type: ignore[arg-type]
        (EILLS(gamma=-1.0), rows(), SettingError, ["gamma"]),
        (ICP(), with_value(1, np.nan), ValueError, ["NaN"]),
        (ICP(), (*rows()[:2], np.zeros(80)), DataError, ["same label"]),
        (EILLS(), with_value(0, 1e70), DataError, ["'x0'"]),
        (HiddenICP(), copied(), DataError, ["'x2', 'x4'"]),
        (ICP(), rows(3, 6), DataError, ["6 rows", "Screened(ICP(), LassoScreen(k=4))"]),
        (ICP(), wide_group(4, 4), DataError, ["up to 6 columns", "k=1"]),
        (HiddenICP(), rows(3, 6), DataError, ["6 rows", "LassoScreen(k=5)"]),
        (HiddenICP(intercept=True), rows(3, 5), DataError, ["up to 4 columns"]),
        (EILLS(), wide_group(160, 10), DataError, ["300", "320", "k=1"]),
        (ICP(), rows(40, 30), DataError, ["1,073,741,824 of 30", "max_size", "Screened(ICP())"]),
        (ICP(), rows(40, 9000), DataError, ["about 1.9e2709", "max_size"]),
        (Oracle(), rows(), DataError, ["support"]),
        (Oracle([99]), rows(), DataError, ["[99]"]),
        (Oracle(["x3 "]), rows(), DataError, ["'x3'"]),
        (Oracle(["g", "h"]), wide_group(2, 2), DataError, ["4 rows", "4 true columns"]),
        (Oracle(["c0"]), wide_group(2, 9), DataError, ["'c0'"]),
        (LassoSelection(cv=1), rows(), SettingError, ["cv"]),
        (LassoSelection(), rows(3), DataError, ["6 rows", "cv=3"]),
        (Screened(ICP(), LassoScreen(k=0)), rows(), SettingError, ["k="]),
        (Screened(ICP(), LassoScreen(k=2, cv=10)), rows(6), DataError, ["12 rows", "cv=6"]),
        (Screened(BIPClassifier()), CLASSES, SettingError, ["BIPClassifier", "family='logistic'"]),
    ],
)
def test_refusals(
    method: Any, given: tuple[Any, ...], error: type[Exception], named: list[str]
) -> None:
    with pytest.raises(error) as raised:
        method.fit(*given)
    assert all(part in str(raised.value) for part in named), str(raised.value)


@pytest.mark.parametrize("role", ["event", "exposure"])
def test_columns_that_come_with_the_outcome_are_refused(role: str) -> None:
    X, y, env = rows()
    data = MultiEnvironmentData.from_arrays(X, np.ceil(np.exp(y)), env, **{role: np.ones(len(y))})
    with pytest.raises(DataError, match=f"ICP.*{role}"):
        ICP().fit(data)


@pytest.mark.parametrize(
    ("methods", "error", "named"),
    [
        (["EILS"], SettingError, "'EILLS'"),
        ([], SettingError, "no methods"),
        ({"mine": object()}, WrongTypeError, "'mine'"),
        ("ICP(maxsize=2)", SettingError, "'maxsize'"),
        ("EILLS(gamma=a)", SettingError, "EILLS: gamma"),
        ("BIP(select=3)", SettingError, "BIP: select"),
        ("ICP(n_jobs=a)", SettingError, "ICP: n_jobs"),
        ("Oracle(support=3)", SettingError, "Oracle: support"),
        ("ICP-screen(k=a)", SettingError, "LassoScreen: k"),
    ],
)
def test_methods_that_cannot_be_compared(methods: Any, error: type[Exception], named: str) -> None:
    with pytest.raises(error) as raised:
        compare(make_example(), methods)
    assert named in str(raised.value)


def test_a_comparison_needs_a_data_set() -> None:
    with pytest.raises(TypeError, match="from_table"):
        compare(make_example().X)  # type: ignore[arg-type]


@pytest.mark.parametrize("method", [ICP(), HiddenICP()])
def test_one_environment_selects_nothing_and_says_so(method: Any) -> None:
    with pytest.warns(NotInvariantWarning):
        model = method.fit(*rows()[:2])
    assert not model.support_.any()
    assert model.p_values_.tolist() == [1.0] * 4
