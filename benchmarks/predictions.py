"""Which features to predict with: errors in new environments of the rule, of the selection and of
all features.

python benchmarks/predictions.py [simulations] [intervals] [tunnel] [--sets 40] [--jobs 2]
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from joblib import Parallel, delayed

from _harness import header, sample_apart
from _light_tunnel import FILE, LAMPS, WEAK, environments_and_rest
from invariance import BIP, MultiEnvironmentData
from invariance.prediction.new_environments import EnvironmentErrors, NewEnvironments
from invariance.simulation import flat, p10

WAYS = ("auto", "selected", "everything")
PRESETS = {"p10": p10, "flat": flat}
FRESH = 8
COVERAGE = 0.9


def rmse(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.sqrt(np.mean((y - predicted) ** 2)))


def fitted(data: MultiEnvironmentData) -> BIP:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return BIP(progress=False).fit(data)


def errors(model: BIP, data: MultiEnvironmentData, other: MultiEnvironmentData) -> list[float]:
    """RMSE of each way to predict, and of least squares on all features of the rows that were
    fitted."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for way in WAYS:
            found.append(rmse(other.y, model.set_params(predict_with=way).predict(other.X)))
    return [*found, rmse(other.y, least_squares(data, other, np.ones(data.n_features, bool)))]


def least_squares(
    data: MultiEnvironmentData, other: MultiEnvironmentData, chosen: np.ndarray
) -> np.ndarray:
    X, new = (np.column_stack([rows.X[:, chosen], np.ones(rows.n_rows)]) for rows in (data, other))
    return new @ np.linalg.lstsq(X, data.y, rcond=None)[0]


# ---------------------------------------------------------------- simulations


def simulated(preset: str, n: int, n_environments: int, jitter: float, seed: int) -> list[float]:
    """RMSE in fresh environments over that of least squares on the true causes."""
    rng = np.random.default_rng([seed, n, n_environments])
    structure = PRESETS[preset](n_environments + FRESH, rng)
    data, fresh = sample_apart(structure, n, FRESH, rng, jitter=jitter)
    model = fitted(data)
    opened = model.decision_.prediction.uses == "selected"
    return [
        *np.divide(
            errors(model, data, fresh), rmse(fresh.y, least_squares(data, fresh, structure.truth))
        ),
        opened,
    ]


def simulations(sets: int, jobs: int) -> None:
    print(
        f"\n## RMSE in {FRESH} fresh environments over the true causes' fit: geometric means of "
        f"{sets} data sets"
    )
    table(
        "world",
        "n",
        "E",
        "rule",
        "selection",
        "everything",
        "least squares on all",
        "selection used",
    )
    for preset, jitter in (("p10", 0.0), ("flat", 0.0), ("p10", 0.1), ("flat", 0.1)):
        for n_environments in (3, 5, 10):
            draws = (
                delayed(simulated)(preset, 50, n_environments, jitter, seed) for seed in range(sets)
            )
            found = np.array(Parallel(jobs)(draws))
            means = np.exp(np.log(found[:, :4]).mean(axis=0))
            world = f"{preset}, jitter {jitter:.0%}" if jitter else preset
            table(world, "50", str(n_environments), *means, found[:, 4].mean(), head=False)


# ---------------------------------------------------------------- intervals


def covered(preset: str, n_environments: int, jitter: float, seed: int) -> np.ndarray:
    """(3, 2) Of rows of fresh environments the share inside 90% intervals, and their median width
    over that of t: round what predicts; round the selection, repeated without each environment; and
    as it is."""
    rng = np.random.default_rng([seed, n_environments])
    structure = PRESETS[preset](n_environments + FRESH, rng)
    data, fresh = sample_apart(structure, 100, FRESH, rng, jitter=jitter)
    model = fitted(data)
    found = []
    for way in ("auto", "selected", "as it is"):
        predictor = model.set_params(predict_with=WAYS[way != "auto"]).predictor_
        X = fresh.X[:, [data.feature_names.index(name) for name in predictor.design.columns]]
        t_width = predictor.half_width(X, COVERAGE)
        left_out = model.new_environments() if way != "as it is" else as_selected(model, data)
        half = np.maximum(t_width, left_out.half_width(COVERAGE))
        found.append(
            [np.mean(np.abs(fresh.y - predictor.predict(X)) <= half), np.median(half / t_width)]
        )
    return np.array(found)


def as_selected(model: BIP, data: MultiEnvironmentData) -> NewEnvironments:
    """Errors in environments left out of the fit, but not of the selection."""
    errors = []
    for place, label in enumerate(data.environments):
        others = data.choosing([other for other in data.environments if other != label])
        own = data.rows(place)
        missed = np.abs(data.y - least_squares(others, data, model.support_))[own]
        errors.append(EnvironmentErrors(label, model.selected_features_, np.sort(missed)))
    return NewEnvironments(model._outcome, tuple(errors))


def intervals(sets: int, jobs: int) -> None:
    print(
        f"\n## {COVERAGE:.0%} intervals in {FRESH} fresh environments, 100 rows each: {sets} data "
        "sets"
    )
    print(
        "coverage, and median width over that of the t interval: round what predicts; round the "
        "selection, which is"
    )
    print("repeated without each environment; round the selection as it is")
    names = "rule", "width", "selection repeated", "width", "as it is", "width"
    table("world", "jitter", "E", *names)
    for preset in PRESETS:
        for jitter in (0.0, 0.1):
            for n_environments in (2, 3, 5, 10):
                draws = (
                    delayed(covered)(preset, n_environments, jitter, seed) for seed in range(sets)
                )
                found = np.array(Parallel(jobs)(draws))
                cells = np.column_stack(
                    [found[:, :, 0].mean(axis=0), np.median(found[:, :, 1], axis=0)]
                ).ravel()
                table(preset, f"{jitter:.0%}", str(n_environments), *cells, head=False)


# ---------------------------------------------------------------- the light tunnel


def in_the_tunnel(n: int, seed: int) -> np.ndarray:
    """(4, W + 2) RMSE of each way over that of the selection, and whether that is used, means over
    environments: the sensor that is disturbed there was so in training, vis_3, any; a lamp is set
    as it never was; the sensor never was."""
    data, rest = environments_and_rest(n, np.random.default_rng(seed))
    model = fitted(data)
    found = [
        [row(model, data, rest[name]) for name in names]
        for names in (["t_vis_3_weak"], WEAK, LAMPS)
    ]
    without = (
        (data.choosing([other for other in data.environments if other != name]), rest[name])
        for name in WEAK
    )
    found.append([row(fitted(others), others, new) for others, new in without])
    means = np.array([np.mean(rows, axis=0) for rows in found])
    return np.column_stack([means[:, :-1] / means[:, [1]], means[:, -1]])


def row(model: BIP, data: MultiEnvironmentData, other: MultiEnvironmentData) -> list[float]:
    return [*errors(model, data, other), model.decision_.prediction.uses == "selected"]


def tunnel(sets: int, jobs: int) -> None:
    if not FILE.exists():
        print("\nThe light tunnel's data are not at hand.")
        return
    sets = max(sets // 2, 1)
    print(f"\n## Light tunnel, ir_3: RMSE over that of the selection, {sets} draws of the rows")
    table("rows", "new rows", "rule", "everything", "least squares on all", "selection used")
    kinds = (
        "`vis_3` disturbed as in training",
        "any of five sensors disturbed as in training",
        "a lamp set anew",
        "a sensor that was never disturbed in training",
    )
    for n in (200, 500):
        found = np.array(Parallel(jobs)(delayed(in_the_tunnel)(n, seed) for seed in range(sets)))
        for kind, values in zip(kinds, found.mean(axis=0), strict=True):
            table(str(n), kind, *values[[0, 2, 3, 4]], head=False)


def table(*cells: str | float, head: bool = True) -> None:
    """A row of a table; with the line below it if it is the head."""
    print(
        "| "
        + " | ".join(cell if isinstance(cell, str) else f"{cell:.2f}" for cell in cells)
        + " |",
        flush=True,
    )
    if head:
        print("|---" * len(cells) + "|")


PARTS = {"simulations": simulations, "intervals": intervals, "tunnel": tunnel}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=", ".join(PARTS))
    parser.add_argument("--sets", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    header(__doc__.splitlines()[0])
    for name in given.parts or PARTS:
        PARTS[name](given.sets, given.jobs)
