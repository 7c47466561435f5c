"""Features of several columns: exact inference over all subsets of 15 features, and the order of
mixed widths.

python benchmarks/groups.py            E = 5 environments of 400 rows; one thread (half a minute)
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from _harness import best_seconds, header
from invariance import Enumeration, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.data.features import Features
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import DenseBlocks
from invariance.kernels.subset_tree import walk_order
from invariance.models.base import BoundModel


def simulated(widths: np.ndarray, n: int = 400, n_environments: int = 5) -> BoundModel:
    """Columns have their own spread and mean in each environment, and the outcome follows the first
    three."""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), int(widths.sum()))) * (1 + environment / 3)[:, None]
    X += rng.normal(size=(n_environments, 1))[environment]
    y = X[:, :3].sum(axis=1) + rng.normal(size=len(X))
    data = MultiEnvironmentData.from_arrays(X, y, environment)
    names = tuple(f"f{j}" for j in range(len(widths)))
    features = Features(names, data.feature_names, widths)
    grouped = replace(data, feature_names=names, original_features=names, grouping=features)
    return LinearGaussian().bind(grouped)


def walked(model: BoundModel, order: np.ndarray) -> float:
    """Million subsets a second that the walk alone scores"""
    nothing = np.empty(0, np.int64)
    walk = model.subset_walk(order, nothing)
    assert walk is not None
    blocks = DenseBlocks(walk, UniformPrior().bind(len(order)))

    def all_blocks() -> None:
        for block in range(blocks.n_blocks):
            high = walk.n_low + np.flatnonzero(block >> np.arange(len(order) - walk.n_low) & 1)
            assert np.isfinite(walk.dense(high, np.ones(len(order) + 1, bool)).log_ratio).all()

    return blocks.n_positions / best_seconds(all_blocks) / 1e6


def by_width() -> None:
    print(f"\n{'columns each':>12} {'walk, M subsets/s':>18} {'exact engine, s':>19}")
    for width in (1, 2, 4, 8):
        model = simulated(np.full(15, width))
        target = Target(model, UniformPrior().bind(model.feature_names))
        seconds = best_seconds(
            lambda target=target: Enumeration().run(target, RunOptions(progress=False))
        )
        print(f"{width:>12} {walked(model, np.arange(15)):>18.2f} {seconds:>19.3f}", flush=True)


def by_order() -> None:
    widths = np.array([1] * 10 + [2, 2, 3, 4, 5])
    model = simulated(widths)
    print(f"\nwidths {' '.join(map(str, widths))}: M subsets/s")
    for label, order in (("narrow first", np.arange(15)), ("walk_order", walk_order(widths))):
        print(f"  {label:14} {walked(model, order):>6.2f}")


if __name__ == "__main__":
    header("Features of several columns, p=15, E=5, one thread")
    by_width()
    by_order()
