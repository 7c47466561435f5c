"""The check by random forests: what it finds, what it says, and that it can be repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from sklearn.ensemble import RandomForestRegressor

from invariance import BIP, Moments, MultiEnvironmentData
from invariance.decisions.residual_check import residual_check
from invariance.exceptions import SettingError, WrongTypeError


def simulated(seed: int = 0, n: int = 80, n_environments: int = 3) -> MultiEnvironmentData:
    """y follows a curve of x0, which each environment shifts; x1 follows y, otherwise in each."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(n_environments), n)
    x0 = rng.normal(size=len(environment)) + rng.normal(size=n_environments)[environment]
    y = np.tanh(2.0 * x0) + 0.3 * rng.normal(size=len(environment))
    x1 = y * (1.0 + environment) + 0.3 * rng.normal(size=len(environment))
    return MultiEnvironmentData.from_arrays(np.column_stack([x0, x1]), y, environment)


DATA = simulated()


def test_it_tells_the_cause_from_the_effect() -> None:
    cause = residual_check(DATA, ["x0"])
    effect = residual_check(DATA, ["x1"])
    assert not cause.alarm
    assert cause.r2 > 0.7
    assert effect.alarm
    assert effect.p_value < 0.001
    assert residual_check(DATA, []).alarm


def test_unequal_spread_is_found() -> None:
    rng = np.random.default_rng(1)
    environment = np.repeat(["a", "b", "c"], 120)
    x = rng.normal(size=(360, 1))
    y = np.sin(x[:, 0]) + rng.normal(size=360) * np.where(environment == "c", 2.0, 0.5)
    check = residual_check(MultiEnvironmentData.from_arrays(x, y, environment), ["x0"])
    assert check.alarm
    assert check.worst == ("c", "spread")


def test_twin() -> None:
    """The statistic by hand, from forests with the same seeds."""
    check = residual_check(DATA, ["x0"], random_state=7)
    seeds = [int(seed) for seed in (np.random.default_rng(7).integers(2**31, size=3))]
    labels = np.eye(3)[DATA.environment_index]
    X = DATA.X[:, :1]
    n = DATA.n_rows

    def left(target: np.ndarray, seed: int) -> np.ndarray:
        forest = RandomForestRegressor(100, min_samples_leaf=5, oob_score=True, random_state=seed)
        return target - forest.fit(X, target).oob_prediction_

    residual = left(DATA.y, seeds[0])
    untold = left(labels, seeds[1])
    for values, found in ((residual, check.mean), (left(residual**2, seeds[2]), check.spread)):
        products = values[:, None] * untold
        expected = 2.0 * norm.sf(abs(np.sqrt(n) * products.mean(axis=0) / products.std(axis=0)))
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert check.p_value == pytest.approx(min(1.0, 6 * min(check.mean.min(), check.spread.min())))
    assert check.untold == pytest.approx(
        (untold**2).sum() / ((labels - labels.mean(axis=0)) ** 2).sum()
    )


def test_it_can_be_repeated_with_any_number_of_threads() -> None:
    table = pd.DataFrame(DATA.X, columns=["x0", "x1"])
    model = BIP(n_jobs=2, progress=False).fit(table, DATA.y, environments=DATA.environment_index)
    one = residual_check(DATA, ["x0"], 3, n_jobs=1)
    two = model.residual_check(["x0"], 3)
    assert one.to_dict() == two.to_dict()
    assert [
        row["environment"] for row in json.loads(json.dumps(one.to_dict()))["environments"]
    ] == ["0", "1", "2"]
    assert one.to_dict() != residual_check(DATA, ["x0"], 4).to_dict()


def test_of_two_environments_each_is_the_others_rest() -> None:
    check = residual_check(simulated(2, 80, 2), ["x0"])
    np.testing.assert_allclose(check.mean[0], check.mean[1], rtol=0.05)
    assert check.p_value == pytest.approx(min(1.0, 2 * min(check.mean.min(), check.spread.min())))


def refused(data: Any) -> Callable[[], Any]:
    return lambda: residual_check(data, ["x0"])


def of(**beside: Any) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(
        DATA.X, np.arange(DATA.n_rows) % 5 + 1.0, DATA.environment_index, **beside
    )


ONES = np.ones(DATA.n_rows)
REFUSED = {
    "moments": (refused(Moments.from_data(DATA)), SettingError, "moments"),
    "one environment": (
        refused(MultiEnvironmentData.from_arrays(DATA.X, DATA.y)),
        SettingError,
        "one environment",
    ),
    "a table": (refused(pd.DataFrame({"x0": [1.0]})), WrongTypeError, "DataFrame"),
    "an event": (refused(of(event=ONES)), SettingError, "event"),
    "an exposure": (refused(of(exposure=ONES)), SettingError, "exposure"),
}


@pytest.mark.parametrize(("check", "error", "named"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_checked(
    check: Callable[[], Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        check()
