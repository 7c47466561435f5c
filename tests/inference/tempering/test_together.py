"""Features that help only together: the cliques they form, and that no mode made of them is missed in silence."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from test_searching import Bind, deviations, picked

from invariance import BIP, BetaBinomialPrior, InclusionPrior, LinearGaussian, MultiEnvironmentData
from invariance.exceptions import ApproximationWarning
from invariance.inference import modes as searching
from invariance.inference.base import RunOptions, Target
from invariance.inference.modes import Synergies, climb, groupings
from invariance.inference.tempering.engine import Tempering
from invariance.inference.tempering.ladders import CompiledTarget
from invariance.inference.tempering.posterior import TemperingPosterior
from invariance.kernels.active_set import active_set
from invariance.kernels.search import FORWARD, best_in_block, cliques, free_block, scan_cliques, synergy
from invariance.models.gaussian import GaussianOnDemand
from invariance.simulation import HIDDEN_SUMS, hidden_sums
from twins import simulated


def target_of(data: MultiEnvironmentData, prior: object = None, bind: Bind | None = None) -> Target:
    model = (bind or LinearGaussian().bind)(data)
    prior = BetaBinomialPrior(max_size=min(12, model.largest_size)) if prior is None else prior
    return CompiledTarget.of(Target(model, prior.bind(data.feature_names, model.largest_size)))


def parts_of_a_sum(seed: int = 3, p: int = 12, copies: bool = False) -> MultiEnvironmentData:
    """x0, x1 and x2 are large and add up to what drives the outcome; x3 and, with copies, x4-x6 follow them closely."""
    rng = np.random.default_rng(seed)
    environment = np.repeat([0, 1, 2], 80)
    X = rng.normal(size=(240, p))
    hidden = rng.normal(size=240) * (1 + environment) + environment
    X[:, :2] *= 10.0
    X[:, 2] = hidden - X[:, 0] - X[:, 1]
    if copies:
        X[:, 4:7] = X[:, :3] + 0.5 * rng.normal(size=(240, 3))
    y = hidden + 0.3 * rng.normal(size=240)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def explained(X: np.ndarray, y: np.ndarray, columns: list[int]) -> float:
    """R² of y on the columns"""
    residual = y - X[:, columns] @ np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
    return 1.0 - residual @ residual / (y @ y)


@pytest.mark.parametrize("within", [True, False])
@pytest.mark.parametrize("bind", [LinearGaussian().bind, GaussianOnDemand], ids=["dense", "on demand"])
def test_cliques_equal_their_twin(bind: Bind, within: bool) -> None:
    data = simulated(9, (40, 60, 50), seed=81, scale=30.0)
    target = target_of(data, bind=bind)
    groups = groupings(target)[0 if within else 1]
    X, _ = deviations(data, within)
    starts, members, sizes = np.array([4, 0]), np.zeros((2, 4), np.int64), np.zeros(2, np.int64)
    for closest in (1.0, 0.05):
        cliques(target.scoring, *groups, target.prior.free, closest, starts, members, sizes)
        for start, clique, size in zip(starts, members, sizes, strict=True):
            squared = (X.T @ X[:, start]) ** 2 / ((X**2).sum(axis=0) * (X[:, start] @ X[:, start]))
            allowed = [j for j in range(9) if j != start and squared[j] <= closest]
            expected = picked(X[:, allowed], X[:, start], min(3, len(allowed)), FORWARD)
            assert clique[:size].tolist() == [start, *(allowed[j] for j in expected)]


@pytest.mark.parametrize("within", [True, False])
def test_synergy_equals_its_twin(within: bool) -> None:
    data = parts_of_a_sum()
    target = target_of(data)
    groups = groupings(target)[0 if within else 1]
    X, y = deviations(data, within)
    for clique in ([0, 1, 2, 5], [7, 8, 9], [2, 5, 0, 1]):
        gains = [
            explained(X, y, clique[:k]) - sum(explained(X, y, [j]) for j in clique[:k])
            for k in range(1, len(clique) + 1)
        ]
        value, size, left = synergy(target.scoring, *groups, np.array(clique))
        assert value == pytest.approx(max(0.0, *gains), abs=1e-9)
        assert left == pytest.approx(1.0 - explained(X, y, clique), abs=1e-9)
        if value > 0.1:
            assert size == int(np.argmax(gains)) + 1
    assert synergy(target.scoring, *groups, np.array([0, 1, 2]))[0] > 0.8


def test_the_best_in_a_block_equals_enumeration() -> None:
    data = simulated(8, (40, 50), seed=82)
    prior = InclusionPrior([0.3, 0.2, 0.5, 0.4, 0.1, 1.0, 0.6, 0.5], max_size=5)
    target = target_of(data, prior)
    model = LinearGaussian().bind(data)
    bound = prior.bind(data.feature_names)
    included = np.array([1, 0, 1, 0, 0, 1, 0, 1, 0], bool)
    clique = np.array([6, 1, 4, 5, 0])
    block = free_block(target.prior, clique, clique.size)
    assert block.tolist() == [0, 1, 4, 6]
    masks = []
    for values in itertools.product([False, True], repeat=4):
        mask = included[:8].copy()
        mask[block] = values
        masks.append(mask)
    joint = model.log_ratio_many(np.array(masks)) + bound.log_prob(np.array(masks))
    found = np.empty(9, bool)
    assert best_in_block(target.scoring, target.prior, included, block, found) == pytest.approx(joint.max())
    np.testing.assert_array_equal(found[:8], masks[int(joint.argmax())])
    again = np.empty(9, bool)
    cliques_of = np.array([[3, 0, 0, 0, 0], clique]), np.array([1, 5])
    assert scan_cliques(target.scoring, target.prior, included, *cliques_of, again) == pytest.approx(joint.max())
    np.testing.assert_array_equal(again, found)


def test_steepest_ascent_ends_where_no_flip_or_exchange_helps() -> None:
    data = simulated(9, (40, 50), seed=86)
    prior = InclusionPrior([0.3, 0.2, 0.5, 0.4, 0.1, 1.0, 0.6, 0.5, 0.0], max_size=5)
    target, model, bound = target_of(data, prior), LinearGaussian().bind(data), prior.bind(data.feature_names)

    def value(mask: np.ndarray) -> float:
        return float((model.log_ratio_many(mask) + bound.log_prob(mask[None]))[0])

    for start in ([5], [0, 1, 5], [2, 3, 4, 5, 6]):
        included = np.zeros(10, bool)
        included[start] = True
        before = value(included[:9])
        climb(target.scoring, target.prior, included, active_set(3, 10, 7), 200)
        end = included[:9]
        assert value(end) >= before
        steps = [end ^ np.eye(9, dtype=bool)[j] for j in range(9)]
        exchanges = [one ^ other ^ end for one, other in itertools.combinations(steps, 2) if one.sum() != other.sum()]
        assert max(map(value, steps + exchanges)) <= value(end) + 1e-6


@pytest.mark.parametrize("copies", [False, True])
def test_joint_columns_are_the_parts_of_the_sum(copies: bool) -> None:
    target = target_of(parts_of_a_sum(copies=copies))
    found = Synergies.of(target, np.flatnonzero(target.prior.free)).with_regressions(target)
    assert found[:3].all()
    rng = np.random.default_rng(84)
    noise = MultiEnvironmentData.from_arrays(rng.normal(size=(240, 60)), rng.normal(size=240), np.repeat([0, 1, 2], 80))
    unrelated = target_of(noise)
    assert Synergies.of(unrelated, np.flatnonzero(unrelated.prior.free)).with_regressions(unrelated).sum() == 0


def test_one_step_leads_to_the_parts_of_the_sum() -> None:
    data = parts_of_a_sum(p=40)
    target = target_of(data)
    steps = Synergies.of(target, np.flatnonzero(target.prior.free))
    model, prior = LinearGaussian().bind(data), BetaBinomialPrior(max_size=12).bind(data.feature_names)
    elsewhere = target.start.copy()
    elsewhere[[7, 9, 11]] = True
    for start in (target.start, elsewhere):
        found, value = steps.best_step(target, start)
        assert np.flatnonzero(found).tolist() == [0, 1, 2]
        assert value == pytest.approx(model.log_ratio(found[:-1]) + prior.log_prob(found[None, :-1])[0])
    again, same = steps.best_step(target, found, n_jobs=2)
    assert same == pytest.approx(value)
    np.testing.assert_array_equal(again, found)


def test_parts_so_large_that_only_rows_can_tell() -> None:
    """The third part has a share of 1e-11 left when the others are known: beyond second moments."""
    rng = np.random.default_rng(8)
    environment = np.repeat(range(6), 80)
    X = rng.normal(size=(480, 150))
    hidden = rng.normal(size=480) * (1 + environment) + environment
    X[:, :2] *= 3e5
    X[:, 2] = hidden - X[:, 0] - X[:, 1]
    y = hidden + 0.3 * rng.normal(size=480)
    X[:, 3:12] = y[:, None] * rng.uniform(0.3, 1.5, (6, 9))[environment] + rng.normal(size=(480, 9))
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sampled(data, Tempering()).mode == ("x0", "x1", "x2")
        # Without rows nothing can be said of the three together.
        model = LinearGaussian().bind(LinearGaussian().bind(data).moments)
        prior = BetaBinomialPrior(max_size=15).bind(data.feature_names)
        without_rows = Tempering().run(Target(model, prior), RunOptions(rng=np.random.default_rng(0), progress=False))
    assert without_rows.probability(["x0", "x1", "x2"]) == 0.0
    assert any("x2" in note and "collinear" in note for note in without_rows.notes)


def sampled(data: MultiEnvironmentData, engine: Tempering, seed: int = 0) -> TemperingPosterior:
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=15).bind(data.feature_names, model.largest_size)
    return engine.run(Target(model, prior), RunOptions(rng=np.random.default_rng(seed), progress=False))


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches are left to single flips."""
    of_columns = Synergies.of
    monkeypatch.setattr(Synergies, "of", lambda target, starts, n_jobs=None: of_columns(target, starts[:0], n_jobs))
    monkeypatch.setattr(searching, "regression_path", lambda target, *_: np.zeros(target.n_columns, bool))


def test_the_missed_mode_of_a_hidden_sum_is_found() -> None:
    """Three parts of a sum among 400 features, 37 of which follow the outcome."""
    rng = np.random.default_rng(4)
    environment = np.repeat(range(4), 150)
    X = rng.normal(size=(600, 400))
    hidden = rng.normal(size=600) * (1 + environment) + environment
    first, second = 10.0 * rng.normal(size=(2, 600)) * (1 + environment)
    X[:, 0], X[:, 1], X[:, 2] = first, second, hidden - first - second
    y = hidden + 0.3 * rng.normal(size=600)
    X[:, 3:40] = y[:, None] * rng.uniform(0.3, 1.5, (4, 37))[environment] + rng.normal(size=(600, 37))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ApproximationWarning)
        model = BIP(prior=BetaBinomialPrior(max_size=15), random_state=0).fit(X, y, environments=environment)
    assert (model.inclusion_probabilities_[:3] > 0.95).all()
    assert "replicas agree" in " ".join(model.posterior_.notes)


def numbered(number: int) -> MultiEnvironmentData:
    """A data set of benchmarks/hidden_sums.py"""
    return hidden_sums(HIDDEN_SUMS[number % len(HIDDEN_SUMS)], np.random.default_rng([7, number]))


def log_joint(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=15).bind(data.feature_names, model.largest_size)
    return float((model.log_ratio_many(mask) + prior.log_prob(mask[None]))[0])


# By single flips alone all searches of these agree on subsets that are 20 to 270 nats worse than the truth.
HARD = (17, 18, 32)


@pytest.mark.parametrize("number", HARD)
def test_hidden_sums_are_found(number: int) -> None:
    data = numbered(number)
    posterior = sampled(data, Tempering(), number)
    assert log_joint(data, posterior.mode_mask) >= log_joint(data, data.truth) - 1e-6


@pytest.mark.parametrize("number", HARD)
def test_what_is_missed_is_not_called_agreement(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)
    data = numbered(number)
    with pytest.warns(ApproximationWarning, match="a better one is hidden") as caught:
        posterior = sampled(data, Tempering(), number)
    assert log_joint(data, posterior.mode_mask) < log_joint(data, data.truth) - 10.0
    assert "searches=20" in str(caught[0].message)
    assert not any("agree" in note for note in posterior.notes)
    assert not posterior.diagnostics["converged"]


def test_a_step_that_finds_a_better_subset_keeps_the_searches_going(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing joint is known beforehand; trying the cliques on the best subset leads to the parts all the same."""
    monkeypatch.setattr(Synergies, "leading", lambda self, n_columns: [])
    data = numbered(18)
    posterior = sampled(data, Tempering(), 18)
    assert log_joint(data, posterior.mode_mask) >= log_joint(data, data.truth) - 1e-6
    assert posterior.diagnostics["searches"] > 16


@pytest.mark.parametrize("kind", HIDDEN_SUMS)
def test_hidden_sums(kind: str) -> None:
    """The truth is invariant, and worth nothing without any one of its features."""
    data = hidden_sums(kind, np.random.default_rng(3))
    model = LinearGaussian().bind(data)
    tails = model.invariance_tails(data.truth[None], model.log_ratio_many(data.truth))
    assert tails.probability[0] > 1e-4
    without = np.array([data.truth & (np.arange(data.n_features) != j) for j in np.flatnonzero(data.truth)])
    assert (model.log_ratio_many(without) < model.log_ratio(data.truth) - 3.0).all()
    again = hidden_sums(kind, np.random.default_rng(3))
    np.testing.assert_array_equal(again.X, data.X)


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="kind='sum' is not known: use 'plain', 'parents'"):
        hidden_sums("sum", np.random.default_rng(0))
