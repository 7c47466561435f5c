"""Where no subset is compatible: features have a price, and each has a reason."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from decision_cases import broken, decided, role_of
from decision_twins import separate_gains
from invariance import (
    BIP,
    BayesianLinearGaussian,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    Moments,
    MultiEnvironmentData,
    Poisson,
)
from invariance._tools.time_limit import limited
from invariance.decisions import rules
from invariance.decisions.decision import Role, role_in_words
from invariance.decisions.pipeline import Findings, FitSettings
from invariance.decisions.rules import all_subsets, least_risky
from invariance.posterior.summary import format_percent
from twins import all_masks

pytestmark = pytest.mark.usefixtures("brief")


def shifted(n_environments: int, n: int, n_noise: int, seed: int) -> MultiEnvironmentData:
    """y follows x0 alike everywhere, from a baseline of its own in each environment; means of the
    others move"""
    rng = np.random.default_rng(seed)
    site = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(n_environments, 1 + n_noise))[site] + rng.normal(
        size=(len(site), 1 + n_noise)
    )
    y = X[:, 0] + rng.normal(size=n_environments)[site] + rng.normal(size=len(site))
    return MultiEnvironmentData.from_arrays(X, y, site)


def forced(data: MultiEnvironmentData, **settings: Any) -> Findings:
    """Findings by which no subset is compatible"""
    estimator = BIP(LinearGaussian(), **settings)
    findings: Any = Findings(
        FitSettings.of(estimator, np.random.default_rng(0)).target(data), None, None, None
    )
    vars(findings)["predictive"] = None
    return findings


# ---------------------------------------------------------------- what a feature explains


def mixed() -> MultiEnvironmentData:
    """Numbers, a category, a setting of sites, a category of sites, and what varies in one
    environment only"""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(9), [7, 12, 9, 15, 8, 11, 10, 6, 14])
    table = pd.DataFrame(
        rng.normal(size=(len(site), 2)) + rng.normal(size=(9, 2))[site], columns=["a", "b"]
    )
    table["level"] = rng.choice(list("pqr"), len(site))
    table["size"] = rng.normal(size=9)[site]
    table["kind"] = np.array(list("uvwuvwuvu"))[site]
    table["once"] = np.where(site == 3, table["b"], 1.0 * (site == 5))
    table["y"] = (
        table["a"] + 2.0 * table["size"] + (table["level"] == "q") + rng.normal(size=len(site))
    )
    return MultiEnvironmentData.from_table(table.assign(site=site), "y", "site")


def test_what_each_feature_explains_with_a_baseline_in_each_environment() -> None:
    data = mixed()
    masks = all_masks(data.n_features)
    found = LinearGaussian().bind(data).separate_gains_many(masks)
    np.testing.assert_allclose(
        found, [separate_gains(data, mask) for mask in masks], rtol=1e-6, atol=1e-8
    )
    assert (np.isnan(found) == ~masks).all()


def test_moments_and_other_families_know_it_too() -> None:
    data = mixed()
    masks = all_masks(data.n_features)[-5:]
    expected = LinearGaussian().bind(data).separate_gains_many(masks)
    for family, given in (
        (LinearGaussian(), Moments.from_data(data)),
        (BayesianLinearGaussian(), data),
    ):
        np.testing.assert_allclose(
            family.bind(given).separate_gains_many(masks), expected, rtol=1e-9
        )
    flat = MultiEnvironmentData.from_arrays(
        data.X[:, :2], np.rint(np.exp(1.0 + data.y / 2.0)), data.environment_index
    )
    logs = MultiEnvironmentData.from_arrays(
        flat.X, Poisson().working_outcome(flat), flat.environment_index
    )
    counted = Poisson().bind(flat).separate_gains_many([True, True])
    np.testing.assert_allclose(counted, [separate_gains(logs, np.ones(2, dtype=bool))], rtol=1e-9)


def test_what_depends_on_other_features_explains_nothing() -> None:
    data = shifted(4, 20, 2, seed=0)
    site = np.random.default_rng(1).normal(size=4)[data.environment_index]
    X = np.column_stack([data.X, data.X[:, 0] + site])
    model = LinearGaussian().bind(
        MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    )
    assert (model.separate_gains_many([True, False, False, True])[0, [0, 3]] == 0.0).all()
    single = Logistic().bind(MultiEnvironmentData.from_arrays(data.X, (data.y > 0).astype(float)))
    assert (single.separate_gains_many([True, True, True]) == 0.0).all()


# ---------------------------------------------------------------- which subset


def by_risk_alone(findings: Findings) -> np.ndarray:
    masks = all_subsets(findings.target)
    return masks[int(np.argmin(findings.target.model.random_effects_risk_many(masks)))]


def test_noise_whose_means_move_is_not_taken() -> None:
    """By the risk alone it is taken in most data sets, since it explains some of the few
    baselines."""
    cases = [forced(shifted(6, 40, 4, seed)) for seed in range(20)]
    assert np.mean([by_risk_alone(each)[1:].any() for each in cases]) > 0.5
    chosen = np.array([least_risky(each) for each in cases])
    assert chosen[:, 1:].sum() <= 1
    assert chosen[:, 0].sum() >= 15


def test_of_many_columns_no_noise_is_taken() -> None:
    chosen = np.array([least_risky(forced(shifted(10, 40, 39, seed))) for seed in range(4)])
    assert not chosen[:, 1:].any()
    assert chosen[:, 0].any()


def test_a_setting_of_sites_that_explains_the_baselines_is_taken() -> None:
    data = shifted(12, 20, 1, seed=0)
    size, chance = np.random.default_rng(3).normal(size=(2, 12))[:, data.environment_index]
    X = np.column_stack([data.X, size, chance])
    found = least_risky(
        forced(MultiEnvironmentData.from_arrays(X, data.y + 8.0 * size, data.environment_index))
    )
    assert found.tolist() == [True, False, True, False]


def test_forced_features_need_not_be_worth_their_price() -> None:
    findings = forced(shifted(6, 40, 3, seed=0), prior=InclusionPrior({"x2": 1.0, "x3": 0.0}))
    assert least_risky(findings).tolist() == [True, False, True, False]


def known(
    risks: list[float], gains: list[list[float]], most_listed: int, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """Findings on three features with these risks of all subsets, the first feature changing
    fastest"""
    model = SimpleNamespace(
        random_effects_risk_many=lambda masks: np.array(risks)[masks @ [1, 2, 4]],
        separate_gains_many=lambda mask: np.where(mask, gains[int(mask @ [1, 2, 4])], np.nan)[None],
        free_columns=np.array([1, 1, 2]),
    )
    prior = SimpleNamespace(
        free=np.arange(3),
        forced_in=np.zeros(3, dtype=bool),
        support_size=lambda: 8,
        over_free=SimpleNamespace(max_size=3),
        log_prob=lambda masks: np.zeros(len(masks)),
    )
    monkeypatch.setattr(rules, "_MOST_LISTED", most_listed)
    target = SimpleNamespace(prior=prior, model=model, n_features=3, start=np.zeros(3, dtype=bool))
    return SimpleNamespace(target=target, score=SimpleNamespace(price=5.0))


RISKS = [9.0, 5.0, 6.0, 4.0, 6.0, 4.5, 1.0, 4.2]


@pytest.mark.parametrize("most_listed", [7, 8])
def test_of_many_subsets_the_least_risky_is_found_by_flips_and_exchanges(
    most_listed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From {0, 1} no single flip leads on to {1, 2}."""
    findings = known(RISKS, [[20.0] * 3] * 8, most_listed, monkeypatch)
    assert least_risky(findings).tolist() == [False, True, True]


@pytest.mark.parametrize("most_listed", [7, 8])
def test_each_column_has_its_price(most_listed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last feature is two columns: with 9.9 it is not worth them beside the second one."""
    gains = [[20.0] * 3] * 6 + [[20.0, 20.0, 9.9], [20.0] * 3]
    assert least_risky(known(RISKS, gains, most_listed, monkeypatch)).tolist() == [
        True,
        True,
        False,
    ]
    poor = [[4.9] * 3] * 8
    assert not least_risky(known(RISKS, poor, most_listed, monkeypatch)).any()


def test_exchanges_end_with_the_time_and_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """From {0, 1} no single flip leads on to {1, 2}."""
    findings = known(RISKS, [[20.0] * 3] * 8, 7, monkeypatch)
    assert least_risky(findings).tolist() == [False, True, True]
    with limited(0.0) as unfinished:
        assert least_risky(findings).tolist() == [True, True, False]
    assert unfinished == ["exchanges of features in the search for the subset of least risk"]


# ---------------------------------------------------------------- reasons


def test_each_feature_has_a_reason() -> None:
    decision = decided(broken(), baseline="shared")
    model = decision.findings.target.model
    mask = decision.mask
    assert decision.fell_back
    gains = separate_gains(broken(), mask)
    own = model.random_effects_risk_many(mask)
    roles = {
        "a": Role.fallback,
        "b": Role.fallback,
        "effect": Role.fallback,
        "noise0": Role.too_small,
    }
    for j, (name, role) in enumerate(roles.items()):
        feature = role_of(decision, name)
        flipped = mask ^ (np.arange(4) == j)
        assert feature.role is role
        gain = gains[j] if mask[j] else separate_gains(broken(), flipped)[j]
        assert feature.gain == pytest.approx(gain)
        assert feature.price == pytest.approx(np.log(480) + 2.0 * np.log(4))
        assert (feature.gain >= feature.price) == mask[j]
        risk = model.random_effects_risk_many(flipped)
        assert feature.error_change == pytest.approx(np.sqrt(risk / own)[0] - 1.0)
        lowered = format_percent(1.0 - np.sqrt(own / risk)[0])
        assert (lowered if mask[j] else f"{feature.price:.1f} required") in role_in_words(feature)


def test_what_is_worth_its_price_and_raises_the_error_is_left_out() -> None:
    """The effect of x1 is not zero on average, and differs so much that it misleads in a new
    environment."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(6), 80)
    X = rng.normal(size=(480, 2))
    effects = np.array([1.9, -1.2, 1.7, -1.1, 1.8, -1.0])
    y = X[:, 0] + effects[site] * X[:, 1] + rng.normal(size=480)
    decision = decided(MultiEnvironmentData.from_arrays(X, y, site), baseline="shared")
    assert decision.selected == ("x0",)
    moving = role_of(decision, "x1")
    assert moving.role is Role.raises_error
    assert moving.gain > moving.price
    assert moving.error_change > 0.0
    assert format_percent(moving.error_change) in role_in_words(moving)


def test_other_decisions_have_no_expected_errors() -> None:
    decision = decided(broken(), select="mode")
    assert not decision.fell_back
    assert all(np.isnan(feature.error_change) for feature in decision.features)
    assert {feature.role for feature in decision.features} <= {Role.chosen, Role.left_out}
