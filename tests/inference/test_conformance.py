"""Every engine on every conditional, with every prior, grouped features or not: agreement with brute force."""

from __future__ import annotations

import pickle
from functools import cache

import numpy as np
import pytest

from conformance_cases import MODELS, PRIORS, Brute, brute_force, target_of
from invariance import Enumeration, Posterior, Tempering, Variational
from invariance.inference.base import Engine, RunOptions

ENGINES: dict[str, Engine] = {
    "exact": Enumeration(),
    "tempering": Tempering(chains=2, searches=2),
    "vi": Variational(iterations=300, pairs=10),
}
pytestmark = [
    pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning"),
    pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning"),
    pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning"),
]


@cache
def known(family: str, prior: str, grouped: bool) -> Brute:
    return brute_force(target_of(family, prior, grouped))


@cache
def computed(engine: str, family: str, prior: str, grouped: bool, seed: int = 0, n_jobs: int = 1) -> Posterior:
    options = RunOptions(n_jobs, np.random.default_rng(seed), progress=False)
    return ENGINES[engine].run(target_of(family, prior, grouped), options)


every = pytest.mark.parametrize("grouped", [False, True], ids=["single", "grouped"])
conditionals = pytest.mark.parametrize("family", MODELS)
engines = pytest.mark.parametrize("engine", ENGINES)


@every
@pytest.mark.parametrize("prior", PRIORS)
@conditionals
def test_exact_is_brute_force(family: str, prior: str, grouped: bool) -> None:
    posterior, expected = computed("exact", family, prior, grouped), known(family, prior, grouped)
    error = 2.0 * target_of(family, prior, grouped).model.walk_error
    np.testing.assert_allclose(posterior.inclusion, expected.inclusion, atol=1e-9 + error)
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8 + error)
    np.testing.assert_array_equal(posterior.mode_mask, expected.masks[expected.probability.argmax()])
    pairs = (expected.masks.T * expected.probability) @ expected.masks
    np.testing.assert_allclose(posterior.pairwise, pairs, atol=1e-9 + error)


@every
@pytest.mark.parametrize("prior", PRIORS)
@conditionals
def test_tempering_samples_it(family: str, prior: str, grouped: bool) -> None:
    posterior, expected = computed("tempering", family, prior, grouped), known(family, prior, grouped)
    np.testing.assert_allclose(posterior.inclusion, expected.inclusion, atol=0.05)
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, abs=0.15)
    for mask, value in zip(posterior.masks, np.exp(posterior.log_probabilities), strict=True):
        code = int(mask @ (1 << np.arange(len(mask))))
        assert value == pytest.approx(expected.probability[code], abs=0.06)


@every
@pytest.mark.parametrize("prior", PRIORS)
@conditionals
def test_variational_inference_bounds_it(family: str, prior: str, grouped: bool) -> None:
    posterior, expected = computed("vi", family, prior, grouped), known(family, prior, grouped)
    assert posterior.elbo <= expected.log_evidence + 1e-6
    np.testing.assert_array_equal(posterior.reweighted.mode_mask, expected.masks[expected.probability.argmax()])
    reliable = posterior.diagnostics["missed_mass"] < 0.02 and posterior.diagnostics["pareto_k"] < 0.7
    if reliable:
        np.testing.assert_allclose(posterior.reweighted.inclusion, expected.inclusion, atol=0.08)


@every
@engines
@conditionals
def test_threads_and_seeds(engine: str, family: str, grouped: bool) -> None:
    one, two = (computed(engine, family, "uniform", grouped, 0, n_jobs) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    np.testing.assert_array_equal(one.masks, two.masks)
    assert one.log_evidence == two.log_evidence


@every
@engines
@conditionals
def test_pickle_and_json(engine: str, family: str, grouped: bool) -> None:
    posterior = computed(engine, family, "beta-binomial", grouped)
    again = pickle.loads(pickle.dumps(posterior))
    everything = np.ones(posterior.n_features, dtype=bool)
    assert again.probability(everything) == posterior.probability(everything)
    restored = type(posterior).from_json(posterior.to_json())
    np.testing.assert_array_equal(restored.inclusion, posterior.inclusion)
    assert restored.to_json() == posterior.to_json()
    assert restored.feature_names == posterior.feature_names == (("g", "x3", "h", "x6") if grouped else NAMES)


NAMES = tuple(f"x{j}" for j in range(7))
