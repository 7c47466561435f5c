"""Features of several columns: subsets per second of the dense walk, and what the order of mixed widths is worth.

python benchmarks/groups.py            p = 15 features of 4 columns, E = 5; one thread (a few seconds)
"""

from __future__ import annotations

import numpy as np

from _harness import best_seconds, header
from invariance.conditionals.blocks import GroupMoments
from invariance.kernels.feature_order import feature_starts, low_features, walk_order
from invariance.kernels.subset_tree import score_grouped_block


def simulated(n_columns: int, n: int = 400, n_environments: int = 5, seed: int = 0) -> GroupMoments:
    """Scaled second moments; columns have their own spread and mean in each environment, y follows the first three."""
    rng = np.random.default_rng(seed)
    environments = [rng.normal(size=(n, n_columns + 1)) * (1 + e / 3) + rng.normal() for e in range(n_environments)]
    for rows in environments:
        rows[:, -1] += rows[:, : min(3, n_columns)].sum(axis=1)
    groups = [*environments, np.concatenate(environments)]
    scatter = np.array([len(rows) * np.cov(rows.T, bias=True) for rows in groups])
    length = np.sqrt(np.einsum("gjj->gj", scatter))
    counts = np.array([len(rows) for rows in groups])
    weights = 0.5 * np.append(counts[:-1], -counts[-1])
    grams = scatter / length[:, :, None] / length[:, None, :]
    offset = float(weights @ np.log(length[:, -1] ** 2 / counts))
    return GroupMoments(grams, np.zeros(length.shape, bool), weights, offset, 1e-9)


def all_subsets(m: GroupMoments, widths: np.ndarray, n_low: int) -> np.ndarray:
    """(2**f,) log Λ"""
    starts = feature_starts(widths)
    out = np.empty((1 << (len(widths) - n_low), 1 << n_low))
    for prefix in range(len(out)):
        score_grouped_block(m.grams, m.absent, m.weights, m.offset, m.tolerance, starts, prefix, n_low, out[prefix])
    return out.ravel()


def rate(widths: np.ndarray, n_low: int) -> float:
    """Million subsets per second"""
    moments = simulated(int(widths.sum()))
    assert np.isfinite(all_subsets(moments, widths, n_low)).all()
    return (1 << len(widths)) / best_seconds(lambda: all_subsets(moments, widths, n_low)) / 1e6


def by_width() -> None:
    print(f"\n{'columns each':>12} {'low features':>13} {'M subsets/s':>12}")
    for m in (1, 2, 4, 8):
        widths = np.full(15, m)
        n_low = low_features(widths)
        print(f"{m:>12} {n_low:>13} {rate(widths, n_low):>12.2f}", flush=True)


def by_order() -> None:
    widths = np.array([1] * 10 + [2, 2, 3, 4, 5])
    print(f"\nwidths {' '.join(map(str, widths))}: M subsets/s")
    for label, order in (("narrow first", np.arange(15)), ("walk_order", walk_order(widths))):
        print(f"  {label:14} {rate(widths[order], low_features(widths[order])):>6.2f}")


if __name__ == "__main__":
    header("Features of several columns, p=15, E=5, one thread")
    by_width()
    by_order()
