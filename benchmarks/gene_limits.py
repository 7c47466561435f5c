"""What one core does in the two parts of BIP-VI at the size of a genome, each in its plainest form:
reading pairs, and factorising; and what the package takes for both.

A draw of k of 6,169 features reads k(k + 1)/2 pairs that lie far apart in memory, both environments
of a pair side by side, and factorises three matrices. The paper's budget is 200,000 draws a target.

Reading is a loop that adds up one number of each pair and does nothing else; factorising is counted
at the rate of large matrix products, which small factorisations do not reach. One after the other
they take their sum. A core that asks for pairs ahead of time factorises while it waits, and takes
at best the longer of the two. Reading in another order, or without waiting for each number, might
still be faster: this is what plain loops do, not a proof.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from _harness import header
from invariance.kernels.active_set import Scoring
from invariance.kernels.cholesky import decided_as_large, subset_work
from invariance.kernels.row_residuals import GroupRows, PairedMoments

GENES = 6_170
DRAWS = 200_000
GROUPS = 3
SIZES = (123, 150, 170)


@njit(nogil=True, error_model="numpy", fastmath=True)
def read(pairs, subsets):
    """Of each subset, a row of indices; pairs (d, 2d): both environments of a pair side by side"""
    shifts = np.empty(subsets.shape[1], np.uint64)
    total = 0.0
    for members in subsets:
        for a in range(members.size):
            shifts[a] = 2 * members[a]
        for a in range(members.size):
            row = pairs[members[a]]
            for b in range(a + 1):
                total += row[shifts[b]]
    return total


@njit(nogil=True, error_model="numpy")
def score(scoring, subsets, work):
    decided = 0
    for s in range(subsets.shape[0]):
        decided += decided_as_large(scoring, subsets[s], work)
    return decided


def uncorrelated() -> Scoring:
    """All features independent, each of variance 1."""
    local = np.zeros((GENES, GENES, GROUPS - 1))
    local[np.arange(GENES), np.arange(GENES)] = 1.0
    scale = np.ones((GROUPS, GENES))
    scale[-1] = np.sqrt(1.0 / (GROUPS - 1))
    rows = GroupRows(np.empty((0, 0)), *np.zeros((2, GROUPS), np.int64), np.ones(GROUPS))
    pairs = PairedMoments(local, np.zeros((GROUPS - 1, GENES)))
    return Scoring(pairs, scale, GENES - 1, np.array([1.0, 1.0, -2.0]), 0.0, 1e-9, rows)


def least_time(work: Callable[[], object], repeats: int = 5) -> float:
    """Seconds of one thread"""
    taken = []
    for _ in range(repeats):
        started = time.thread_time()
        work()
        taken.append(time.thread_time() - started)
    return min(taken)


def main() -> None:
    header("Reading pairs and factorising on one core")
    rng = np.random.default_rng(0)
    scoring = uncorrelated()
    square = np.ones((1024, 1024))
    pairs = scoring.scatter.local.reshape(GENES, -1)
    with threadpool_limits(1):
        rate = 2 * 1024**3 / least_time(lambda: square @ square)
    print(f"\nlarge products of matrices: {rate / 1e9:.0f} GFlop/s")
    print("milliseconds a draw, and seconds of 200,000 draws")
    print("members   reading   factorising   the sum          the longer       the package")
    for k in SIZES:
        subsets = np.array([np.sort(rng.choice(GENES - 1, k, replace=False)) for _ in range(400)])
        work = subset_work(GROUPS, k)
        read(pairs, subsets)
        assert score(scoring, subsets, work) == len(subsets)
        reading = least_time(partial(read, pairs, subsets)) / len(subsets)
        ours = least_time(partial(score, scoring, subsets, work)) / len(subsets)
        factorising = GROUPS * k**3 / 3 / rate
        print(f"{k:>7} {1e3 * reading:>9.3f} {1e3 * factorising:>13.3f}", end="")
        for each in (reading + factorising, max(reading, factorising), ours):
            print(f" {1e3 * each:>9.3f} {DRAWS * each:>5.0f} s", end="")
        print(flush=True)


if __name__ == "__main__":
    main()
