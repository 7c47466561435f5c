"""Luck among subsets: how often does a selection hold a feature that is not invariant, and does
`luck` say so?

python benchmarks/luck.py                        50 data sets a cell, ten minutes on two cores
python benchmarks/luck.py --sets 200 --jobs 16

children: two causes whose means and spreads differ between environments, y = x0 − x1 + noise, and k
children of y with slopes U[−1, 1.5] of their own in each environment, noise of unit variance. p10
and flat: `invariance.simulation`. wrong: the selection holds a feature that is no cause;
challenged: one that some environment shifts given the others selected, for luck says nothing of
those that none does. Tables are Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import pairwise, product

import numpy as np
from joblib import Parallel, delayed

from _harness import header, table
from invariance import BIP, MultiEnvironmentData
from invariance.simulation import flat, p10

BINS = (0.0, 0.05, 0.2, 0.5, 0.8, 1.0)
Cell = tuple[str, int, int, int]  # world, environments, children, rows of each environment
CELLS: list[Cell] = [
    *(
        ("children", n_environments, k, 100)
        for n_environments, k in product((2, 3, 4, 5), (2, 4, 6, 8))
    ),
    *(
        (world, n_environments, 0, n)
        for world, n in (("p10", 100), ("flat", 200))
        for n_environments in (3, 5)
    ),
]


def children(n_environments: int, k: int, n: int, rng: np.random.Generator) -> MultiEnvironmentData:
    environment = np.repeat(np.arange(n_environments), n)
    spread = rng.uniform(0.5, 2.0, (n_environments, 2))
    shift = rng.normal(size=(n_environments, 2))
    causes = rng.normal(size=(len(environment), 2)) * spread[environment] + shift[environment]
    y = causes @ [1.0, -1.0] + rng.normal(size=len(environment))
    slopes = rng.uniform(-1.0, 1.5, (n_environments, k))
    effects = slopes[environment] * y[:, None] + rng.normal(size=(len(environment), k))
    return MultiEnvironmentData.from_arrays(np.hstack([causes, effects]), y, environment)


def one(cell: Cell, seed: int) -> tuple[float, float, float] | None:
    """Wrong, wrong by a challenged feature, luck; None where nothing is compatible."""
    world, n_environments, k, n = cell
    rng = np.random.default_rng([seed, n_environments, k, n])
    if world == "children":
        data = children(n_environments, k, n, rng)
        truth = np.arange(k + 2) < 2
    else:
        structure = {"p10": p10, "flat": flat}[world](n_environments, rng)
        data = structure.sample(n, rng)
        truth = structure.truth
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(random_state=seed, progress=False).fit(data)
    decision = model.decision_
    if decision.findings.predictive is None:
        return None
    wrong = set(data.features.chosen(decision.mask & ~truth).names)
    found = model.chance_selection()
    return bool(wrong), bool(wrong.difference(found.unchallenged)), found.share


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    header(f"# Luck among subsets, {options.sets} data sets a cell")
    tasks = list(product(CELLS, range(options.sets)))
    found = Parallel(options.jobs, batch_size=4)(delayed(one)(cell, seed) for cell, seed in tasks)
    of_cell = {cell: [] for cell in CELLS}
    for (cell, _), result in zip(tasks, found, strict=True):
        if result is not None:
            of_cell[cell].append(result)
    rows = []
    for (world, n_environments, k, n), results in of_cell.items():
        name = f"{world}, {k} of them" if k else world
        rows.append(
            [
                name,
                str(n_environments),
                str(n),
                *(f"{value:.2f}" for value in np.mean(results, axis=0)),
            ]
        )
    table(("world", "E", "n", "wrong", "wrong and challenged", "mean luck"), rows)
    for named in ("children", "p10 and flat"):
        results = np.array(
            [result for cell in CELLS if cell[0] in named for result in of_cell[cell]]
        )
        print(f"\nBy luck, {named}")
        places = np.maximum(np.searchsorted(BINS, results[:, 2]), 1)
        rows = []
        for place, (low, high) in enumerate(pairwise(BINS), 1):
            inside = results[places == place]
            shares = (
                (f"{value:.2f}" for value in inside[:, :2].mean(axis=0))
                if len(inside)
                else ("–", "–")
            )
            rows.append([f"{low:g} to {high:g}", str(len(inside)), *shares])
        table(("luck", "data sets", "wrong", "wrong and challenged"), rows)


if __name__ == "__main__":
    main()
