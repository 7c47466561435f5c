"""Levels of invariance: effects that are the same where baselines differ.

python benchmarks/levels.py                     all of it, small
python benchmarks/levels.py size --sets 400     how often tests of effects and of baselines reject
python benchmarks/levels.py price --sets 200    what free baselines cost: effects that differ, found
    by the package, by a likelihood ratio with the exact level, and by the full level
python benchmarks/levels.py discovery --sets 60 simulated worlds whose outcome is shifted in each
    environment
python benchmarks/levels.py bounds --sets 100   how near that is to what any such rule can find
python benchmarks/levels.py real                real sets: which level holds, with shared and with
    automatic baselines
python benchmarks/levels.py noise               columns of noise that are selected, and why
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.stats import f

from _harness import header, table
from _real_sets import SETS
from _stratified import likelihood_ratio
from _worlds import outcome
from invariance import BIP, MultiEnvironmentData, Tolerance
from invariance.decisions.levels import baseline_of, effects_model
from invariance.decisions.predictive import PredictiveScore
from invariance.models.base import BoundModel
from invariance.models.registry import as_family
from invariance.simulation import flat, p10
from invariance.simulation.structural import StructuralModel

FAMILIES = ("linear_gaussian", "logistic", "poisson", "piecewise_exponential")
EFFECTS = np.array([0.6, -0.5, 0.4])
BASELINES = 0.5
SHIFT = 0.7
LEVEL = 0.05
DIFFERENT = 0.3  # share of themselves by which slopes differ


# ---------------------------------------------------------------- size and power


class Cell(NamedTuple):
    """n rows in each of E environments"""

    family: str
    n_environments: int
    n: int

    def draw(self, seed: int, spread: float, different: float) -> MultiEnvironmentData:
        """spread : standard deviation of baselines; different : share of themselves by which slopes
        differ"""
        rng = np.random.default_rng(
            [seed, self.n_environments, self.n, FAMILIES.index(self.family)]
        )
        site = np.repeat(np.arange(self.n_environments), self.n)
        X = (
            rng.normal(size=(len(site), 3))
            + SHIFT * rng.normal(size=(self.n_environments, 3))[site]
        )
        slopes = EFFECTS * (1.0 + different * rng.normal(size=(self.n_environments, 3)))
        eta = (X * slopes[site]).sum(axis=1) + spread * rng.normal(size=self.n_environments)[site]
        y, event, _ = outcome(self.family, eta, rng)
        return MultiEnvironmentData.from_arrays(X, y, site, event=event)


class Rejected(NamedTuple):
    """At 5%, exactly: effects at their own level; baselines, and by the exact F test; effects that
    differ, and what the full level makes of them without shifted baselines"""

    effects: bool
    baselines: bool
    by_f: bool
    found: bool
    found_full: bool


def rejected(cell: Cell, seed: int) -> Rejected | None:
    """None where an environment has one outcome only"""
    every = np.ones((1, 3), dtype=bool)
    strict = Tolerance.strict(LEVEL)
    family = as_family(cell.family)
    kind = getattr(family, "kind", "number")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [
                family.bind(cell.draw(seed, spread, different))
                for spread, different in (
                    (BASELINES, 0.0),
                    (BASELINES, DIFFERENT),
                    (0.0, DIFFERENT),
                )
            ]
            same, apart = (effects_model(model) for model in models[:2])
            baselines = baseline_of(models[0], every[0], "y", None)
            assert baselines is not None
            return Rejected(
                _p_of_mean(same, every, strict) < LEVEL,
                baselines.p_value < LEVEL,
                kind == "number" and _f_of_baselines(models[0].data) < LEVEL,
                _p_of_mean(apart, every, strict) < LEVEL,
                _p_of_mean(models[2], every, strict) < LEVEL,
            )
    except ValueError:
        return None


def _p_of_mean(model: object, masks: np.ndarray, tolerance: Tolerance) -> float:
    test = model.invariance_test(masks, tolerance)  # type: ignore[attr-defined]
    return float(test.joint[0] if np.isnan(test.mean[0]) else test.mean[0])


def _f_of_baselines(data: MultiEnvironmentData) -> float:
    """By refits to the rows"""
    E = data.n_environments
    n = data.n_rows
    site = data.environment_index
    designs = np.ones((n, 1)), site[:, None] == np.arange(E)
    squares = []
    for intercepts in designs:
        design = np.column_stack([intercepts, data.X])
        squares.append(float(np.sum((data.y - design @ np.linalg.lstsq(design, data.y)[0]) ** 2)))
    left = n - E - data.n_features
    return float(f.sf((squares[0] - squares[1]) / (E - 1) / (squares[1] / left), E - 1, left))


def size(sets: int, jobs: int, families: list[str]) -> None:
    print(
        f"\nSize and power at {LEVEL:g}: three effects that are the same, baselines N(0, "
        f"{BASELINES:g}²); effects that "
        f"differ by {DIFFERENT:.0%}; {sets} data sets a cell"
    )
    columns = (
        "family",
        "E",
        "rows each",
        "effects rejected",
        "baselines found",
        "by F",
        "different effects found",
        "the same by the full level, baselines shared",
    )
    with ProcessPoolExecutor(jobs) as pool:
        table(
            columns,
            (
                _size_row(pool, Cell(*cell), sets)
                for cell in product(families, (3, 5, 10, 20), (20, 50, 200))
            ),
        )


def _size_row(pool: ProcessPoolExecutor, cell: Cell, sets: int) -> tuple[str, ...]:
    found = [
        one
        for one in pool.map(partial(rejected, cell), range(sets), chunksize=8)
        if one is not None
    ]
    shares = np.mean(np.array(found, dtype=float).reshape(-1, len(Rejected._fields)), axis=0)
    told = [f"{share:.3f}" for share in shares]
    told[2] = told[2] if cell.family == FAMILIES[0] else "–"
    return cell.family, str(cell.n_environments), str(cell.n), *told


# ---------------------------------------------------------------- the price of free baselines

# Data sets with the same effects, for each that is tested, from which the oracle has its cutoff.
CALIBRATED_BY = 5
PRICED = tuple(product(FAMILIES[1:], ((5, 50), (10, 20), (10, 50), (20, 20), (20, 50), (20, 200))))


class Priced(NamedTuple):
    """p-values of common effects by the package and likelihood ratios of the oracle, and p-values
    of the full level where baselines are shared: effects the same, effects different"""

    effects: tuple[float, float]
    ratios: tuple[float, float]
    full: tuple[float, float]


def ratio(cell: Cell, seed: int) -> float:
    """The oracle's likelihood ratio where effects are the same"""
    return _ratio_of(cell, cell.draw(seed, BASELINES, 0.0))


def _ratio_of(cell: Cell, data: MultiEnvironmentData) -> float:
    shape = cell.n_environments, cell.n
    event = None if data.event is None else data.event.reshape(shape)
    return likelihood_ratio(cell.family, data.X.reshape(*shape, -1), data.y.reshape(shape), event)


def priced(cell: Cell, seed: int) -> Priced | None:
    """None where an environment has one outcome only"""
    every = np.ones((1, 3), dtype=bool)
    strict = Tolerance.strict(LEVEL)
    family = as_family(cell.family)
    data = [
        cell.draw(seed, spread, different)
        for spread, different in product((BASELINES, 0.0), (0.0, DIFFERENT))
    ]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            models = [family.bind(each) for each in data]
            models[:2] = [effects_model(model) for model in models[:2]]
            same, apart, full, full_apart = (_p_of_mean(each, every, strict) for each in models)
    except ValueError:
        return None
    ratios = _ratio_of(cell, data[0]), _ratio_of(cell, data[1])
    return Priced((same, apart), ratios, (full, full_apart))


def price(sets: int, jobs: int, families: list[str]) -> None:
    print(
        f"\nThe price of free baselines at {LEVEL:g}: effects that differ by {DIFFERENT:.0%}; "
        f"{sets} data sets a cell. Oracle: the likelihood ratio with free baselines, its cutoff "
        f"from {CALIBRATED_BY * sets} data sets of the same world whose effects are the same; ±: "
        "one standard error of the paired difference. Calibrated: each test at the cutoff that has "
        "the exact level in these data sets"
    )
    columns = (
        "family",
        "E × rows",
        "effects: size",
        "effects: found",
        "oracle: found",
        "effects − oracle",
        "full level: size",
        "full level: found",
        "calibrated: effects, full level",
    )
    with ProcessPoolExecutor(jobs) as pool:
        table(
            columns,
            (
                _price_row(pool, Cell(family, *size), sets)
                for family, size in PRICED
                if family in families
            ),
        )


def _price_row(pool: ProcessPoolExecutor, cell: Cell, sets: int) -> tuple[str, ...]:
    null = np.array(list(pool.map(partial(ratio, cell), range(CALIBRATED_BY * sets), chunksize=50)))
    cutoff = np.quantile(null, 1.0 - LEVEL)
    each = pool.map(partial(priced, cell), range(sets), chunksize=8)
    effects, ratios, full = np.moveaxis([one for one in each if one is not None], 1, 0)
    rejected = effects < LEVEL
    rejected_full = full < LEVEL
    oracle = ratios[:, 1] > cutoff
    gap = rejected[:, 1].astype(float) - oracle
    exact = (
        np.mean(p_values[:, 1] <= np.quantile(p_values[:, 0], LEVEL))
        for p_values in (effects, full)
    )
    return (
        cell.family,
        f"{cell.n_environments} × {cell.n}",
        f"{rejected[:, 0].mean():.3f}",
        f"{rejected[:, 1].mean():.3f}",
        f"{oracle.mean():.3f}",
        f"{gap.mean():+.3f} ± {gap.std() / len(gap) ** 0.5:.3f}",
        f"{rejected_full[:, 0].mean():.3f}",
        f"{rejected_full[:, 1].mean():.3f}",
        ", ".join(f"{share:.3f}" for share in exact),
    )


# ---------------------------------------------------------------- discovery

WORLDS = {"flat": flat, "p10": p10}


class World(NamedTuple):
    """shift : standard deviation of the outcome's intercepts; means_only : environments move
    children's means alone"""

    name: str
    n_environments: int
    n: int
    shift: float = 0.0
    means_only: bool = False

    def draw(self, seed: int) -> MultiEnvironmentData:
        rng = np.random.default_rng([seed, self.n_environments, self.n])
        model: StructuralModel = WORLDS[self.name](self.n_environments, rng)
        intercepts = model.intercepts.copy()
        intercepts[:, -1] += self.shift * rng.normal(size=self.n_environments)
        model = replace(model, intercepts=intercepts)
        if self.means_only:
            coefficients, variances = (
                np.broadcast_to(each[:1], each.shape)
                for each in (model.coefficients, model.variances)
            )
            model = replace(model, coefficients=coefficients.copy(), variances=variances.copy())
        return model.sample(self.n, rng)


class Found(NamedTuple):
    exact: bool
    false: int
    missed: int
    level: str


def found(world: World, baseline: str, seed: int) -> Found:
    data = world.draw(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(baseline=baseline, progress=False).fit(data)
    truth = data.truth
    chosen = model.support_
    return Found(
        bool((chosen == truth).all()),
        int((chosen & ~truth).sum()),
        int((truth & ~chosen).sum()),
        model.decision_.level,
    )


def discovery(sets: int, jobs: int) -> None:
    print(
        f"\nExactly the causes are selected / false features / full level holds; {sets} data sets "
        "a cell"
    )
    columns = (
        "world",
        "E",
        "rows each",
        "outcome's intercepts",
        "baseline=shared",
        "baseline=auto",
    )
    worlds = [
        World(name, e, n, shift)
        for name, e, n, shift in product(WORLDS, (5, 10), (50, 200), (0.0, 1.0))
    ]
    worlds += [World("flat", 8, 200, shift, True) for shift in (0.0, 1.0)]
    with ProcessPoolExecutor(jobs) as pool:
        table(columns, (_discovery_row(pool, world, sets) for world in worlds))


def _discovery_row(pool: ProcessPoolExecutor, world: World, sets: int) -> tuple[str, ...]:
    told = []
    for baseline in ("shared", "auto"):
        each = list(pool.map(partial(found, world, baseline), range(sets), chunksize=4))
        exact = np.mean([one.exact for one in each])
        false = np.mean([one.false for one in each])
        told.append(
            f"{exact:.2f} / {false:.2f} / {np.mean([one.level == 'full' for one in each]):.2f}"
        )
    name = f"{world.name}, children's means alone move" if world.means_only else world.name
    return name, str(world.n_environments), str(world.n), f"N(0, {world.shift:g}²)", *told


# ---------------------------------------------------------------- what discovery can reach


class Bounded(NamedTuple):
    """Of one data set with shifted baselines; each is whether

    calm : the default finds exactly the causes in the same data without the shift
    wrong : the full level holds for another subset than the causes, so that the answer is this one
    auto, free : exactly the causes are found
    passes : the causes pass the test of effects, at the level that subsets have to reach
    best : they do, and no other subset that passes predicts better, at its price
    strict : the same by the strict test, which tolerates no difference
    """

    calm: bool
    wrong: bool
    auto: bool
    free: bool
    passes: bool
    best: bool
    strict: bool


def bounded(world: World, seed: int) -> Bounded:
    data = world.draw(seed)
    truth = data.truth
    calm = found(world._replace(shift=0.0), "shared", seed)
    shared, auto, free = (found(world, baseline, seed) for baseline in ("shared", "auto", "free"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = effects_model(as_family("linear_gaussian").bind(data))
        passes, best = _passes(model, truth, Tolerance())
        _, strict = _passes(model, truth, Tolerance.strict(LEVEL))
    wrong = shared.level == "full" and not shared.exact
    return Bounded(calm.exact, wrong, auto.exact, free.exact, passes, best, strict)


def _passes(model: BoundModel, truth: np.ndarray, tolerance: Tolerance) -> tuple[bool, bool]:
    """Whether the causes are compatible, and the best predictor of all compatible subsets"""
    masks = np.array(list(product((False, True), repeat=len(truth))))
    for accepted in (tolerance, tolerance.weak):
        compatible = masks[model.compatible(masks, accepted)]
        if len(compatible):
            break
    else:
        return False, False
    gain = float(model.gain_many(compatible).max())
    weights = PredictiveScore.with_price(model, accepted, gain).log_weights(compatible)
    passes = bool((compatible == truth).all(axis=1).any())
    return passes, bool((compatible[np.argmax(weights)] == truth).all())


def bounds(sets: int, jobs: int) -> None:
    print(
        f"\nWhat discovery can reach with the outcome's intercepts N(0, 1); {sets} data sets a "
        "cell. Bound of auto: the full level holds for no wrong subset, as any rule needs that "
        "gives the full level's answer where there is one. Bound of free: the causes pass the test "
        "of effects, and no other subset that passes predicts better"
    )
    columns = (
        "world",
        "E",
        "rows each",
        "without the shift",
        "full level holds for a wrong subset",
        "bound of auto",
        "auto",
        "auto, of those within its bound",
        "causes pass",
        "bound of free",
        "free",
        "bound, strict test",
    )
    worlds = [World(name, e, n, 1.0) for name, e, n in product(WORLDS, (5, 10), (50, 200))]
    with ProcessPoolExecutor(jobs) as pool:
        table(columns, (_bounds_row(pool, world, sets) for world in worlds))


def _bounds_row(pool: ProcessPoolExecutor, world: World, sets: int) -> tuple[str, ...]:
    each = np.array(list(pool.map(partial(bounded, world), range(sets), chunksize=4)), dtype=float)
    shares = Bounded(*each.mean(axis=0))
    bound = 1.0 - shares.wrong
    figures = (
        shares.calm,
        shares.wrong,
        bound,
        shares.auto,
        shares.auto / bound,
        shares.passes,
        shares.best,
        shares.free,
        shares.strict,
    )
    told = (f"{share:.2f}" for share in figures)
    return world.name, str(world.n_environments), str(world.n), *told


# ---------------------------------------------------------------- noise


def noise_selected(n_features: int, seed: int) -> tuple[int, str]:
    """Columns of noise that are selected where baselines differ and nothing else is there"""
    rng = np.random.default_rng([seed, n_features])
    site = np.repeat(np.arange(6), 100)
    X = rng.normal(size=(600, n_features))
    y = rng.normal(size=6)[site] + rng.normal(size=600)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = BIP(progress=False, random_state=0).fit(X, y, environments=site)
    return int(model.support_.sum()), model.decision_.level


def noise(sets: int, jobs: int) -> None:
    print(
        f"\nColumns of noise selected, a column; six sites with baselines N(0, 1); {sets} data "
        "sets a cell"
    )
    with ProcessPoolExecutor(jobs) as pool:
        rows = []
        for n_features in (3, 8):
            each = list(pool.map(partial(noise_selected, n_features), range(sets), chunksize=4))
            share = np.mean([count for count, _ in each]) / n_features
            rows.append(
                (
                    str(n_features),
                    f"{share:.4f}",
                    f"{np.mean([level == 'effects' for _, level in each]):.2f}",
                )
            )
        table(("columns", "selected, a column", "effects level"), rows)


# ---------------------------------------------------------------- real data


def real() -> None:
    print("\nReal sets: what is selected, and at which level of invariance")
    table(
        (
            "set",
            "baseline=shared: level, selected",
            "baseline=auto: level, selected",
            "baselines (p, sd)",
            "effects (p, difference)",
        ),
        _real_rows(),
    )


def _real_rows() -> Iterator[tuple[str, ...]]:
    for name, one in SETS.items():
        if one.absent:
            yield name, one.absent, "", "", ""
            continue
        told = []
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for baseline in ("shared", "auto"):
                model = BIP(one.family, baseline=baseline, random_state=0, progress=False).fit(
                    one.data
                )
                told.append(
                    f"{model.decision_.level}: {', '.join(model.selected_features_) or '∅'}"
                )
            decision = model.decision_
            baselines = decision.baseline
            effects = decision.heterogeneity
        of_baselines = (
            "–"
            if baselines is None
            else f"{baselines.p_value:.2g}, {baselines.sd:.2g} {baselines.unit}"
        )
        yield (
            name,
            *told,
            of_baselines,
            f"{effects.p_exact:.2g}, {effects.difference:.0%} [{effects.low:.0%}, "
            f"{effects.high:.0%}]",
        )


PARTS = ("size", "price", "discovery", "bounds", "real", "noise")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="?", choices=PARTS)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    given = parser.parse_args()
    header("Levels of invariance")
    if given.what in (None, "size"):
        size(given.sets, given.jobs, given.families)
    if given.what in (None, "price"):
        price(given.sets, given.jobs, given.families)
    if given.what in (None, "discovery"):
        discovery(given.sets, given.jobs)
    if given.what in (None, "bounds"):
        bounds(given.sets, given.jobs)
    if given.what in (None, "noise"):
        noise(given.sets, given.jobs)
    if given.what in (None, "real"):
        real()


if __name__ == "__main__":
    main()
