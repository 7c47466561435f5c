"""Which engine "auto" takes, and what an enumeration refuses: by counted work, never by the clock."""

from __future__ import annotations

import itertools
import time
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from invariance import Enumeration, InclusionPrior, LinearGaussian, Tempering, UniformPrior
from invariance.exceptions import EngineError
from invariance.inference.base import Engine, RunOptions, Target
from invariance.inference.enumeration import DenseBlocks, count_steps, count_subsets, subset_blocks, walk_of
from invariance.inference.registry import choose_engine
from invariance.priors.base import PriorTerms
from twins import simulated


def of_shape(n_environments: int) -> Any:
    """A conditional model of which only the costs are asked."""
    return SimpleNamespace(steps_per_subset=n_environments + 1, dense_advantage=16)


def chosen(p: int, n_environments: int, max_size: int | None = None) -> type[Engine]:
    bound = UniformPrior(max_size).bind(p)
    return type(choose_engine("auto", Target(of_shape(n_environments), bound)))


@pytest.mark.parametrize(("n_environments", "most"), [(2, 29), (5, 28), (10, 27), (20, 26)])
def test_auto_is_exact_up_to_about_27_features(n_environments: int, most: int) -> None:
    assert [chosen(p, n_environments) for p in (10, 20, most)] == [Enumeration] * 3
    assert [chosen(p, n_environments) for p in (most + 1, 40, 450)] == [Tempering] * 3


@pytest.mark.parametrize(
    ("p", "max_size", "engine"),
    [
        (100, 4, Enumeration),
        (100, 5, Tempering),
        (450, 3, Enumeration),
        (450, 4, Tempering),
        (1400, 2, Enumeration),
        (2000, 2, Tempering),  # one block for each feature, with sums over all pairs in each
        (6000, 1, Enumeration),
        (6000, 198, Tempering),
    ],
)
def test_auto_lists_small_subsets_of_many_features(p: int, max_size: int, engine: type[Engine]) -> None:
    assert chosen(p, 5, max_size) is engine


def test_forced_features_are_no_work() -> None:
    prior = InclusionPrior([1.0] * 20 + [0.0] * 20 + [0.5] * 20).bind(60)
    assert isinstance(choose_engine("auto", Target(of_shape(5), prior)), Enumeration)


@pytest.mark.parametrize("seconds_per_look", [0.0, 1000.0])
@pytest.mark.parametrize(("p", "engine"), [(27, Enumeration), (30, Tempering)])
def test_the_clock_does_not_choose(
    monkeypatch: pytest.MonkeyPatch, p: int, engine: type[Engine], seconds_per_look: float
) -> None:
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) * seconds_per_look)
    model = LinearGaussian().bind(simulated(p, (60, 70), seed=1))
    bound = UniformPrior().bind(p)
    assert isinstance(choose_engine("auto", Target(model, bound)), engine)


@pytest.mark.parametrize("n_jobs", [1, 64])
@pytest.mark.parametrize("seconds_per_look", [0.0, 1000.0])
def test_neither_the_clock_nor_the_threads_refuse(
    monkeypatch: pytest.MonkeyPatch, seconds_per_look: float, n_jobs: int
) -> None:
    looks = itertools.count()
    monkeypatch.setattr(time, "perf_counter", lambda: next(looks) * seconds_per_look)
    model = LinearGaussian().bind(simulated(16, (60, 70), seed=2))
    bound = UniformPrior().bind(16)
    limit = 3 * 2**16 / 150_000_000
    options = RunOptions(n_jobs=n_jobs, progress=False)
    assert Enumeration(time_limit=1.001 * limit).run(Target(model, bound), options).n_subsets == 2**16
    with pytest.raises(EngineError, match="on one core, scoring all 65,536 subsets would take about 0"):
        Enumeration(time_limit=0.999 * limit).run(Target(model, bound), options)


def test_a_refusal_says_how_long_and_what_to_do() -> None:
    wide = LinearGaussian().bind(simulated(60, (100, 120), seed=26))
    with pytest.raises(EngineError, match=r"would take about 7\d\d years"):
        Enumeration().run(Target(wide, UniformPrior().bind(60)), RunOptions())
    with pytest.raises(EngineError, match="about 10\\^120 subsets would take longer than anybody can wait"):
        Enumeration().run(Target(of_shape(3), UniformPrior().bind(400)), RunOptions())


@pytest.mark.parametrize(("p", "max_size"), [(6, 6), (12, 3), (12, 1), (40, 2), (40, 3)])
def test_steps_are_those_of_the_walk(monkeypatch: pytest.MonkeyPatch, p: int, max_size: int) -> None:
    monkeypatch.setattr("invariance.inference.enumeration._LARGEST_LISTED_BLOCK", 200)
    model = LinearGaussian().bind(simulated(p, (60, 70), seed=3))
    walk = walk_of(model, np.arange(p), np.empty(0, np.int64))
    blocks = subset_blocks(walk, PriorTerms.flat(p, max_size), model.dense_advantage)
    steps = count_steps(p, max_size, count_subsets(p, max_size), model.steps_per_subset, model.dense_advantage)
    if isinstance(blocks, DenseBlocks):
        assert steps == 3 * blocks.n_positions
    else:
        assert steps == 16 * 3 * blocks.n_positions + 2 * blocks.n_blocks * p**2
