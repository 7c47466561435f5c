"""Searches for modes: regressions and synergies that guide them, when they stop, and what is said
of failures."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from numpy.typing import ArrayLike

from benchmarks._hidden_sums import HIDDEN_SUMS, hidden_sums
from invariance import (
    BetaBinomialPrior,
    InclusionPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
)
from invariance.exceptions import ApproximationWarning
from invariance.inference import mode_search as searching
from invariance.inference.base import RunOptions, Target
from invariance.inference.mode_search import (
    Searched,
    Synergies,
    climb,
    find_modes,
    groupings,
    leading_modes,
    search_modes,
)
from invariance.inference.replicas import CompiledSampler, sampler_of
from invariance.inference.tempering import Tempering
from invariance.kernels.active_set import Scoring, active_set
from invariance.kernels.matching_pursuit import (
    FORWARD,
    MATCHING,
    best_in_block,
    cliques,
    free_block,
    scan_cliques,
    synergy,
)
from invariance.posterior.posterior import Posterior
from quadratic_toy import PRIORS, Toy, TwoModes, brute_force, run, target_of
from replication.simulators import p450
from twins import simulated


def picked(
    X: np.ndarray, y: np.ndarray, n: int, damping: float, given: tuple[int, ...] = ()
) -> list[int]:
    """Plain twin of `_pursuit`: residuals of least squares on centred rows of unit length."""
    X = X / np.linalg.norm(X, axis=0)
    path = list(given)
    while len(path) < n:
        rest = np.column_stack([X, y])
        rest = rest - X[:, path] @ np.linalg.lstsq(X[:, path], rest, rcond=None)[0]
        gain = (rest[:, :-1].T @ rest[:, -1]) ** 2 / ((rest[:, :-1] ** 2).sum(axis=0) + damping)
        gain[path] = -1.0
        path.append(int(gain.argmax()))
    return path


def deviations(data: MultiEnvironmentData, within: bool) -> tuple[np.ndarray, np.ndarray]:
    columns = np.column_stack([data.X, data.y])
    if within:
        for e in range(data.n_environments):
            columns[data.rows(e)] -= columns[data.rows(e)].mean(axis=0)
    else:
        columns -= columns.mean(axis=0)
    return columns[:, :-1], columns[:, -1]


def compiled_of(data: MultiEnvironmentData, prior: object = None) -> CompiledSampler:
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=min(12, model.largest_size)) if prior is None else prior
    return sampler_of(
        Target(model, prior.bind(data.feature_names, model.largest_size)), 1, RunOptions()
    )


def parts_of_a_sum(p: int = 12) -> MultiEnvironmentData:
    """x0, x1 and x2 are large and add up to what drives the outcome."""
    rng = np.random.default_rng(3)
    environment = np.repeat([0, 1, 2], 80)
    X = rng.normal(size=(240, p))
    hidden = rng.normal(size=240) * (1 + environment) + environment
    X[:, :2] *= 10.0
    X[:, 2] = hidden - X[:, 0] - X[:, 1]
    y = hidden + 0.3 * rng.normal(size=240)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def explained(X: np.ndarray, y: np.ndarray, columns: list[int]) -> float:
    """R² of y on the columns"""
    residual = y - X[:, columns] @ np.linalg.lstsq(X[:, columns], y, rcond=None)[0]
    return 1.0 - residual @ residual / (y @ y)


def pursued(
    scoring: Scoring,
    outcome: int,
    groups: tuple[int, int],
    free: np.ndarray,
    damping: float,
    *given: int,
):
    """At most six columns"""
    path = np.array([[-1, *given, *[-1] * (6 - len(given))]])
    size = np.zeros(1, np.int64)
    cliques(scoring, *groups, free, 1.0, damping, np.array([outcome]), path, len(given), size)
    return path[0, 1 : size[0]].tolist()


@pytest.mark.parametrize("damping", [FORWARD, MATCHING])
@pytest.mark.parametrize("within", [True, False])
def test_pursuit_equals_its_twin(within: bool, damping: float) -> None:
    data = simulated(12, (40, 60, 50), seed=70, scale=100.0)
    scoring = LinearGaussian().bind(data).scoring()
    free = np.append(np.ones(12, bool), False)
    groups = (0, 3) if within else (3, 4)
    X, y = deviations(data, within)
    assert pursued(scoring, 12, groups, free, damping) == picked(X, y, 6, damping)
    assert pursued(scoring, 12, groups, free, damping, 9, 4) == picked(
        X, y, 6, damping, given=(9, 4)
    )
    others = [*range(5), *range(6, 12)]
    expected = [others[j] for j in picked(X[:, others], X[:, 5], 6, damping)]
    assert pursued(scoring, 5, groups, free, damping) == expected


def test_pursuit_passes_over_dependent_and_constant_columns() -> None:
    data = simulated(4, (30, 40), seed=71)
    X = np.column_stack([data.X, data.X[:, 0] - data.X[:, 1], data.environment_index.astype(float)])
    model = LinearGaussian().bind(
        MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)
    )
    free = np.append(np.ones(6, bool), False)
    found = pursued(model.scoring(), 6, (0, 2), free, MATCHING)
    assert len(found) == 4
    assert 5 not in found
    assert not {0, 1, 4} <= set(found)
    free[2] = False
    assert len(pursued(model.scoring(), 6, (0, 2), free, MATCHING)) == 3


@pytest.mark.parametrize("within", [True, False])
def test_cliques_equal_their_twin(within: bool) -> None:
    data = simulated(9, (40, 60, 50), seed=81, scale=30.0)
    target = compiled_of(data)
    groups = groupings(target)[0 if within else 1]
    X, _ = deviations(data, within)
    starts = np.array([4, 0])
    members = np.zeros((2, 4), np.int64)
    sizes = np.zeros(2, np.int64)
    for closest in (1.0, 0.05):
        cliques(
            target.scoring, *groups, target.prior.free, closest, FORWARD, starts, members, 0, sizes
        )
        for start, clique, size in zip(starts, members, sizes, strict=True):
            squared = (X.T @ X[:, start]) ** 2 / ((X**2).sum(axis=0) * (X[:, start] @ X[:, start]))
            allowed = [j for j in range(9) if j != start and squared[j] <= closest]
            expected = picked(X[:, allowed], X[:, start], min(3, len(allowed)), FORWARD)
            assert clique[:size].tolist() == [start, *(allowed[j] for j in expected)]


@pytest.mark.parametrize("within", [True, False])
def test_synergy_equals_its_twin(within: bool) -> None:
    data = parts_of_a_sum()
    target = compiled_of(data)
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
    target = compiled_of(data, prior)
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
    assert best_in_block(target.scoring, target.prior, included, block, found) == pytest.approx(
        joint.max()
    )
    np.testing.assert_array_equal(found[:8], masks[int(joint.argmax())])
    again = np.empty(9, bool)
    cliques_of = np.array([[3, 0, 0, 0, 0], clique]), np.array([1, 5])
    assert scan_cliques(
        target.scoring, target.prior, included, *cliques_of, again
    ) == pytest.approx(joint.max())
    np.testing.assert_array_equal(again, found)


def test_steepest_ascent_ends_where_no_flip_or_exchange_helps() -> None:
    data = simulated(9, (40, 50), seed=82)
    prior = InclusionPrior([0.3, 0.2, 0.5, 0.4, 0.1, 1.0, 0.6, 0.5, 0.0], max_size=5)
    target = compiled_of(data, prior)
    model = LinearGaussian().bind(data)
    bound = prior.bind(data.feature_names)

    def value(mask: np.ndarray) -> float:
        return float((model.log_ratio_many(mask) + bound.log_prob(mask[None]))[0])

    for start in ([5], [0, 1, 5], [2, 3, 4, 5, 6]):
        included = np.zeros(10, bool)
        included[start] = True
        before = value(included[:9])
        climb(target, included, active_set(3, 10, 7))
        end = included[:9]
        assert value(end) >= before
        steps = [end ^ np.eye(9, dtype=bool)[j] for j in range(9)]
        exchanges = [
            one ^ other ^ end
            for one, other in itertools.combinations(steps, 2)
            if one.sum() != other.sum()
        ]
        assert max(map(value, steps + exchanges)) <= value(end) + 1e-6


def test_one_step_leads_to_the_parts_of_the_sum() -> None:
    data = parts_of_a_sum(p=40)
    target = compiled_of(data)
    steps = Synergies(target, np.flatnonzero(target.prior.free))
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=12).bind(data.feature_names)
    elsewhere = target.start.copy()
    elsewhere[[7, 9, 11]] = True
    for start in (target.start, elsewhere):
        found, value = steps.best_step(start)
        assert np.flatnonzero(found).tolist() == [0, 1, 2]
        assert value == pytest.approx(
            model.log_ratio(found[:-1]) + prior.log_prob(found[None, :-1])[0]
        )
    again, same = steps.best_step(found)
    assert same == pytest.approx(value)
    np.testing.assert_array_equal(again, found)


def test_what_the_searches_found() -> None:
    masks = np.eye(6, dtype=bool)
    ends = [
        (masks[0], -20.0),
        (masks[1], -1.0),
        (masks[2], -0.5),
        (masks[1], -1.0),
        (masks[3], -9.0),
    ]
    searched = Searched(np.zeros(6), ends)
    assert searched.n_near == 3
    assert not searched.hidden
    assert Searched(np.zeros(6), ends[:3]).hidden
    modes, values = leading_modes(ends)
    assert values.tolist() == [-0.5, -1.0, -9.0]
    np.testing.assert_array_equal(modes, masks[[2, 1, 3]])


class Rugged(Toy):
    """Every subset has a value of its own, unlike those of its neighbours."""

    def log_ratio_many(self, masks: ArrayLike) -> np.ndarray:
        mixed = (
            np.sin(np.asarray(masks) @ (1.0 + self.centre + np.sqrt(np.arange(len(self.centre)))))
            * 1e5
        )
        return -1000.0 - 30.0 * np.log(-np.log(1e-9 + (1 - 2e-9) * (mixed - np.floor(mixed))))


@pytest.mark.parametrize("model", [Rugged, Toy])
def test_searches_go_on_until_several_come_near_the_best(model: type[Toy]) -> None:
    target = target_of(model(21))
    done: list[int] = []
    options = RunOptions(rng=np.random.default_rng(0))
    sampler = sampler_of(target, 2, options, lambda steps, text: done.append(steps))
    found = search_modes(sampler, np.array([0.3, 1.0]), 4, searches=2)
    assert found.hidden == (model is Rugged)
    assert len(found.ends) == len(found.states) == (16 if model is Rugged else 4)
    assert sum(done) == len(found.ends)
    assert found.best_met(sampler)[1] == found.best[1]
    for mask, value in found.ends:
        assert value == pytest.approx(float(target.log_joint(mask[None])[0]))
        assert target.log_joint(mask ^ np.eye(21, dtype=bool)).max() < value
    for masks, log_ratios in found.states:
        np.testing.assert_allclose(log_ratios, target.model.log_ratio_many(masks))


def test_searches_find_the_best_subset() -> None:
    for target in (
        target_of(TwoModes(8)),
        target_of(Toy(8, seed=6, strength=10.0), PRIORS["inclusion"]),
    ):
        masks, probability, _ = brute_force(target)
        modes = find_modes(target, RunOptions(rng=np.random.default_rng(0), progress=False))
        np.testing.assert_array_equal(modes[0], masks[probability.argmax()])
        assert len(modes) == 1 + isinstance(target.model, TwoModes)


def needle() -> MultiEnvironmentData:
    """Ten true features among 450: any nine of them are 190 nats worse, and subsets 60 nats worse
    are easy to find."""
    rng = np.random.default_rng([31, 10, 50])
    return p450(10, rng).sample(50, rng)


def sampled(data: MultiEnvironmentData | Moments, seed: int = 0, max_size: int = 15) -> Posterior:
    return run(LinearGaussian().bind(data), BetaBinomialPrior(max_size=max_size), Tempering(), seed)


@pytest.mark.slow
def test_a_needle_is_found() -> None:
    data = needle()
    posterior = sampled(data, 31, 20)
    np.testing.assert_array_equal(posterior.mode_mask, data.truth)
    assert posterior.diagnostics["searches"] % 4 == 0
    assert (
        1
        <= posterior.diagnostics["searches_that_found_the_best"]
        < posterior.diagnostics["searches"]
    )


@pytest.mark.slow
def test_parts_so_large_that_only_rows_can_tell() -> None:
    """The third part has a share of 1e-11 left when the others are known: beyond second moments."""
    rng = np.random.default_rng(8)
    environment = np.repeat(range(6), 80)
    X = rng.normal(size=(480, 60))
    hidden = rng.normal(size=480) * (1 + environment) + environment
    X[:, :2] *= 3e5
    X[:, 2] = hidden - X[:, 0] - X[:, 1]
    y = hidden + 0.3 * rng.normal(size=480)
    X[:, 3:12] = y[:, None] * rng.uniform(0.3, 1.5, (6, 9))[environment] + rng.normal(size=(480, 9))
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert sampled(data).mode == ("x0", "x1", "x2")
        # Without rows nothing can be said of the three together.
        without_rows = sampled(Moments.from_data(data))
    assert without_rows.probability(["x0", "x1", "x2"]) == 0.0
    assert any("x2" in note and "collinear" in note for note in without_rows.notes)


def numbered(number: int) -> MultiEnvironmentData:
    """A data set of benchmarks/hidden_sums.py"""
    return hidden_sums(HIDDEN_SUMS[number % len(HIDDEN_SUMS)], np.random.default_rng([7, number]))


def log_joint(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    model = LinearGaussian().bind(data)
    prior = BetaBinomialPrior(max_size=15).bind(data.feature_names, model.largest_size)
    return float((model.log_ratio_many(mask) + prior.log_prob(mask[None]))[0])


# By single flips alone all searches of this one agree on a subset that is far worse than the truth.
HARD = 17


def test_hidden_sums_are_found() -> None:
    data = numbered(HARD)
    posterior = sampled(data, HARD)
    assert log_joint(data, posterior.mode_mask) >= log_joint(data, data.truth) - 1e-6


def blind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches are left to single flips."""
    monkeypatch.setattr(
        searching, "Synergies", lambda sampler, starts: Synergies(sampler, starts[:0])
    )
    monkeypatch.setattr(
        searching, "regression_path", lambda target, *_: np.zeros(target.n_columns, bool)
    )


def test_what_is_missed_is_not_called_agreement(monkeypatch: pytest.MonkeyPatch) -> None:
    blind(monkeypatch)
    data = numbered(HARD)
    with pytest.warns(ApproximationWarning, match="a better one is hidden") as caught:
        posterior = sampled(data, HARD)
    assert log_joint(data, posterior.mode_mask) < log_joint(data, data.truth) - 10.0
    assert "searches=20" in str(caught[0].message)
    assert not posterior.diagnostics["converged"]


@pytest.mark.slow
def test_a_step_that_finds_a_better_subset_keeps_the_searches_going(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing joint is known beforehand; trying the cliques on the best subset leads to the parts
    all the same."""
    monkeypatch.setattr(Synergies, "leading", lambda self: [])
    data = numbered(18)
    posterior = sampled(data, 18)
    assert log_joint(data, posterior.mode_mask) >= log_joint(data, data.truth) - 1e-6
    assert posterior.diagnostics["searches"] > 16
