"""Stability selection of ICP against plain NumPy, and where samples are unlike the data."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from invariance import compare
from invariance.baselines import ICP, StabilityICP
from invariance.baselines.registry import METHODS, default_names
from invariance.datasets import make_example
from invariance.exceptions import SettingError
from twins import icp_p_value


def shifted(n: int = 40, seed: int = 3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """y follows feature 0 alike and weakly in three environments, the last feature follows y in
    ways of its own."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(3), n)
    X = rng.normal(size=(3 * n, 3)) + 0.8 * env[:, None]
    y = X[:, 0] + rng.normal(size=3 * n)
    X[:, 2] = y * (1 + env) + rng.normal(size=3 * n)
    return X, y, env


def test_frequencies_are_those_of_plain_icp_in_the_same_samples() -> None:
    X, y, env = shifted()
    times = np.zeros(3)
    for rng in np.random.default_rng(7).spawn(12):
        rows = np.concatenate([rng.choice(np.flatnonzero(env == e), 40) for e in range(3)])
        masks = np.array(list(itertools.product([False, True], repeat=3)))
        accepted = [
            mask for mask in masks if icp_p_value(X[rows][:, mask], y[rows], env[rows]) > 0.2
        ]
        times += np.all(accepted, axis=0) if accepted else np.zeros(3, bool)
    assert times.tolist() == [7, 1, 0]
    settings = {"alpha": 0.2, "n_samples": 12, "random_state": 7}
    for threshold, first in ((7 / 12, True), (0.6, False)):
        model = StabilityICP(**settings, threshold=threshold).fit(X, y, env)
        np.testing.assert_array_equal(model.frequencies_, times / 12)
        assert model.support_.tolist() == [first, False, False]
    again = StabilityICP(**settings, n_jobs=2).fit(X, y, env)
    np.testing.assert_array_equal(again.frequencies_, model.frequencies_)


@pytest.mark.filterwarnings("error")
def test_a_feature_that_a_sample_lacks_is_not_selected_in_it() -> None:
    """And where every subset is rejected, nothing is."""
    X, y, env = shifted()
    rare = np.zeros(len(y))
    rare[5] = 1.0  # in about 0.63 of the samples
    with_rare = StabilityICP(n_samples=10).fit(np.column_stack([X, rare]), y, env)
    assert np.isfinite(with_rare.frequencies_).all()
    assert with_rare.frequencies_[3] == 0.0
    torn = y + 50.0 * env**2 * np.random.default_rng(0).normal(size=len(y))
    assert ICP(alpha=0.01).fit(X, torn, env).model_rejected_
    assert not StabilityICP(n_samples=5).fit(X, torn, env).frequencies_.any()


def test_it_is_compared_when_named() -> None:
    found = compare(
        make_example(),
        {"few": StabilityICP(n_samples=10), "ten": METHODS["Stability-screen"].build()},
    )
    assert (found.spread("status")["age"] == "selected").all()
    assert "Stability" not in default_names(8) + default_names(8, left_out=True)


@pytest.mark.parametrize("settings", [{"alpha": 0.0}, {"n_samples": 0}, {"threshold": 0.5}])
def test_refusals(settings: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        StabilityICP(**settings).fit(*shifted())
