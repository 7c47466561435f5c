"""Environments that are not one label with plenty of rows: many small sites, a variable, a
sequence, two factors.

python benchmarks/environments.py --jobs 16 --out FOLDER   every part, 200 data sets a cell
python benchmarks/environments.py --sets 10 --jobs 2       a quick look
python benchmarks/environments.py size small               some parts
python benchmarks/environments.py speed                    how many subsets a second are tested

| part | what it shows |
|---|---|
| size | how often the true subset is rejected at 0.05: exactly invariant, and just tolerated |
| small | exact discovery with many small sites: free, dropped, merged, random deviations |
| along | a mechanism that drifts, jumps or returns: exact discovery and power, beside bins |
| sequence | rejection of the truth where rows follow one another, with and without prewhitening |
| gaps | the same if times are missing, by clock and by order; regressors are random walks |
| crossed | hospital by year: exact discovery, and whether the factor that matters is named |
| large | whether free and random deviations say the same where environments are large |
| new | coverage of 90% intervals in new sites, of rows and means of 20; t: least squares |
| intervals | 95% intervals of effects and 90% of new rows, by E; "N − k": by ω² alone; warned: |
|   | how often a warning says that new environments may be covered less often |

The world, in every part: the outcome is x0 - 0.7 x1 + 0.8 x2 + noise of variance 1. x3, x4 and x5
follow from it: (1 + a) y + b + c x0 + noise of variance 1, where a, b, c are 0 but for what the
part says. All others are unrelated. Causes and unrelated features have means N(0, 0.5^2) by site.
"Exact" is the share of data sets in which x0, x1 and x2 are selected and nothing else, "power" the
share in which the exact test rejects {x0, x1, x2, x3} at 0.05.

--out names a folder. Its results.jsonl has one line for each data set, and a line is not computed
again while the code is the same. Tables are Markdown. A share of k data sets has a standard error
of at most 1/(2√k), and one near 0.05 of 1/(4.6√k).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import t as student
from sklearn.linear_model import LinearRegression

from _harness import best_seconds, digest, header, table
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData, Tolerance, along
from invariance.decisions.components import components_of
from invariance.exceptions import InvarianceError, PredictionWarning
from invariance.models.invariance_test import CAP, InvarianceTest
from invariance.models.random_coefficients import GaussianRandomDeviations, coordinates

Floats = NDArray[np.float64]
Figures = dict[str, float]
EFFECTS = np.array([1.0, -0.7, 0.8])
TRUTH = ("x0", "x1", "x2")
WRONG = (*TRUTH, "x3")
N_CHILDREN = 3
LEVEL = 0.05
RESULTS = "results.jsonl"


# ---------------------------------------------------------------- the world


def noise(rng: np.random.Generator, n: int, tails: str = "normal") -> Floats:
    """(n,) of variance 1"""
    return rng.standard_t(5, n) / np.sqrt(5 / 3) if tails == "t5" else rng.normal(size=n)


def with_children(
    rng: np.random.Generator, causes: Floats, y: Floats, a: Any, other: Any, unrelated: Floats
) -> pd.DataFrame:
    """a: by which (n, 3) the slopes of children of y differ from 1; other: b + c x0"""
    children = (1.0 + a) * y[:, None] + other + rng.normal(size=(len(y), N_CHILDREN))
    X = np.column_stack([causes, children, unrelated])
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])]).assign(y=y)


def sites(
    rng: np.random.Generator,
    counts: Any,
    a: float = 0.0,
    b: float = 0.0,
    p: int = 8,
    kind: str = "",
) -> pd.DataFrame:
    """a, b: standard deviations between sites, of the slopes of children, and of their intercepts
    and dependence on x0; kind: "t5" for such noise of y; "categories": x1 has three levels with the
    effects 0, 1, -1, and x7 four levels"""
    site = np.repeat(np.arange(len(counts)), counts)
    n = len(site)
    means = 0.5 * rng.normal(size=(len(counts), p))
    causes = rng.normal(size=(n, 3)) + means[site, :3]
    levels = rng.integers(3, size=n)
    if kind == "categories":
        causes[:, 1] = np.array([0.0, 1.0, -1.0])[levels] / EFFECTS[1]
    y = causes @ EFFECTS + noise(rng, n, kind)
    of_site = rng.normal(size=(3, len(counts), N_CHILDREN))[:, site]
    unrelated = rng.normal(size=(n, p - 6)) + means[site, 6:]
    rows = with_children(
        rng, causes, y, a * of_site[0], b * (of_site[1] + of_site[2] * causes[:, :1]), unrelated
    )
    if kind == "categories":
        rows = rows.assign(x1=np.array([*"abc"])[levels], x7=rng.choice([*"klmn"], n))
    return rows.assign(site=site)


# ---------------------------------------------------------------- fits


def fit(rows: pd.DataFrame, environment: Any, deviations: str = "auto", **settings: Any) -> BIP:
    """Of the columns x0, x1, ...; settings: which environments are dropped or merged"""
    features = [name for name in rows if name[0] == "x"]
    data = MultiEnvironmentData.from_table(rows, "y", environment, features=features, **settings)
    return BIP("linear_gaussian", deviations=deviations, progress=False).fit(data)


def exact(rows: pd.DataFrame, environment: Any, deviations: str = "auto", **settings: Any) -> float:
    """Whether the causes are selected and nothing else; 0 where the fit is refused"""
    try:
        return float(fit(rows, environment, deviations, **settings).selected_features_ == TRUTH)
    except InvarianceError:
        return 0.0


def rejects(model: BIP, subset: Sequence[str] = TRUTH) -> float:
    """Whether the exact test rejects that the coefficients of a subset are invariant"""
    return float(tested(model, Tolerance.strict(), subset).mean[0] < LEVEL)


def tested(model: BIP, tolerance: Tolerance, subset: Sequence[str]) -> InvarianceTest:
    mask = np.isin(model.posterior_.feature_names, subset)
    return model.posterior_.judge.model.invariance_test(mask[None], tolerance)


# ---------------------------------------------------------------- parts: {figure: value} of one
# data set


def counts_of(rng: np.random.Generator, n_sites: int, rows: str) -> NDArray[np.int64]:
    """rows: "4-40" for whole numbers from 4 to 40, each as probable; "1..200" for ones whose
    logarithm is uniform"""
    if ".." in rows:
        low, high = np.log([float(end) for end in rows.split("..")])
        return np.round(np.exp(rng.uniform(low, high, n_sites))).astype(int)
    low, high = map(int, rows.split("-"))
    return rng.integers(low, high + 1, n_sites)


def size(n_sites: int, rows: str, tails: str, rng: np.random.Generator) -> Figures:
    """Causes alone and one unrelated feature. "Tolerated": the coefficients of the causes deviate
    by what explains the share of the noise that the tolerance of the test allows for."""
    table = sites(rng, counts_of(rng, n_sites, rows), p=7, kind=tails).drop(
        columns=["x3", "x4", "x5"]
    )
    W = np.column_stack([np.ones(len(table)), table[[*TRUTH]] - table[[*TRUTH]].mean()])
    noise_scale = np.linalg.lstsq(W, table["y"], rcond=None)[1][0] / len(table)
    signal = np.var(table["y"]) / noise_scale - 1.0
    share = min(CAP, Tolerance().rho ** 2 * signal)
    root = np.linalg.inv(np.linalg.cholesky(W.T @ W / len(W))).T / np.sqrt(W.shape[1])
    deviates = ((W @ root) * rng.normal(size=(n_sites, 4))[table["site"]]).sum(axis=1) * np.sqrt(
        share
    )
    strict = fit(table, "site", "random")
    tolerated = fit(table.assign(y=table["y"] + deviates), "site", "random")
    return {
        "exactly invariant": rejects(strict),
        "just tolerated": float(tested(tolerated, Tolerance(), TRUTH).mean[0] < LEVEL),
        "spread": float(tested(strict, Tolerance.strict(), TRUTH).spread[0] < LEVEL),
        "log Λ is 0": float(strict.posterior_.evidence(TRUTH).deviance == 0.0),
    }


def merged(counts: NDArray[np.int64], least: int = 20) -> dict[str, list[int]]:
    """Sites in their order, joined until each group has this many rows; what is left goes to the
    last group."""
    groups: list[list[int]] = [[]]
    for site, n in enumerate(counts):
        if n and counts[groups[-1]].sum() >= least:
            groups.append([])
        groups[-1].append(site)
    if len(groups) > 1 and counts[groups[-1]].sum() < least:
        groups[-2] += groups.pop()
    return {f"group {k}": group for k, group in enumerate(groups) if len(group) > 1}


# Standard deviations of the slopes on y, and of the other coefficients.
MOVES = {"all": (0.25, 0.25), "few": (0.4, 0.0)}


def small(n_sites: int, rows: str, moves: str, world: str, rng: np.random.Generator) -> Figures:
    counts = counts_of(rng, n_sites, rows)
    p = 12 if world == "p = 12" else 8
    table = sites(rng, counts, *MOVES[moves], p, world)
    return {
        "free": exact(table, "site", "free"),
        "dropped": exact(table, "site", "free", min_rows=p + 4),
        "merged": exact(table, "site", "free", merge_environments=merged(counts)),
        "random": exact(table, "site", "random"),
    }


def shapes(rng: np.random.Generator, shape: str, t: Floats) -> Floats:
    """(n, 3) of variance about 1 over t in [0, 1]: for each child of y another"""
    signs = rng.choice([-1.0, 1.0], N_CHILDREN)
    where = rng.uniform(0.2, 0.8, N_CHILDREN)
    t = t[:, None]
    if shape == "drift":
        return signs * np.sqrt(12.0) * (t - 0.5)
    if shape == "jump":
        return signs * np.where(t > where, 1.0, -1.0)
    return np.sqrt(2.0) * np.sin(2.0 * np.pi * (3.0 * t + where))  # three periods


def over_time(
    rng: np.random.Generator, n: int, a: Floats, own: Floats, autocorrelation: float = 0.0
) -> pd.DataFrame:
    """own: noise of y (n,); a: of the slopes of children (n, 3); features of which each follows its
    last value"""
    X = rng.normal(size=(n, 5))
    for i in range(1, n if autocorrelation else 0):
        X[i] = autocorrelation * X[i - 1] + np.sqrt(1.0 - autocorrelation**2) * X[i]
    return with_children(rng, X[:, :3], X[:, :3] @ EFFECTS + own, a, 0.0, X[:, 3:])


def along_variable(shape: str, tails: str, rng: np.random.Generator) -> Figures:
    t = rng.uniform(size=500)
    table = over_time(rng, 500, 0.3 * shapes(rng, shape, t), noise(rng, 500, tails)).assign(t=t)
    table = table.assign(five=pd.qcut(t, 5, labels=False), ten=pd.qcut(t, 10, labels=False))
    figures = {}
    for name, environment in (("along", along("t")), ("five bins", "five"), ("ten bins", "ten")):
        model = fit(table, environment)
        figures[f"{name}: exact"] = float(model.selected_features_ == TRUTH)
        figures[f"{name}: power"] = rejects(model, WRONG)
        figures[f"{name}: size"] = rejects(model)
    return figures


def autoregression(rng: np.random.Generator, n: int, a: Sequence[float]) -> Floats:
    """(n,) of variance about 1, after 200 values that are not kept"""
    e = rng.normal(size=n + 200)
    values = np.zeros(n + 200)
    for i in range(len(a), n + 200):
        values[i] = e[i] + sum(c * values[i - 1 - lag] for lag, c in enumerate(a))
    return values[200:] / values.std()


def sequence(n: int, a: Sequence[float], units: int, rng: np.random.Generator) -> Figures:
    """Units of n rows each, each a sequence of its own; the slopes of children drift"""
    a_of_t = 0.5 * shapes(rng, "drift", np.arange(n) / n)
    t = np.tile(np.arange(float(n)), units)
    parts = [over_time(rng, n, a_of_t, autoregression(rng, n, a), 0.8) for _ in range(units)]
    table = pd.concat(parts, ignore_index=True).assign(
        t=t, unit=np.repeat(np.arange(units), n), block=(5 * t) // n
    )
    within = None if units == 1 else "unit"
    models = {
        "five blocks": fit(table, "block"),
        "along": fit(table, along("t")),
        "along, AR 2": fit(table, along("t", ar=2, within=within)),
    }
    sizes = {f"{name}: size": rejects(model) for name, model in models.items()}
    return sizes | {
        f"{name}: exact": float(model.selected_features_ == TRUTH) for name, model in models.items()
    }


def gaps(kind: str, autocorrelation: float, rng: np.random.Generator) -> Figures:
    """200 times; "rows": three in ten are missing; "stretches": eight stretches of a dozen are"""
    n = 200
    missing = np.zeros(n, dtype=bool)
    if kind == "rows":
        missing = rng.random(n) < 0.3
    elif kind == "stretches":
        missing[np.minimum(rng.choice(n, 8, replace=False)[:, None] + np.arange(12), n - 1)] = True
    X = 0.3 * np.cumsum(rng.normal(size=(n, 3)), axis=0)
    table = pd.DataFrame(X, columns=TRUTH).assign(
        y=X @ EFFECTS + autoregression(rng, n, [autocorrelation])
    )
    table = table.assign(t=np.arange(n))[~missing].assign(number=np.arange(n - missing.sum()))
    return {
        "by the clock": rejects(fit(table, along("t", ar=2))),
        "by the order of rows": rejects(fit(table, along("number", ar=2))),
    }


def crossed(
    levels: tuple[int, int], moves: str, confounded: bool, rng: np.random.Generator
) -> Figures:
    """About fifteen rows a cell. moves: whether slopes of children deviate between hospitals,
    years, both, or only cells; confounded: each hospital has most of its rows in a few years"""
    hospitals, years = levels
    chance = np.ones(levels)
    if confounded:
        apart = np.abs(
            np.arange(hospitals)[:, None] / (hospitals - 1) - np.arange(years) / (years - 1)
        )
        chance = np.exp(-3.0 * apart)
    counts = rng.multinomial(15 * hospitals * years, (chance / chance.sum()).ravel())
    hospital, year = (np.repeat(index.ravel(), counts) for index in np.indices(levels))
    n = len(hospital)
    by = {"hospital": hospital, "year": year, "cells": hospital * years + year}
    chosen = {"both": ("hospital", "year"), "nothing": ()}.get(moves, (moves,))
    a = np.zeros((n, N_CHILDREN))
    for name in chosen:
        a += 0.5 * rng.normal(size=(hospitals * years, N_CHILDREN))[by[name]]
    means = (
        0.5 * rng.normal(size=(hospitals, 3))[hospital] + 0.5 * rng.normal(size=(years, 3))[year]
    )
    causes = rng.normal(size=(n, 3)) + means
    y = causes @ EFFECTS + rng.normal(size=n)
    table = with_children(rng, causes, y, a, 0.0, rng.normal(size=(n, 2))).assign(**by)
    models = {
        "additive": fit(table, ["hospital", "year"]),
        "random cells": fit(table, "cells", "random"),
    }
    figures = {
        f"{name}: exact": float(model.selected_features_ == TRUTH) for name, model in models.items()
    }
    figures["free cells: exact"] = exact(table, "cells", "free")
    figures["size"] = rejects(models["additive"])
    figures["named right"] = (
        np.nan if moves == "cells" else float(named(models["additive"]) == set(chosen))
    )
    alone = {name for name in ("hospital", "year") if rejects(fit(table, name), WRONG)}
    figures["named right, one at a time"] = (
        np.nan if moves == "cells" else float(alone == set(chosen))
    )
    return figures


def named(model: BIP) -> set[str]:
    """Factors by which the exact test finds that the coefficients of {x0, x1, x2, x3} differ, given
    the other"""
    mask = np.isin(model.posterior_.feature_names, WRONG)
    tests = components_of(model.posterior_.judge.model, mask, Tolerance()).tests
    return {test.name for test in tests if test.p_exact < LEVEL}


def large(n_sites: int, n: int, kind: str, rng: np.random.Generator) -> Figures:
    """kind: "children" deviate, or "jitter": the effects of the causes differ by 10%, too"""
    table = sites(rng, np.full(n_sites, n), 0.3, 0.3)
    if kind == "jitter":
        own = (
            table[[*TRUTH]].to_numpy()
            * EFFECTS
            * 0.1
            * rng.normal(size=(n_sites, 3))[table["site"]]
        ).sum(axis=1)
        table = table.assign(y=table["y"] + own)
    free = fit(table, "site", "free")
    random = fit(table, "site", "random")
    levels = [
        tested(model, Tolerance(), TRUTH).joint[0] >= Tolerance().level for model in (free, random)
    ]
    return {
        "same selection": float(free.selected_features_ == random.selected_features_),
        "truth judged alike": float(levels[0] == levels[1]),
        "same grade": float(free.decision_.verdict.grade == random.decision_.verdict.grade),
        "free: exact": float(free.selected_features_ == TRUTH),
        "random: exact": float(random.selected_features_ == TRUTH),
    }


def new(n_sites: int, rows: str, moves: float, tails: str, rng: np.random.Generator) -> Figures:
    """The intercept and the effects of the causes deviate between sites with this standard
    deviation; ten sites more are new, with 20 rows each"""
    counts = np.append(counts_of(rng, n_sites, rows), np.full(10, 20))
    table = sites(rng, counts, 0.4, kind=tails)
    design = np.column_stack([np.ones(len(table)), table[[*TRUTH]]])
    own = moves * design * rng.normal(size=(len(counts), 4))[table["site"]]
    table = table.assign(y=table["y"] + own.sum(axis=1))
    fitted = table[table["site"] < n_sites]
    fresh = table[table["site"] >= n_sites]
    model = fit(fitted, "site", "random").set_params(predict_with="selected")
    low, high = model.predict_interval(fresh, coverage=0.9).T
    means = fresh.groupby("site").mean()
    chosen = [*model.columns_to_predict]
    (member,) = model.predictor_.members
    w = np.insert(means[chosen].to_numpy() - member.design.centre, 0, 1.0, axis=1)
    deviating = np.einsum("ni,ij,nj->n", w, member.uncertainty, w)
    errors = np.sqrt(member.noise * (1.0 / 20 + deviating))
    freedom_of_means = (1.0 / 20 + deviating) ** 2 / (
        0.05**2 / member.freedom + deviating**2 / member.between
    )
    line = LinearRegression().fit(fitted[[*TRUTH]], fitted["y"])
    missed = fitted["y"] - line.predict(fitted[[*TRUTH]])
    freedom = len(fitted) - 4
    t = student.ppf(0.95, freedom)
    spread = np.sqrt((missed**2).sum() / freedom)
    off = (
        np.abs(means["y"] - model.predict(means)),
        np.abs(means["y"] - line.predict(means[[*TRUTH]])),
    )
    return {
        "rows": float(np.mean((low <= fresh["y"]) & (fresh["y"] <= high))),
        "rows, t": float(np.mean(np.abs(fresh["y"] - line.predict(fresh[[*TRUTH]])) <= t * spread)),
        "site means": float(np.mean(off[0] <= student.ppf(0.95, freedom_of_means) * errors)),
        "site means, t": float(np.mean(off[1] <= t * spread / np.sqrt(20))),
    }


def intervals(
    n_sites: int, n: int, moves: str, deviations: str, rng: np.random.Generator
) -> Figures:
    """moves: what deviates between sites with standard deviation 1: "intercept", the "slope" of x0,
    "all" (0.5 each) or "nothing"; ten sites more are new. N − k: by the mixed model's ω² alone, as
    one pooled Student's t."""
    table = sites(rng, np.full(n_sites + 10, n), p=7).drop(columns=["x3", "x4", "x5", "x6"])
    design = np.column_stack([np.ones(len(table)), table[[*TRUTH]]])
    scales = {
        "intercept": [1, 0, 0, 0],
        "slope": [0, 1, 0, 0],
        "all": [0.5] * 4,
        "nothing": [0] * 4,
    }[moves]
    own = design * rng.normal(size=(n_sites + 10, 4))[table["site"]] * scales
    table = table.assign(y=table["y"] + own.sum(axis=1))
    fitted = table[table["site"] < n_sites]
    fresh = table[table["site"] >= n_sites]
    model = fit(fitted, "site", deviations).set_params(predict_with="everything")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        low, high = model.predict_interval(fresh, coverage=0.9).T
    figures = {
        "warned": float(any(issubclass(w.category, PredictionWarning) for w in caught)),
        "new rows": float(np.mean((low <= fresh["y"]) & (fresh["y"] <= high))),
        "width": float(np.median(high - low)),
    }
    bound = model.posterior_.judge.model.untilted
    mask = np.ones(3, dtype=bool)
    estimates = bound.fit(mask).coefficients
    errors = bound.standard_errors(mask)
    margins = student.ppf(0.975, errors.freedom[-1]) * errors.values[-1]
    figures |= {
        "effects": float(np.mean(np.abs(estimates - EFFECTS) <= margins)),
        "their width": 2 * margins.mean(),
    }
    if not isinstance(bound, GaussianRandomDeviations):
        return figures
    at = coordinates(bound, mask)
    share = float(bound.deviation_shares(mask[None])[0])
    freedom = len(fitted) - 4
    mean = at.basis @ np.linalg.inv(at.at(share)[1].sum(axis=0)) @ at.basis.T
    whole = share * at.basis @ at.basis.T + mean
    noise_scale = bound.blups(mask).noise
    before = student.ppf(0.975, freedom) * np.sqrt(noise_scale * np.diag(mean)[1:])
    w = np.column_stack([np.ones(len(fresh)), fresh[[*TRUTH]] - fitted[[*TRUTH]].mean()])
    line = fresh[[*TRUTH]].to_numpy() @ estimates + bound.fit(mask).intercept
    half = student.ppf(0.95, freedom) * np.sqrt(
        noise_scale * (1.0 + np.einsum("ni,ij,nj->n", w, whole, w))
    )
    return figures | {
        "effects, N − k": float(np.mean(np.abs(estimates - EFFECTS) <= before)),
        "their width, N − k": 2 * before.mean(),
        "new rows, N − k": float(np.mean(np.abs(fresh["y"] - line) <= half)),
        "width, N − k": float(np.median(2.0 * half)),
    }


# ---------------------------------------------------------------- cells

PARTS = ("size", "small", "along", "sequence", "gaps", "crossed", "large", "new", "intervals")
SIZES = (
    (3, "20-60"),
    (5, "20-60"),
    (10, "4-40"),
    (20, "4-40"),
    (50, "4-40"),
    (160, "4-40"),
    (160, "4-10"),
)
SMALL = ((20, "4-40"), (50, "4-40"), (160, "4-40"), (160, "4-10"))
AUTOREGRESSIONS = ((0.0,), (0.6,), (0.9,), (0.5, 0.3))


def cells() -> dict[str, dict[str, Callable[[np.random.Generator], Figures]]]:
    """{part: {cell: what one data set of it gives}}"""
    found: dict[str, dict[str, Callable[[np.random.Generator], Figures]]] = {
        part: {} for part in PARTS
    }
    for (n_sites, rows), tails in product(SIZES, ("normal", "t5")):
        found["size"][f"{n_sites} sites of {rows} rows, {tails}"] = partial(
            size, n_sites, rows, tails
        )
    for (n_sites, rows), moves in product(SMALL, MOVES):
        found["small"][f"{n_sites} sites of {rows} rows, {moves}"] = partial(
            small, n_sites, rows, moves, ""
        )
    for world, moves in product(("p = 12", "categories", "t5"), MOVES):
        found["small"][f"50 sites of 4-40 rows, {moves}, {world}"] = partial(
            small, 50, "4-40", moves, world
        )
    for moves in MOVES:
        found["small"][f"50 sites of 1-200 rows, unequal, {moves}"] = partial(
            small, 50, "1..200", moves, ""
        )
    for shape, tails in (
        ("drift", "normal"),
        ("jump", "normal"),
        ("periodic", "normal"),
        ("drift", "t5"),
    ):
        found["along"][f"{shape}, {tails}"] = partial(along_variable, shape, tails)
    for a, (n, units) in product(AUTOREGRESSIONS, ((200, 1), (1000, 1), (25, 40))):
        found["sequence"][f"AR {a}, {units} x {n} rows"] = partial(sequence, n, a, units)
    for kind, autocorrelation in product(("none", "rows", "stretches"), (0.6, 0.8)):
        found["gaps"][f"missing: {kind}, AR {autocorrelation}"] = partial(
            gaps, kind, autocorrelation
        )
    for levels, moves in product(
        ((6, 5), (12, 10)), ("hospital", "year", "both", "cells", "nothing")
    ):
        found["crossed"][f"{levels[0]} x {levels[1]}, {moves}"] = partial(
            crossed, levels, moves, False
        )
    for levels in ((6, 5), (12, 10)):
        found["crossed"][f"{levels[0]} x {levels[1]}, hospital, confounded"] = partial(
            crossed, levels, "hospital", True
        )
    for n_sites, n, kind in product((5, 10), (50, 200, 500), ("children", "jitter")):
        found["large"][f"{n_sites} sites of {n} rows, {kind}"] = partial(large, n_sites, n, kind)
    for (n_sites, rows), moves, tails in product(
        ((20, "4-40"), (50, "4-40")), (0.0, 0.3), ("normal", "t5")
    ):
        found["new"][f"{n_sites} sites of {rows} rows, moves {moves}, {tails}"] = partial(
            new, n_sites, rows, moves, tails
        )
    for n_sites, n, moves in product(
        (4, 6, 8, 10, 20), (10, 50), ("intercept", "slope", "all", "nothing")
    ):
        found["intervals"][f"{n_sites} sites of {n} rows, {moves}"] = partial(
            intervals, n_sites, n, moves, "random"
        )
    for n_sites, moves in product((3, 4, 5, 8), ("intercept", "all", "nothing")):
        found["intervals"][f"{n_sites} sites of 50 rows, {moves}, free"] = partial(
            intervals, n_sites, 50, moves, "free"
        )
    return found


def sets_of(part: str, sets: int) -> int:
    """Shares near 0.05 need more data sets, and fits with four features are quick."""
    return 4 * sets if part in ("size", "gaps") else sets


def one(task: tuple[str, str, int]) -> tuple[tuple[str, str, int], Figures, float]:
    """Figures of one data set, and seconds"""
    part, cell, seed = task
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        figures = cells()[part][cell](
            np.random.default_rng([seed, zlib.crc32(f"{part}: {cell}".encode())])
        )
    return task, figures, time.perf_counter() - started


def run(
    parts: Sequence[str], sets: int, folder: Path, jobs: int
) -> dict[tuple[str, str], pd.DataFrame]:
    """{(part, cell): one row for each data set}; does what the folder does not hold yet"""
    file = folder / RESULTS
    code = digest(__file__)
    folder.mkdir(parents=True, exist_ok=True)
    done: dict[tuple[str, str, int], Figures] = {}
    if file.exists():
        whole = file.read_bytes().rpartition(b"\n")[0]  # without a line that was cut short
        file.write_bytes(whole + b"\n" if whole else b"")
        lines = map(json.loads, whole.splitlines())
        done = {tuple(line["task"]): line["figures"] for line in lines if line["code"] == code}
    tasks = [
        (part, cell, seed)
        for part in parts
        for cell in cells()[part]
        for seed in range(sets_of(part, sets))
    ]
    with ProcessPoolExecutor(jobs) as pool, file.open("a", encoding="utf-8") as out:
        for task, figures, seconds in pool.map(
            one, [task for task in tasks if task not in done], chunksize=4
        ):
            done[task] = figures
            out.write(
                json.dumps({"task": task, "figures": figures, "seconds": seconds, "code": code})
                + "\n"
            )
            out.flush()
    names = dict.fromkeys(task[:2] for task in tasks)
    return {
        name: pd.DataFrame([done[*name, seed] for seed in range(sets_of(name[0], sets))])
        for name in names
    }


def tell(results: Mapping[tuple[str, str], pd.DataFrame], parts: Sequence[str], sets: int) -> None:
    for part in parts:
        print(f"\n## {part}: {sets_of(part, sets)} data sets a cell")
        means = {cell: frame.mean() for (of, cell), frame in results.items() if of == part}
        figures = next(iter(means.values())).index
        table(
            ("", *figures),
            (
                [cell, *(f"{mean.get(name, np.nan):.3f}" for name in figures)]
                for cell, mean in means.items()
            ),
        )


# ---------------------------------------------------------------- speed


def speed() -> None:
    """Of one core, from second moments of 15 features: subsets of up to four, and of eight"""
    print("\nThousand subsets a second, one core, p = 15")
    columns = "environments", "rows", "features", "score test", "log Λ"
    cases = product((20, 160), (10, 1000), ((0, 1, 2, 3, 4), (8,)))
    table(
        columns,
        ([str(e), f"{e * n:,}", f"{of[0]}-{of[-1]}", *speeds(e, n, of)] for e, n, of in cases),
    )


def speeds(n_sites: int, n: int, sizes: Sequence[int]) -> Iterator[str]:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(n_sites), n)
    X = rng.normal(size=(len(site), 15)) + 0.5 * rng.normal(size=(n_sites, 15))[site]
    y = X[:, :3] @ EFFECTS + rng.normal(size=len(site)) + 0.3 * rng.normal(size=n_sites)[site]
    data = Moments.from_data(MultiEnvironmentData.from_arrays(X, y, site))
    members = [members for size in sizes for members in combinations(range(15), size)]
    masks = np.array([np.isin(np.arange(15), each) for each in members])

    def bound() -> GaussianRandomDeviations:
        """Anew each time: a model remembers what it was asked last."""
        return LinearGaussian(deviations="random").bind(data, n_jobs=1)

    works = (
        lambda: bound().invariance_test(masks, Tolerance()),
        lambda: bound().log_ratio_many(masks),
    )
    for work in works:
        yield f"{len(masks) / best_seconds(work, 5) / 1e3:,.1f}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, "speed", []], help="all but speed by default"
    )
    parser.add_argument("--sets", type=int, default=200, help="data sets a cell")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, help="folder for results, by default a temporary one")
    given = parser.parse_args()
    header("Environments that are not one label with plenty of rows")
    if "speed" in given.parts:
        speed()
    parts = [part for part in given.parts or PARTS if part != "speed"]
    with tempfile.TemporaryDirectory() as elsewhere:
        tell(run(parts, given.sets, given.out or Path(elsewhere), given.jobs), parts, given.sets)
