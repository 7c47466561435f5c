"""What one core does in the two parts of BIP-VI at the size of a genome, each in its plainest form: reading pairs, and
factorising.

A draw of k of 6,169 features reads k(k + 1)/2 pairs that lie far apart in memory, both environments of a pair side by
side, and factorises three matrices. The paper's budget is 200,000 draws a target. Reading is a plain loop; factorising
is counted at the rate of large matrix products, which small factorisations do not reach.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from _harness import header

GENES, DRAWS, GROUPS = 6_170, 200_000, 3
SIZES = (123, 150, 170)


@njit(nogil=True, error_model="numpy")
def read(pairs, subsets, out):
    """Of each subset, a row of indices"""
    for members in subsets:
        place = 0
        for a in range(members.size):
            for b in range(a + 1):
                out[place] = pairs[members[a], members[b], 0]
                out[place + 1] = pairs[members[a], members[b], 1]
                place += 2


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
    rng, pairs = np.random.default_rng(0), np.ones((GENES, GENES, 2))
    square = np.ones((1024, 1024))
    with threadpool_limits(1):
        rate = 2 * 1024**3 / least_time(lambda: square @ square)
    print(f"\nlarge products of matrices: {rate / 1e9:.0f} GFlop/s")
    print("members   reading (ms)   ns a pair   factorising (ms)   200,000 draws (s)")
    for k in SIZES:
        subsets = np.array([np.sort(rng.choice(GENES, k, replace=False)) for _ in range(400)])
        out = np.empty(k * (k + 1))
        read(pairs, subsets, out)
        reading = least_time(partial(read, pairs, subsets, out)) / len(subsets)
        factorising = GROUPS * k**3 / 3 / rate
        each = reading / (k * (k + 1) / 2)
        print(
            f"{k:>7} {1e3 * reading:>14.3f} {1e9 * each:>11.1f} {1e3 * factorising:>18.3f} "
            f"{DRAWS * (reading + factorising):>19.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
