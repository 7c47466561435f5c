"""R, μ, v, the rate bound and their finite-n relatives: closed form against draws, and against
simulated posteriors."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from invariance.models.gaussian import LinearGaussian
from invariance.moments.moments import Moments
from invariance.priors import BetaBinomialPrior, InclusionPrior, UniformPrior
from invariance.simulation import StructuralModel
from replication.contraction import (
    epsilon,
    exact_pool,
    local_bias,
    local_bias_variance,
    log_prior_factor,
    rate_bound,
    row_moments,
    v,
)
from replication.heterogeneity import all_subsets, mu, population
from replication.simulators import example_1, theory


def small_model(seed: int = 3, n_environments: int = 3, strength: float = 1.0) -> StructuralModel:
    return theory(n_environments, strength, np.random.default_rng(seed))


@pytest.mark.parametrize(
    "prior",
    [
        *(UniformPrior(), UniformPrior(max_size=2), BetaBinomialPrior(1.0, 3.0)),
        InclusionPrior([0.9, 0.2, 0.6, 0.3, 0.3]),
        InclusionPrior([1.0, 0.4, 0.7, 0.4, 0.0], max_size=3),
        InclusionPrior([0.9, 0.8, 0.3, 0.3, 0.2], max_size=1),
    ],
)
def test_the_prior_factor_is_that_of_all_subsets(prior: object) -> None:
    bound = prior.bind(5)
    masks = all_subsets(5)
    probability = np.exp(bound.log_prob(masks))
    for mask, own in zip(masks, probability, strict=True):
        others = probability[(masks != mask).any(axis=1)]
        found = log_prior_factor(bound, mask)
        if own == 0.0:
            assert found == math.inf
        else:
            assert found == pytest.approx(
                math.log(others.max() / own * (probability > 0).sum()), rel=1e-12
            )


def test_the_prior_factor_of_the_gene_study_is_a_number() -> None:
    bound = UniformPrior(max_size=200).bind(6169)
    truth = np.arange(6169) < 3
    # The paper's count of the subsets of at most 200 of 6,169 features
    assert log_prior_factor(bound, truth) / math.log(10) == pytest.approx(382, abs=1)


def test_moments_of_a_row_are_those_of_draws() -> None:
    model = small_model()
    masks = all_subsets(3)
    (mean, variance), total = row_moments(model, masks), v(model, masks)
    np.testing.assert_allclose(mean.mean(axis=1), mu(model, masks), rtol=1e-9, atol=1e-12)
    n = 40_000
    data = model.sample(n, np.random.default_rng(0))
    means, factors = population(model)
    covariances = factors @ factors.swapaxes(1, 2)
    shifts = means - means.mean(axis=0)
    pool = covariances.mean(axis=0) + shifts.T @ shifts / 3
    for s, mask in enumerate(masks):
        kept = np.flatnonzero(mask)

        def log_density(
            covariance: np.ndarray, mean: np.ndarray, kept: np.ndarray = kept
        ) -> np.ndarray:
            slopes = np.linalg.solve(covariance[np.ix_(kept, kept)], covariance[kept, 3])
            square = covariance[3, 3] - slopes @ covariance[kept, 3]
            rest = data.y - mean[3] - (data.X[:, kept] - mean[kept]) @ slopes
            return -0.5 * np.log(square) - 0.5 * rest**2 / square

        pooled = log_density(pool, means.mean(axis=0))
        local = [
            log_density(covariances[e], means[e])[data.environment_index == e] for e in range(3)
        ]
        rows = (np.concatenate(local) - pooled).reshape(3, n)
        for e, drawn in enumerate(rows):
            assert drawn.mean() == pytest.approx(mean[s, e], abs=5 * drawn.std() / n**0.5 + 1e-9)
            assert drawn.var() == pytest.approx(variance[s, e], rel=0.1, abs=1e-9)
        assert rows.var() == pytest.approx(total[s], rel=0.1, abs=1e-9)
    assert total[(masks == model.truth).all(axis=1)] == pytest.approx([0.0], abs=1e-9)


def test_the_exact_pool_is_no_further_than_the_linear_one() -> None:
    """g is the best density there is, ḡ the best linear Gaussian one; both agree with an invariant
    subset."""
    model = small_model()
    masks = all_subsets(3)
    rng = np.random.default_rng(1)
    linear = mu(model, masks)
    for mask, closed in zip(masks, linear, strict=True):
        found, spread, error = exact_pool(model, mask, 4000, rng)
        assert -1e-9 < found < closed + 5 * error + 1e-9
        # log p_e − log g is at most log E
        assert found < math.log(3)
        if closed < 1e-9:
            assert (found, spread) == pytest.approx((0.0, 0.0), abs=1e-9)


def test_the_exact_pool_loses_what_the_features_tell_about_the_environment() -> None:
    """Where x^z gives the environment away, g(y|x^z) is p_e(y|x^z): the paper's μ(z) vanishes and
    μ̄(z) does not."""
    model = example_1(3)
    rng = np.random.default_rng(1)
    neither, second = np.array([[False, False], [False, True]])
    closed = mu(model, [neither, second])
    assert exact_pool(model, neither, 2000, rng)[0] == pytest.approx(math.log(3), rel=1e-3)
    assert exact_pool(model, second, 2000, rng)[0] == pytest.approx(0.0, abs=1e-9)
    assert closed[0] > 1.5 * math.log(3)
    assert closed[1] > 0.1


def test_bias_of_local_fits_is_that_of_the_model() -> None:
    """With the truth, E log Λ = −nE (b_n − b_{nE}): the local and the pooled fit are biased by
    their own rows."""
    n = 12
    draws = 600
    model = small_model(n_environments=4)
    k = int(model.truth.sum())
    rng = np.random.default_rng(2)
    found = np.array(
        [
            LinearGaussian()
            .bind(Moments.from_data(model.sample(n, rng)))
            .log_ratio_many(model.truth[None])[0]
            for _ in range(draws)
        ]
    )
    expected = -4 * n * (local_bias(n, k) - local_bias(4 * n, k))
    assert found.mean() == pytest.approx(expected, abs=4 * found.std() / draws**0.5)


@pytest.mark.parametrize("size", [0, 2, 5])
def test_bias_and_its_variance_are_those_of_draws(size: int) -> None:
    n = 15
    rng = np.random.default_rng(size)
    rows = rng.standard_normal((20_000, n))
    basis, _ = np.linalg.qr(np.column_stack([np.ones(n), rng.standard_normal((n, size))]))
    square = (rows**2).sum(axis=1)
    rest = square - ((rows @ basis) ** 2).sum(axis=1)
    flattery = -0.5 * n * np.log(rest / n) - 0.5 * n + 0.5 * square
    assert local_bias(n, size) == pytest.approx(flattery.mean() / n, rel=0.02)
    assert local_bias_variance(n, size) == pytest.approx(flattery.var(), rel=0.06)
    assert local_bias(5000, size) == pytest.approx((size + 2) / 1e4, rel=0.01)
    assert local_bias_variance(5000, size) == pytest.approx((size + 2) / 2, rel=0.01)


def log_ratios(model: StructuralModel, n: int, rng: np.random.Generator) -> np.ndarray:
    masks = all_subsets(model.n_features)
    return LinearGaussian().bind(Moments.from_data(model.sample(n, rng))).log_ratio_many(masks)


@pytest.mark.parametrize(("n", "most"), [(8, 0.5), (200, 0.04)])
def test_the_bound_is_rarely_exceeded_with_many_rows(n: int, most: float) -> None:
    rng = np.random.default_rng(4)
    masks = all_subsets(3)
    exceeded = []
    for seed in range(50):
        model = small_model(seed, 4)
        at_truth = (masks == model.truth).all(axis=1)
        bound = epsilon(
            rate_bound(math.log(8), mu(model, masks[~at_truth]).min(), 4 * n, kappa=0.9)
        )
        ratios = log_ratios(model, n, rng)
        weights = np.exp(ratios - ratios.max())
        exceeded.append(weights[~at_truth].sum() / weights.sum() > bound)
    assert np.mean(exceeded) <= most
    assert (np.mean(exceeded) > 0.04) == (n == 8)


@pytest.mark.parametrize(("shift", "expected"), [(0.02, [1, 0]), (0.5, [1, 1])])
def test_few_rows_in_many_environments_lead_to_the_smallest_mu_n(
    shift: float, expected: list[int]
) -> None:
    """y = x1 + x2 + noise. While x2 hardly moves, its local coefficient costs more than it tells:
    z* has not the smallest μ_n = μ + b_n, and the posterior goes to {x1} however many environments
    there are."""
    rng = np.random.default_rng(5)
    n = 6
    n_environments = 300
    coefficients = np.zeros((n_environments, 3, 3))
    coefficients[:, 2, :2] = 1.0
    intercepts = rng.normal(0.0, [2.0, shift, 0.0], (n_environments, 3))
    variances = np.full((n_environments, 3), 0.01)
    touched = np.ones((n_environments, 2), dtype=bool)
    model = StructuralModel(np.arange(3), coefficients, intercepts, variances, touched)
    masks = all_subsets(2)
    mu_n = mu(model, masks) + local_bias(n, masks.sum(axis=1))
    assert masks[np.argmin(mu_n)].astype(int).tolist() == expected
    ratios = log_ratios(model, n, rng)
    assert (
        np.exp(ratios - ratios.max())[np.argmin(mu_n)] / np.exp(ratios - ratios.max()).sum() > 0.999
    )
    # The pool of 1,800 rows has little bias of its own: −log Λ / nE is μ_n.
    np.testing.assert_allclose(-ratios / (n * n_environments), mu_n, rtol=0.05)


def test_without_invariance_the_posterior_goes_to_the_smallest_mu() -> None:
    """The outcome's coefficients differ: μ(z*) > 0, and the posterior concentrates on the subset
    where μ is least."""
    model = small_model(0, 5)
    coefficients = model.coefficients.copy()
    coefficients[:, -1] *= np.linspace(0.5, 1.5, 5)[:, None]
    broken = replace(model, coefficients=coefficients)
    values = mu(broken, all_subsets(3))
    order = np.argsort(values)
    ratios = log_ratios(broken, 5000, np.random.default_rng(6))
    assert values.min() > 0.01
    assert np.argmax(ratios) == order[0]
    np.testing.assert_allclose(-ratios / 25_000, values, rtol=0.1)
