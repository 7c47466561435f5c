"""The noise checks of the selected subset, and the sentence that says what to choose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from statsmodels.stats.diagnostic import het_breuschpagan

from invariance import BIP, Additive, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.decisions.residual_check import NoiseChecks, Shape, noise_checks
from invariance.exceptions import Message, use
from invariance.models.base import Level

MASK = np.array([True, True, False])


def simulated(kind: str, n: int = 250) -> MultiEnvironmentData:
    rng = np.random.default_rng(11)
    place = np.repeat(range(4), n)
    X = rng.normal(size=(4 * n, 3)) + rng.normal(size=(4, 3))[place]
    noise = rng.normal(size=4 * n)
    if kind == "tails":
        noise = rng.standard_t(3, size=4 * n)
    if kind == "by feature":
        noise *= np.exp(0.5 * X[:, 0])
    if kind == "by environment":
        noise *= np.array([0.5, 1.0, 1.0, 2.5])[place]
    y = X[:, 0] - X[:, 1] + noise
    X[:, 2] = rng.normal(size=4)[place] * y + 0.01 * rng.normal(size=4 * n)
    return MultiEnvironmentData.from_arrays(X, y, [f"s{e}" for e in place])


def checks(kind: str, invariance: str = "distribution") -> NoiseChecks:
    found = noise_checks(
        LinearGaussian(invariance=invariance).bind(simulated(kind)), MASK, Tolerance()
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("kind", "invariance", "said"),
    [
        ("normal", "distribution", None),
        ("tails", "distribution", "the residuals have heavy tails (excess kurtosis "),
        ("by feature", "distribution", "spread unequally over the values of {x0, x1}"),
        (
            "by environment",
            "distribution",
            "spread unequally between environments (standard deviation 0.",
        ),
        # The model that is advised does not advise itself.
        ("normal", "mean", None),
        ("tails", "mean", None),
        ("by environment", "mean", None),
        ("by feature", "mean", ": p-values may be too small."),
    ],
)
def test_what_is_said(kind: str, invariance: str, said: str | None) -> None:
    found = checks(kind, invariance)
    if said is None:
        assert found.sentence is None
        return
    assert said in found.sentence
    assert found.heavy_tails == (kind != "by environment")
    if invariance == "distribution":
        assert isinstance(found.sentence, Message)
        assert found.sentence.remedies == (use(family="linear_gaussian_mean"),)


def residuals(data: MultiEnvironmentData) -> tuple[NDArray, NDArray]:
    """Standardised residuals of each environment's own fit, and the columns less their means
    there"""
    found = np.empty(data.n_rows)
    columns = data.X[:, MASK].copy()
    for e in range(data.n_environments):
        rows = data.rows(e)
        missed = sm.OLS(data.y[rows], sm.add_constant(data.X[rows][:, MASK])).fit().resid
        found[rows] = missed / missed.std()
        columns[rows] -= columns[rows].mean(axis=0)
    return found, columns


@pytest.mark.parametrize("kind", ["normal", "tails", "by feature", "by environment"])
def test_figures_are_those_of_statsmodels(kind: str) -> None:
    found, columns = residuals(simulated(kind))
    shape = checks(kind).shape
    assert shape is not None
    assert shape.excess_kurtosis == pytest.approx(np.mean(found**4) - 3.0)
    lm, p_value, _, _ = het_breuschpagan(
        found, sm.add_constant(np.column_stack([columns, columns**2]))
    )
    assert len(found) * shape.share_explained == pytest.approx(lm)
    assert shape.p_even == pytest.approx(p_value, rel=1e-6, abs=1e-300)


@pytest.mark.parametrize("kind", ["normal", "tails"])
def test_figures_do_not_depend_on_baselines_if_these_are_free(kind: str) -> None:
    data = simulated(kind)
    baselines = np.array([50.0, -20.0, 0.0, 300.0])[data.environment_index]
    shifted = replace(data, y=data.y + baselines)
    model = LinearGaussian().bind(shifted).at_level(Level.effects)
    found = noise_checks(model, MASK, Tolerance())
    expected = checks(kind).shape
    assert found is not None
    assert found.shape is not None
    assert expected is not None
    assert found.shape.excess_kurtosis == pytest.approx(expected.excess_kurtosis, abs=1e-6)
    assert found.shape.p_even == pytest.approx(expected.p_even, rel=1e-6)


def test_a_summary_tells() -> None:
    assert "noise" in dict(BIP(progress=False).fit(simulated("tails")).decision_.sections[0].facts)


def test_curves_are_not_given_up_for_the_noise() -> None:
    data = simulated("by feature", 100)
    assert noise_checks(LinearGaussian().bind(data), MASK, Tolerance()).sentence is not None
    assert noise_checks(Additive().bind(data), MASK, Tolerance()) is None


def shaped(**changed: float) -> NoiseChecks:
    """Checks that find nothing, but for what is changed"""
    given = {
        "excess_kurtosis": 0.0,
        "share_explained": 0.0,
        "p_even": 1.0,
        "p_spread": 1.0,
        "p_mean": 1.0,
    } | changed
    shape = Shape(*(given.pop(name) for name in Shape._fields))
    return NoiseChecks(("x0",), 1_000_000, shape, {"a": 1.0, "b": 2.0}, level=0.02, **given)


def test_what_is_slight_is_not_said_and_noise_not_blamed_if_coefficients_differ() -> None:
    assert shaped().sentence is None
    assert shaped(p_even=1e-9, share_explained=0.01).sentence is None
    assert "over the values of {x0}" in shaped(p_even=1e-9, share_explained=0.03).sentence
    assert shaped(p_even=0.01, share_explained=0.5).sentence is None
    assert "between environments" in shaped(p_spread=0.01, p_mean=0.5).sentence
    assert shaped(p_spread=0.01, p_mean=0.01).sentence is None


def test_without_rows_only_the_environments_are_compared() -> None:
    for kind, said in (("normal", False), ("by environment", True)):
        model = LinearGaussian().bind(Moments.from_data(simulated(kind)))
        found = noise_checks(model, MASK, Tolerance())
        assert found is not None
        assert found.shape is None
        assert found.to_plain()["excess_kurtosis"] is None
        assert ("between environments" in (found.sentence or "")) is said
