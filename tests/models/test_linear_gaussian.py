"""The linear Gaussian model against least squares: rows, moments, collinear columns, units, rewards
for prediction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from conformance_cases import table
from invariance import Enumeration, LinearGaussian, Moments, MultiEnvironmentData, UniformPrior
from invariance.data.features import Features
from invariance.exceptions import DataError
from invariance.inference.base import RunOptions, Target
from invariance.models import gaussian_fits
from invariance.moments.least_squares import least_squares
from invariance.posterior.posterior import Judge
from reference_data import load_reference, reference_files
from twins import all_log_ratios as brute_force
from twins import all_masks, datasets, half_n_log_variance, log_ratio, simulated, walked_log_ratios


def close(a: np.ndarray, b: np.ndarray, tolerance: float) -> bool:
    return bool(np.all(np.abs(a - b) <= tolerance * np.maximum(1.0, np.abs(b))))


@settings(max_examples=20)
@given(datasets())
def test_every_way_agrees_with_least_squares(data) -> None:
    expected = brute_force(data)
    model = LinearGaussian().bind(data)
    masks = all_masks(data.n_features)
    assert close(walked_log_ratios(model), expected, 1e-7)
    assert close(model.log_ratio_many(masks), expected, 1e-7)
    assert close(model.rescore(masks), expected, 1e-9)
    assert (model.log_ratio_many(masks) <= 0).all()
    assert model.log_ratio([data.feature_names[0]]) == pytest.approx(
        expected[1], rel=1e-7, abs=1e-7
    )


def with_copy(noise: float = 0.0) -> MultiEnvironmentData:
    data = simulated(4, (20, 25, 30), seed=12)
    X = data.X.copy()
    X[:, 3] = 2.0 * X[:, 0] - 5.0 + noise * X[:, 1]
    return MultiEnvironmentData.from_arrays(
        X, data.y, data.environment_index, feature_names=["a", "b", "c", "copy"]
    )


@pytest.mark.parametrize("with_rows", [True, False])
def test_a_copy_adds_nothing_or_is_outside_the_support(with_rows: bool) -> None:
    data = with_copy()
    masks = all_masks(4)
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    expected = brute_force(data)
    if not with_rows:
        expected[masks[:, 0] & masks[:, 3]] = -np.inf
        with pytest.raises(DataError, match="'a', 'copy'"):
            model.flip_neighbours(masks[9])
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(walked_log_ratios(model), expected, rtol=1e-8, atol=1e-8)
    for code in (1, 9) if with_rows else (1,):
        changes = expected[code ^ (1 << np.arange(4))] - expected[code]
        np.testing.assert_allclose(model.flip_neighbours(masks[code]), changes, atol=1e-8)
    if with_rows:
        np.testing.assert_allclose(model.rescore(masks), expected, rtol=1e-8, atol=1e-8)
        assert model.outside_support(masks) == ()


@pytest.mark.parametrize("name", reference_files())
def test_reference_log_ratios(name: str) -> None:
    reference = load_reference(name)
    expected = reference.arrays["log_ratio"]
    model = LinearGaussian().bind(reference.data)
    assert close(walked_log_ratios(model), expected, 1e-6)
    assert close(model.log_ratio_many(all_masks(10)), expected, 1e-6)
    assert close(model.rescore(all_masks(10)), expected, 1e-9)


def test_longley_certified_coefficients() -> None:
    """NIST's certified values for the Longley data (Statistical Reference Datasets, linear
    regression)."""
    longley = pytest.importorskip("statsmodels.api").datasets.longley.load_pandas()
    certified = {
        "GNPDEFL": 15.0618722713733,
        "GNP": -0.358191792925910e-01,
        "UNEMP": -2.02022980381683,
        "ARMED": -1.03322686717359,
        "POP": -0.511041056535807e-01,
        "YEAR": 1829.15146461355,
    }
    fit = least_squares(
        longley.exog[list(certified)].to_numpy(float), longley.endog.to_numpy(float)
    )
    np.testing.assert_allclose(fit.coefficients, list(certified.values()), rtol=1e-8)
    assert fit.intercept == pytest.approx(-3482258.63459582, rel=1e-8)
    assert fit.rss == pytest.approx(836424.055505915, rel=1e-8)


# ---------------------------------------------------------------- evidence where columns hardly
# differ


@pytest.mark.parametrize("apart", [1e-5, 1e-8])
def test_columns_that_nearly_coincide_are_judged_by_what_they_span(apart: float) -> None:
    data = simulated(3, (60, 60, 60, 60))
    near = data.X.copy()
    near[:, 1] = near[:, 0] + apart * data.X[:, 1]
    mask = np.array([[True, True, False]])
    plain, hard = (
        Judge(LinearGaussian().bind(given)).evidence(mask)
        for given in (data, replace(data, X=near))
    )
    for name, values in plain.columns().items():
        np.testing.assert_allclose(hard.columns()[name], values, rtol=1e-4, err_msg=name)


def test_without_rows_what_second_moments_cannot_tell_is_not_told() -> None:
    model = LinearGaussian().bind(Moments.from_data(with_copy(1e-7)))
    mask = np.array([[True, False, False, True]])
    assert np.isnan(model.left_out_r2_many(mask)).all()
    assert np.isinf(model.random_effects_risk_many(mask)).all()
    assert np.isfinite(model.left_out_r2_many(~mask)).all()


def test_a_p_value_that_is_not_known_does_not_count_as_invariant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = Judge(LinearGaussian().bind(simulated(3)))
    masks = all_masks(3)
    fits = judge.model.residuals(masks)
    monkeypatch.setattr(
        type(judge.model),
        "residuals",
        lambda *_: fits._replace(rss=np.full(fits.rss.shape, np.nan)),
    )
    assert judge.rejected(masks).all()
    assert not judge.compatible(masks).any()


# ---------------------------------------------------------------- the reward:
# p(z)·Λ(z)·(σ̂²(∅)/σ̂²(z))^(λN/2)


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_a_pooled_fit_is_rewarded(alone: bool, grouped: bool) -> None:
    data = table(grouped, binary=False)
    model = LinearGaussian(prediction=0.3).bind(Moments.from_data(data) if alone else data)
    masks = all_masks(data.n_features)
    chosen = data.features.expand(masks)
    plain = np.array([log_ratio(data, columns) for columns in chosen])
    left = np.array([half_n_log_variance(data.X[:, columns], data.y) for columns in chosen])
    expected = plain + 0.3 * (left[0] - left)
    assert expected.max() > 0.0
    np.testing.assert_allclose(model.log_ratio_many(masks), expected, atol=1e-8)
    np.testing.assert_allclose(model.untilted.log_ratio_many(masks), plain, atol=1e-8)
    if not alone:
        np.testing.assert_allclose(model.rescore(masks), expected, atol=1e-8)


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
def test_the_reading_is_about_invariance() -> None:
    """A reward that makes every value positive does not make a subset look invariant."""
    plain = simulated(4, (60, 60, 60))
    e = plain.environment_index
    x = plain.X[:, 0]
    data = replace(
        plain, y=np.array([3.0, -3.0, 0.5])[e] * x + 5.0 * plain.X[:, 1] + 4.0 * e + 0.1 * plain.y
    )
    model = LinearGaussian(prediction=3.0).bind(data)
    posterior = Enumeration().run(Target(model, UniformPrior().bind(4)), RunOptions(progress=False))
    assert model.log_ratio_many(posterior.masks[:1])[0] > 0.0
    assert posterior.log_ratios[0] == pytest.approx(log_ratio(data, posterior.masks[0]))
    assert "exact test rejects" in posterior.reading()


def test_in_a_search_a_collinear_column_costs_also_where_values_are_positive() -> None:
    model = LinearGaussian(prediction=5.0).bind(Moments.from_data(with_copy()))
    within = np.array([True, True, True, False])
    beyond = np.ones(4, dtype=bool)
    (value,) = model.log_ratio_many(within[None])
    assert value > 0.0
    assert model.log_ratio_many(beyond[None])[0] == -np.inf
    assert model.search_ratio_many(beyond[None])[0] == pytest.approx(value / 1.05)


def with_levels(seed: int = 3) -> MultiEnvironmentData:
    """Features of one and of several columns, of which some are constant or depend on others in one
    environment."""
    rng = np.random.default_rng(seed)
    site = np.repeat([0, 1, 2], [40, 25, 60])
    level = rng.integers(0, 4, len(site))
    level[site == 1] %= 2
    X = np.column_stack([rng.normal(size=(len(site), 3)), *(level == k for k in (1, 2, 3))])
    X[site == 1, 2] = X[site == 1, 0]
    X = np.column_stack([X, X[:, :2] ** 2])
    y = X[:, 0] - X[:, 3] + rng.normal(size=len(site))
    data = MultiEnvironmentData.from_arrays(X, y, site)
    features = Features(tuple("abclq"), data.feature_names, np.array([1, 1, 1, 3, 2]))
    return replace(
        data, feature_names=features.names, original_features=features.names, grouping=features
    )


def test_flips_and_samples_of_wide_features_are_those_of_the_rows() -> None:
    model = LinearGaussian().bind(with_levels())
    assert not model.samples_exactly
    masks = all_masks(model.n_features)
    assert np.allclose(model.sampling_ratio_many(masks), model.log_ratio_many(masks), atol=1e-6)
    guessed = model.guessed_flips(masks)
    for row, mask in enumerate(masks):
        flipped = mask ^ np.eye(model.n_features, dtype=bool)
        null = model.null_many(flipped)
        assert np.allclose(guessed.log_ratio[row], model.log_ratio_many(flipped), atol=1e-3)
        assert np.allclose(guessed.gain[row], model.gain_many(flipped), atol=1e-3)
        assert np.allclose(guessed.variance[row], null.variance)
        assert np.allclose(guessed.expected[row], null.expected)


def test_moments_alone_and_single_columns_are_sampled_exactly() -> None:
    data = with_levels()
    for model in (
        LinearGaussian().bind(Moments.from_data(data)),
        LinearGaussian().bind(with_copy()),
    ):
        masks = all_masks(model.n_features)
        assert model.samples_exactly
        assert np.array_equal(model.sampling_ratio_many(masks), model.log_ratio_many(masks))


def test_coefficients_and_their_errors_are_of_the_same_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of each environment and one of all rows."""
    data = simulated()
    fitted = []
    original = gaussian_fits.least_squares_of_units
    monkeypatch.setattr(
        gaussian_fits,
        "least_squares_of_units",
        lambda *given: fitted.append(1) or original(*given),  # type: ignore[func-returns-value]
    )
    model = LinearGaussian().bind(data)
    mask = np.arange(data.n_features) < 2
    found = model.estimates(mask)
    assert len(fitted) == data.n_environments + 1
    assert model.estimates(mask).values.tolist() == found.values.tolist()
    assert model.fit(~mask).coefficients.shape == (data.n_features - 2,)
    X = np.column_stack([np.ones(data.n_rows), data.X[:, mask]])
    beta, rss, *_ = np.linalg.lstsq(X, data.y)
    errors = np.sqrt(np.diagonal(np.linalg.inv(X.T @ X)) * rss / (data.n_rows - 3))
    np.testing.assert_allclose(found.values[-1], beta[1:], rtol=1e-9)
    np.testing.assert_allclose(found.errors[-1], errors[1:], rtol=1e-9)
