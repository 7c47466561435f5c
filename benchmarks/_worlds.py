"""Simulated worlds in which decisions are judged. As a script: fits each data set with the package
on PYTHONPATH and writes what was decided, one JSON file for each cell, under FOLDER/<digest of the
code>; cells that are there are kept.

python benchmarks/_worlds.py FOLDER --sets 100 --jobs 2 --worlds weak rogue --families
    linear_gaussian
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from _harness import digest, sample_apart
from invariance import BIP, MultiEnvironmentData
from invariance.simulation import flat, p10

FAMILIES = ("linear_gaussian", "logistic", "poisson", "piecewise_exponential")
FRESH = 6


class Cell(NamedTuple):
    """n rows in each of E environments; setting: of the world, 0 where it has none"""

    world: str
    family: str
    n: int
    n_environments: int
    setting: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.world}-{self.family}-n{self.n}-E{self.n_environments}-{self.setting:g}"


class Outcome(NamedTuple):
    """y (N,), whether it was observed (N,) or None, and what children of the outcome follow (N,)"""

    y: np.ndarray
    event: np.ndarray | None
    followed: np.ndarray


def outcome(family: str, eta: np.ndarray, rng: np.random.Generator) -> Outcome:
    """Of rows with linear predictor eta: noise of variance 1; log odds eta; counts of mean e^(1 +
    eta/2); Weibull times with log hazard eta, a third censored."""
    if family == "linear_gaussian":
        y = eta + rng.normal(size=len(eta))
        return Outcome(y, None, y)
    if family == "logistic":
        y = (rng.random(len(eta)) < 1.0 / (1.0 + np.exp(-eta))).astype(float)
        return Outcome(y, None, 2.0 * y - 1.0)
    if family == "poisson":
        y = rng.poisson(np.exp(1.0 + eta / 2.0)).astype(float)
        return Outcome(y, None, np.log1p(y))
    death = (rng.exponential(size=len(eta)) * np.exp(-eta)) ** (1.0 / 1.4)
    leaves = rng.exponential(2.0 * np.median(death), len(eta))
    return Outcome(np.minimum(death, leaves), (death <= leaves).astype(float), -np.log(death))


EFFECTS = np.array([1.0, -0.7, 0.8])
# Of the means of causes in the environments.
SHIFT = 0.7


def effects_with(r2: float) -> np.ndarray:
    """(3,) with which the linear predictor explains this share of its own variance plus 1"""
    return np.array([1.0, -1.0, 1.0]) * np.sqrt(r2 / (1.0 - r2) / 3.0 / (1.0 + SHIFT**2))


def structure(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Effects of the causes (E, c), and slopes of the children of the outcome (E, k), in each
    environment."""
    alike = np.ones((cell.n_environments, 1))
    k = 0
    move = 0.0
    if cell.world == "weak":
        return effects_with(0.08) * alike, rng.uniform(0.1, 1.0, (cell.n_environments, 6))
    if cell.world == "rogue":
        effects = np.append(alike[:-1], [[1.5]], axis=0)
    elif cell.world == "jitter":
        effects = 1.6 * EFFECTS * (1.0 + 0.1 * rng.normal(size=(cell.n_environments, 3)))
        k = 4
        move = 1.0
    elif cell.world == "mild":
        effects = 0.8 * EFFECTS * alike
        k = 5
        move = 0.3
    elif cell.world == "luck":
        effects = EFFECTS[:2] * alike
        k = int(cell.setting)
        move = 1.0
    else:  # invariant
        effects = effects_with(cell.setting) * alike
    return effects, rng.uniform(0.5, 1.5, k) + move * rng.normal(size=(cell.n_environments, k))


PRESETS = {"p10": p10, "flat": flat}


def draw(cell: Cell, seed: int) -> tuple[MultiEnvironmentData, np.ndarray]:
    """Rows and which features are causes. Causes have variance 1 and means N(0, 0.7²) by
    environment, children of the outcome are slope · outcome + N(0, 1); in rogue three features more
    are N(0, 1)."""
    rng = np.random.default_rng([seed, zlib.crc32(cell.name.encode())])
    if cell.world in PRESETS:
        model = PRESETS[cell.world](cell.n_environments + FRESH, rng)
        return sample_apart(model, cell.n, FRESH, rng)[0], model.truth
    effects, slopes = structure(cell, rng)
    site = np.repeat(np.arange(cell.n_environments), cell.n)
    causes = (
        rng.normal(size=(len(site), effects.shape[1]))
        + SHIFT * rng.normal(size=effects.shape)[site]
    )
    y, event, followed = outcome(cell.family, (causes * effects[site]).sum(axis=1), rng)
    children = slopes[site] * followed[:, None] + rng.normal(size=(len(site), slopes.shape[1]))
    others = rng.normal(size=(len(site), 3 if cell.world == "rogue" else 0))
    X = np.column_stack([causes, children, others])
    return MultiEnvironmentData.from_arrays(X, y, site, event=event), np.arange(
        X.shape[1]
    ) < effects.shape[1]


# --- what is decided


class Decided(NamedTuple):
    """false, missed: features; p_truth: of invariance of the causes; of the second version, of the
    selection: grade of the verdict, high: the upper end of the interval of the difference, NaN
    without one; exact_at: whether the causes are found, by the tolerance of differences"""

    exact: bool
    false: int
    missed: int
    compatible: bool
    p_truth: float
    grade: str | None
    high: float
    exact_at: dict[str, bool]


def decided(cell: Cell, seed: int) -> Decided:
    data, truth = draw(cell, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(cell.family, progress=False).fit(data)
    decision = model.decision_
    causes = tuple(np.array(data.feature_names)[truth])
    at = {} if cell.world in ("luck", "invariant") else getattr(decision, "by_tolerance", {})
    return Decided(
        bool((model.support_ == truth).all()),
        int((model.support_ & ~truth).sum()),
        int((truth & ~model.support_).sum()),
        bool(decision.is_compatible),
        float(model.posterior_.evidence(causes).p_invariant),
        getattr(decision.verdict, "grade", None),
        float(getattr(decision.evidence, "difference_high", np.nan)),
        {f"{rho:g}": names is not None and set(names) == set(causes) for rho, names in at.items()},
    )


GAUSSIAN = FAMILIES[0]
SHAPES = (
    ("weak", 500, 5),
    ("rogue", 500, 10),
    ("rogue", 200, 20),
    ("jitter", 200, 5),
    ("mild", 200, 5),
)
STRUCTURES = (("flat", 200, 5), ("flat", 50, 5), ("flat", 50, 10), ("p10", 200, 3))


def cells(worlds: Sequence[str], families: Sequence[str]) -> list[Cell]:
    """Logistic ones with twice the rows, as each tells less."""
    found = [
        Cell(w, f, n * (2 if f == "logistic" else 1), e)
        for f, (w, n, e) in product(FAMILIES, SHAPES)
    ]
    found += [Cell(name, GAUSSIAN, n, e) for name, n, e in STRUCTURES]
    found += [Cell("luck", GAUSSIAN, 100, e, k) for e, k in product((3, 4), (2, 4, 6, 8))]
    for family, n, e in product(FAMILIES, (50, 200, 500), (3, 5, 10)):
        found += [
            Cell("invariant", family, n, e, r2)
            for r2 in (0.05, 0.5, 0.97 if family == GAUSSIAN else 0.8)
        ]
    return [cell for cell in found if cell.world in worlds and cell.family in families]


WORLDS = ("weak", "rogue", "jitter", "mild", "flat", "p10", "luck", "invariant")


def sets_of(cell: Cell, sets: int) -> int:
    """Shares near 0.1 need more data sets, and fits with three features are quick."""
    return 4 * sets if cell.world == "invariant" else sets


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=WORLDS)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    given = parser.parse_args()
    folder = given.folder / digest(__file__)
    folder.mkdir(parents=True, exist_ok=True)
    print(folder, flush=True)
    for family in given.families:
        decided(
            Cell("invariant", family, 50, 2, 0.5), 0
        )  # compiled once, before there are processes
    with ProcessPoolExecutor(given.jobs) as pool:
        for cell in cells(given.worlds, given.families):
            sets = sets_of(cell, given.sets)
            file = folder / f"{cell.name}.json"
            if file.exists() and len(json.loads(file.read_text())) >= sets:
                continue
            started = time.perf_counter()
            found = list(pool.map(partial(decided, cell), range(sets), chunksize=2))
            file.write_text(json.dumps([one._asdict() for one in found]))
            print(
                f"{cell.name}: {sets} data sets, {time.perf_counter() - started:.0f} s",
                file=sys.stderr,
                flush=True,
            )


if __name__ == "__main__":
    main()
