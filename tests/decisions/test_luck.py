"""Whether luck among many subsets would do as well: the null that is simulated, and what is said of
it."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.decisions.selection_error import InvariantNull
from invariance.exceptions import NotInvariantWarning, SettingError
from invariance.models.base import Level
from invariance.models.gaussian import GaussianFromMoments
from shifted_sites import own_baselines

CAUSES = np.array([True, True, False, False, False])
GIVEN = [0, 1, 5]  # the causes and the outcome


def with_children(n_environments: int, seed: int, n: int = 100) -> MultiEnvironmentData:
    """x0 and x1 cause y; three children of y have slopes of their own in each environment."""
    rng = np.random.default_rng([seed, n_environments])
    e = np.repeat(np.arange(n_environments), n)
    spread = rng.uniform(0.5, 2.0, (n_environments, 2))
    shift = rng.normal(size=(n_environments, 2))
    causes = rng.normal(size=(len(e), 2)) * spread[e] + shift[e]
    y = causes @ [1.0, -1.0] + rng.normal(size=len(e))
    children = rng.uniform(-1.0, 1.5, (n_environments, 3))[e] * y[:, None] + rng.normal(
        size=(len(e), 3)
    )
    return MultiEnvironmentData.from_arrays(np.hstack([causes, children]), y, e)


def many_rows(data: MultiEnvironmentData, times: int = 10**6) -> Moments:
    """As if every row were there so many times."""
    moments = Moments.from_data(data)
    return replace(moments, counts=moments.counts * times, scatter=moments.scatter * times)


def slopes(scatter: Any, of: list[int], on: list[int]) -> Any:
    return np.linalg.solve(scatter[np.ix_(on, on)], scatter[np.ix_(on, of)])


def test_simulated_data_follow_the_null() -> None:
    observed = many_rows(with_children(3, 0))
    model = GaussianFromMoments(observed)
    drawn = InvariantNull(model, CAUSES).moments(np.random.default_rng(0))
    fit = model.fit(CAUSES, local=False)
    for e in range(3):
        np.testing.assert_allclose(drawn.scatter[e][:2, :2], observed.scatter[e][:2, :2])
        np.testing.assert_allclose(
            slopes(drawn.scatter[e], [5], [0, 1])[:, 0], fit.coefficients, atol=2e-3
        )
        expected = slopes(observed.scatter[e], [2, 3, 4], GIVEN)
        np.testing.assert_allclose(slopes(drawn.scatter[e], [2, 3, 4], GIVEN), expected, atol=2e-3)
        left = [
            moments.scatter[e]
            - moments.scatter[e][:, GIVEN] @ slopes(moments.scatter[e], list(range(6)), GIVEN)
            for moments in (drawn, observed)
        ]
        np.testing.assert_allclose(
            *(each[2:5, 2:5] / observed.counts[e] for each in left), atol=3e-3
        )
        # Levels, too, are those of the fit and of the regressions.
        np.testing.assert_allclose(
            drawn.means[e, 5], drawn.means[e, :2] @ fit.coefficients, atol=3e-3
        )
        apart = (drawn.means[e, GIVEN] - observed.gaps[e, GIVEN]) @ expected
        np.testing.assert_allclose(drawn.means[e, 2:5], observed.gaps[e, 2:5] + apart, atol=3e-3)


def test_small_samples_scatter_as_they_should() -> None:
    """The null is rejected as often as a level says, and regressions leave as much as they did."""
    observed = Moments.from_data(with_children(2, 0, n=15))
    null = InvariantNull(GaussianFromMoments(observed), CAUSES)
    drawn = [null.moments(rng) for rng in np.random.default_rng(0).spawn(300)]
    tests = (
        GaussianFromMoments(moments).invariance_test(CAUSES, Tolerance.strict())
        for moments in drawn
    )
    p_values = np.array([test.joint[0] for test in tests])
    assert 0.02 <= np.mean(p_values < 0.05) <= 0.085
    assert 0.42 <= np.mean(p_values < 0.5) <= 0.58
    left = np.array([[_left(moments, e) for e in (0, 1)] for moments in (observed, *drawn)])
    np.testing.assert_allclose(left[1:].mean(axis=0) / left[0], 1.0, atol=0.12)


def _left(moments: Moments, e: int) -> Any:
    """(3,) squares that regressions of the children on causes and outcome leave"""
    scatter = moments.scatter[e]
    return np.diagonal(scatter - scatter[:, GIVEN] @ slopes(scatter, list(range(6)), GIVEN))[2:5]


@pytest.mark.parametrize(("invariance", "own"), [("distribution", False), ("mean", True)])
def test_noise_is_that_which_the_model_compares(invariance: Any, own: bool) -> None:
    data = with_children(2, 0)
    noisy = np.where(data.environment_index == 0, 3.0, 1.0) * (data.y - data.X[:, 0] + data.X[:, 1])
    data = replace(data, y=data.X[:, 0] - data.X[:, 1] + noisy)
    null = InvariantNull(LinearGaussian(invariance).bind(many_rows(data)), CAUSES)
    scatter = null.moments(np.random.default_rng(0)).scatter
    left = [
        scatter[e][5, 5] - scatter[e][5, :2] @ slopes(scatter[e], [5], [0, 1])[:, 0] for e in (0, 1)
    ]
    assert left[0] / left[1] == pytest.approx(9.0 if own else 1.0, rel=0.3 if own else 0.01)


def test_what_is_constant_in_an_environment_stays_so() -> None:
    data = with_children(3, 0)
    X = data.X.copy()
    X[:100, [1, 2]] = 7.0
    model = GaussianFromMoments(replace(data, X=X))
    drawn = InvariantNull(model, CAUSES).moments(np.random.default_rng(0))
    np.testing.assert_allclose(drawn.scatter[0][[1, 2]], 0.0, atol=1e-9)
    assert (drawn.varies == model.moments.varies).all()
    assert (drawn.scatter[1:].diagonal(axis1=1, axis2=2) > 0.0).all()


def test_luck_is_simulated_when_asked_for_and_by_the_seed() -> None:
    data = with_children(3, 1)
    model = BIP(random_state=5).fit(data)
    decision = model.decision_
    plain = decision.to_plain()
    assert (plain["luck"], plain["subsets_tried"], decision.chance) == (None, 32, None)
    assert "luck" not in dict(decision.sections[0].facts)
    found = model.chance_selection()
    assert model.chance_selection() is found
    decision = model.decision_
    assert decision.to_plain()["luck"]["share"] == found.share
    assert dict(decision.sections[0].facts)["luck"] == str(found)
    assert pickle.loads(pickle.dumps(decision)).chance == found
    assert BIP(random_state=5, n_jobs=2).fit(data).chance_selection() == found


def test_a_child_that_luck_let_in() -> None:
    """With two environments a child passes, though one of them shifts it, and so do the causes
    without it."""
    found = BIP(random_state=0).fit(with_children(2, 24)).chance_selection()
    assert set(found.selected) > {"x0", "x1"} == set(found.invariant)
    assert not found.unchallenged
    assert found.share > 0.3
    many = BIP(random_state=0).fit(with_children(6, 0)).chance_selection()
    assert many.selected == many.invariant == ("x0", "x1")
    assert (many.share, many.subsets) == (0.0, 32)


def test_of_features_that_no_environment_shifts_nothing_is_said() -> None:
    rng = np.random.default_rng(1)
    e = np.repeat(np.arange(3), 100)
    causes = rng.normal(size=(300, 2))
    y = causes @ [1.0, -1.0] + rng.normal(size=300)
    child = np.array([-1.0, 0.0, 1.0])[e] * y + rng.normal(size=300)
    found = BIP(random_state=0).fit(np.column_stack([causes, child]), y, e).chance_selection()
    assert found.selected == found.invariant == found.unchallenged == ("x0", "x1")
    assert "nothing of {x0, x1}" in str(found)


def test_where_luck_is_not_told() -> None:
    data = with_children(3, 0)
    wide = np.hstack([data.X, np.random.default_rng(0).normal(size=(300, 10))])
    fifteen = MultiEnvironmentData.from_arrays(wide, data.y, data.environment_index)
    cases: list[tuple[BIP, MultiEnvironmentData, str]] = [
        (BIP(select="mode"), data, "chooses among compatible"),
        (BIP("bayesian_linear_gaussian"), data, "linear Gaussian models only"),
        (BIP("additive"), data, "linear Gaussian models only"),
        (BIP(), fifteen, "32,768"),
    ]
    for model, rows, told in cases:
        with pytest.raises(SettingError, match=told):
            model.fit(rows).chance_selection()
    with pytest.warns(NotInvariantWarning):
        model = BIP().fit(
            data.X[:, 2:], data.y + 5.0 * data.environment_index, data.environment_index
        )
    with pytest.raises(SettingError, match="here it did not"):
        model.chance_selection()


def test_the_null_of_effects_has_the_noise_around_baselines_of_their_own() -> None:
    """An environment of ten rows takes one degree of freedom for its baseline."""
    data = own_baselines(5, 10)
    model = GaussianFromMoments(Moments.from_data(data)).at_level(Level.effects)
    chosen = np.array([True, True, False, False])
    null = InvariantNull(model, chosen)
    dummies = data.environment_index[:, None] == np.arange(5)
    design = np.column_stack([data.X[:, chosen], dummies])
    left = data.y - design @ np.linalg.lstsq(design, data.y)[0]
    np.testing.assert_allclose(null._noise, np.sqrt(left @ left / (50 - 5 - 2)), rtol=1e-8)
