"""From the posterior to a decision: is the evidence calibrated, is the chosen subset right, do its predictions travel?

python benchmarks/decisions.py --quick               every part with a few data sets, minutes
python benchmarks/decisions.py --all                 the tables as reported, an hour on two cores
python benchmarks/decisions.py --p10 --flat          exact discovery, and the error in environments never seen
python benchmarks/decisions.py --calibration         p-values of the true subset
python benchmarks/decisions.py --tunnel --fair       the light tunnel (needs ../shared/data/light_tunnel)
python benchmarks/decisions.py --diagnosis           environments with a planted fault, and the tunnel's
python benchmarks/decisions.py --coverage            90% intervals in environments never seen
python benchmarks/decisions.py --rows                three million rows
python benchmarks/decisions.py --many                450 features

Tables are Markdown. A share of k data sets has a standard error of at most 1/(2√k).
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial, reduce
from typing import NamedTuple

import numpy as np
from scipy.stats import kstest

import _light_tunnel as tunnel
from _faults import KINDS, one_fault, one_faulty_tunnel
from _harness import header, peak_memory_gb
from invariance import BIP, BetaBinomialPrior, Moments, MultiEnvironmentData, Tolerance
from invariance.baselines import EILLS, ICP, PooledRegression
from invariance.simulation import StructuralModel, flat, p10, p450

FRESH = 6
LARGEST_RATIO = 10.0
COVERAGE = 0.9


class Effort(NamedTuple):
    """How much of everything to run, and the processes to run it in."""

    pool: ProcessPoolExecutor
    sets: int
    draws: int
    rows: int


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Markdown, row by row as they come"""
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def chosen(data: MultiEnvironmentData) -> BIP:
    return BIP(select="predictive", progress=False).fit(data)


def quietly(function: Callable[..., object], *arguments: object) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments)


def repeated(effort: Effort, n: int, function: Callable[..., object], *arguments: object) -> np.ndarray:
    """What function(*arguments, seed) gives for n seeds."""
    return np.array(list(effort.pool.map(partial(quietly, function, *arguments), range(n), chunksize=2)))


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
PRESETS = {"p10": p10, "flat": flat}


def rmse(data: MultiEnvironmentData, fresh: MultiEnvironmentData, mask: np.ndarray) -> float:
    """Root mean squared error in `fresh` of least squares on `mask`, fitted to all rows of `data`."""
    centre = data.X.mean(axis=0)
    scale = np.linalg.norm(data.X - centre, axis=0)
    design, new = (np.column_stack([np.ones(one.n_rows), ((one.X - centre) / scale)[:, mask]]) for one in (data, fresh))
    coefficients = np.linalg.lstsq(design, data.y, rcond=None)[0]
    return float(np.sqrt(np.mean((fresh.y - new @ coefficients) ** 2)))


def one_simulation(preset: str, n: int, n_environments: int, seed: int) -> list[list[float]]:
    """For each method: found the truth, error in fresh environments relative to the truth's."""
    rng = np.random.default_rng([seed, n_environments, n])
    model: StructuralModel = PRESETS[preset](n_environments + FRESH, rng)
    data, fresh = model.sample_apart(n, FRESH, rng)
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
    print(f"\nError in {FRESH} fresh environments over that of the true parents' model, at most {LARGEST_RATIO:g} each")
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
    """p-value and p_inv of the true subset: three features whose means and spreads differ, equal coefficients."""
    rng = np.random.default_rng([seed, n_environments, n])
    environment = np.repeat(np.arange(n_environments), n)
    spread, shift = rng.uniform(0.5, 2.0, (n_environments, 3)), rng.normal(size=(n_environments, 3))
    X = rng.normal(size=(len(environment), 3)) * spread[environment] + shift[environment]
    error = rng.normal(size=len(X)) if noise == "normal" else rng.standard_t(5, len(X))
    data = MultiEnvironmentData.from_arrays(X, X @ [1.0, -1.0, 0.5] + error, environment)
    evidence = chosen(data).posterior_.evidence(data.feature_names)
    return evidence.p_value, evidence.p_invariant


def calibration(effort: Effort) -> None:
    print(f"\n## Calibration: the true subset of three features, {effort.draws} data sets a cell")
    print("KS: p-value of the test that the p-values are uniform; then shares")

    def rows() -> Iterator[Sequence[str]]:
        for noise in ("normal", "t5"):
            for n in (15, 50, 200):
                for n_environments in (2, 5, 10, 20):
                    found = repeated(effort, effort.draws, one_calibration, n, n_environments, noise)
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

    table(("noise", "n", "E", "KS", "p-value < 0.05", "p_inv < 0.2", "p_inv < 0.02"), rows())


# --- the light tunnel


def one_tunnel(n: int, seed: int) -> np.ndarray:
    """(3, 11) what the rule, the paper's mode and ICP select"""
    data = tunnel.environments_apart(n, np.random.default_rng([seed, n]))
    model = chosen(data)
    return np.array([model.support_, model.posterior_.mode_mask, ICP(progress=False).fit(data).support_])


def light_tunnel(effort: Effort) -> None:
    draws = min(20, effort.sets)
    print(f"\n## Light tunnel, outcome {tunnel.OUTCOME}, six environments, {draws} draws")
    n_causes = len(tunnel.CAUSES)

    def rows() -> Iterator[Sequence[str]]:
        for n in (50, 100, 200, 500, 1000):
            found = repeated(effort, draws, one_tunnel, n)
            truth = np.arange(found.shape[2]) < n_causes
            exact = (found == truth).all(axis=2).mean(axis=0)
            colours, false = found[:, 0, :3].all(axis=1).mean(), found[:, 0, n_causes:].sum(axis=1).mean()
            yield (str(n), *shares([exact[0], colours, false, *exact[1:]]))

    table(("rows each", "exactly five", "red, green, blue", "false features", "mode exact", "ICP exact"), rows())


def one_fair(n: int, tolerance: Tolerance, seed: int) -> np.ndarray:
    data, _ = tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]))
    return BIP(tolerance=tolerance, progress=False).fit(data).support_


def risks(data: MultiEnvironmentData, new: MultiEnvironmentData) -> np.ndarray:
    """(3,) mean squared errors in `new` over the outcome's variance in `data`: least squares on all features and on the
    chosen ones, and a cubic ridge on the chosen ones."""
    from sklearn.linear_model import Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    cubic = make_pipeline(StandardScaler(), PolynomialFeatures(3), StandardScaler(), Ridge(1.0))
    refitted = BIP(select="predictive", regressor=cubic, progress=False).fit(data)
    errors = [np.mean((new.y - model.predict(new.X)) ** 2) for model in (chosen(data), refitted)]
    return np.array([rmse(data, new, np.ones(data.n_features, bool)) ** 2, *errors]) / data.y.var()


def one_seen_risk(n: int, seed: int) -> list[np.ndarray]:
    """In the rows of the weak environments that were not drawn."""
    data, rest = tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]))
    return [risks(data, rows) for rows in rest.values()]


def one_left_out_risk(n: int, seed: int) -> list[np.ndarray]:
    """In every weak environment when the mixture is without it."""
    drawn = {
        name: tunnel.reference_and_mixture(n, np.random.default_rng([seed, n]), left_out=name) for name in tunnel.WEAK
    }
    return [risks(data, rest[name]) for name, (data, rest) in drawn.items()]


def fair(effort: Effort) -> None:
    print(f"\n## FAIR's protocol: the reference and a mixture of the weak environments, {effort.sets} draws")
    sizes, draws = (200, 500, 1000, 2000), min(20, effort.sets)
    for tolerance in (Tolerance(), Tolerance(0.01, 0.05)):
        print(f"\nShare of draws in which each feature is selected, {tolerance}")
        table(
            ("rows each", *tunnel.CAUSES, *tunnel.DECOYS),
            ((str(n), *shares(repeated(effort, effort.sets, one_fair, n, tolerance).mean(axis=0))) for n in sizes),
        )
    print(f"\nLargest risk over the weak environments, rows not drawn; outcome standardised, {draws} draws")
    predictors = ("all features", "chosen, linear", "chosen, cubic ridge")
    table(
        ("rows each", *predictors),
        ((str(n), *three_digits(repeated(effort, draws, one_seen_risk, n).mean(axis=0).max(axis=0))) for n in sizes),
    )
    print("\nRisk in each weak environment when the mixture is without it, 1,000 rows each")
    left_out = repeated(effort, draws, one_left_out_risk, 1000).mean(axis=0)
    table(("", *tunnel.WEAK), ((name, *three_digits(row)) for name, row in zip(predictors, left_out.T, strict=True)))


def three_digits(values: Iterable[float]) -> Iterator[str]:
    return (f"{value:.3f}" for value in values)


# --- environments that break it


def diagnosis(effort: Effort) -> None:
    print(f"\n## Diagnosis: flat, n=200, E=10, one environment records the outcome otherwise, {effort.sets} data sets")
    table(
        ("fault", "alarm", "the right environment named"),
        ((kind, *shares(repeated(effort, effort.sets, one_fault, kind).mean(axis=0))) for kind in KINDS),
    )
    if not tunnel.FILE.exists():
        return
    draws = min(20, effort.sets)
    print(f"\nThe light tunnel with {tunnel.FAULTY}, which acts on the outcome, {draws} draws")
    table(
        ("rows each", "alarm", f"{tunnel.FAULTY} named"),
        ((str(n), *shares(repeated(effort, draws, one_faulty_tunnel, n).mean(axis=0))) for n in (200, 500, 1000)),
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
    print(
        f"\n## {effort.rows:,} rows of 20 features from 8 sites: y = x0 − x1 + ½·x2 + noise, the sites shift the others"
    )
    started = time.perf_counter()
    moments = reduce(Moments.merge, map(Moments.from_data, chunks_of_sites(effort.rows))).checked()
    read = time.perf_counter() - started
    model = BIP(select="predictive", progress=False).fit(moments)
    fitted = time.perf_counter() - started - read
    mode = model.posterior_.mode_mask
    print(f"\nchosen: {', '.join(model.selected_features_)}; the paper's mode: ", end="")
    print(", ".join(np.array(moments.feature_names)[mode]) or "no feature", end="")
    print(f"; moments {read:.1f} s, fit {fitted:.1f} s, peak memory {peak_memory_gb():.2f} GB")


def one_coverage(preset: str, n: int, n_environments: int, jitter: float, seed: int) -> tuple[float, float, float]:
    """Share of rows of fresh environments inside the interval, its median width over the truth's residual deviation."""
    rng = np.random.default_rng([seed, n_environments, n])
    structure = PRESETS[preset](n_environments + FRESH, rng)
    data, fresh = structure.sample_apart(n, FRESH, rng, jitter=jitter)
    model = chosen(data)
    low, high = model.predict_interval(fresh.X, coverage=COVERAGE).T
    deviation = np.sqrt(structure.variances[0, -1])
    return np.mean((low <= fresh.y) & (fresh.y <= high)), np.median(high - low) / deviation, float(model.invariant_)


def coverage(effort: Effort) -> None:
    sets = max(4, effort.sets // 2)
    print(f"\n## Coverage of {COVERAGE:.0%} intervals in {FRESH} fresh environments, n=100, {sets} data sets a cell")
    print("width: median over the noise's standard deviation, median over the data sets (3.29 is the least)")

    def rows() -> Iterator[Sequence[str]]:
        for preset in PRESETS:
            for jitter in (0.0, 0.05, 0.1):
                for n_environments in (2, 3, 5, 10, 20):
                    found = repeated(effort, sets, one_coverage, preset, 100, n_environments, jitter)
                    inside, width, invariant = found.T
                    figures = (f"{inside.mean():.3f}", f"{np.median(width):.1f}", f"{invariant.mean():.2f}")
                    yield (preset, f"{jitter:.0%}", str(n_environments), *figures)

    table(("", "jitter", "E", "coverage", "width", "compatible found"), rows())


def many_features(effort: Effort) -> None:
    sets = max(2, min(40, effort.sets // 2))
    print(f"\n## 450 features, n=200, {sets} data sets a cell, two threads")

    def rows() -> Iterator[Sequence[str]]:
        for n_environments in (3, 5, 10):
            found, times = [], []
            for seed in range(sets):
                rng = np.random.default_rng([seed, n_environments, 200])
                data = p450(n_environments, rng).sample(200, rng)
                model = BIP(prior=BetaBinomialPrior(max_size=20), n_jobs=2, random_state=seed, progress=False)
                started = time.perf_counter()
                quietly(model.fit, data)
                times.append(time.perf_counter() - started)
                modes = (model.predictive_ and model.predictive_.mode_mask, model.posterior_.mode_mask)
                found.append([mode is not None and np.array_equal(mode, data.truth) for mode in modes])
            seconds = (f"{np.median(times):.1f}", f"{max(times):.1f}")
            yield (str(n_environments), *shares(np.mean(found, axis=0)), *seconds)

    table(("E", "predictive exact", "paper's exact", "median s", "max s"), rows())


PARTS: dict[str, Callable[[Effort], None]] = {
    "calibration": calibration,
    "p10": partial(simulations, "p10"),
    "flat": partial(simulations, "flat"),
    "tunnel": light_tunnel,
    "fair": fair,
    "diagnosis": diagnosis,
    "rows": many_rows,
    "coverage": coverage,
    "many": many_features,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in PARTS:
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few data sets; alone it runs every part")
    parser.add_argument("--processes", type=int, default=2)
    options = vars(parser.parse_args())
    named = [name for name in PARTS if options[name]]
    header("# From the posterior to a decision")
    with ProcessPoolExecutor(options["processes"]) as pool:
        effort = Effort(pool, 6, 60, 300_000) if options["quick"] else Effort(pool, 100, 1000, 3_000_000)
        for name in list(PARTS) if options["all"] or not named else named:
            if name in ("tunnel", "fair") and not tunnel.FILE.exists():
                print(f"\n{name} is left out: there is no {tunnel.FILE}")
            else:
                PARTS[name](effort)


if __name__ == "__main__":
    main()
