"""When do environments that are left out show that all features fail, for classes, counts and
times? Calibrates the gate of `predict_with="auto"`, by what predictions do in fresh environments of
simulated worlds.

Strong interventions: children of the outcome change sign, move, or both. Natural shift: intercepts,
all coefficients by 15%, a hidden cause, or only the features' means differ. Between: slopes of the
children move but keep their sign on average. Printed is the mean log ratio of deviances in fresh
environments: after strong interventions that of the rule over the selected features' (the gate
should open: about 0), else over that of all features (it should stay closed: about 0). Beside the
rule stand others that were tried: 23 statistics with 6 to 8 thresholds each, on draws 0-23 of E =
2-12 with all rows and a quarter of them, before any real data were looked at. Draws from 1000 on,
as below, decided nothing: they are the check.

python benchmarks/prediction_gate.py --sets 24 --jobs 2 --first 1000 --environments 3 6 10 --rows
    0.5
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np

from _harness import header
from _worlds import EFFECTS, SHIFT, effects_with, outcome
from invariance import BIP, MultiEnvironmentData
from invariance.models.base import kind_of
from invariance.models.registry import as_family
from invariance.prediction.all_features import mean_deviance, regression_on, without
from invariance.prediction.model_choice import gate

FRESH = 8
FRESH_ROWS = 400
# {kind of outcome: family, rows of an environment}
KINDS = {
    "half": ("logistic", 400),
    "rare": ("logistic", 600),
    "counts": ("poisson", 150),
    "scattered": ("negative_binomial", 200),
    "times": ("piecewise_exponential", 250),
}
WORLDS = {
    "strong": ("flat", "signs", "shifts"),
    "between": ("turns", "jitter", "mild", "weak"),
    "natural": ("alike", "intercepts", "drift", "hidden"),
}


class Cell(NamedTuple):
    world: str
    kind: str
    n_environments: int
    rows: float


def draw(cell: Cell, seed: int) -> tuple[MultiEnvironmentData, MultiEnvironmentData]:
    """Rows to fit, and those of fresh environments: three causes and four children of the
    outcome."""
    rng = np.random.default_rng([seed, zlib.crc32(repr(cell[:3]).encode())])
    world = cell.world
    fitted = cell.n_environments
    n = fitted + FRESH
    site = np.repeat(
        np.arange(n), [int(cell.rows * KINDS[cell.kind][1])] * fitted + [FRESH_ROWS] * FRESH
    )
    effects = np.tile(EFFECTS, (n, 1))
    slopes = np.tile(rng.uniform(0.5, 1.5, 4), (n, 1))
    intercepts = np.zeros(n)
    moved = np.zeros((n, 4))
    noise = np.ones((n, 4))
    if world == "flat":
        hit = (rng.random((n, 4)) < 0.6) & (np.arange(n) > 0)[:, None]
        slopes = slopes * np.where(hit, rng.uniform(-1.0, 1.5, (n, 4)), 1.0)
        moved = np.where(hit, rng.normal(0.0, 4.0, (n, 4)), 0.0)
        noise = np.where(hit, rng.uniform(0.5, 2.0, (n, 4)), 1.0)
    elif world == "signs":
        slopes = slopes * rng.choice([-1.0, 1.0], (n, 4))
    elif world == "shifts":
        moved = 3.0 * rng.normal(size=(n, 4)) * (rng.random((n, 4)) < 0.6)
    elif world in ("turns", "jitter"):
        slopes = slopes + rng.normal(size=(n, 4))
        effects = (
            1.6 * effects * (1.0 + 0.1 * rng.normal(size=(n, 3))) if world == "jitter" else effects
        )
    elif world == "mild":
        effects = 0.8 * effects
        slopes = slopes + 0.3 * rng.normal(size=(n, 4))
    elif world == "weak":
        effects = np.tile(effects_with(0.08), (n, 1))
        slopes = rng.uniform(0.1, 1.0, (n, 4))
    elif world == "intercepts":
        intercepts = 0.5 * rng.normal(size=n)
    elif world == "drift":
        effects = effects * (1.0 + 0.15 * rng.normal(size=(n, 3)))
        slopes = slopes * (1.0 + 0.15 * rng.normal(size=(n, 4)))
        intercepts = 0.3 * rng.normal(size=n)
    causes = rng.normal(size=(len(site), 3)) + SHIFT * rng.normal(size=(n, 3))[site]
    hidden = (rng.normal(size=len(site)) + SHIFT * rng.normal(size=n)[site]) * (world == "hidden")
    causes[:, 2] += 0.7 * hidden
    eta = (causes * effects[site]).sum(axis=1) + intercepts[site] + 0.8 * hidden
    if cell.kind == "scattered":  # a negative binomial law with dispersion 1/2
        eta = eta + 2.0 * np.log(rng.gamma(2.0, 0.5, len(eta)))
    family = {"scattered": "poisson"}.get(cell.kind, KINDS[cell.kind][0])
    y, event, followed = outcome(family, eta - 3.8 * (cell.kind == "rare"), rng)
    children = (
        moved[site]
        + slopes[site] * followed[:, None]
        + noise[site] * rng.normal(size=(len(site), 4))
    )

    def part(rows: np.ndarray) -> MultiEnvironmentData:
        X = np.column_stack([causes, children])[rows]
        return MultiEnvironmentData.from_arrays(
            X, y[rows], site[rows], event=None if event is None else event[rows]
        )

    return part(site < fitted), part(site >= fitted)


def deviances(cell: Cell, seed: int) -> np.ndarray:
    """(3, E + FRESH) of all features, the selected ones and a constant, in environments left out
    and in fresh ones"""
    data, fresh = draw(cell, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(KINDS[cell.kind][0], progress=False, predict_with="selected").fit(data)
        family = as_family(KINDS[cell.kind][0])
        found = []
        for names in (data.feature_names, model.selected_features_, ()):
            left = [
                regression_on(family, without(data, label), names) for label in data.environments
            ]
            own = [mean_deviance(fit, data, data.rows(e)) for e, fit in enumerate(left)]
            whole = regression_on(family, data, names)
            found.append(
                [*own, *(mean_deviance(whole, fresh, fresh.rows(e)) for e in range(FRESH))]
            )
    return np.array(found)


# Of deviances (sets, E) of all features, of the selected ones and of a constant, the logarithm of a
# ratio (sets,)
Statistic = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def both(a: np.ndarray) -> np.ndarray:
    return a.max(axis=1) + a.mean(axis=1)


# Beside the rule, with what that must exceed where environments are many.
TRIED: dict[str, tuple[Statistic, float]] = {
    "the same, .2": (lambda a, b, c: np.log((a / c).max(axis=1) / (b / c).max(axis=1)), 0.2),
    "raw worst": (lambda a, b, c: np.log(a.max(axis=1) / b.max(axis=1)), 0.2),
    "raw mean": (lambda a, b, c: np.log(a.mean(axis=1) / b.mean(axis=1)), 0.2),
    "worst of ratios": (lambda a, b, c: np.log(a / b).max(axis=1), 0.2),
    "worst + mean": (lambda a, b, c: np.log(both(a / c) / both(b / c)), 0.2),
    "always all": (lambda a, b, c: np.full(len(a), -np.inf), 0.2),
    "always selected": (lambda a, b, c: np.full(len(a), np.inf), 0.2),
}


def costs(cell: Cell, found: np.ndarray, tried: str = "rule") -> tuple[float, float, float]:
    """Share of data sets (sets, 3, E + FRESH) in which the gate is open; mean log ratios of the
    rule's deviance in fresh environments to that of the selected features, and of all"""
    n = cell.n_environments
    predicts = kind_of(as_family(KINDS[cell.kind][0]))
    if tried == "rule":
        ends = [gate(a / c, b / c, predicts) for a, b, c in found[:, :, :n]]
        is_open = np.array([ratio > threshold for ratio, threshold in ends])
    else:
        statistic, least = TRIED[tried]
        is_open = statistic(*found[:, :, :n].swapaxes(0, 1)) > max(least, 5.0 / n**2)
    everything, selected = np.log(found[:, :2, n:].mean(axis=2)).T
    rule = np.where(is_open, selected, everything)
    return float(is_open.mean()), float((rule - selected).mean()), float((rule - everything).mean())


def report(
    results: dict[Cell, np.ndarray], environments: Sequence[int], kinds: Sequence[str]
) -> None:
    print(f"\n{'':18}" + "".join(f"{f'E = {n}: strong between natural':>32}" for n in environments))
    for name in ("rule", *TRIED):
        line = f"{name:18}"
        for n in environments:
            for world, place in (("strong", 1), ("between", 2), ("natural", 2)):
                chosen = [c for c in results if c.n_environments == n and c.world in WORLDS[world]]
                value = np.mean([costs(c, results[c], name)[place] for c in chosen])
                line += f"{value:>{14 if world == 'strong' else 9}.3f}"
        print(line)
    print("\nthe rule: share of open gates, log ratio to the selected features (strong) or to all")
    for kind, n in product(kinds, environments):
        line = f"{kind:10} E = {n:2}"
        for group, worlds in WORLDS.items():
            for world in worlds:
                (cell,) = [c for c in results if c[:3] == (world, kind, n)]
                is_open, to_selected, to_all = costs(cell, results[cell])
                line += (
                    f"  {world} {is_open:.2f} {to_selected if group == 'strong' else to_all:+.2f}"
                )
        print(line)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=24)
    parser.add_argument("--first", type=int, default=0, help="seed of the first data set")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--environments", type=int, nargs="+", default=[3, 5, 8])
    parser.add_argument(
        "--rows", type=float, default=1.0, help="factor of the rows of an environment"
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    header("The gate of predictions")
    results = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for n, kind, group in product(given.environments, given.kinds, WORLDS.values()):
            for world in group:
                cell = Cell(world, kind, n, given.rows)
                seeds = range(given.first, given.first + given.sets)
                results[cell] = np.array(
                    list(pool.map(partial(deviances, cell), seeds, chunksize=4))
                )
    report(results, given.environments, given.kinds)


if __name__ == "__main__":
    main()
