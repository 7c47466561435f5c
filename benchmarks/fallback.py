"""What is selected where no subset is compatible: noise, causes, and the error in new environments.

python benchmarks/fallback.py                       8 data sets a cell, about ten minutes on two
    cores
python benchmarks/fallback.py --sets 100 --jobs 8
python benchmarks/fallback.py --real                real sets, one environment left out in turn

Every rule is forced to fall back. flat and p10: `invariance.simulation`, the outcome's intercept is
N(0, shift²) by environment, and two more columns are noise whose means are N(0, 1) by environment.
noise: those two, and features without an ancestor in common with the outcome. wide: 300 columns in
8 sites with 200 rows each, 294 of them noise, of half of which means are N(0, 1) by site; 6 causes,
which explain half of the variance within sites, intercepts N(0, 1). before: the least risk alone;
price on risk: N log(risk) + price · columns, which lets noise in, since the risk is known to 1/√N
only; after: `least_risky`. Errors: RMSE in six fresh environments of least squares on the
selection, the geometric mean over data sets of the mean and of the worst one.

--real: sets of _real_sets.py. The rules of the package and the one before select from all
environments but one; folds in which no subset is compatible are compared, by the error in the
environment left out. Tables are Markdown.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from _harness import header, table
from _real_sets import SETS
from invariance import BIP, Columns, LinearGaussian, MultiEnvironmentData
from invariance.baselines.base import kind_for
from invariance.baselines.comparison import error_in
from invariance.decisions.pipeline import Findings, FitSettings
from invariance.decisions.rules import all_subsets, falls_back, least_risky
from invariance.exceptions import InvarianceError
from invariance.simulation import flat, p10

FRESH = 6
MOVED_NOISE = 2
WORLDS = {"flat": flat, "p10": p10}
SHAPES = ((3, 50), (5, 50), (5, 200), (10, 200))
SHIFTS = (0.5, 2.0)
WIDE = 300
CAUSES = 6


class Cell(NamedTuple):
    world: str
    n_environments: int
    n: int
    shift: float


class Drawn(NamedTuple):
    """noise, truth (p,)"""

    data: MultiEnvironmentData
    fresh: MultiEnvironmentData
    noise: np.ndarray
    truth: np.ndarray


# ---------------------------------------------------------------- rules


def by_criterion(findings: Findings, criterion: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The subset with the least value: of all where these are few, else by single flips and
    exchanges."""
    target = findings.target
    if target.prior.support_size() <= 4096:
        masks = all_subsets(target)
        return masks[int(np.argmin(criterion(masks)))]
    best = target.start
    unit = np.eye(target.n_features, dtype=bool)
    least = criterion(best[None])[0]
    while True:
        inside = np.flatnonzero(best)
        outside = np.flatnonzero(~best)
        exchanges = unit[np.repeat(inside, len(outside))] | unit[np.tile(outside, len(inside))]
        for moves in (unit, exchanges):
            values = criterion(best ^ moves)
            if values.min(initial=np.inf) < least:
                best = best ^ moves[int(np.argmin(values))]
                least = values.min()
                break
        else:
            return best


def unpriced(findings: Findings) -> np.ndarray:
    """As before: the least random-effects risk."""
    return by_criterion(findings, findings.target.model.random_effects_risk_many)


def price_on_risk(findings: Findings) -> np.ndarray:
    model = findings.target.model
    price = findings.score.price

    def criterion(masks: np.ndarray) -> np.ndarray:
        return (
            model.n_rows * np.log(model.random_effects_risk_many(masks))
            + price * masks @ model.free_columns
        )

    return by_criterion(findings, criterion)


RULES = {"before": unpriced, "price on risk": price_on_risk, "after": least_risky}


# ---------------------------------------------------------------- worlds


def draw(cell: Cell, seed: int) -> Drawn:
    rng = np.random.default_rng([seed, cell.n_environments, cell.n, ord(cell.world[0])])
    E = cell.n_environments + FRESH
    if cell.world == "wide":
        site = np.repeat(np.arange(E), cell.n)
        means = rng.normal(size=(E, WIDE)) * (np.arange(WIDE) % 2)
        X = means[site] + rng.normal(size=(len(site), WIDE))
        truth = np.arange(WIDE) < CAUSES
        effects = rng.choice([-1.0, 1.0], CAUSES) / np.sqrt(CAUSES)
        y = (
            rng.normal(0.0, cell.shift, E)[site]
            + X[:, truth] @ effects
            + rng.normal(size=len(site))
        )
        noise = ~truth
    else:
        model = WORLDS[cell.world](E, rng)
        intercepts = model.intercepts.copy()
        intercepts[:, -1] += rng.normal(0.0, cell.shift, E)
        sampled = replace(model, intercepts=intercepts).sample(cell.n, rng)
        site = sampled.environment_index
        y = sampled.y
        moved = rng.normal(size=(E, MOVED_NOISE))[site] + rng.normal(size=(len(site), MOVED_NOISE))
        X = np.column_stack([sampled.X, moved])
        noise = np.append(unrelated(model.coefficients), np.ones(MOVED_NOISE, dtype=bool))
        truth = np.append(model.truth, np.zeros(MOVED_NOISE, dtype=bool))
    data = MultiEnvironmentData.from_arrays(X, y, site)
    labels = data.environments
    return Drawn(data.choosing(labels[:-FRESH]), data.choosing(labels[-FRESH:]), noise, truth)


def unrelated(coefficients: np.ndarray) -> np.ndarray:
    """(p,) features that share no ancestor with the outcome, the last of coefficients (E, p + 1, p
    + 1), in any environment; each is its own ancestor"""
    parents = (coefficients != 0.0).any(axis=0)
    ancestors = np.eye(len(parents), dtype=bool)
    for _ in parents:
        ancestors |= ancestors @ parents
    return ~(ancestors[:-1] & ancestors[-1]).any(axis=1)


def forced_findings(data: MultiEnvironmentData) -> Findings:
    """As if no subset were compatible."""
    target = FitSettings.of(BIP(LinearGaussian()), np.random.default_rng(0)).target(data)
    findings = Findings(target, None, None, None)
    vars(findings)["predictive"] = None
    return findings


class Outcome(NamedTuple):
    noise: float
    possible: int
    causes: float
    size: int
    mean: float
    worst: float


def outcomes(cell: Cell, seed: int) -> dict[str, Outcome]:
    warnings.simplefilter("ignore")
    data, fresh, noise, truth = draw(cell, seed)
    findings = forced_findings(data)
    found = {}
    chosen = {name: rule(findings) for name, rule in RULES.items()} | {"causes": truth}
    for name, mask in chosen.items():
        fit = findings.target.model.fit(mask, local=False)
        residuals = fresh.y - fit.predict(fresh.X[:, mask])
        errors = [np.sqrt(np.mean(residuals[fresh.rows(e)] ** 2)) for e in range(FRESH)]
        share = mask[truth].mean() if truth.any() else np.nan
        shown = int(mask[noise].sum()), int(noise.sum()), float(share), int(mask.sum())
        found[name] = Outcome(*shown, float(np.mean(errors)), float(np.max(errors)))
    return found


def summary(outcomes: list[Outcome]) -> list[str]:
    values = np.array(outcomes)
    noise = values[:, 0].sum() / values[:, 1].sum()
    causes = np.nanmean(values[:, 2])
    mean, worst = np.exp(np.log(values[:, 4:]).mean(axis=0))
    return [
        f"{noise:.4f}",
        f"{causes:.2f}",
        f"{values[:, 3].mean():.1f}",
        f"{mean:.2f}",
        f"{worst:.2f}",
    ]


def simulated(sets: int, jobs: int) -> None:
    cells = [Cell(world, E, n, shift) for world, (E, n), shift in product(WORLDS, SHAPES, SHIFTS)]
    cells.append(Cell("wide", 8, 200, 1.0))

    def rows():
        for cell in cells:
            n_sets = sets if cell.world != "wide" else max(sets // 4, 2)
            found = Parallel(jobs)(delayed(outcomes)(cell, seed) for seed in range(n_sets))
            for name in found[0]:
                named = (
                    f"{cell.world}, E = {cell.n_environments}, n = {cell.n}, shift {cell.shift:g}"
                )
                yield [named, str(n_sets), name, *summary([one[name] for one in found])]

    columns = (
        "world",
        "data sets",
        "rule",
        "noise selected",
        "causes selected",
        "size",
        "RMSE",
        "RMSE, worst",
    )
    table(columns, rows())


# ---------------------------------------------------------------- real sets


@dataclass(frozen=True)
class Unpriced:
    """The predictive rule, with the fallback as it was"""

    by_prediction: ClassVar[bool] = True

    def select(self, findings: Findings) -> np.ndarray:
        return unpriced(findings) if findings.predictive is None else findings.predictive.mode_mask


def fold(name: str, environment: int) -> tuple[str, int, int, float, float] | None:
    """Set, sizes of the selection before and after, errors in the environment left out; None where
    some subset is compatible or a rule cannot predict"""
    warnings.simplefilter("ignore")
    data = SETS[name].data
    data = data.with_classes() if kind_for(data).classifies else data
    frame = data.to_frame()
    others = data.choosing([label for e, label in enumerate(data.environments) if e != environment])
    sizes = []
    errors = []
    for rule in (Unpriced(), "predictive"):
        settings = {
            "select": rule,
            "predict_with": "selected",
            "columns": Columns(handle_unknown="ignore"),
        }
        model = BIP(SETS[name].family, progress=False, random_state=0, **settings)
        try:
            model.fit(others)
            if model.decision_.findings.predictive is not None:
                return None
            errors.append(error_in(environment, model, data, frame))
        except (InvarianceError, ValueError, np.linalg.LinAlgError):
            return None
        sizes.append(int(model.support_.sum()))
    assert falls_back(model.decision_.rule, model.decision_.findings)
    return name, *sizes, *errors


def real(jobs: int) -> None:
    tasks = [
        (name, e)
        for name, each in SETS.items()
        if not each.absent
        for e in range(each.data.n_environments)
    ]
    folds = [
        found
        for found in Parallel(jobs)(delayed(fold)(*task) for task in tasks)
        if found is not None
    ]

    def rows():
        for name in dict.fromkeys(found[0] for found in folds):
            values = np.array([found[1:] for found in folds if found[0] == name])
            ratio = values[:, 3].mean() / values[:, 2].mean()
            worst = values[:, 3].max() / values[:, 2].max()
            sizes = [f"{size:.1f}" for size in values[:, :2].mean(axis=0)]
            yield [name, str(len(values)), *sizes, f"{ratio:.3f}", f"{worst:.3f}"]
            ratios.append((ratio, worst))

    ratios: list[tuple[float, float]] = []
    columns = (
        "set",
        "folds that fall back",
        "size before",
        "after",
        "mean error after / before",
        "worst",
    )
    table(columns, rows())
    mean, worst = np.exp(np.log(np.array(ratios)).mean(axis=0))
    print(f"\ngeometric means over {len(ratios)} sets: {mean:.3f}, {worst:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--real", action="store_true")
    given = parser.parse_args()
    header("# Nothing compatible: what is selected")
    if given.real:
        real(given.jobs)
    else:
        simulated(given.sets, given.jobs)


if __name__ == "__main__":
    main()
