"""Every engine on every conditional, with every prior, grouped features or not: agreement with
brute force."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from functools import cache
from itertools import product

import numpy as np
import pytest
from scipy.special import entr

from conformance_cases import MODELS, PRIORS, target_of
from invariance import (
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    Moments,
    Posterior,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.exceptions import EngineError
from invariance.inference.base import Engine, RunOptions
from invariance.models.base import BoundModel
from invariance.priors import Prior
from quadratic_toy import Brute, Toy, brute_force, run, with_sum
from twins import simulated

ENGINES: dict[str, Engine] = {
    "exact": Enumeration(),
    "tempering": Tempering(chains=2, searches=1, steps=300),
    "vi": Variational(iterations=300, pairs=10),
}
NAMES = tuple(f"x{j}" for j in range(7))
pytestmark = [
    pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning"),
    pytest.mark.filterwarnings("ignore::invariance.exceptions.ApproximationWarning"),
]


@cache
def known(family: str, prior: str, grouped: bool) -> Brute:
    return brute_force(target_of(family, prior, grouped))


@cache
def computed(engine: str, family: str, prior: str, grouped: bool, n_jobs: int = 1) -> Posterior:
    options = RunOptions(n_jobs, np.random.default_rng(0), progress=False)
    return ENGINES[engine].run(target_of(family, prior, grouped), options)


ALL = list(product(MODELS, PRIORS, (False, True)))


def cells(fast: Callable[[int, int, int], bool]) -> pytest.MarkDecorator:
    """All families × priors × groups of columns; those that are not `fast`, by their numbers, are
    slow, as are the regressions of statsmodels."""
    parameters = []
    for case in ALL:
        numbers = list(MODELS).index(case[0]), list(PRIORS).index(case[1]), int(case[2])
        quick = fast(*numbers) and case[0] != "logistic"
        parameters.append(pytest.param(*case, marks=[] if quick else [pytest.mark.slow]))
    return pytest.mark.parametrize(("family", "prior", "grouped"), parameters)


# Every family with every prior, half of them with groups; every family with one prior.
every_pair = cells(lambda family, prior, grouped: (family + prior + grouped) % 2 == 0)
every_family = cells(
    lambda family, prior, grouped: prior == family % 3 and grouped == family // 3 % 2
)
engines = pytest.mark.parametrize("engine", ENGINES)


@every_pair
def test_exact_is_brute_force(family: str, prior: str, grouped: bool) -> None:
    posterior = computed("exact", family, prior, grouped)
    expected = known(family, prior, grouped)
    error = 2.0 * target_of(family, prior, grouped).model.walk_error
    np.testing.assert_allclose(posterior.inclusion, expected.inclusion, atol=1e-9 + error)
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, abs=1e-8 + error)
    np.testing.assert_array_equal(
        posterior.mode_mask, expected.masks[expected.probability.argmax()]
    )
    pairs = (expected.masks.T * expected.probability) @ expected.masks
    np.testing.assert_allclose(posterior.pairwise, pairs, atol=1e-9 + error)
    assert posterior.entropy == pytest.approx(
        entr(expected.probability).sum(), abs=1e-8 + 10 * error
    )
    assert posterior.n_subsets == (expected.probability > 0).sum()
    draws = posterior.sample(4000, random_state=1)
    np.testing.assert_allclose(
        draws.mean(axis=0), expected.inclusion, atol=4.5 * np.sqrt(0.25 / 4000)
    )


@every_family
def test_tempering_samples_it(family: str, prior: str, grouped: bool) -> None:
    posterior = computed("tempering", family, prior, grouped)
    expected = known(family, prior, grouped)
    np.testing.assert_allclose(posterior.inclusion, expected.inclusion, atol=0.06)
    assert posterior.log_evidence == pytest.approx(expected.log_evidence, abs=0.2)
    codes = posterior.masks @ (1 << np.arange(posterior.n_features))
    np.testing.assert_allclose(
        np.exp(posterior.log_probabilities), expected.probability[codes], atol=0.08
    )
    assert posterior.entropy == pytest.approx(entr(expected.probability).sum(), abs=0.15)
    draws = posterior.sample(2000, random_state=0)
    np.testing.assert_allclose(draws.mean(axis=0), expected.inclusion, atol=0.1)
    hard = target_of(family, prior, grouped).prior.forced_in
    assert (posterior.inclusion[hard] == 1.0).all()
    assert (np.array(posterior.diagnostics["inclusion_errors"])[hard] == 0.0).all()


@every_family
def test_variational_inference_bounds_it(family: str, prior: str, grouped: bool) -> None:
    posterior = computed("vi", family, prior, grouped)
    expected = known(family, prior, grouped)
    assert posterior.elbo <= expected.log_evidence + 1e-6
    # Subsets may tie, as random deviations have log Λ = 0 of several.
    mode = int(posterior.reweighted.mode_mask @ (1 << np.arange(posterior.n_features)))
    assert expected.probability[mode] == pytest.approx(expected.probability.max(), rel=1e-9)
    if posterior.diagnostics["missed_mass"] < 0.02 and posterior.diagnostics["pareto_k"] < 0.7:
        np.testing.assert_allclose(posterior.reweighted.inclusion, expected.inclusion, atol=0.08)


def assert_same(one: Posterior, two: Posterior) -> None:
    for name in ("inclusion", "masks", "log_probabilities", "log_evidence", "entropy", "notes"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


@engines
@pytest.mark.parametrize("family", ["linear gaussian", "without abilities", "compiled logistic"])
def test_threads_do_not_change_the_result(engine: str, family: str) -> None:
    assert_same(*(computed(engine, family, "uniform", False, n_jobs) for n_jobs in (1, 2)))


SHORT = Tempering(chains=2, steps=4, searches=1)
BRIEF = Variational(iterations=20, draws=100)
MANY = LinearGaussian().bind(simulated(17, (40, 50), seed=21))


@pytest.mark.parametrize(
    ("engine", "model"), [(SHORT, MANY), (SHORT, Toy(9)), (BRIEF, MANY), (BRIEF, Toy(17))], ids=type
)
def test_one_seed_one_answer_of_many_features(engine: Engine, model: BoundModel) -> None:
    one, two, other = (
        run(model, UniformPrior(2), engine, *how) for how in ((5, 1), (5, 2), (6, 1))
    )
    assert_same(one, two)
    assert (one.inclusion != other.inclusion).any()


@engines
@pytest.mark.parametrize("family", ["linear gaussian", "without abilities"])
def test_pickle_and_json(engine: str, family: str) -> None:
    posterior = computed(engine, family, "uniform", False)
    again = pickle.loads(pickle.dumps(posterior))
    everything = np.ones(posterior.n_features, dtype=bool)
    assert again.probability(everything) == posterior.probability(everything)
    np.testing.assert_array_equal(
        again.sample(5, random_state=1), posterior.sample(5, random_state=1)
    )
    restored = type(posterior).from_json(posterior.to_json())
    np.testing.assert_array_equal(restored.inclusion, posterior.inclusion)
    assert restored.to_json() == posterior.to_json()
    assert restored.feature_names == posterior.feature_names == NAMES


COLLINEAR = with_sum(simulated(3, (20, 25), seed=5))


@pytest.mark.parametrize(
    ("model", "forced"),
    [
        (LinearGaussian().bind(Moments.from_data(COLLINEAR)), ("x0", "x1", "x3")),
        (Toy(4, hole=(1, 2)), ("x1", "x2")),
    ],
    ids=["collinear", "without a value"],
)
@engines
def test_forced_features_that_cannot_be_scored_are_named(
    engine: str, model: BoundModel, forced: tuple[str, ...]
) -> None:
    with pytest.raises(EngineError, match=", ".join(map(repr, forced))):
        run(model, InclusionPrior(dict.fromkeys(forced, 1.0)), ENGINES[engine])


@engines
def test_rows_decide_about_collinear_features(engine: str) -> None:
    model = LinearGaussian().bind(COLLINEAR)
    forced = {"x0": 1.0, "x1": 1.0}
    both, one = (
        run(model, InclusionPrior(forced | {"x3": value}), ENGINES[engine]) for value in (1.0, 0.0)
    )
    np.testing.assert_allclose(
        both.inclusion[:3], one.inclusion[:3], atol=1e-9 if engine == "exact" else 0.1
    )
    without_rows = run(
        LinearGaussian().bind(Moments.from_data(COLLINEAR)), InclusionPrior(forced), ENGINES[engine]
    )
    if engine != "vi":
        assert without_rows.inclusion[3] == without_rows.probability(["x0", "x1", "x3"]) == 0.0


@pytest.mark.parametrize(
    ("prior", "inclusion"),
    [
        (InclusionPrior([1.0, 1.0, 0.5, 0.5], max_size=2), [1, 1, 0, 0]),
        (InclusionPrior(1.0), [1, 1, 1, 1]),
        (UniformPrior(0), [0, 0, 0, 0]),
    ],
    ids=str,
)
@pytest.mark.parametrize(
    "model", [LinearGaussian().bind(simulated(4, (20, 20), seed=0)), Toy(4)], ids=type
)
@pytest.mark.parametrize("engine", ENGINES.values())
def test_one_possible_subset_is_the_answer(
    engine: Engine, model: BoundModel, prior: Prior, inclusion: list[int]
) -> None:
    posterior = run(model, prior, engine)
    evidence = model.log_ratio_many(np.array([inclusion], dtype=bool))[0]
    assert posterior.inclusion.tolist() == inclusion
    assert posterior.entropy == pytest.approx(0.0, abs=1e-12)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-9)
    assert len(posterior.masks) == 1
    assert posterior.sample(5, random_state=0).to_numpy().astype(int).tolist() == [inclusion] * 5
    if isinstance(engine, Variational):
        assert posterior.diagnostics["pareto_k"] == -np.inf
        assert posterior.reweighted.inclusion.tolist() == inclusion
        assert posterior.reweighted.log_evidence == pytest.approx(evidence, abs=1e-9)
