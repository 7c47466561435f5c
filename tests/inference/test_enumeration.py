"""Exact inference: all subsets in several blocks, rows against moments, and work that is counted,
never timed."""

from __future__ import annotations

import subprocess
import sys
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariance import (
    Enumeration,
    InclusionPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
)
from invariance.exceptions import ApproximationWarning, EngineError, InvarianceWarning
from invariance.inference.base import RunOptions, Target, choose_engine
from invariance.inference.enumeration import (
    DenseBlocks,
    ListedBlocks,
    enumeration_steps,
    subset_blocks,
)
from invariance.inference.mean_field import FreeSpace
from invariance.models.base import BoundModel
from invariance.models.gaussian_fits import GaussianWalk
from invariance.moments import Moments
from invariance.priors import BoundPrior
from quadratic_toy import PRIORS, Toy, brute_force, run, target_of, with_sum
from reference_data import load_reference, reference_files
from twins import all_masks, simulated

pytestmark = pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
NOTHING = np.empty(0, np.int64)


def small_blocks(monkeypatch: pytest.MonkeyPatch, features: int, listed: int = 8) -> None:
    monkeypatch.setattr("invariance.models.base.LOW_FEATURES", features)
    monkeypatch.setattr("invariance.kernels.subset_tree.MOST_LOW", features)
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", listed)


@pytest.mark.parametrize(("streamed", "max_size"), [(False, None), (True, None), (False, 3)])
def test_blocks_memory_and_threads_do_not_change_the_result(
    monkeypatch: pytest.MonkeyPatch, streamed: bool, max_size: int | None
) -> None:
    model = LinearGaussian().bind(simulated(11, (40, 50, 60), seed=21))
    whole = run(model, UniformPrior(max_size))
    small_blocks(monkeypatch, 4, 16)
    engine = Enumeration(keep=10, in_memory=0 if streamed else 1 << 24)
    cut, threaded = (run(model, UniformPrior(max_size), engine, 0, n_jobs) for n_jobs in (1, 3))
    for name in ("inclusion", "pairwise", "log_probabilities", "masks"):
        np.testing.assert_array_equal(getattr(threaded, name), getattr(cut, name))
    np.testing.assert_allclose(cut.inclusion, whole.inclusion, atol=1e-12)
    np.testing.assert_allclose(cut.log_probabilities, whole.log_probabilities[:10], rtol=1e-9)
    assert cut.entropy == pytest.approx(whole.entropy, abs=1e-9)
    np.testing.assert_array_equal(cut.masks, whole.masks[:10])
    if not streamed:
        assert cut.credible_subsets(0.999)["cumulative"].iloc[-1] >= 0.999 - 1e-12


def test_many_features_with_a_small_size_limit_are_walked_directly() -> None:
    model = LinearGaussian().bind(simulated(40, (60, 70), seed=22))
    posterior = run(model, UniformPrior(max_size=2))
    assert posterior.diagnostics["subsets_scored"] == 1 + 40 + 780
    masks = posterior.masks
    weights = np.exp(posterior.log_probabilities)
    np.testing.assert_allclose(posterior.log_ratios, model.log_ratio_many(masks), rtol=1e-9)
    np.testing.assert_allclose(posterior.pairwise, (masks * weights[:, None]).T @ masks, atol=1e-12)


def test_collinear_subsets_are_reported() -> None:
    data = with_sum(simulated(4, (20, 25), seed=24))
    posterior = run(LinearGaussian().bind(Moments.from_data(data)), UniformPrior())
    assert posterior.diagnostics["subsets_undecidable"] == 4
    (note,) = posterior.notes
    assert all(part in note for part in ("4 of 32", "'x0', 'x1', 'x4'", "collinear"))
    assert posterior.probability(["x0", "x1", "x4"]) == 0.0
    by_rows = run(LinearGaussian().bind(data), UniformPrior())
    assert by_rows.notes == ()
    assert by_rows.probability(["x0", "x1", "x4"]) == pytest.approx(
        by_rows.probability(["x0", "x1"]), rel=1e-8
    )


def test_disagreement_with_the_rows_is_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    """If second moments were wrong about leading subsets, everything follows the rows."""
    model = LinearGaussian().bind(simulated(4, (20, 25), seed=25))
    truth = run(model, UniformPrior())
    wrong_subset = truth.masks[2]
    scored = GaussianWalk.dense

    def spoiled(self: GaussianWalk, *arguments: Any) -> np.ndarray:
        result = scored(self, *arguments)
        result.log_ratio[int((wrong_subset << np.arange(4)).sum())] -= 0.5
        return result

    monkeypatch.setattr(GaussianWalk, "dense", spoiled)
    # So that the blocks come to Python.
    monkeypatch.setattr("invariance.inference.enumeration.GaussianWalk", type(None))
    monkeypatch.setattr(type(model), "walk_has_all_digits", False)
    with pytest.warns(ApproximationWarning, match="1 of the 16 leading subsets"):
        repaired = run(model, UniformPrior())
    np.testing.assert_allclose(repaired.inclusion, truth.inclusion, atol=1e-9)
    np.testing.assert_allclose(repaired.pairwise, truth.pairwise, atol=1e-9)
    for name in ("entropy", "log_evidence"):
        assert getattr(repaired, name) == pytest.approx(getattr(truth, name), abs=1e-9)
    assert repaired.probability(wrong_subset) == pytest.approx(
        truth.probability(wrong_subset), rel=1e-8
    )


@pytest.mark.parametrize("name", reference_files())
def test_reference_posteriors(name: str) -> None:
    reference = load_reference(name)
    posterior = run(LinearGaussian().bind(reference.data), UniformPrior())
    exact = reference.results["bip_exact"]
    np.testing.assert_allclose(posterior.inclusion, exact["marginals"], atol=1e-8)
    assert np.flatnonzero(posterior.mode_mask).tolist() == exact["mode"]


INTERRUPTED = """
import numpy as np, os, signal, threading
from invariance import Enumeration, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.inference.base import RunOptions, Target
X = np.random.default_rng(0).normal(size=(200, 34))
y = X[:, 0] + X[:, 1] ** 2
model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, np.repeat([0, 1], 100)))
interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
def when_blocks_are_scored(done, what):
    if done and not interrupt.ident:
        interrupt.start()
try:
    options = RunOptions(n_jobs=2, progress=when_blocks_are_scored)
    Enumeration(time_limit=None).run(Target(model, UniformPrior().bind(34)), options)
except KeyboardInterrupt:
    target = Target(model, UniformPrior(max_size=2).bind(34))
    again = Enumeration().run(target, RunOptions(n_jobs=2))
    print("interrupted", again.diagnostics["subsets_scored"])
"""


@pytest.mark.integration
def test_an_interrupt_ends_it_cleanly() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stdout.strip() == "interrupted 596", done.stderr


def assert_exact(target: Target) -> None:
    posterior = Enumeration().run(target, RunOptions(1, progress=False))
    masks, probability, evidence = brute_force(target)
    assert posterior.log_evidence == pytest.approx(evidence, abs=1e-8)
    np.testing.assert_allclose(posterior.pairwise, (masks.T * probability) @ masks, atol=1e-9)
    np.testing.assert_array_equal(posterior.mode_mask, masks[probability.argmax()])
    space = FreeSpace(target)
    expected = target.model.log_ratio_many(target.masks(space.table_draws))
    counted = (expected > -np.inf) & (target.prior.over_free.log_prob(space.table_draws) > -np.inf)
    np.testing.assert_allclose(space.table[counted], expected[counted], rtol=1e-8, atol=1e-8)


def correlated(p: int, groups: dict[str, list[str]] | None = None) -> MultiEnvironmentData:
    """The last column follows the first, the cause of the outcome."""
    rng = np.random.default_rng(0)
    environment = np.repeat([0, 1, 2], 70)
    X = rng.normal(size=(210, p)) + rng.normal(size=(3, p))[environment]
    X[:, -1] += X[:, 0]
    y = X[:, 0] + rng.normal(size=210)
    return MultiEnvironmentData.from_arrays(X, y, environment, groups=groups)


CASES = {
    "two forced, one out": (correlated(8), {"x0": 1.0, "x7": 1.0, "x3": 0.0}),
    "last forced": (correlated(8), {"x7": 1.0, "x1": 0.3}),
    "forced group": (
        correlated(10, {"g": ["x0", "x1"], "h": ["x8", "x9"], "k": ["x4", "x5"]}),
        {"g": 1.0},
    ),
}


@pytest.mark.parametrize("with_rows", [True, False], ids=["rows", "moments alone"])
@pytest.mark.parametrize("low", [0, 3])
@pytest.mark.parametrize("case", CASES)
def test_forced_features_in_several_blocks(
    monkeypatch: pytest.MonkeyPatch, case: str, low: int, with_rows: bool
) -> None:
    small_blocks(monkeypatch, low)
    data, probabilities = CASES[case]
    model = LinearGaussian().bind(data if with_rows else Moments.from_data(data))
    assert_exact(target_of(model, InclusionPrior(probabilities)))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("hole", [(), (0, 3)], ids=str)
def test_a_model_without_a_walk_in_several_blocks(
    monkeypatch: pytest.MonkeyPatch, hole: tuple[int, ...], prior: str
) -> None:
    small_blocks(monkeypatch, 2)
    assert_exact(target_of(Toy(6, hole=hole), PRIORS[prior]))


DEPENDENT = with_sum(correlated(5))
HOLED = {
    "two": Toy(6, hole=(0, 4)),
    "with a walk": LinearGaussian().bind(Moments.from_data(DEPENDENT)),
}


@pytest.mark.parametrize("blocks", [DenseBlocks, ListedBlocks])
@pytest.mark.parametrize("sizes", [(2, 4), (0, 5), (3, 4, 5)], ids=str)
@pytest.mark.parametrize("model", HOLED.values(), ids=HOLED)
def test_undecidable_subsets_are_those_that_the_prior_allows_small_ones_first(
    monkeypatch: pytest.MonkeyPatch, model: BoundModel, sizes: tuple[int, ...], blocks: type
) -> None:
    small_blocks(monkeypatch, 4, listed=20)
    weights = np.where(np.isin(np.arange(7), sizes), 0.0, -np.inf)
    names = tuple("abcdef")
    none = np.zeros(6, dtype=bool)
    prior = BoundPrior(names, max(sizes), np.zeros(6), weights, none, none, "some sizes")
    parts = blocks(model.subset_walk(np.arange(6), NOTHING), prior)
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
    model = LinearGaussian().bind(DEPENDENT)
    walk = model.subset_walk(np.arange(6), NOTHING)
    sizes = np.array([1, 1, 1, 1, 0, 1, 0], dtype=bool)
    draws = all_masks(6)
    undecided = draws[:, [0, 1, 5]].all(axis=1)
    unasked = undecided & ~sizes[draws.sum(axis=1)]
    assert 0 < unasked.sum() < undecided.sum()
    expected = np.where(unasked, np.nan, model.log_ratio_many(draws))
    np.testing.assert_allclose(walk.dense(NOTHING, sizes).log_ratio, expected, rtol=1e-8)
    members = np.empty((64, 6), np.int32)
    values = walk.listed(NOTHING, 6, sizes, members).log_ratio
    codes = np.where(members < 0, 0, 1 << np.maximum(members, 0)).sum(axis=1)
    np.testing.assert_allclose(values, expected[codes], rtol=1e-8)


def of_shape(n_environments: int) -> Any:
    """A conditional model of which only the costs are asked."""
    about = {"n_features": 1, "flip_steps": lambda size: 0.0}
    return SimpleNamespace(steps_per_subset=n_environments + 1, dense_advantage=16, **about)


@pytest.mark.parametrize(
    ("n_environments", "max_size", "most"),
    [
        *((e, None, most) for e, most in ((2, 29), (5, 28), (10, 27), (20, 26))),
        (5, 4, 149),
        (5, 3, 480),
        (
            5,
            2,
            1447,
        ),  # with more there is a block for each feature, with sums over all pairs in each
    ],
)
def test_auto_is_exact_while_that_is_quick(
    n_environments: int, max_size: int | None, most: int
) -> None:
    for p, engine in ((most, Enumeration), (most + 1, Tempering)):
        target = Target(of_shape(n_environments), UniformPrior(max_size).bind(p))
        assert type(choose_engine("auto", target)) is engine
    # Forced features are no work.
    prior = InclusionPrior([1.0] * 20 + [0.0] * 20 + [0.5] * 20).bind(60)
    assert isinstance(choose_engine("auto", Target(of_shape(5), prior)), Enumeration)


def slow(p: int) -> Any:
    """A conditional model of which each flip takes a score, of two milliseconds"""
    about = {"n_features": p, "flip_steps": lambda size: 300_000.0 * p}
    return SimpleNamespace(steps_per_subset=300_000, dense_advantage=1, **about)


def test_slow_models_say_what_they_take_before_they_start() -> None:
    for p, prior, engine, wait in (
        (14, UniformPrior(), Enumeration, "33 seconds"),
        (18, UniformPrior(), Enumeration, "8.7 minutes"),
        (19, UniformPrior(), Tempering, "8.7 minutes"),
    ):
        with pytest.warns(
            InvarianceWarning, match=f"of {p} features takes about {wait} on one core.*max_size="
        ):
            assert isinstance(choose_engine("auto", Target(slow(p), prior.bind(p))), engine)
    with pytest.warns(InvarianceWarning, match="n_jobs=-1 or max_size=4 in the prior, for seconds"):
        choose_engine("tempering", Target(slow(18), UniformPrior().bind(18)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for p, prior in ((12, UniformPrior()), (18, UniformPrior(4))):
            assert isinstance(choose_engine("auto", Target(slow(p), prior.bind(p))), Enumeration)


def test_threads_do_not_refuse() -> None:
    model = LinearGaussian().bind(simulated(12, (60, 70), seed=2))
    limit = 3 * 2**12 / 150_000_000
    for n_jobs in (1, 64):
        assert (
            run(model, UniformPrior(), Enumeration(time_limit=1.001 * limit), 0, n_jobs).n_subsets
            == 2**12
        )
        with pytest.raises(EngineError, match="4,096 subsets"):
            run(model, UniformPrior(), Enumeration(time_limit=0.999 * limit), 0, n_jobs)


@pytest.mark.parametrize(
    ("p", "wait"), [(60, r"about 7\d\d years"), (400, r"about 2\.6e120 subsets")]
)
def test_a_refusal_says_how_long_and_what_to_do(p: int, wait: str) -> None:
    with pytest.raises(EngineError, match=wait) as refused:
        Enumeration().run(Target(of_shape(2), UniformPrior().bind(p)), RunOptions())
    settings = [dict(remedy.settings) for remedy in refused.value.args[0].remedies]
    assert settings == [{"engine": "tempering"}, {"engine": "exact(time_limit=None)"}]


@pytest.mark.parametrize(("p", "max_size"), [(6, 6), (12, 3), (12, 1), (40, 2), (40, 3)])
def test_steps_are_those_of_the_walk(
    monkeypatch: pytest.MonkeyPatch, p: int, max_size: int
) -> None:
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", 200)
    model = LinearGaussian().bind(simulated(p, (60, 70), seed=3))
    walk = model.subset_walk(np.arange(p), NOTHING)
    prior = UniformPrior(max_size).bind(p)
    blocks = subset_blocks(walk, prior)
    steps = enumeration_steps(Target(model, prior))
    if isinstance(blocks, DenseBlocks):
        assert steps == 3 * blocks.n_positions
    else:
        assert steps == 16 * 3 * blocks.n_positions + 2 * blocks.n_blocks * p**2
