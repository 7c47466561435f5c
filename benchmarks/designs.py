"""Environments along a variable, in sequences and by crossed factors: sizes, powers and discoveries (METHODS §16).

python benchmarks/designs.py                        50 data sets a cell
python benchmarks/designs.py --sets 200 --jobs 16

Two causes, y = x0 − x1 + noise, and two children of y whose slopes drift along time, or differ by hospital or by year;
with p = 12 eight more features that are noise. size: exact test of the causes rejected at .05; power: of the causes
with a child; exact: the causes, and nothing else, are selected. blocks: the same rows with the labels that tables show.
Tables are Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from _harness import header, table
from invariance import BIP, LinearGaussian, MultiEnvironmentData, Tolerance, along

Cell = tuple[str, ...]
N_ALONG, N_CROSSED = 500, 25
DRIFTS = {
    "smooth": lambda u: 1.0 + 0.6 * np.cos(np.pi * u),
    "jump": lambda u: np.where(u < 0.6, 1.4, 0.6),
    "periodic": lambda u: 1.0 + 0.6 * np.sin(8.0 * np.pi * u),
}
CELLS: list[Cell] = [
    *(("along", drift, noise, p) for drift, noise, p in product(DRIFTS, ("normal", "t5"), ("4", "12"))),
    *(("sequence", a, treated) for a, treated in product(("0", "0.6", "0.9"), ("ar=0", "ar=2"))),
    *(("panel", a, treated) for a, treated in product(("0.6", "0.9"), ("ar=0", "ar=2"))),
    *(("crossed", size, by) for size, by in product(("6x5", "12x10"), ("hospital", "year"))),
]


def noise_of(kind: str, n: int, rng: np.random.Generator) -> np.ndarray:
    return rng.standard_t(5, n) / np.sqrt(5.0 / 3.0) if kind == "t5" else rng.normal(size=n)


def with_children(slopes: np.ndarray, noise: np.ndarray, p: int, rng: np.random.Generator) -> pd.DataFrame:
    """slopes (n,): of two children on the outcome"""
    n = len(slopes)
    causes = rng.normal(size=(n, 2))
    y = causes @ [1.0, -1.0] + noise
    children = slopes[:, None] * y[:, None] + rng.normal(size=(n, 2))
    others = rng.normal(size=(n, p - 4))
    return pd.DataFrame(np.hstack([causes, children, others])).add_prefix("x").assign(y=y)


def judged(data: MultiEnvironmentData) -> list[float]:
    """Whether the causes are rejected, the causes with a child are, and the causes alone are selected"""
    strict, names = Tolerance(0.0, 0.0), data.feature_names
    masks = np.array([[name in held for name in names] for held in (("x0", "x1"), ("x0", "x1", "x2"))])
    p_values = LinearGaussian().bind(data).invariance_test(masks, strict).joint
    selected = BIP(progress=False).fit(data).selected_features_
    return [*(p_values < 0.05).astype(float), float(set(selected) == {"x0", "x1"})]


def one(cell: Cell, seed: int) -> list[float]:
    rng = np.random.default_rng([seed, CELLS.index(cell)])
    world = cell[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if world == "along":
            u = rng.random(N_ALONG)
            frame = with_children(DRIFTS[cell[1]](u), noise_of(cell[2], N_ALONG, rng), int(cell[3]), rng)
            data = MultiEnvironmentData.from_table(frame.assign(t=u), "y", along("t"))
            return [*judged(data), *judged(data.by_labels)]
        if world in ("sequence", "panel"):
            return sequence(float(cell[1]), int(cell[2][-1]), 1 if world == "sequence" else 20, rng)
        return crossed(*map(int, cell[1].split("x")), cell[2], rng)


def sequence(a: float, ar: int, n_units: int, rng: np.random.Generator) -> list[float]:
    """Noise and causes that depend on the row before; the children drift smoothly."""
    length, burn = 400 if n_units == 1 else 20, 100
    draws = rng.normal(size=(length + burn, n_units, 3))
    for t in range(1, len(draws)):
        draws[t] += a * draws[t - 1]
    draws = draws[burn:].reshape(-1, 3) * np.sqrt(1.0 - a**2)
    time, unit = np.divmod(np.arange(len(draws)), n_units)
    y = draws[:, 0] - draws[:, 1] + draws[:, 2]
    children = DRIFTS["smooth"](time / length)[:, None] * y[:, None] + rng.normal(size=(len(y), 2))
    frame = pd.DataFrame(np.hstack([draws[:, :2], children])).add_prefix("x").assign(y=y, t=time, unit=unit)
    within = None if n_units == 1 or not ar else "unit"
    features = ["x0", "x1", "x2", "x3"]
    return judged(MultiEnvironmentData.from_table(frame, "y", along("t", ar, within), features))


def crossed(hospitals: int, years: int, by: str, rng: np.random.Generator) -> list[float]:
    """Also whether partial tests of the causes with a child name the factor that differs, and it alone"""
    n = N_CROSSED * hospitals * years // 5
    hospital, year = rng.integers(0, hospitals, n), rng.integers(0, years, n)
    slopes = 1.0 + 0.4 * rng.normal(size=max(hospitals, years))[hospital if by == "hospital" else year]
    frame = with_children(slopes, rng.normal(size=n), 4, rng).assign(hospital=hospital, year=year)
    data = MultiEnvironmentData.from_table(frame, "y", ["hospital", "year"])
    cells = MultiEnvironmentData.from_table(
        frame.assign(cell=hospital * years + year), "y", "cell", ["x0", "x1", "x2", "x3"]
    )
    model: Any = LinearGaussian().bind(data)
    tests = model.component_tests(np.array([True, True, True, False]), Tolerance(0.0, 0.0))
    right = {test.name for test in tests if test.p_exact < 0.05} == {by}
    selected = BIP(progress=False).fit(cells).selected_features_
    return [*judged(data), float(right), float(set(selected) == {"x0", "x1"})]


COLUMNS = {
    "along": ("size", "power", "exact", "blocks: size", "power", "exact"),
    "sequence": ("size", "power", "exact"),
    "panel": ("size", "power", "exact"),
    "crossed": ("size", "power", "exact", "right factor alone", "cells: exact"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worlds", nargs="*", choices=COLUMNS, default=list(COLUMNS))
    options = parser.parse_args()
    header(f"# Environments that are no single label, {options.sets} data sets a cell")
    for world in options.worlds:
        cells = [cell for cell in CELLS if cell[0] == world]
        tasks = list(product(cells, range(options.sets)))
        found = Parallel(options.jobs, batch_size=4)(delayed(one)(cell, seed) for cell, seed in tasks)
        means = np.array(found).reshape(len(cells), options.sets, -1).mean(axis=1)
        rows = [[", ".join(cell), *(f"{value:.3f}" for value in row)] for cell, row in zip(cells, means, strict=True)]
        table(("world", *COLUMNS[world]), rows)


if __name__ == "__main__":
    main()
