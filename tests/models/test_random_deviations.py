"""Random deviations between environments of any size: log Λ, the score test, Levene's and predicted
coefficients beside dense algebra, and what must not change them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import stats

from deviation_twins import Dense, levene, sites
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance
from invariance.data.features import Features
from invariance.exceptions import WrongTypeError
from invariance.models.random_coefficients import GaussianRandomDeviations, too_small_for_free
from twins import all_masks

DATA = sites()
MASKS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1], [1, 1, 1, 0], [1, 1, 1, 1]], dtype=bool)


def bound(
    data: MultiEnvironmentData | Moments, n_jobs: int | None = None
) -> GaussianRandomDeviations:
    model = LinearGaussian(deviations="random").bind(data, n_jobs)
    assert isinstance(model, GaussianRandomDeviations)
    return model


MODEL = bound(DATA)


@pytest.mark.parametrize("mask", MASKS)
def test_figures_are_those_of_dense_algebra(mask: np.ndarray) -> None:
    dense = Dense.of(DATA, mask)
    one = mask[None]
    log_ratio, share = dense.best()
    assert_allclose(MODEL.log_ratio_many(one)[0], log_ratio, atol=1e-9)
    assert_allclose(MODEL.deviation_shares(one)[0], share, rtol=1e-5, atol=1e-7)
    for given_share in (0.0, 0.02, 0.4):
        expected = dense.p_value(given_share)
        assert_allclose(
            MODEL.mean_p_values(one, np.array([given_share]))[0], expected, rtol=1e-9, atol=1e-12
        )
    for tau in (0.0, 0.1):
        assert_allclose(MODEL.spread_p_values(one, tau)[0], levene(DATA, mask, tau), rtol=1e-9)


@pytest.mark.parametrize("mask", MASKS[1:])
def test_predicted_coefficients_are_those_of_the_mixed_model(mask: np.ndarray) -> None:
    dense = Dense.of(DATA, mask)
    found = MODEL.blups(mask)
    k = 1 + int(mask.sum())
    assert found.share > 0.0
    solution, covariance, noise = dense.henderson(found.share)
    assert_allclose(found.noise, noise, rtol=1e-9)
    constant = np.append(1.0, -DATA.X[:, mask].mean(axis=0))
    for e in (*range(DATA.n_environments), -1):
        to_own = np.zeros((k, len(solution)))
        to_own[:, :k] = np.eye(k)
        if e >= 0:
            to_own[:, k * (e + 1) : k * (e + 2)] = dense.basis
        own = to_own @ solution
        spread = to_own @ covariance @ to_own.T
        assert_allclose(found.coefficients[e], own[1:], rtol=1e-9, atol=1e-10)
        if e < 0:
            spread = dense.jackknife(DATA.environment_index, found.share)
        assert_allclose(found.errors[e], np.sqrt(np.diag(spread)[1:]), rtol=1e-9)
        assert_allclose(found.intercepts[e], constant @ own, rtol=1e-9, atol=1e-10)
        rows = DATA.environment_index == e if e >= 0 else slice(None)
        at_means = dense.design[rows].mean(axis=0)
        assert_allclose(found.levels[e], at_means @ own, rtol=1e-9, atol=1e-10)
        assert_allclose(found.level_errors[e], np.sqrt(at_means @ spread @ at_means), rtol=1e-9)
        assert_allclose(found.usual[e], at_means @ solution[:k], rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("mask", MASKS[1:])
def test_new_environments_deviate_in_each_coefficient_by_its_own_variance(mask: np.ndarray) -> None:
    dense = Dense.of(DATA, mask)
    found = MODEL.blups(mask)
    assert_allclose(
        found.uncertainty, dense.new_environment(DATA.n_environments, found.share, 20), rtol=1e-7
    )


def test_without_deviations_nothing_is_added_to_the_error_of_the_mean() -> None:
    data = sites((10,) * 6, size=0.0, seed=4)
    model = bound(data)
    mask = np.array([True, True, True, False])
    found = model.blups(mask)
    W = Dense.of(data, mask).design
    assert found.share == 0.0
    assert_allclose(found.uncertainty, np.linalg.inv(W.T @ W), rtol=1e-9, atol=1e-15)


def test_an_environment_that_cannot_be_left_out_leaves_the_mixed_models_error() -> None:
    """The third column varies in one environment only."""
    data = sites((12, 9, 14, 11), size=1.5)
    X = data.X.copy()
    X[data.environment_index != 2, 2] = 0.0
    model = bound(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    mask = np.array([True, False, True, False])
    found = model.blups(mask)
    dense = Dense.of(model.data, mask)
    _, covariance, _ = dense.henderson(found.share)
    assert_allclose(found.errors[-1], np.sqrt(np.diag(covariance)[1:3]), rtol=1e-8)
    assert model.standard_errors(mask).freedom.tolist() == [43.0] * 4 + [3.0]


@pytest.mark.parametrize("n_environments", [4, 10])
@pytest.mark.parametrize("deviating", [(0,), (1,), (0, 1, 2)])
def test_intervals_cover_coefficients_whichever_deviate(
    n_environments: int, deviating: tuple[int, ...]
) -> None:
    """Intercept, one slope, or all; 160 data sets, so that a share of .95 has a standard error of
    .017"""
    mask = np.ones(2, dtype=bool)
    covered = []
    for seed in range(160):
        rng = np.random.default_rng(seed)
        place = np.repeat(np.arange(n_environments), 20)
        own = np.zeros((n_environments, 3))
        own[:, deviating] = rng.normal(size=(n_environments, len(deviating)))
        X = rng.normal(size=(len(place), 2))
        y = (
            X @ [1.0, -0.7]
            + own[place, 0]
            + np.sum(own[place, 1:] * X, axis=1)
            + rng.normal(size=len(place))
        )
        data = Moments.from_data(MultiEnvironmentData.from_arrays(X, y, place))
        model = bound(data)
        errors = model.standard_errors(mask)
        margins = stats.t.ppf(0.975, errors.freedom[-1]) * errors.values[-1]
        covered.append(np.abs(model.fit(mask).coefficients - [1.0, -0.7]) <= margins)
    assert (np.mean(covered, axis=0) > 0.9).all()


def test_environments_left_out_are_predicted_by_the_others() -> None:
    mask = MASKS[3]
    share = float(MODEL.deviation_shares(mask[None])[0])
    dense = Dense.of(DATA, mask)
    missed = 0.0
    V = dense.covariance(share)
    W = dense.design
    y = dense.outcome
    for e in range(DATA.n_environments):
        left = DATA.environment_index != e
        weights = np.linalg.solve(V[np.ix_(left, left)], W[left])
        beta = np.linalg.solve(weights.T @ W[left], weights.T @ y[left])
        missed += np.sum((y[~left] - W[~left] @ beta) ** 2)
    expected = 1.0 - missed / np.sum((y - y.mean()) ** 2)
    assert_allclose(MODEL.left_out_r2_many(mask[None])[0], expected, rtol=1e-9)


def test_moments_tell_the_same_but_of_spread() -> None:
    alone = bound(Moments.from_data(DATA))
    assert_allclose(alone.log_ratio_many(MASKS), MODEL.log_ratio_many(MASKS), atol=1e-9)
    share = np.full(len(MASKS), 0.02)
    assert_allclose(alone.mean_p_values(MASKS, share), MODEL.mean_p_values(MASKS, share), rtol=1e-9)
    assert np.isnan(alone.invariance_test(MASKS, Tolerance()).spread).all()
    # Where there is no second test to combine it with, the p-value is that of the first.
    exact = alone.invariance_test(MASKS, Tolerance.strict())
    np.testing.assert_array_equal(exact.joint, exact.mean)
    np.testing.assert_array_equal(alone.compatible(MASKS, Tolerance.strict()), exact.joint >= 0.05)


@pytest.mark.parametrize("tolerance", [Tolerance(), Tolerance.strict(), Tolerance(level=0.1)])
def test_compatible_subsets_are_those_whose_p_value_reaches_the_level(tolerance: Tolerance) -> None:
    joint = MODEL.invariance_test(all_masks(4), tolerance).joint
    np.testing.assert_array_equal(
        MODEL.compatible(all_masks(4), tolerance), joint >= tolerance.level
    )
    assert 0 < (joint >= tolerance.level).sum() < 16


def test_threads_and_batches_do_not_matter() -> None:
    masks = np.tile(all_masks(4), (20, 1))
    test = bound(DATA, n_jobs=2).invariance_test(masks, Tolerance())
    for e, mask in enumerate(all_masks(4)):
        alone = MODEL.invariance_test(mask[None], Tolerance())
        assert alone.joint[0] == test.joint[e] == test.joint[16 * 7 + e]


@given(
    st.lists(st.integers(1, 9), min_size=3, max_size=8), st.integers(0, 10_000), st.floats(0.0, 2.0)
)
@settings(max_examples=40)
def test_what_must_not_matter(counts: list[int], seed: int, size: float) -> None:
    data = sites((*counts, 8), seed=seed, size=size)
    model = bound(data)
    masks = all_masks(4)
    log_ratio = model.log_ratio_many(masks)
    test = model.invariance_test(masks, Tolerance())
    assert (log_ratio <= 0.0).all()
    assert ((test.joint >= 0.0) & (test.joint <= 1.0)).all()
    rng = np.random.default_rng(seed)
    rows = rng.permutation(data.n_rows)
    labels = rng.permutation(data.n_environments)
    units = rng.choice([0.01, -3.0, 1000.0], 4)
    origin = 10.0 * rng.normal(size=4)
    changed = (
        MultiEnvironmentData.from_arrays(data.X[rows], data.y[rows], data.environment_index[rows]),
        MultiEnvironmentData.from_arrays(data.X, data.y, labels[data.environment_index]),
        MultiEnvironmentData.from_arrays(
            data.X * units + origin, -5.0 * data.y + 100.0, data.environment_index
        ),
    )
    for other in map(bound, changed):
        assert_allclose(other.log_ratio_many(masks), log_ratio, atol=1e-6)
        again = other.invariance_test(masks, Tolerance())
        assert_allclose(again.mean, test.mean, rtol=1e-5, atol=1e-9)
        assert_allclose(again.spread, test.spread, rtol=1e-5, atol=1e-9)


def test_reference_levels_do_not_matter() -> None:
    levels = np.random.default_rng(3).integers(0, 3, DATA.n_rows)
    by_level = []
    for left in range(3):
        dummies = np.column_stack([levels == level for level in range(3) if level != left]).astype(
            float
        )
        data = MultiEnvironmentData.from_arrays(
            np.column_stack([DATA.X, dummies]), DATA.y, DATA.environment_index
        )
        features = Features.of(data.feature_names, {"level": ("x4", "x5")})
        named = replace(
            data, feature_names=features.names, original_features=features.names, grouping=features
        )
        model = bound(named)
        masks = all_masks(5)
        test = model.invariance_test(masks, Tolerance())
        by_level.append(
            np.column_stack([model.log_ratio_many(masks), test.mean, test.spread, test.joint])
        )
        assert model.blups(masks[-1]).coefficients.shape == (DATA.n_environments + 1, 6)
    assert_allclose(by_level[1], by_level[0], rtol=1e-8, atol=1e-9)
    assert_allclose(by_level[2], by_level[0], rtol=1e-8, atol=1e-9)


def test_copies_and_constants_add_nothing() -> None:
    """x4 repeats x0; x5 is constant inside every environment"""
    rng = np.random.default_rng(4)
    between = rng.normal(size=DATA.n_environments)[DATA.environment_index]
    X = np.column_stack([DATA.X, 2.0 * DATA.X[:, 0] + 1.0, between])
    data = MultiEnvironmentData.from_arrays(X, DATA.y, DATA.environment_index)
    model = bound(data)
    with_copy = np.array([1, 1, 0, 0, 1, 0], bool)
    without = np.array([1, 1, 0, 0, 0, 0], bool)
    log_ratios = model.log_ratio_many([with_copy, without])
    assert_allclose(log_ratios[0], log_ratios[1], rtol=1e-9)
    found = model.blups(with_copy)
    expected = model.blups(without)
    assert_allclose(found.coefficients[:, :2], expected.coefficients, rtol=1e-8)
    assert (found.coefficients[:, 2] == 0.0).all()
    assert np.isnan(found.errors[:, 2]).all()
    site = np.array([1, 0, 0, 0, 0, 1], bool)
    log_ratio = Dense.of(data, site).best()[0]
    assert_allclose(model.log_ratio_many(site[None])[0], log_ratio, atol=1e-9)
    assert_allclose(
        model.mean_p_values(site[None], np.zeros(1))[0],
        Dense.of(data, site).p_value(0.0),
        rtol=1e-9,
    )


def test_single_rows_and_one_large_environment() -> None:
    for counts in ((1,) * 30, (1, 1, 1, 60), (20, 30)):
        data = sites(counts, seed=len(counts))
        mask = np.array([1, 1, 0, 0], bool)
        model = bound(data)
        dense = Dense.of(data, mask)
        assert_allclose(model.log_ratio_many(mask[None])[0], dense.best()[0], atol=1e-9)
        assert_allclose(
            model.mean_p_values(mask[None], np.zeros(1))[0], dense.p_value(0.0), rtol=1e-9
        )
        assert model.fit(mask).local_coefficients.shape == (len(counts), 2)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_single_rows_cannot_tell_deviations_from_noise() -> None:
    """The likelihood of the empty subset is the same at all shares, however large."""
    model = bound(sites((1,) * 30, seed=3))
    assert_allclose(model.log_ratio_many(MASKS[:1]), 0.0, atol=1e-3)


def test_an_outcome_may_be_constant_inside_an_environment() -> None:
    y = DATA.y.copy()
    y[DATA.environment_index == 3] = 1.0
    data = MultiEnvironmentData.from_arrays(DATA.X, y, DATA.environment_index)
    assert_allclose(
        bound(data).log_ratio_many(MASKS[3:4])[0], Dense.of(data, MASKS[3]).best()[0], atol=1e-9
    )


def test_the_outcome_itself_is_outside_the_support() -> None:
    data = MultiEnvironmentData.from_arrays(
        np.column_stack([DATA.X, 3.0 * DATA.y - 1.0]), DATA.y, DATA.environment_index
    )
    model = bound(data)
    mask = np.array([0, 0, 0, 0, 1], bool)
    assert model.log_ratio_many(mask[None])[0] == -np.inf
    assert model.invariance_test(mask[None], Tolerance()).joint[0] == 0.0


def test_free_and_random_agree_where_environments_are_large() -> None:
    """x3 follows the outcome, differently in each environment"""
    data = sites((300,) * 6, size=0.0)
    X = data.X.copy()
    X[:, 3] = data.y * np.linspace(-1.0, 1.0, 6)[data.environment_index] + X[:, 3]
    data = MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    masks = all_masks(4)
    free, random = (
        LinearGaussian(deviations=kind).bind(data).compatible(masks, Tolerance())
        for kind in ("free", "random")
    )
    np.testing.assert_array_equal(free, random)
    assert masks[random].tolist() == [[True, True, True, False]]


# ---------------------------------------------------------------- when they are chosen, and what is
# said


def test_the_reason_is_a_small_environment_or_many_fits() -> None:
    assert "'0' has 1 row, and a fit of 4 columns takes 6" in too_small_for_free(DATA)
    assert "5 columns" not in too_small_for_free(DATA)
    spent = 5 * 29 / 300
    assert f"would take {spent:.0%} of the degrees of freedom" in too_small_for_free(
        sites((10,) * 30)
    )
    assert too_small_for_free(sites((40,) * 5)) == too_small_for_free(sites((6, 60, 60))) == ""
    assert "has 5 rows" in too_small_for_free(sites((5, 60, 60)))
    assert too_small_for_free(sites((4, 20))) == ""  # of two environments deviations say little


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_what_was_used_is_said() -> None:
    def fitted(data: MultiEnvironmentData, **settings: str) -> tuple[BIP, str]:
        model = BIP(progress=False, **settings).fit(data)
        return model, " ".join(str(model.summary()).split())

    large = sites((40,) * 5)
    model, said = fitted(DATA)
    assert model.posterior_.model == GaussianRandomDeviations.kind
    assert "at random between environments: '0' has 1 row" in said
    assert "at random between environments: as asked" in fitted(large, deviations="random")[1]
    assert "at random" not in fitted(large)[1]
    wide = sites((5,) * 12, p=21)
    assert BIP(progress=False)._family_for(wide)[0].bind(wide).kind != GaussianRandomDeviations.kind


def test_rows_of_one_patient_are_refused() -> None:
    with pytest.raises(WrongTypeError, match=r"independent.*deviations='random'"):
        BIP().fit(DATA, cluster="patient")


def test_lists_of_subsets_that_are_remembered_are_told_apart() -> None:
    """Of two features, three subsets and four that go on with an empty one have the same bits."""
    model = bound(DATA.narrowed(np.array([True, True, False, False])))
    three = np.array([[1, 1], [1, 0], [0, 1]], dtype=bool)
    four = np.vstack([three, [[False, False]]])
    first = model.log_ratio_many(three)
    assert_allclose(model.log_ratio_many(four), [*first, model.log_ratio([])])
    assert_allclose(model.log_ratio_many(three), first)


def test_look_alikes_need_no_fits_of_single_environments() -> None:
    correlations = np.abs(np.corrcoef(DATA.X.T))[0, 1:]
    assert MODEL.alike(0, 2).tolist() == (1 + np.argsort(-correlations)[:2]).tolist()
