"""The predictive posterior of many features: a search along a soft gate, and a hard test of what it finds."""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from conformance_cases import MODELS, table
from invariance import (
    BetaBinomialPrior,
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.decisions import predictive as predictive_search
from invariance.decisions.predictive import (
    CompiledNeighbours,
    PredictiveModel,
    SoftGate,
    annealed,
    flipped_log_prior,
    neighbours_of,
    plain_neighbours,
    predictive_posterior,
)
from invariance.decisions.rules import Findings
from invariance.inference.base import RunOptions, Target
from invariance.kernels.active_set import active_set, flip_log_shares
from invariance.models.base import BoundModel
from invariance.models.invariance_test import Tolerance
from regression_cases import plain_table, regression_data
from twins import all_masks, log_ratio

TOLERANCE = Tolerance()
UNIFORM, TEMPERING = UniformPrior(), Tempering()


def many(p: int = 10, seed: int = 0) -> MultiEnvironmentData:
    """Three environments, which move all features but act on the outcome through x0 and x1 only; the last follows the
    outcome, differently in each. Feature x2 is constant in the first."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(3), (70, 80, 90))
    X = rng.normal(size=(240, p)) + rng.normal(size=(3, p))[environment]
    X[environment == 0, 2] = 1.5
    y = 1.2 * X[:, 0] - 0.8 * X[:, 1] + rng.normal(size=240)
    X[:, -1] = np.array([1.0, -0.4, 2.0])[environment] * y + 0.5 * rng.normal(size=240)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def target_of(model: BoundModel, prior=UNIFORM) -> Target:
    return Target(model, prior.bind(model.feature_names, model.largest_size))


def posterior_of(target: Target, engine=TEMPERING, seed: int = 0, n_jobs: int = 1, **known):
    options = RunOptions(n_jobs, np.random.default_rng(seed), progress=False)
    return predictive_posterior(target, TOLERANCE, engine, options, **known)


def gate_of(price: float, n_rows: int, width: float, kappa: float) -> SoftGate:
    return SoftGate(price, n_rows * (TOLERANCE.delta + TOLERANCE.tau**2 / 2.0), width, kappa)


def share_left(data: MultiEnvironmentData, rows: np.ndarray, mask: np.ndarray) -> float:
    design = np.column_stack([np.ones(len(rows)), data.X[rows][:, mask]])
    y = data.y[rows]
    residual = y - design @ np.linalg.lstsq(design, y, rcond=None)[0]
    return float(residual @ residual / np.sum((y - y.mean()) ** 2))


@pytest.mark.parametrize("members", [[2], [0, 2, 4]])
def test_shares_of_all_flips(members: list[int]) -> None:
    data = many(6)
    scoring = LinearGaussian().bind(data).scoring()
    included = np.zeros(7, dtype=bool)
    included[members] = True
    logs = np.empty((4, 7))
    assert flip_log_shares(scoring, active_set(4, 7, 7), included, logs)
    groups = [*(data.rows(e) for e in range(3)), np.arange(data.n_rows)]
    for j in range(7):
        mask = included.copy()
        mask[j] ^= j < 6
        np.testing.assert_allclose(logs[:, j], [np.log(share_left(data, rows, mask[:6])) for rows in groups], atol=1e-9)


def test_flips_that_the_rows_cannot_decide() -> None:
    data = many(6)
    X = np.column_stack([data.X, data.X[:, 0] + data.X[:, 1]])
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, data.y, data.environment_index))
    included = np.array([1, 1, 0, 0, 0, 0, 1], dtype=bool)
    assert (neighbours_of(target_of(model), gate_of(5.0, 240, 1.0, 5.0))(included) == -np.inf).all()
    rng = np.random.default_rng(0)
    few = MultiEnvironmentData.from_arrays(rng.normal(size=(14, 6)), rng.normal(size=14), np.repeat([0, 1], 7))
    neighbours = neighbours_of(target_of(LinearGaussian().bind(few)), gate_of(5.0, 14, 1.0, 5.0))
    assert (neighbours(np.array([1, 1, 1, 1, 1, 0], dtype=bool)) > -np.inf).tolist() == [True] * 5 + [False]


@pytest.mark.parametrize("kappa", [0.0, 5.0, 80.0])
def test_compiled_neighbours_are_those_of_any_model(kappa: float) -> None:
    data = many(7)
    target = target_of(LinearGaussian().bind(data))
    gate = gate_of(9.0, data.n_rows, 1.0, kappa)
    compiled, plain = neighbours_of(target, gate), plain_neighbours(target.model, gate)
    assert isinstance(compiled, CompiledNeighbours)
    for mask in all_masks(7)[::5]:
        np.testing.assert_allclose(compiled(mask), plain(mask), rtol=1e-8, atol=1e-7)


def test_what_the_soft_gate_asks() -> None:
    data = many(5)
    model, n = LinearGaussian().bind(data), data.n_rows
    gate = gate_of(9.0, n, 2.0, 7.0)
    excess = n * (0.02 + 0.1**2 / 2)
    mask = np.array([True, True, False, False, True])
    null, (gain, _) = model.null_many(mask[None]), model.prediction_many(mask[None])
    allowed = -2 * null.expected[0] + excess + 2.0 * np.sqrt(4 * null.variance[0] + 4 * excess)
    deviance = -2 * log_ratio(data, mask)
    assert deviance > allowed
    expected = gain[0] - 0.5 * 9.0 * 3 - 0.5 * 7.0 * (deviance - allowed)
    without = np.array([True, True, False, False, False])
    assert neighbours_of(target_of(model), gate)(without)[4] == pytest.approx(expected)


@pytest.mark.parametrize(
    "prior",
    [UniformPrior(max_size=3), BetaBinomialPrior(1, 2), InclusionPrior({"x1": 1.0, "x3": 0.0, "x4": 0.9}, max_size=4)],
)
@pytest.mark.parametrize("members", [[], [1], [0, 1, 4]])
def test_the_prior_of_flips(prior, members: list[int]) -> None:
    bound = prior.bind(tuple(f"x{j}" for j in range(6)), 6)
    mask = bound.forced_in.copy()
    mask[members] = True
    flipped = mask ^ np.eye(6, dtype=bool)
    np.testing.assert_allclose(
        flipped_log_prior(bound, mask) - bound.log_normalizer, bound.log_prob(flipped), atol=1e-12
    )


@pytest.mark.parametrize(
    "prior", [UniformPrior(), BetaBinomialPrior(max_size=4), InclusionPrior({"x5": 1.0, "x3": 0.0, "x4": 0.9})]
)
@pytest.mark.parametrize("engine", [Tempering(), Variational()])
def test_it_is_the_exact_one_where_that_can_be_had(prior, engine) -> None:
    target = target_of(LinearGaussian().bind(many()), prior)
    exact, found = posterior_of(target, Enumeration()), posterior_of(target, engine)
    np.testing.assert_allclose(found.inclusion, exact.inclusion, atol=1e-6)
    np.testing.assert_allclose(found.pairwise, exact.pairwise, atol=1e-6)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)
    assert found.entropy == pytest.approx(exact.entropy, abs=1e-5)
    assert found.mode == exact.mode
    np.testing.assert_allclose(found.log_ratios[:3], exact.log_ratios[:3], atol=1e-7)
    assert asdict(found.evidence(found.mode)) == pytest.approx(asdict(exact.evidence(exact.mode)), nan_ok=True)


@pytest.mark.parametrize(
    "model",
    [
        *(
            MODELS[name].bind(table(grouped, False))
            for name in ("without abilities", "unit noise")
            for grouped in (0, 1)
        ),
        LinearGaussian().bind(table(True, binary=False)),
        LinearGaussian(second_moments="on demand").bind(many(6)),
    ],
)
def test_models_without_abilities_and_features_of_several_columns(model: BoundModel) -> None:
    target = target_of(model)
    exact, found = posterior_of(target, Enumeration()), posterior_of(target)
    np.testing.assert_allclose(found.inclusion, exact.inclusion, atol=1e-6)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-6)


def test_threads_and_seeds() -> None:
    target = target_of(LinearGaussian().bind(many(16)), BetaBinomialPrior(max_size=6))
    one, two, other = posterior_of(target), posterior_of(target, n_jobs=2), posterior_of(target, seed=1)
    np.testing.assert_array_equal(one.masks, two.masks)
    np.testing.assert_array_equal(one.inclusion, two.inclusion)
    assert one.mode == other.mode == ("x0", "x1")
    assert one.diagnostics["subsets_visited"] != other.diagnostics["subsets_visited"]


def test_what_the_result_answers() -> None:
    target = target_of(LinearGaussian().bind(many()))
    posterior = posterior_of(target)
    exact = posterior_of(target, Enumeration())
    draws = posterior.sample(2000, random_state=0)
    np.testing.assert_allclose(draws.mean(), posterior.inclusion, atol=0.05)
    everything = np.ones(10, dtype=bool)
    assert posterior.probability(everything) == 0.0
    assert posterior.probability(("x0", "x1", "x5")) == pytest.approx(exact.probability(("x0", "x1", "x5")))
    leading = posterior.credible_subsets(0.9)
    assert leading["probability"].sum() >= 0.9
    found = posterior.diagnostics
    assert found["subsets_visited"] <= found["subsets_tested"] <= 1024
    assert found["subsets_compatible"] == len(posterior.masks)
    assert (PredictiveModel(target.model, TOLERANCE).log_ratio_many(posterior.masks) > -np.inf).all()
    assert len(posterior.notes) == 1


def test_nothing_compatible() -> None:
    rng = np.random.default_rng(1)
    environment = np.repeat(range(3), 100)
    X = rng.normal(size=(300, 8))
    y = 5.0 * environment + np.array([1.0, 3.0, 9.0])[environment] * rng.normal(size=300)
    target = target_of(LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, environment)))
    assert posterior_of(target) is None
    assert posterior_of(target, Enumeration()) is None


def test_known_subsets_are_tested(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a search that goes nowhere, what is known and what lies around it is the answer."""
    monkeypatch.setattr(predictive_search, "_STEPS", 1)
    target = target_of(LinearGaussian().bind(many(40)), BetaBinomialPrior(max_size=8))
    known = np.zeros((1, 40), dtype=bool)
    known[0, [0, 1, 7, 9]] = True
    posterior = posterior_of(target, known=known)
    assert posterior.mode == ("x0", "x1")
    assert posterior.diagnostics["searches_that_found_the_best"] == 0
    assert len(posterior.notes) == 2


def test_what_lies_around_is_tested_up_to_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    target = target_of(LinearGaussian().bind(many(40)))
    everything = posterior_of(target, known=None)
    monkeypatch.setattr(predictive_search, "_MOST_AROUND", 5)
    some = posterior_of(target)
    assert some.diagnostics["subsets_tested"] == some.diagnostics["subsets_visited"] + 5
    assert not some.diagnostics["complete"]
    assert everything.diagnostics["subsets_tested"] > some.diagnostics["subsets_tested"]


def test_a_search_visits_only_what_is_open() -> None:
    model = LinearGaussian().bind(many())
    target = target_of(model, InclusionPrior({"x5": 1.0, "x3": 0.0}, max_size=4))
    neighbours = neighbours_of(target, gate_of(9.0, 240, 1.0, 5.0))
    visited = annealed(target, neighbours, np.random.default_rng(0), 100)
    assert len(visited) > 10
    assert len(np.unique(visited, axis=0)) == len(visited)
    assert (target.prior.log_prob(visited) > -np.inf).all()


def test_exact_predictive_posterior_is_brute_force() -> None:
    model = Logistic().bind(regression_data(*plain_table(False, n=150, p=6)))
    prior = InclusionPrior({"x2": 1.0}).bind(model.feature_names, model.largest_size)
    target = Target(model, prior)
    options = RunOptions(1, np.random.default_rng(0), progress=False)
    tolerance = Tolerance.strict(0.05)
    findings = Findings(target, Enumeration().run(target, options), Enumeration(), options, tolerance)
    masks = (np.arange(64)[:, None] >> np.arange(6) & 1).astype(bool)
    joint = PredictiveModel(model, tolerance).log_ratio_many(masks) + prior.log_prob(masks)
    weights = np.exp(joint - joint.max())
    assert 0 < (weights > 0.0).sum() < 32
    predictive = findings.predictive
    np.testing.assert_allclose(predictive.inclusion, weights @ masks / weights.sum(), atol=1e-8)
    np.testing.assert_array_equal(predictive.mode_mask, masks[joint.argmax()])


def test_guessed_neighbours_are_near_the_plain_ones() -> None:
    model = Logistic().bind(regression_data(*plain_table(False, n=200)))
    target = Target(model, InclusionPrior(0.5).bind(model.feature_names, model.largest_size))
    gate = gate_of(8.0, model.n_rows, 0.0, 5.0)
    mask = np.array([True, False, False, False, False])
    guessed, plain = neighbours_of(target, gate)(mask), plain_neighbours(model, gate)(mask)
    assert (guessed != plain).any()
    np.testing.assert_allclose(guessed, plain, atol=1.0 + 0.2 * np.ptp(plain))
    assert guessed.argmax() == plain.argmax()
