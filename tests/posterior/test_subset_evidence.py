"""What the data say about single subsets, against plain computations, and when none of them looks
invariant."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from decision_twins import evidence as plain_evidence
from decision_twins import risk_in_a_new_environment
from invariance import (
    BIP,
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Posterior,
    Tempering,
    Tolerance,
    UniformPrior,
    Variational,
)
from invariance.exceptions import DataWarning, NotInvariantWarning, SettingError
from invariance.models.invariance_test import deviance_moments
from invariance.posterior.posterior import Judge
from quadratic_toy import run, with_sum
from twins import all_masks, simulated

EXAMPLE = simulated(p=4)
MASKS = all_masks(4)


def left_out_r2(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    errors = 0.0
    for e in range(data.n_environments):
        own = data.environment_index == e
        rest = data.environment_index != e
        design = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
        beta = np.linalg.lstsq(design[rest], data.y[rest], rcond=None)[0]
        errors += ((data.y[own] - design[own] @ beta) ** 2).sum()
    return 1.0 - errors / ((data.y - data.y.mean()) ** 2).sum()


def constant_in_an_environment() -> MultiEnvironmentData:
    X = EXAMPLE.X.copy()
    X[EXAMPLE.rows(1), 2] = 5.0
    return MultiEnvironmentData.from_arrays(X, EXAMPLE.y, EXAMPLE.environment_index)


@pytest.mark.parametrize(
    ("data", "tolerance", "with_rows"),
    [
        (EXAMPLE, Tolerance(), True),
        (EXAMPLE, Tolerance(0.1, 0.3), True),
        (EXAMPLE, Tolerance.strict(), True),
        (EXAMPLE, Tolerance(), False),
        (constant_in_an_environment(), Tolerance(), True),
    ],
    ids=["default", "wide", "strict", "without rows", "constant in an environment"],
)
def test_evidence_of_all_subsets(
    data: MultiEnvironmentData, tolerance: Tolerance, with_rows: bool
) -> None:
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    plain = plain_evidence(data)
    if with_rows:
        np.testing.assert_allclose(model.excess_kurtosis(MASKS), plain.kurtosis, atol=1e-9)
    else:
        plain.kurtosis[:] = 0.0  # tails count as normal
    found = Judge(model, tolerance).evidence(MASKS)
    np.testing.assert_allclose(found.deviance, plain.deviance, rtol=1e-9)
    np.testing.assert_allclose(found.expected_deviance, plain.expected_deviance, rtol=1e-10)
    np.testing.assert_allclose(found.deviance_sd**2, plain.variance_of_deviance, rtol=1e-9)
    np.testing.assert_allclose(
        found.p_exact, plain.p_invariant(0.0, 0.0, tolerance.lowest_level), rtol=1e-6, atol=1e-11
    )
    np.testing.assert_allclose(found.p_mean, plain.p_mean(tolerance.rho), rtol=1e-6, atol=1e-13)
    np.testing.assert_allclose(
        found.p_spread, plain.p_variance(tolerance.tau), rtol=1e-6, atol=1e-13
    )
    joint = plain.p_invariant(tolerance.rho, tolerance.tau, tolerance.lowest_level)
    np.testing.assert_allclose(found.p_invariant, joint, rtol=1e-6, atol=1e-11)
    total = ((data.y - data.y.mean()) ** 2).sum()
    np.testing.assert_allclose(found.r2, 1.0 - plain.pooled / total, atol=1e-10)
    np.testing.assert_allclose(found.r2_new, [left_out_r2(data, mask) for mask in MASKS], atol=1e-9)


def test_the_risk_in_a_new_environment() -> None:
    found = LinearGaussian().bind(EXAMPLE).random_effects_risk_many(MASKS)
    np.testing.assert_allclose(
        found, [risk_in_a_new_environment(EXAMPLE, mask) for mask in MASKS], rtol=1e-8
    )


def with_settings(n_environments: int, n_settings: int) -> MultiEnvironmentData:
    """The first features are constant in every environment, the very first of them one that the
    outcome follows."""
    data = simulated(4, (14,) * n_environments, seed=2)
    X = data.X.copy()
    settings = np.random.default_rng(1).normal(size=(n_environments, n_settings))
    X[:, :n_settings] = settings[data.environment_index]
    return MultiEnvironmentData.from_arrays(X, data.y + 4.0 * X[:, 0], data.environment_index)


@pytest.mark.parametrize("from_rows", [True, False])
def test_the_risk_of_features_that_are_constant_in_every_environment(from_rows: bool) -> None:
    data = with_settings(7, 2)
    found = (
        LinearGaussian()
        .bind(data if from_rows else Moments.from_data(data))
        .random_effects_risk_many(MASKS)
    )
    np.testing.assert_allclose(
        found, [risk_in_a_new_environment(data, mask) for mask in MASKS], rtol=1e-8
    )
    assert MASKS[np.argmin(found), 0]
    # Two coefficients cannot be told from the differences between four environments.
    risks = LinearGaussian().bind(with_settings(4, 2)).random_effects_risk_many(MASKS)
    assert (np.isinf(risks) == MASKS[:, :2].all(axis=1)).all()


def test_the_risk_of_a_feature_that_varies_in_one_environment_is_known() -> None:
    data = with_settings(6, 1)
    X = data.X.copy()
    X[data.rows(2), 0] += np.random.default_rng(0).normal(size=14)
    varied = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    assert np.isfinite(LinearGaussian().bind(varied).random_effects_risk_many(MASKS)).all()


def test_one_environment_says_nothing() -> None:
    data = MultiEnvironmentData.from_arrays(EXAMPLE.X, EXAMPLE.y)
    found = Judge(LinearGaussian().bind(data)).evidence(MASKS)
    assert (found.p_invariant == 1.0).all()
    assert np.isnan(found.r2_new).all()
    assert np.isnan(found.expected_deviance).all()


def test_subsets_outside_the_support_are_not_compatible() -> None:
    judge = Judge(LinearGaussian().bind(Moments.from_data(with_sum(EXAMPLE))))
    mask = np.array([[True, True, False, False, True]])
    found = judge.evidence(mask).one()
    assert found.deviance == np.inf
    assert np.isnan(
        [found.p_exact, found.p_mean, found.p_spread, found.p_invariant, found.r2]
    ).all()
    assert not judge.compatible(mask)[0]
    assert judge.rejected(mask)[0]
    assert np.isfinite(
        judge.evidence(MASKS[:, [0, 1, 2, 3, 0]] & [1, 1, 1, 1, 0]).p_invariant
    ).all()


def test_evidence_of_a_posterior_by_names_and_after_saving() -> None:
    posterior = BIP().fit(EXAMPLE).posterior_
    names = posterior.feature_names
    table = posterior.subsets(5)
    first = posterior.evidence(table["subset"][0])
    assert first.p_invariant == table["p_invariant"][0]
    assert posterior.evidence([names[2]]).deviance == pytest.approx(
        -2 * posterior.judge.model.log_ratio([names[2]])
    )
    for copy in (Posterior.from_json(posterior.to_json()), pickle.loads(pickle.dumps(posterior))):
        again = copy.subsets(5)
        np.testing.assert_allclose(
            again.drop(columns="subset"), table.drop(columns="subset"), rtol=1e-14
        )
        assert copy.evidence(table["subset"][3]).p_exact == pytest.approx(
            table["p_exact"][3], rel=1e-12
        )


def test_evidence_that_was_not_saved_is_not_invented() -> None:
    posterior = BIP().fit(simulated(p=8)).posterior_
    saved = Posterior.from_json(posterior.to_json())
    table = saved.subsets(None)
    assert table["p_invariant"][:100].notna().all()
    assert table["p_invariant"][100:].isna().all()
    with pytest.raises(SettingError, match="100 subsets"):
        saved.evidence(table["subset"][150])


@pytest.mark.parametrize(
    "given",
    [
        {"rho": -0.1},
        {"rho": 20},
        {"tau": float("nan")},
        {"level": 0.0},
        {"weak_level": 1},
        {"level": "low"},
    ],
    ids=str,
)
def test_impossible_tolerances(given: dict) -> None:
    with pytest.raises(SettingError, match=next(iter(given))):
        Tolerance(**given)


def test_levels_of_a_tolerance() -> None:
    assert Tolerance().weak.level == 0.02
    assert Tolerance(level=0.01).weak.level == 0.01
    assert Tolerance.strict(0.05).weak == Tolerance.strict(0.05)
    assert Tolerance.strict().in_words("invariance", "rho") == "exact invariance at level 0.05"


# The most probable subset is far from invariant


def broken(p: int = 3, rows: int = 100, seed: int = 0) -> MultiEnvironmentData:
    """No subset is invariant: the first coefficient and the variance differ by environment."""
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], rows)
    X = rng.normal(size=(3 * rows, p)) + site[:, None]
    y = (1 + site) * X[:, 0] + (1 + site) * rng.normal(size=3 * rows)
    return MultiEnvironmentData.from_arrays(X, y, site, feature_names=[f"x{j}" for j in range(p)])


def invariant(constant: np.ndarray, rows: int, rng: np.random.Generator) -> MultiEnvironmentData:
    """y is the sum of all features; `constant` (E, p) says where one does not vary."""
    n_environments, p = constant.shape
    site = np.repeat(np.arange(n_environments), rows)
    X = rng.normal(size=(len(site), p)) * (1 + site[:, None])
    X = np.where(constant[site], rng.normal(size=(n_environments, p))[site], X)
    return MultiEnvironmentData.from_arrays(X, X.sum(axis=1) + rng.normal(size=len(site)), site)


@pytest.mark.parametrize("constants", ["none", "everywhere", "in one"])
def test_law_of_an_invariant_subset(constants: str) -> None:
    """120 invariant subsets: mean and spread of log Λ are those of the law, and its tails hold what
    they say."""
    rng = np.random.default_rng(1)
    constant = np.zeros((5, 8), dtype=bool)
    constant[:, :2] = constants == "everywhere"
    constant[0, :6] |= constants == "in one"
    everything = np.ones((1, 8), dtype=bool)
    values, chances = np.empty((2, 120))
    for i in range(120):
        model = LinearGaussian().bind(invariant(constant, 15, rng))
        values[i] = model.log_ratio_many(everything)[0]
        chances[i] = model.invariance_tails(everything, values[i : i + 1])[0]
    assert values.mean() == pytest.approx(
        model.null_many(everything).expected[0], abs=4 * values.std() / np.sqrt(120)
    )
    _, variance = deviance_moments(model.moments.group_counts, model.ranks(everything))
    assert values.std() == pytest.approx(np.sqrt(variance[0]) / 2, rel=0.25)
    for level in (0.05, 0.5):
        assert np.mean(chances <= level) == pytest.approx(
            level, abs=4 * np.sqrt(level * (1 - level) / 120)
        )


def test_nothing_is_said_where_no_degree_of_freedom_is_left() -> None:
    model = LinearGaussian().bind(Moments.from_data(broken(p=3, rows=4)))
    masks = [[1, 1, 1], [1, 0, 0]]
    expected = model.null_many(masks).expected
    probability = model.invariance_tails(masks, [-1e6, -1e6])
    assert (expected[0], probability[0]) == (-np.inf, 1.0)
    assert np.isfinite(expected[1])
    assert probability[1] < 1e-9


@pytest.mark.parametrize(
    "engine", [Enumeration(), Tempering(steps=50), Variational(iterations=300)]
)
def test_every_engine_tells_that_the_exact_test_rejects_the_mode(engine: Any) -> None:
    data = broken()
    posterior = run(LinearGaussian().bind(Moments.from_data(data)), UniformPrior(), engine)
    assert posterior.leading_evidence(1).p_exact[0] < 1e-9
    assert "exact test rejects" in posterior.reading()
    assert Posterior.from_json(posterior.to_json()).reading() == posterior.reading()


def test_fit_warns() -> None:
    data = broken()
    X = np.column_stack([data.X, np.ones(len(data.X))])
    model = BIP(baseline="shared")
    with pytest.warns(DataWarning, match="x3"), pytest.warns(NotInvariantWarning) as caught:
        model.fit(X, data.y, environments=data.environment_index)
    (warning,) = (w for w in caught if w.category is NotInvariantWarning)
    assert Path(warning.filename) == Path(__file__)
    assert str(warning.message).startswith(model.decision_.verdict.sentence)
    assert not model.invariant_


def test_subsets_that_may_be_invariant_are_excepted() -> None:
    """A prior that forbids nearly everything puts the empty subset first, although {x0, x1} is
    invariant."""
    data = invariant(np.zeros((3, 2), dtype=bool), 200, np.random.default_rng(0))
    with pytest.warns(NotInvariantWarning, match="{x0, x1}"):
        posterior = BIP(prior=InclusionPrior(1e-60), select="mode").fit(data).posterior_
    assert posterior.mode == ()
    assert "exact test rejects {}" in posterior.reading()
