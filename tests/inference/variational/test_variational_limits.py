"""Variational inference where the size limit or hard inclusions leave little, and the error of its ELBO."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from invariance import BIP, Enumeration, InclusionPrior, LinearGaussian, UniformPrior, Variational
from invariance.data import MultiEnvironmentData
from invariance.inference.base import RunOptions, Target
from invariance.inference.variational.ascent import Climb, FreeSpace, Iterate, measured
from invariance.inference.variational.mean_field import MeanField, Mixture, fit_mixture
from invariance.kernels.mean_field import score_draws
from twins import all_masks, simulated
from variational_fit import fit

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning")


def null_data(p: int, seed: int) -> LinearGaussian:
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, p)), rng.normal(size=40)
    return LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, np.repeat([0, 1], 20)))


@pytest.mark.parametrize(
    ("prior", "inclusion"),
    [
        (InclusionPrior([1.0, 1.0, 0.5, 0.5], max_size=2), [1, 1, 0, 0]),
        (InclusionPrior(0.0), [0, 0, 0, 0]),
        (InclusionPrior(1.0), [1, 1, 1, 1]),
        (UniformPrior(0), [0, 0, 0, 0]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "engine",
    [Variational(iterations=50), Variational(components="auto", iterations=50), Variational.simulation(iterations=50)],
    ids=["default", "mixture", "simulation"],
)
def test_one_possible_subset_is_the_answer(prior, inclusion: list[int], engine: Variational) -> None:
    model = null_data(4, seed=0)
    bound = prior.bind(model.feature_names)
    posterior = fit(model, prior, engine)
    exact = Enumeration().run(Target(model, bound), RunOptions())
    assert posterior.inclusion.tolist() == inclusion
    assert posterior.entropy == 0.0
    assert posterior.elbo == pytest.approx(exact.log_evidence, abs=1e-9)
    assert posterior.diagnostics["pareto_k"] == -np.inf
    assert posterior.reweighted.inclusion.tolist() == inclusion
    assert posterior.reweighted.log_evidence == pytest.approx(exact.log_evidence, abs=1e-9)
    assert len(posterior.subsets()) == 1
    assert posterior.sample(5, random_state=0).to_numpy().astype(int).tolist() == [inclusion] * 5


def test_one_possible_subset_of_many_features() -> None:
    model = null_data(20, seed=1)
    for prior in (UniformPrior(0), InclusionPrior(0.0)):
        posterior = fit(model, prior, Variational(iterations=50))
        assert posterior.inclusion.tolist() == [0.0] * 20
        assert posterior.elbo == pytest.approx(model.log_ratio([]), abs=1e-9)


@pytest.mark.parametrize("max_size", [1, 2, 3])
def test_null_data_under_a_small_limit(max_size: int) -> None:
    """Many features, little to tell them apart: the product drifts far outside the support."""
    for seed in range(3):
        model = null_data(20, seed)
        bound = UniformPrior(max_size).bind(model.feature_names)
        posterior = fit(model, UniformPrior(max_size))
        exact = Enumeration().run(Target(model, bound), RunOptions())
        assert posterior.inclusion.sum() <= max_size
        assert posterior.entropy <= np.log(bound.support_size()) + 1e-9
        assert posterior.masks.sum(axis=1).max() <= max_size
        np.testing.assert_array_equal(
            posterior.subsets(top=None)["probability"], np.exp(-np.sort(-posterior.log_probabilities))
        )
        assert posterior.elbo <= exact.log_evidence + 4 * posterior.diagnostics["elbo_error"]
        assert posterior.elbo > exact.log_evidence - 2.0
        np.testing.assert_allclose(posterior.reweighted.inclusion, exact.inclusion, atol=0.06)
        draws = posterior.sample(4000, random_state=0).to_numpy()
        np.testing.assert_allclose(draws.mean(axis=0), posterior.inclusion, atol=0.04)


def test_tied_weights_leave_a_number_and_a_correction() -> None:
    """Three features, 4,000 draws of at most eight subsets."""
    for seed in (8, 26, 28, 89):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(40, 3))
        y = 0.5 * X[:, 0] + rng.normal(size=40)
        model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, np.repeat([0, 1], 20)))
        posterior = fit(model, UniformPrior(), Variational(iterations=300), seed=seed)
        assert not np.isnan(posterior.diagnostics["pareto_k"])
        assert "nan" not in posterior.notes[0]
        exact = BIP().fit(model.data).posterior_
        np.testing.assert_allclose(posterior.reweighted.inclusion, exact.inclusion, atol=0.05)


def collinear() -> LinearGaussian:
    data = simulated(4, (30, 35), seed=3)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    return LinearGaussian().bind(
        LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)).moments
    )


@pytest.mark.parametrize("max_size", [5, 2])
@pytest.mark.parametrize(
    "model", [LinearGaussian().bind(simulated(5, (15, 20), seed=42)), collinear()], ids=["plain", "collinear"]
)
def test_error_of_the_elbo_covers(model: LinearGaussian, max_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over 300 measurements of one q the deviations from its exact ELBO are as large as the reported errors say."""
    space = FreeSpace(Target(model, UniformPrior(max_size).bind(5)))
    logits = np.array([1.0, 0.5, -0.5, 1.5, 0.3])
    climbed = Climb([Iterate(0.0, 0, logits)], *np.empty((3, 0)))
    arguments = space.scorer(64, searching=False)
    exact = measured(space, climbed, np.random.default_rng(0), 1, arguments)
    assert exact.elbo_error == 0.0

    masks, log_ratios = all_masks(5), np.empty(32)
    score_draws(masks, max_size, arguments, log_ratios)
    values = space.log_joint(masks, log_ratios)
    known = np.isfinite(values)
    product = np.where(masks, expit(logits), 1 - expit(logits)).prod(axis=1)
    q = product[known] / product[known].sum()
    assert exact.elbo == pytest.approx(q @ (values[known] - np.log(q)), rel=1e-9)
    assert exact.feasible == pytest.approx(product[known].sum(), rel=1e-9)

    monkeypatch.setattr("invariance.inference.variational.ascent._LOOK_UP", 0)
    sampled = FreeSpace(Target(model, UniformPrior(max_size).bind(5)))
    arguments = sampled.scorer(64, searching=False)
    rng = np.random.default_rng(1)
    fits = [measured(sampled, climbed, rng, 400, arguments) for _ in range(300)]
    deviations = np.array([(fit.elbo - exact.elbo) / fit.elbo_error for fit in fits])
    assert 0.85 < deviations.std() < 1.15
    assert abs(deviations.mean()) < 0.25
    assert 0.92 < np.mean(np.abs(deviations) < 2.0) < 0.99


def test_error_of_the_elbo_of_a_mixture_covers() -> None:
    parts = (MeanField(np.array([3.0, -3.0, 0.0]), 2), MeanField(np.array([-3.0, 3.0, 1.0]), 2))
    masks = all_masks(3)
    target = np.random.default_rng(0).normal(size=8) * 2.0
    target[3] = -np.inf

    def log_joint(draws: np.ndarray) -> np.ndarray:
        return target[draws @ (1 << np.arange(3))]

    deviations = []
    for seed in range(100):
        mixture, elbo = fit_mixture(parts, log_joint, 400, np.random.default_rng(seed))
        known = (masks.sum(axis=1) <= 2) & (target > -np.inf)
        laws = [np.exp(Mixture((part,), np.ones(1)).log_prob(masks[known])) for part in mixture.components]
        q = mixture.weights @ np.array([law / law.sum() for law in laws])
        deviations.append((elbo.value - q @ (target[known] - np.log(q))) / elbo.error)
    assert 0.75 < np.std(deviations) < 1.25
    assert abs(np.mean(deviations)) < 0.4
