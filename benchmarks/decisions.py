"""From the posterior to a decision: is the chosen subset right, is the evidence calibrated, do its
predictions travel?

python benchmarks/decisions.py                       every part, an hour and a half on two cores
python benchmarks/decisions.py --sets 6 --jobs 2     every part with a few data sets, minutes
python benchmarks/decisions.py worlds                where the rule was found wanting, luck, an
    invariant truth rejected
python benchmarks/decisions.py p10 flat              exact discovery, and the error in environments
    never seen
python benchmarks/decisions.py calibration           p-values of the true subset
python benchmarks/decisions.py tails                 environments against the rest where noise has
    heavy tails
python benchmarks/decisions.py few                   the same with four to ten rows in each
python benchmarks/decisions.py tunnel fair           the light tunnel (needs
    ../shared/data/light_tunnel)
python benchmarks/decisions.py diagnosis             environments with a planted fault, and the
    tunnel's
python benchmarks/decisions.py far                   90% intervals of forests, boosting and
    neighbours far away
python benchmarks/decisions.py rows many             three million rows; 450 features

The worlds beside another version of the package, from a checkout of it:

git worktree add ../first d619fd17
python benchmarks/decisions.py worlds --first ../first --jobs 16 --results ../worlds

What each data set gave is kept in the folder --results, and not computed again while the code is
the same. Tables are Markdown. A share of k data sets has a standard error of at most 1/(2√k).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial, reduce
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from scipy.stats import kstest

import _light_tunnel as tunnel
import _worlds
import invariance
from _faults import KINDS, one_fault, one_faulty_tunnel
from _harness import header, peak_memory_gb, sample_apart, table
from _worlds import FRESH, PRESETS, Cell
from invariance import (
    BIP,
    BetaBinomialPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Tolerance,
)
from invariance.baselines import EILLS, ICP, PooledRegression
from invariance.decisions.environments import ALARM, environment_tests, worst_environment
from invariance.models import invariance_test, random_coefficients
from invariance.simulation import StructuralModel
from replication.simulators import p450

LARGEST_RATIO = 10.0
COVERAGE = 0.9


class Effort(NamedTuple):
    """How much of everything to run, in how many processes; first: a checkout of another version or
    None; results: a folder for what was decided in the worlds"""

    pool: ProcessPoolExecutor
    sets: int
    jobs: int
    worlds: Sequence[str]
    families: Sequence[str]
    first: Path | None
    results: Path


def chosen(data: MultiEnvironmentData) -> BIP:
    """What the rule selects predicts."""
    return BIP(predict_with="selected", progress=False).fit(data)


def quietly(function: Callable[..., object], *arguments: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def repeated(
    effort: Effort, n: int, function: Callable[..., object], *arguments: object
) -> np.ndarray:
    """What function(*arguments, seed) gives for n seeds."""
    return np.array(
        list(effort.pool.map(partial(quietly, function, *arguments), range(n), chunksize=2))
    )


# --- worlds, by this version and the first

Found = list[dict[str, Any]]
GRADES = {
    "alike": "alike",
    "no difference found": "none found",
    "alike but for one": "but for one",
    "differ": "differ",
}


def decided_by(package: Path, effort: Effort) -> dict[Cell, Found]:
    """What the version whose folder `package` holds the package decides, one dict for each data
    set."""
    command = [
        sys.executable,
        _worlds.__file__,
        effort.results,
        "--sets",
        effort.sets,
        "--jobs",
        effort.jobs,
    ]
    command += ["--worlds", *effort.worlds, "--families", *effort.families]
    environment = os.environ | {"PYTHONPATH": str(package)}
    told = subprocess.run(
        [*map(str, command)], env=environment, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    folder = Path(told.strip())
    found = {}
    for cell in _worlds.cells(effort.worlds, effort.families):
        content = json.loads((folder / f"{cell.name}.json").read_text())
        found[cell] = content[: _worlds.sets_of(cell, effort.sets)]
    return found


class Versions(NamedTuple):
    """first: empty where there is no other version to compare with"""

    first: dict[Cell, Found]
    second: dict[Cell, Found]

    def mean(self, cell: Cell, of: Callable[[dict[str, Any]], float]) -> str:
        """Of one figure, in the first version → in the second"""
        both = [version[cell] for version in self if version]
        return " → ".join(f"{np.mean([of(one) for one in found]):.2f}" for found in both)


def rejected(one: dict[str, Any]) -> bool:
    return bool(one["p_truth"] < Tolerance().level)


def worlds(effort: Effort) -> None:
    own = decided_by(Path(invariance.__file__).parents[1], effort)
    first = {} if effort.first is None else decided_by(effort.first.resolve() / "src", effort)
    versions = Versions(first, own)
    for family in effort.families:
        shapes = [
            cell
            for cell in own
            if cell.family == family and cell.world not in ("luck", "invariant")
        ]
        if shapes:
            discovery(family, shapes, versions, effort)
    if any(cell.world == "luck" for cell in own):
        luck(versions, effort)
    if any(cell.world == "invariant" for cell in own):
        truth_rejected(versions, effort)


def discovery(family: str, shapes: Sequence[Cell], versions: Versions, effort: Effort) -> None:
    labels = [f"{cell.world} {cell.n}/{cell.n_environments}" for cell in shapes]
    print(
        f"\n## Worlds, {family}, n/E, {effort.sets} data sets a "
        f"cell{', first → second' if versions.first else ''}"
    )
    names = ("exact", "false", "missed", "compatible")
    figures = (
        [versions.mean(cell, lambda one, name=name: one[name]) for name in names] for cell in shapes
    )
    truths = (versions.mean(cell, rejected) for cell in shapes)
    table(
        ("", "exactly the causes", "false features", "missed", "compatible", "causes rejected"),
        ((label, *row, truth) for label, row, truth in zip(labels, figures, truths, strict=True)),
    )
    print(
        "\nSecond version: grades of the verdict; median upper end of ρ; exactly the causes at "
        "another tolerance ρ"
    )

    def rows() -> Iterator[Sequence[str]]:
        for label, cell in zip(labels, shapes, strict=True):
            found = versions.second[cell]
            grades = Counter(one["grade"] for one in found)
            at = (
                np.mean([one["exact_at"][rho] for one in found])
                for rho in ("0", "0.05", "0.1", "0.2")
            )
            high = np.nanmedian([one["high"] for one in found])
            yield (
                label,
                *(f"{grades[grade] / len(found):.2f}" for grade in GRADES),
                f"{high:.2f}",
                *shares(at),
            )

    table(("", *GRADES.values(), "upper end", "ρ = 0", "0.05", "0.1", "0.2"), rows())


def luck(versions: Versions, effort: Effort) -> None:
    print(
        f"\n## Luck: a child of the outcome is selected; two causes, n=100, {effort.sets} data "
        "sets a cell"
    )
    cells = [cell for cell in versions.second if cell.world == "luck"]
    numbers = sorted({cell.setting for cell in cells})
    table(
        ("E", *(f"{k:g} children" for k in numbers)),
        (
            (
                str(e),
                *(
                    versions.mean(cell, lambda one: one["false"] > 0)
                    for cell in cells
                    if cell.n_environments == e
                ),
            )
            for e in sorted({cell.n_environments for cell in cells})
        ),
    )


def truth_rejected(versions: Versions, effort: Effort) -> None:
    sets = _worlds.sets_of(Cell("invariant", "", 0, 0), effort.sets)
    print(
        f"\n## Exactly invariant causes rejected at level {Tolerance().level:g}, by n/E, {sets} "
        "data sets a cell"
    )
    cells = [cell for cell in versions.second if cell.world == "invariant"]
    sizes = sorted({(cell.n, cell.n_environments) for cell in cells})
    labels = [f"{n}/{e}" for n, e in sizes]
    of_size = {(*cell[1:4], cell.setting): cell for cell in cells}
    table(
        ("", "R²", *labels),
        (
            (
                family,
                f"{r2:g}",
                *(versions.mean(of_size[family, *size, r2], rejected) for size in sizes),
            )
            for family, r2 in dict.fromkeys((cell.family, cell.setting) for cell in cells)
        ),
    )
    largest = max(np.mean([*map(rejected, versions.second[cell])]) for cell in cells)
    graded = Counter(one["grade"] for cell in cells for one in versions.second[cell])
    shown = ", ".join(
        f"{name} {graded[grade] / graded.total():.2f}" for grade, name in GRADES.items()
    )
    print(
        f"\nthe largest of the second version: {largest:.3f}; grades of its verdicts, all cells: "
        f"{shown}"
    )


# --- simulations


def masks_of_methods(data: MultiEnvironmentData) -> dict[str, np.ndarray]:
    model = chosen(data)
    return {
        "predictive": model.support_,
        "mode": model.posterior_.mode_mask,
        "ICP": ICP(progress=False).fit(data).support_,
        "EILLS": EILLS().fit(data).support_,
        "regression": PooledRegression().fit(data).support_,
        "all features": np.ones(data.n_features, bool),
    }


METHODS = ("predictive", "mode", "ICP", "EILLS", "regression", "all features")


def rmse(data: MultiEnvironmentData, fresh: MultiEnvironmentData, mask: np.ndarray) -> float:
    """Root mean squared error in `fresh` of least squares on `mask`, fitted to all rows of
    `data`."""
    centre = data.X.mean(axis=0)
    scale = np.linalg.norm(data.X - centre, axis=0)
    design, new = (
        np.column_stack([np.ones(one.n_rows), ((one.X - centre) / scale)[:, mask]])
        for one in (data, fresh)
    )
    coefficients = np.linalg.lstsq(design, data.y, rcond=None)[0]
    return float(np.sqrt(np.mean((fresh.y - new @ coefficients) ** 2)))


def one_simulation(preset: str, n: int, n_environments: int, seed: int) -> list[list[float]]:
    """For each method: found the truth, error in fresh environments relative to the truth's."""
    rng = np.random.default_rng([seed, n_environments, n])
    model: StructuralModel = PRESETS[preset](n_environments + FRESH, rng)
    data, fresh = sample_apart(model, n, FRESH, rng)
    best = rmse(data, fresh, model.truth)
    return [
        [float((mask == model.truth).all()), min(LARGEST_RATIO, rmse(data, fresh, mask) / best)]
        for mask in masks_of_methods(data).values()
    ]


def simulations(preset: str, effort: Effort) -> None:
    cells = [(n, n_environments) for n in (50, 200) for n_environments in (2, 3, 5, 10)]
    figures = np.array(
        [
            repeated(effort, effort.sets, one_simulation, preset, n, n_environments).mean(axis=0)
            for n, n_environments in cells
        ]
    )
    print(f"\n## {preset}, {effort.sets} data sets a cell")
    labels = [f"{n}/{n_environments}" for n, n_environments in cells]
    print("\nExact discovery by n/E")
    table(("", *labels), ((name, *shares(figures[:, m, 0])) for m, name in enumerate(METHODS)))
    print(
        f"\nError in {FRESH} fresh environments over that of the true parents' model, at most "
        f"{LARGEST_RATIO:g} each"
    )
    with_mean = (*labels, "mean")
    table(
        ("", *with_mean),
        (
            (name, *(f"{ratio:.2f}" for ratio in (*figures[:, m, 1], figures[:, m, 1].mean())))
            for m, name in enumerate(METHODS)
        ),
    )


def shares(values: Iterable[float]) -> Iterator[str]:
    return (f"{value:.2f}" for value in values)


# --- calibration


def one_calibration(n: int, n_environments: int, noise: str, seed: int) -> tuple[float, float]:
    """p_exact and p_invariant of the true subset: three features whose means and spreads differ,
    equal coefficients."""
    rng = np.random.default_rng([seed, n_environments, n])
    environment = np.repeat(np.arange(n_environments), n)
    spread = rng.uniform(0.5, 2.0, (n_environments, 3))
    shift = rng.normal(size=(n_environments, 3))
    X = rng.normal(size=(len(environment), 3)) * spread[environment] + shift[environment]
    error = rng.normal(size=len(X)) if noise == "normal" else rng.standard_t(5, len(X))
    data = MultiEnvironmentData.from_arrays(X, X @ [1.0, -1.0, 0.5] + error, environment)
    evidence = chosen(data).posterior_.evidence(data.feature_names)
    return evidence.p_exact, evidence.p_invariant


def calibration(effort: Effort) -> None:
    print(
        f"\n## Calibration: the true subset of three features, {10 * effort.sets:,} data sets a "
        "cell"
    )
    print("KS: p-value of the test that p_exact is uniform; then shares")

    def rows() -> Iterator[Sequence[str]]:
        for noise in ("normal", "t5"):
            for n in (15, 50, 200):
                for n_environments in (2, 5, 10, 20):
                    found = repeated(
                        effort, 10 * effort.sets, one_calibration, n, n_environments, noise
                    )
                    p_values, p_invariant = found.T
                    sizes = shares(
                        [
                            kstest(p_values, "uniform").pvalue,
                            (p_values < 0.05).mean(),
                            (p_invariant < 0.2).mean(),
                            (p_invariant < 0.02).mean(),
                        ]
                    )
                    yield (noise, str(n), str(n_environments), *sizes)

    table(
        ("noise", "n", "E", "KS", "p_exact < 0.05", "p_invariant < 0.2", "p_invariant < 0.02"),
        rows(),
    )


# --- heavy tails

TAILS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t3": lambda rng, n: rng.standard_t(3, size=n) / 3**0.5,
    "lognormal": lambda rng, n: np.exp(rng.normal(size=n)) / (np.e * (np.e - 1.0)) ** 0.5,
}


# With which environments are compared with the rest whatever the other p-values are.
ASKED = Tolerance(level=1e-300, weak_level=1e-300)


def causes_alone(
    noise: str, n: int, n_environments: int, rogue: float, seed: int
) -> MultiEnvironmentData:
    """Three causes with means that shift; the first has a slope larger by `rogue` in the last
    environment."""
    rng = np.random.default_rng([seed, n, n_environments])
    site = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(site), 3)) + 0.7 * rng.normal(size=(n_environments, 3))[site]
    y = X @ [1.0, -1.0, 0.5] + rogue * X[:, 0] * (site == site.max()) + TAILS[noise](rng, len(site))
    return MultiEnvironmentData.from_arrays(X, y, site)


def one_tail(noise: str, n: int, n_environments: int, rogue: float, seed: int) -> list[list[float]]:
    """By F tests alone, and with permutations: whether p_each of the causes is below 0.05 where
    they are invariant, and where an environment is rogue; whether a fit to the invariant ones calls
    them not invariant; its processor time"""
    found = []
    for alone in (True, False):
        with ExitStack() as patched:
            if alone:
                plain = patch.object(invariance_test, "with_tails", lambda each, *_: each)
                patched.enter_context(plain)
                never = patch.object(random_coefficients, "scatter_p_value", lambda *_: 0.0)
                patched.enter_context(never)
            invariant, other = (
                causes_alone(noise, n, n_environments, slope, seed) for slope in (0.0, rogue)
            )
            p_values = [
                LinearGaussian().bind(data).invariance_test(np.ones((1, 3), bool), ASKED).each[0]
                for data in (invariant, other)
            ]
            times = []
            for _ in range(3):
                started = time.process_time()
                model = BIP(progress=False).fit(invariant)
                times.append(time.process_time() - started)
            found.append(
                [*(p_value < 0.05 for p_value in p_values), not model.invariant_, min(times)]
            )
    return found


def tails(effort: Effort) -> None:
    print(
        f"\n## Heavy tails, by F tests alone → with permutations, {2 * effort.sets} data sets a "
        "cell"
    )

    def rows() -> Iterator[Sequence[str]]:
        for noise in TAILS:
            for n_environments, n, rogue in ((20, 15, 1.0), (40, 20, 1.0), (10, 50, 0.7)):
                found = repeated(effort, 2 * effort.sets, one_tail, noise, n, n_environments, rogue)
                both = found.mean(axis=0)[:, :3].T
                ratio = np.median(found[:, 1, 3] / found[:, 0, 3])
                figures = (f"{before:.3f} → {after:.3f}" for before, after in both)
                yield (noise, f"{n_environments} × {n}", *figures, f"{ratio:.2f}")

    named = (
        "p_each < 0.05, invariant",
        "p_each < 0.05, one rogue slope",
        "called not invariant, invariant",
        "time of a fit, ratio",
    )
    table(("noise", "E × n", *named), rows())


def one_of_few_rows(n: int, n_environments: int, seed: int) -> list[list[float]]:
    """By F tests and score tests alone, and with permutations: whether a fit to invariant data
    calls them not invariant, for each noise, and whether the tests of the causes name the one
    environment with another slope under normal noise"""
    found = []
    for alone in (True, False):
        with ExitStack() as patched:
            if alone:
                for name in ("own_coefficients_p_value", "score_p_value", "scatter_p_value"):
                    never = patch.object(random_coefficients, name, lambda *_, **__: 0.0)
                    patched.enter_context(never)
            fits = [
                BIP(progress=False).fit(causes_alone(noise, n, n_environments, 0.0, seed))
                for noise in TAILS
            ]
            rogue = causes_alone("normal", n, n_environments, 2.0, seed)
            bound = LinearGaussian(deviations="random").bind(rogue)
            worst = worst_environment(environment_tests(bound, np.ones(3, bool)).each())
        assert worst is not None
        named = worst.environment == n_environments - 1
        found.append(
            [
                *(not model.invariant_ for model in fits),
                named and worst.p_value < ALARM / n_environments,
            ]
        )
    return found


def few_rows(effort: Effort) -> None:
    print(
        "\n## Environments of few rows, random deviations: by tests for normal noise alone → with "
        f"permutations, {effort.sets} data sets a cell"
    )

    def rows() -> Iterator[Sequence[str]]:
        for n in (4, 5, 8, 10):
            for n_environments in (10, 20, 40):
                found = repeated(effort, effort.sets, one_of_few_rows, n, n_environments)
                figures = (f"{a:.2f} → {b:.2f}" for a, b in found.mean(axis=0).T)
                yield (f"{n_environments} × {n}", *figures)

    called = (f"called not invariant, {noise}" for noise in TAILS)
    table(("E × n", *called, "rogue slope of 2 named, normal"), rows())


# --- the light tunnel


def one_tunnel(n: int, seed: int) -> np.ndarray:
    """(3, 11) what the rule, the paper's mode and ICP select"""
    data = tunnel.environments_apart(n, np.random.default_rng([seed, n]))
    model = chosen(data)
    return np.array(
        [model.support_, model.posterior_.mode_mask, ICP(progress=False).fit(data).support_]
    )


def light_tunnel(effort: Effort) -> None:
    draws = min(20, effort.sets)
    print(f"\n## Light tunnel, outcome {tunnel.OUTCOME}, six environments, {draws} draws")
    n_causes = len(tunnel.CAUSES)

    def rows() -> Iterator[Sequence[str]]:
        for n in (50, 100, 200, 500, 1000):
            found = repeated(effort, draws, one_tunnel, n)
            truth = np.arange(found.shape[2]) < n_causes
            exact = (found == truth).all(axis=2).mean(axis=0)
            colours = found[:, 0, :3].all(axis=1).mean()
            false = found[:, 0, n_causes:].sum(axis=1).mean()
            yield (str(n), *shares([exact[0], colours, false, *exact[1:]]))

    table(
        (
            "rows each",
            "exactly five",
            "red, green, blue",
            "false features",
            "mode exact",
            "ICP exact",
        ),
        rows(),
    )


def one_fair(n: int, tolerance: Tolerance, seed: int) -> np.ndarray:
    data, _ = tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]))
    return BIP(tolerance=tolerance, progress=False).fit(data).support_


def risks(data: MultiEnvironmentData, new: MultiEnvironmentData) -> np.ndarray:
    """(3,) mean squared errors in `new` over the outcome's variance in `data`: least squares on all
    features and on the chosen ones, and a cubic ridge on the chosen ones."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    cubic = make_pipeline(StandardScaler(), PolynomialFeatures(3), StandardScaler(), Ridge(1.0))
    refitted = BIP(predict_with="selected", regressor=cubic, progress=False).fit(data)
    errors = [np.mean((new.y - model.predict(new.X)) ** 2) for model in (chosen(data), refitted)]
    return np.array([rmse(data, new, np.ones(data.n_features, bool)) ** 2, *errors]) / data.y.var()


def one_seen_risk(n: int, seed: int) -> list[np.ndarray]:
    """In the rows of the weak environments that were not drawn."""
    data, rest = tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]))
    return [risks(data, rows) for rows in rest.values()]


def one_left_out_risk(n: int, seed: int) -> list[np.ndarray]:
    """In every weak environment when the mixture is without it."""
    drawn = {
        name: tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]), left_out=name)
        for name in tunnel.WEAK
    }
    return [risks(data, rest[name]) for name, (data, rest) in drawn.items()]


def fair(effort: Effort) -> None:
    print(
        "\n## FAIR's protocol: the reference and a mixture of the weak environments, "
        f"{effort.sets} draws"
    )
    sizes = (200, 500, 1000, 2000)
    draws = min(20, effort.sets)
    for tolerance in (Tolerance(), Tolerance(rho=0.05, tau=0.05)):
        print(f"\nShare of draws in which each feature is selected, {tolerance}")
        table(
            ("rows each", *tunnel.CAUSES, *tunnel.DECOYS),
            (
                (
                    str(n),
                    *shares(repeated(effort, effort.sets, one_fair, n, tolerance).mean(axis=0)),
                )
                for n in sizes
            ),
        )
    print(
        "\nLargest risk over the weak environments, rows not drawn; outcome standardised, "
        f"{draws} draws"
    )
    predictors = ("all features", "chosen, linear", "chosen, cubic ridge")
    table(
        ("rows each", *predictors),
        (
            (
                str(n),
                *three_digits(repeated(effort, draws, one_seen_risk, n).mean(axis=0).max(axis=0)),
            )
            for n in sizes
        ),
    )
    print("\nRisk in each weak environment when the mixture is without it, 1,000 rows each")
    left_out = repeated(effort, draws, one_left_out_risk, 1000).mean(axis=0)
    table(
        ("", *tunnel.WEAK),
        ((name, *three_digits(row)) for name, row in zip(predictors, left_out.T, strict=True)),
    )


def three_digits(values: Iterable[float]) -> Iterator[str]:
    return (f"{value:.3f}" for value in values)


# --- environments that break it


def diagnosis(effort: Effort) -> None:
    print(
        "\n## Diagnosis: flat, n=200, E=10, one environment records the outcome otherwise, "
        f"{effort.sets} data sets"
    )
    table(
        (
            "fault",
            "alarm",
            "the right environment named",
            "named or told to rule out a better subset",
        ),
        (
            (kind, *shares(repeated(effort, effort.sets, one_fault, kind).mean(axis=0)))
            for kind in KINDS
        ),
    )
    if not tunnel.FILE.exists():
        return
    draws = min(20, effort.sets)
    print(f"\nThe light tunnel with {tunnel.FAULTY}, which acts on the outcome, {draws} draws")
    table(
        ("rows each", "alarm", f"{tunnel.FAULTY} named", "named or told"),
        (
            (str(n), *shares(repeated(effort, draws, one_faulty_tunnel, n).mean(axis=0)))
            for n in (200, 500, 1000)
        ),
    )


# --- many rows, many features, intervals


def chunks_of_sites(rows: int, p: int = 20, sites: int = 8) -> Iterator[MultiEnvironmentData]:
    """y = x0 − x1 + ½·x2 + noise; every site shifts columns from x3 on, and those only."""
    rng = np.random.default_rng(0)
    shifts = np.zeros((sites, p))
    shifts[:, 3:] = rng.normal(size=(sites, p - 3))
    names = tuple(f"x{j}" for j in range(p))
    for _ in range(0, rows, 100_000):
        site = rng.integers(0, sites, 100_000)
        X = rng.normal(size=(100_000, p)) + shifts[site]
        y = X[:, 0] - X[:, 1] + 0.5 * X[:, 2] + rng.normal(size=len(X))
        yield MultiEnvironmentData.from_arrays(X, y, site, feature_names=names)


def many_rows(effort: Effort) -> None:
    rows = 30_000 * effort.sets
    print(
        f"\n## {rows:,} rows of 20 features from 8 sites: y = x0 − x1 + ½·x2 + noise, the sites "
        "shift the others"
    )
    chosen(next(chunks_of_sites(1)))  # compiles
    started = time.perf_counter()
    moments = reduce(Moments.merge, map(Moments.from_data, chunks_of_sites(rows))).checked()
    read = time.perf_counter() - started
    model = BIP(select="predictive", progress=False).fit(moments)
    fitted = time.perf_counter() - started - read
    mode = model.posterior_.mode_mask
    print(f"\nchosen: {', '.join(model.selected_features_)}; the paper's mode: ", end="")
    print(", ".join(np.array(moments.feature_names)[mode]) or "no feature", end="")
    print(f"; moments {read:.1f} s, fit {fitted:.1f} s, peak memory {peak_memory_gb():.2f} GB")


def one_far_site(regressor: str, n_environments: int, spread: float, seed: int) -> list[float]:
    """Coverage and mean width of intervals, and coverage without what is added far away, in FRESH
    sites whose means scatter `spread` times as much as those of the training sites."""
    from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
    from sklearn.neighbors import KNeighborsRegressor

    regressors = {
        "forest": RandomForestRegressor(50, min_samples_leaf=3, random_state=0),
        "boosting": HistGradientBoostingRegressor(max_iter=60, random_state=0),
        "neighbours": KNeighborsRegressor(7),
    }
    rng = np.random.default_rng([seed, n_environments])
    n_sites = n_environments + FRESH
    site = np.repeat(range(n_sites), 100)
    means = (
        rng.normal(size=(n_sites, 2))
        * np.where(np.arange(n_sites) < n_environments, 1.0, spread)[:, None]
    )
    X = means[site] + rng.normal(size=(len(site), 2))
    y = X[:, 0] - X[:, 1] + 0.7 * rng.normal(size=len(X))
    known = site < n_environments
    model = BIP(predict_with="selected", regressor=regressors.get(regressor), progress=False)
    model.fit(X[known], y[known], environments=site[known])
    low, high = model.predict_interval(X[~known], COVERAGE).T
    inside = np.mean((low <= y[~known]) & (y[~known] <= high))
    columns = X[~known][:, model.support_]
    added = model._predictor("selected").departure(columns) if regressor in regressors else 0.0
    half = (high - low) / 2.0 - added
    return [
        inside,
        np.mean(high - low) / 0.7,
        np.mean(np.abs(y[~known] - (low + high) / 2.0) <= half),
    ]


def far_sites(effort: Effort) -> None:
    sets = max(4, effort.sets // 2)
    print(
        f"\n## Coverage of {COVERAGE:.0%} intervals of regressors in {FRESH} far sites, {sets} "
        "data sets a cell"
    )

    def rows() -> Iterator[Sequence[str]]:
        for n_environments in (4, 8):
            for spread in (1.0, 2.0, 3.0):
                for regressor in ("least squares", "forest", "boosting", "neighbours"):
                    inside, width, plain = repeated(
                        effort, sets, one_far_site, regressor, n_environments, spread
                    ).T
                    figures = f"{plain.mean():.3f}", f"{inside.mean():.3f}", f"{width.mean():.1f}"
                    yield (str(n_environments), f"{spread:g}", regressor, *figures)

    table(("E", "spread", "regressor", "coverage, not widened", "coverage", "width"), rows())


def many_features(effort: Effort) -> None:
    sets = max(2, min(40, effort.sets // 2))
    print(f"\n## 450 features, n=200, {sets} data sets a cell, two threads")

    def rows() -> Iterator[Sequence[str]]:
        for n_environments in (3, 5, 10):
            found = []
            times = []
            for seed in range(sets):
                rng = np.random.default_rng([seed, n_environments, 200])
                data = p450(n_environments, rng).sample(200, rng)
                model = BIP(
                    prior=BetaBinomialPrior(max_size=20),
                    n_jobs=2,
                    random_state=seed,
                    progress=False,
                )
                if not seed:
                    quietly(model.fit, data)  # compiles
                started = time.perf_counter()
                quietly(model.fit, data)
                times.append(time.perf_counter() - started)
                modes = (
                    model.predictive_ and model.predictive_.mode_mask,
                    model.posterior_.mode_mask,
                )
                found.append(
                    [mode is not None and np.array_equal(mode, data.truth) for mode in modes]
                )
            seconds = (f"{np.median(times):.1f}", f"{max(times):.1f}")
            yield (str(n_environments), *shares(np.mean(found, axis=0)), *seconds)

    table(("E", "predictive exact", "paper's exact", "median s", "max s"), rows())


PARTS: dict[str, Callable[[Effort], None]] = {
    "worlds": worlds,
    "p10": partial(simulations, "p10"),
    "flat": partial(simulations, "flat"),
    "calibration": calibration,
    "tails": tails,
    "few": few_rows,
    "tunnel": light_tunnel,
    "fair": fair,
    "diagnosis": diagnosis,
    "far": far_sites,
    "rows": many_rows,
    "many": many_features,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "parts", nargs="*", choices=[*PARTS, []], metavar="part", help=", ".join(PARTS)
    )
    parser.add_argument(
        "--sets", type=int, default=100, help="data sets a cell; other sizes follow it"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--worlds", nargs="+", choices=_worlds.WORLDS, default=_worlds.WORLDS)
    parser.add_argument("--families", nargs="+", choices=_worlds.FAMILIES, default=_worlds.FAMILIES)
    parser.add_argument(
        "--first", type=Path, help="checkout of the version to show beside this one"
    )
    parser.add_argument("--results", type=Path, help="folder that keeps what the worlds gave")
    given = parser.parse_args()
    header("# From the posterior to a decision")
    with ProcessPoolExecutor(given.jobs) as pool, tempfile.TemporaryDirectory() as scratch:
        kept = given.results or Path(scratch)
        effort = Effort(
            pool, given.sets, given.jobs, given.worlds, given.families, given.first, kept
        )
        for name in given.parts or PARTS:
            if name in ("tunnel", "fair") and not tunnel.FILE.exists():
                print(f"\n{name} is left out: there is no {tunnel.FILE}")
            else:
                started = time.perf_counter()
                PARTS[name](effort)
                print(
                    f"\n{name}: {time.perf_counter() - started:.0f} s with {given.jobs} processes",
                    flush=True,
                )


if __name__ == "__main__":
    main()
