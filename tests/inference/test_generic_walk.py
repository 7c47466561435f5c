"""All subsets in several blocks: those of models without a walk of their own, and features that every subset holds."""

from __future__ import annotations

import numpy as np
import pytest

from invariance import Enumeration, InclusionPrior, LinearGaussian, MultiEnvironmentData
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import (
    DenseBlocks,
    ListedBlocks,
    count_steps,
    count_subsets,
    walk_of,
)
from invariance.inference.variational.ascent import FreeSpace
from invariance.models.base import BoundModel
from invariance.models.walks import ModelWalk
from invariance.moments import Moments
from invariance.priors.base import PriorTerms
from quadratic_toy import PRIORS, Toy, brute_force, target_of
from twins import all_masks

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
NOTHING = np.empty(0, np.int64)


def small_blocks(monkeypatch: pytest.MonkeyPatch, features: int, listed: int = 8) -> None:
    monkeypatch.setattr("invariance.models.walks.LOW_FEATURES", features)
    monkeypatch.setattr("invariance.kernels.subset_tree.LOW_FEATURES", features)
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", listed)


def assert_exact(target: Target) -> None:
    posterior = Enumeration().run(target, RunOptions(1, np.random.default_rng(0), progress=False))
    masks, probability, evidence = brute_force(target)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_allclose(posterior.pairwise, (masks.T * probability) @ masks, atol=1e-9)
    np.testing.assert_array_equal(posterior.mode_mask, masks[probability.argmax()])


# -------------------------------------------------------------------- features that every subset holds


def correlated(p: int, groups: dict[str, list[str]] | None = None) -> MultiEnvironmentData:
    """The last column follows the first, the cause of the outcome."""
    rng = np.random.default_rng(0)
    environment = np.repeat([0, 1, 2], 70)
    X = rng.normal(size=(210, p)) + rng.normal(size=(3, p))[environment]
    X[:, -1] += X[:, 0]
    y = X[:, 0] + rng.normal(size=210)
    return MultiEnvironmentData.from_arrays(X, y, environment, groups=groups)


CASES = {
    "single": (correlated(8), {"x0": 1.0}),
    "two forced, one out": (correlated(8), {"x0": 1.0, "x7": 1.0, "x3": 0.0}),
    "last forced": (correlated(8), {"x7": 1.0, "x1": 0.3}),
    "grouped": (correlated(10, {"g": ["x2", "x3", "x4"], "h": ["x8", "x9"]}), {"x0": 1.0}),
    "forced group": (correlated(10, {"g": ["x0", "x1"], "h": ["x8", "x9"], "k": ["x4", "x5"]}), {"g": 1.0}),
}


def forced_target(case: str, with_rows: bool = True) -> Target:
    data, probabilities = CASES[case]
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    return target_of(model, InclusionPrior(probabilities))


@pytest.mark.parametrize("with_rows", [True, False], ids=["rows", "moments alone"])
@pytest.mark.parametrize("low", [0, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_forced_features_in_several_blocks(
    monkeypatch: pytest.MonkeyPatch, case: str, low: int, with_rows: bool
) -> None:
    small_blocks(monkeypatch, low)
    assert_exact(forced_target(case, with_rows))


@pytest.mark.parametrize("case", CASES)
def test_the_table_of_all_draws_has_the_forced_features(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    small_blocks(monkeypatch, 3)
    space = FreeSpace(forced_target(case))
    expected = space.target.model.log_ratio_many(space.target.masks(space.table_draws))
    np.testing.assert_allclose(space.table, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("groups", [None, {"g": ["x14", "x15"]}], ids=["single", "grouped"])
def test_more_free_features_than_a_block_holds(groups: dict[str, list[str]] | None) -> None:
    data = correlated(16 if groups is None else 17, groups)
    target = target_of(LinearGaussian().bind(data), InclusionPrior({"x0": 1.0}))
    assert len(target.free) == 15
    assert_exact(target)
    space = FreeSpace(target)
    expected = target.model.log_ratio_many(target.masks(space.table_draws))
    np.testing.assert_allclose(space.table, expected, rtol=1e-8, atol=1e-8)


# -------------------------------------------------------------------- models without a walk of their own


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("hole", [(), (0, 3), (4,)], ids=str)
def test_a_model_without_a_walk_in_several_blocks(
    monkeypatch: pytest.MonkeyPatch, hole: tuple[int, ...], prior: str
) -> None:
    small_blocks(monkeypatch, 2)
    assert_exact(target_of(Toy(6, hole=hole), PRIORS[prior]))


FREE, FORCED = np.array([4, 0, 2, 5, 1]), np.array([3])


def expected_of(draws: np.ndarray) -> np.ndarray:
    """log Λ of draws (n, 5) over FREE, NaN in the hole."""
    masks = np.zeros((len(draws), 6), dtype=bool)
    masks[:, FREE] = draws
    masks[:, FORCED] = True
    values = Toy(6, hole=(0, 2)).log_ratio_many(masks)
    return np.where(values == -np.inf, np.nan, values)


def test_a_dense_block_holds_its_high_features_and_only_sizes_that_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("invariance.models.walks.LOW_FEATURES", 3)
    model = Toy(6, hole=(0, 2))
    walk, sizes = ModelWalk(model, FREE, FORCED), np.array([1, 0, 1, 1, 0, 0], dtype=bool)
    for high in (NOTHING, np.array([3]), np.array([3, 4])):
        draws = np.column_stack([all_masks(3), np.isin(np.arange(3, 5), high) & np.ones((8, 1), bool)])
        counts = sizes[draws.sum(axis=1)]
        np.testing.assert_array_equal(walk.dense(high, sizes), np.where(counts, expected_of(draws), np.nan))
    asked = np.vstack(model.asked)
    assert asked[:, FORCED].all()
    assert sizes[asked[:, FREE].sum(axis=1)].all()


def test_listed_subsets_extend_their_prefix_by_later_features() -> None:
    model = Toy(6, hole=(0, 2))
    walk, sizes = ModelWalk(model, FREE, FORCED), np.array([1, 1, 0, 1, 0, 0], dtype=bool)
    for prefix, later in (((), range(5)), ((1,), range(2, 5)), ((0, 2), range(3, 5)), ((1, 4), ())):
        n = count_subsets(len(later), 3 - len(prefix))
        members = np.full((n, 3), 77, np.int32)
        values = walk.listed(np.array(prefix, dtype=np.int64), 3, sizes, members)
        draws = np.array([np.isin(np.arange(5), row) for row in members])
        fits = draws[:, list(prefix)].all(axis=1) & (draws.sum(axis=1) <= 3)
        assert fits.all()
        assert not np.delete(draws, [*prefix, *later], axis=1).any()
        assert len(np.unique(draws, axis=0)) == n
        np.testing.assert_array_equal(np.where(members < 0, 0, 1).sum(axis=1), draws.sum(axis=1))
        counts = sizes[draws.sum(axis=1)]
        np.testing.assert_array_equal(values, np.where(counts, expected_of(draws), np.nan))
    asked = np.vstack(model.asked)
    assert sizes[asked[:, FREE].sum(axis=1)].all()


# -------------------------------------------------------------------- what is said of subsets without a value


def only_sizes(f: int, *sizes: int) -> PriorTerms:
    weights = np.where(np.isin(np.arange(f + 1), sizes), 0.0, -np.inf)
    return PriorTerms(np.zeros(f), weights, max(sizes), 0.0)


def dependent() -> MultiEnvironmentData:
    """x5 = x1 − x2"""
    data = correlated(6)
    X = data.X.copy()
    X[:, 5] = X[:, 1] - X[:, 2]
    return MultiEnvironmentData.from_arrays(X, data.y, data.environment_index)


HOLED = {
    "one": Toy(6, hole=(1,)),
    "two": Toy(6, hole=(0, 4)),
    "with a walk": LinearGaussian().bind(Moments.from_data(dependent())),
}


@pytest.mark.parametrize("blocks", [DenseBlocks, ListedBlocks])
@pytest.mark.parametrize("sizes", [(2, 4), (1, 2, 3), (0, 5), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("model", HOLED.values(), ids=HOLED)
def test_undecidable_subsets_are_those_that_the_prior_allows_small_ones_first(
    monkeypatch: pytest.MonkeyPatch, model: BoundModel, sizes: tuple[int, ...], blocks: type
) -> None:
    small_blocks(monkeypatch, 4, listed=20)
    parts = blocks(walk_of(model, np.arange(6), NOTHING), only_sizes(6, *sizes))
    found = []
    for b in range(parts.n_blocks):
        scored = parts.scored(b)
        masks = scored.masks(scored.undecidable)
        assert (np.diff(masks.sum(axis=1)) >= 0).all()
        found.extend(map(tuple, masks.tolist()))
    everything = all_masks(6)
    outside = (model.log_ratio_many(everything) == -np.inf) & np.isin(everything.sum(axis=1), sizes)
    assert sorted(found) == sorted(map(tuple, everything[outside].tolist()))


def test_rows_are_not_asked_about_sizes_that_do_not_count() -> None:
    model = LinearGaussian().bind(dependent())
    walk, sizes = walk_of(model, np.arange(6), NOTHING), np.array([1, 1, 1, 1, 0, 1, 0], dtype=bool)
    draws = all_masks(6)
    undecided = draws[:, [1, 2, 5]].all(axis=1)
    unasked = undecided & ~sizes[draws.sum(axis=1)]
    assert 0 < unasked.sum() < undecided.sum()
    expected = np.where(unasked, np.nan, model.log_ratio_many(draws))
    np.testing.assert_allclose(walk.dense(NOTHING, sizes), expected, rtol=1e-8)
    members = np.empty((64, 6), np.int32)
    values = walk.listed(NOTHING, 6, sizes, members)
    codes = np.where(members < 0, 0, 1 << np.maximum(members, 0)).sum(axis=1)
    np.testing.assert_allclose(values, expected[codes], rtol=1e-8)


# -------------------------------------------------------------------- what it costs


@pytest.mark.parametrize(("f", "max_size"), [(20, 2), (30, 3), (12, 4)])
def test_every_block_of_a_list_costs_its_sums_over_pairs(
    monkeypatch: pytest.MonkeyPatch, f: int, max_size: int
) -> None:
    """Those of the blocks that are walked, however many these are."""
    model = Toy(f)
    n_subsets, terms = count_subsets(f, max_size), PriorTerms.flat(f, max_size)
    per_block = []
    for largest in (1 << 20, 60, 10):
        monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", largest)
        blocks = ListedBlocks(walk_of(model, np.arange(f), NOTHING), terms)
        for per_subset, advantage in ((5, 1), (7, 2)):
            steps = count_steps(f, max_size, n_subsets, per_subset, advantage)
            outcome_columns = steps - per_subset * advantage * n_subsets
            per_block.append(outcome_columns / blocks.n_blocks)
    assert len(set(per_block)) == 1
    assert per_block[0] >= f**2
