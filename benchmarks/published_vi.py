"""Why published BIP-VI misses the truth where exact inference finds it: readings of its settings,
gradients, starts.

python benchmarks/published_vi.py                       10 features, 36 data sets a number of
    environments, minutes
python benchmarks/published_vi.py --sets 324 --jobs 16 --results DIR        as in
    docs/results/variational.md
python benchmarks/published_vi.py --features 450 --sets 60 --jobs 16 --results DIR      gradients
    with 450 features

With --results it goes on where it stopped. The ascent is a plain one in NumPy, written apart from
the package's.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
from scipy.special import expit, logit, softmax

from _harness import header, table
from invariance import LinearGaussian, UniformPrior, Variational
from invariance.baselines.regression import PooledRegression
from invariance.exceptions import EngineError
from invariance.inference.base import RunOptions, Target
from invariance.inference.mean_field import FreeSpace
from invariance.simulation import p10
from replication.simulators import p450

Score = Callable[
    [np.ndarray], np.ndarray
]  # log Λ (B, D) of draws (B, D, p), NaN outside the support

ROWS = (50, 200, 500)
STRENGTHS = (1 / 2, 2 / 3, 5 / 6, 1.0)
ENVIRONMENTS = {10: (3, 5, 10), 450: (10, 20)}
REPEATS = 200  # of a gradient, for its variance


@dataclass(frozen=True)
class Settings:
    """The published ones, unless said otherwise.

    likelihood, kl : what divides that part of the objective: "N" all rows, "n" rows per
        environment, "1" nothing
    rate, base : factor of all learning rates, and the lowest one; momentum : cycled between 0.8 and
        0.9 as in CyclicLR
    draws, together : per iteration, and of these coupled: 2 is U2G (which is DisARM), more ARMS, 0
        none, which is REINFORCE with the mean of the others as baseline; exact : the gradient of
        all 2**p subsets
    analytic : how often the KL term's gradient is the exact one
    starts : inclusion probabilities, "regression" (0.9 on what is significant in regression on all,
        0.1 elsewhere), "random" or "searched" (0.9 on the most probable subset, 0.01 elsewhere);
        the best training ELBO wins
    annealed : the likelihood's weight rises from 0 to 1 in the first half; last : the last iterate,
        not the best one
    """

    likelihood: str = "N"
    kl: str = "N"
    rate: float = 1.0
    base: float = 1.0
    momentum: bool = False
    iterations: int = 2000
    draws: int = 40
    together: int = 2
    exact: bool = False
    analytic: float = 1.0
    starts: tuple[float | str, ...] = (0.4, 0.5)
    annealed: bool = False
    last: bool = False


PUBLISHED = "as published: ÷N, T = 2000, M = 20"
READINGS = {
    PUBLISHED: Settings(),
    "÷n, rows of one environment": Settings(likelihood="n", kl="n"),
    "not divided": Settings(likelihood="1", kl="1"),
    "÷N, KL not divided": Settings(kl="1"),
    "÷n, KL not divided": Settings(likelihood="n", kl="1"),
    "momentum 0.8 to 0.9": Settings(momentum=True),
    "KL by draws in half of the steps": Settings(analytic=0.5),
    "base rate 0.5": Settings(base=0.5),
    "last iterate": Settings(last=True),
    "rates ×5": Settings(rate=5.0),
    "rates ×20": Settings(rate=20.0),
    "rates ×100": Settings(rate=100.0),
    "rates ×0.1": Settings(rate=0.1),
    "rates ×0.1, T = 20,000": Settings(rate=0.1, iterations=20_000),
    "T = 20,000": Settings(iterations=20_000),
    "M = 100": Settings(draws=200),
    "σ₀ = 0.05": Settings(starts=(0.05,)),
    "σ₀ = 0.1": Settings(starts=(0.1,)),
    "σ₀ = 0.2": Settings(starts=(0.2,)),
    "σ₀ = 0.4": Settings(starts=(0.4,)),
    "σ₀ = 0.5": Settings(starts=(0.5,)),
    "σ₀ = 0.8": Settings(starts=(0.8,)),
    "σ₀ = 0.05, 0.1, 0.2, 0.4, 0.5, 0.8": Settings(starts=(0.05, 0.1, 0.2, 0.4, 0.5, 0.8)),
    "20 random starts": Settings(starts=("random",) * 20),
    "warm: features significant in regression": Settings(starts=(0.4, 0.5, "regression")),
    "warm: likelihood's weight from 0 to 1": Settings(annealed=True),
    "warm: most probable subset": Settings(starts=(0.4, 0.5, "searched")),
    "exact gradient": Settings(exact=True),
    "exact gradient, rates ×0.1, T = 20,000": Settings(exact=True, rate=0.1, iterations=20_000),
}
GRADIENTS = {
    "U2G (DisARM)": Settings(),
    "ARMS, 4 coupled": Settings(together=4),
    "ARMS, 40 coupled": Settings(together=40),
    "REINFORCE, leave one out": Settings(together=0),
}


def drawn(
    q: np.ndarray, settings: Settings, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws (B, G, K, p), coupled along K, and the correlation (B, p) of two of them, from
    probabilities q (B, p).

    A Dirichlet copula couples them (Dimitriev & Zhou 2021); with two it is u and 1 − u.
    """
    k = settings.together or settings.draws
    shape = len(q), settings.draws // k, k, q.shape[1]
    p = q[:, None, None]
    if not settings.together:
        return rng.random(shape) < p, np.zeros_like(q)
    if k == 2:
        half = rng.random((*shape[:2], 1, shape[3]))
        u = np.concatenate([half, 1.0 - half], axis=2)
    else:
        parts = rng.exponential(size=shape)
        u = 1.0 - (1.0 - parts / parts.sum(axis=2, keepdims=True)) ** (k - 1)
    rare = np.minimum(q, 1.0 - q)
    both = np.maximum(0.0, 2.0 * rare ** (1.0 / (k - 1)) - 1.0) ** (k - 1)
    return np.where(p < 0.5, u > 1.0 - p, u < p), (both - rare**2) / (q * (1.0 - q))


def gradient(
    phi: np.ndarray,
    score: Score,
    floor: np.ndarray,
    settings: Settings,
    kl: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """Estimates (B, p) of ∇ E_q[log Λ + kl·(−log q)] and (B,) of E_q[log Λ]; floor (B, 1): value of
    draws outside the support, below all seen, changed in place; kl (B, 1): weight of what is part
    of the draws."""
    q = expit(phi)
    draws, correlation = drawn(q, settings, rng)
    values = score(draws.reshape(len(q), -1, q.shape[1]))
    inside = np.isfinite(values)
    lowest = np.where(inside, values, np.inf).min(axis=1, keepdims=True)
    floor[:] = np.minimum(floor, np.where(lowest < 0.0, 1.1 * lowest, floor))
    values = np.where(inside, values, floor)
    mean = values.mean(axis=1)
    parts = values.reshape(draws.shape[:3])
    if kl.any():
        parts = parts - kl[:, :, None] * np.einsum("bgkp,bp->bgk", draws, phi)
    away = parts - parts.mean(axis=2, keepdims=True)
    pairs = np.einsum("bgk,bgkp->bp", away, draws - q[:, None, None])
    return pairs / (draws.shape[1] * (draws.shape[2] - 1)) / (1.0 - correlation), mean


def exact_gradient(
    phi: np.ndarray, subsets: np.ndarray, values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `gradient`, from all subsets (2**p, p) and their values (B, 2**p)."""
    weights = softmax(phi @ subsets.T, axis=1)
    mean = (weights * values).sum(axis=1, keepdims=True)
    return (weights * (values - mean)) @ subsets, mean[:, 0]


def entropy(phi: np.ndarray) -> np.ndarray:
    """(B,) of the mean field"""
    return (np.logaddexp(0.0, phi) - phi * expit(phi)).sum(axis=1)


@dataclass(frozen=True)
class Ascended:
    """phi (B, p) that was chosen; elbo (B,): its objective by draws; decided (B,): first iteration
    at which no feature is between 0.01 and 0.99, T where there is none"""

    phi: np.ndarray
    elbo: np.ndarray
    decided: np.ndarray


def ascend(
    settings: Settings,
    start: np.ndarray,
    score: Score,
    divisors: dict[str, np.ndarray],
    rng: np.random.Generator,
    table: tuple[np.ndarray, np.ndarray] | None = None,
) -> Ascended:
    """From inclusion probabilities (B, p); divisors (B, 1); table: subsets and values, for exact
    gradients"""
    phi = logit(start)
    velocity = np.zeros_like(start)
    best = phi.copy()
    best_elbo = np.full(len(phi), -np.inf)
    decided = np.full(len(phi), settings.iterations)
    weight = 1.0 / divisors[settings.likelihood]
    kl = 1.0 / divisors[settings.kl]
    floor = -divisors["N"]
    for t in range(settings.iterations):
        height = 1.0 - abs(t % 1000 / 500 - 1.0)
        part = min(1.0, 2.0 * t / settings.iterations) if settings.annealed else 1.0
        analytic = rng.random() < settings.analytic
        if settings.exact:
            slope, mean = exact_gradient(phi, *table)
        else:
            slope, mean = gradient(phi, score, floor, settings, (not analytic) * kl / weight, rng)
        q = expit(phi)
        elbo = weight[:, 0] * mean + kl[:, 0] * entropy(phi)
        better = (elbo > best_elbo) | settings.last
        best[better], best_elbo[better] = phi[better], elbo[better]
        decided = np.where((q * (1.0 - q) < 0.0099).all(axis=1), np.minimum(decided, t), decided)
        step = part * weight * slope - analytic * kl * phi * q * (1.0 - q)
        velocity = (0.9 - 0.1 * height if settings.momentum else 0.0) * velocity + step
        phi = np.clip(
            phi + settings.rate * (settings.base + (10.0 - settings.base) * height) * velocity,
            -500,
            500,
        )
    return Ascended(best, best_elbo, decided)


def data_sets(n_features: int, n_environments: int, number: int) -> list:
    """One of each number of rows and strength; with 450 features one alone."""
    rng = np.random.default_rng([n_features, n_environments, number])
    if n_features == 450:
        return [p450(n_environments, rng).sample(200, rng)]
    return [p10(n_environments, rng, strength=s).sample(n, rng) for n in ROWS for s in STRENGTHS]


def target_of(data) -> Target:
    model = LinearGaussian().bind(data)
    return Target(model, UniformPrior(20).bind(data.feature_names, model.largest_size))


def starting(
    start: float | str, data, mode: np.ndarray | None, rng: np.random.Generator
) -> np.ndarray:
    """(p,) inclusion probabilities"""
    if start == "random":
        return rng.random(data.n_features)
    if start == "searched":
        return np.where(mode, 0.9, 0.01)
    if start == "regression":
        return np.where(PooledRegression().fit(data).support_, 0.9, 0.1)
    return np.full(data.n_features, float(start))


def by_package(engine: Variational, target: Target, truth: np.ndarray) -> bool:
    """Whether its most probable subset is the truth."""
    try:
        posterior = engine.run(target, RunOptions(rng=np.random.default_rng(0), progress=False))
    except EngineError:
        return False
    return bool((posterior.mode_mask == truth).all())


def few_features(n_environments: int, number: int) -> dict[str, dict[str, list]]:
    """{row: {figure: one for each data set}} with ten features, all subsets in a table"""
    sets = data_sets(10, n_environments, number)
    targets = [target_of(data) for data in sets]
    truths = np.array([data.truth for data in sets])
    spaces = [FreeSpace(target) for target in targets]
    subsets = spaces[0].table_draws
    values = np.array([space.table for space in spaces])
    values = np.where(
        np.isfinite(values), values, -1.0 * np.array([[data.n_rows] for data in sets])
    )
    modes = subsets[values.argmax(axis=1)]
    rows = {"exact inference": {"exact": (modes == truths).all(axis=1).tolist()}}
    for name, engine in (
        ("package, published settings", Variational.simulation()),
        ("package", Variational()),
    ):
        rows[name] = {
            "exact": [by_package(engine, *one) for one in zip(targets, truths, strict=True)]
        }
    for i, (name, settings) in enumerate((READINGS | GRADIENTS).items()):
        rng = np.random.default_rng([n_environments, number, i])
        starts = [
            [starting(s, *one, rng) for one in zip(sets, modes, strict=True)]
            for s in settings.starts
        ]
        n = len(starts)
        rows_of = np.array([[data.n_rows] for data in sets] * n, dtype=float)
        divisors = {"N": rows_of, "n": rows_of / n_environments, "1": np.ones_like(rows_of)}
        tiled = np.tile(values, (n, 1))
        powers = 1 << np.arange(10)

        def score(
            draws: np.ndarray, tiled: np.ndarray = tiled, powers: np.ndarray = powers
        ) -> np.ndarray:
            return np.take_along_axis(tiled, draws @ powers, axis=1)

        began = time.process_time()
        found = ascend(settings, np.concatenate(starts), score, divisors, rng, (subsets, tiled))
        seconds = time.process_time() - began
        winner = found.elbo.reshape(n, -1).argmax(axis=0) * len(sets) + np.arange(len(sets))
        phi = found.phi[winner]
        elbo = exact_gradient(phi, subsets, values)[1] + entropy(phi)
        rows[name] = {
            "exact": ((phi > 0.0) == truths).all(axis=1).tolist(),
            "mode": ((phi > 0.0) == modes).all(axis=1).tolist(),
            "elbo": elbo.tolist(),
            "decided": found.decided[winner].tolist(),
            "seconds": [seconds / len(phi)] * len(phi),
        }
        if name in GRADIENTS:
            rows[name] |= variances(settings, np.concatenate(starts), score, rows_of)
    return rows


def variances(
    settings: Settings, start: np.ndarray, score: Score, n_rows: np.ndarray
) -> dict[str, list[float]]:
    """Of the gradient of the objective ÷N, summed over features, at each start (B, p) and after 50
    steps by U2G."""
    moved = ascend(
        Settings(iterations=50, last=True), start, score, {"N": n_rows}, np.random.default_rng(0)
    ).phi
    rng = np.random.default_rng(1)
    none = np.zeros((len(start), 1))
    found = {}
    for name, phi in (("variance", logit(start)), ("later", moved)):
        floor = -n_rows
        for _ in range(REPEATS):  # so that the lowest value seen is about the same for all
            gradient(phi, score, floor, settings, none, rng)
        slopes = [
            gradient(phi, score, floor, settings, none, rng)[0] / n_rows for _ in range(REPEATS)
        ]
        found[name] = np.var(slopes, axis=0).sum(axis=1).tolist()
    return found


def many_features(n_environments: int, number: int) -> dict[str, dict[str, list]]:
    """As `few_features` for the gradients, with 450 features and the uninformative start (σ₀ =
    0.04)"""
    (data,) = data_sets(450, n_environments, number)
    space = FreeSpace(target_of(data))
    n_rows = np.array([[float(data.n_rows)]])
    rows = {}
    for name, settings in GRADIENTS.items():
        rng = np.random.default_rng([n_environments, number])
        start = np.full((1, 450), 0.04)
        scorer = space.scorer(1 << 17, searching=True)

        def score(draws: np.ndarray, scorer=scorer) -> np.ndarray:
            return space.log_ratios(draws[0], scorer)[None]

        variance = variances(settings, start, score, n_rows)
        began = time.process_time()
        found = ascend(settings, start, score, {"N": n_rows}, rng)
        chosen = found.phi[0] > 0.0
        elbo = found.elbo * data.n_rows
        seconds = time.process_time() - began
        rows[name] = {
            "exact": [bool((chosen == data.truth).all())],
            "elbo": elbo.tolist(),
            "seconds": [seconds],
        }
        rows[name] |= variance
    return rows


def counted(
    n_features: int, task: tuple[int, int]
) -> tuple[tuple[int, int], dict[str, dict[str, list]]]:
    warnings.simplefilter("ignore")
    return task, (few_features if n_features == 10 else many_features)(*task)


def counted_all(
    n_features: int, repeats: int, jobs: int, folder: Path | None
) -> dict[int, dict[str, dict[str, list]]]:
    """{environments: {row: {figure: one for each data set}}}; what is in the folder is not counted
    again."""
    tasks = [(e, number) for number in range(repeats) for e in ENVIRONMENTS[n_features]]
    done = {}
    file = (
        None
        if folder is None
        else folder / f"p{n_features}-{sha256(Path(__file__).read_bytes()).hexdigest()[:12]}.jsonl"
    )
    if file is not None:
        file.parent.mkdir(parents=True, exist_ok=True)
        lines = file.read_text().splitlines() if file.exists() else []
        done = {tuple(task): rows for task, rows in map(json.loads, lines)}
    left = [task for task in tasks if task not in done]
    with ProcessPoolExecutor(jobs) as pool:
        for task, rows in pool.map(partial(counted, n_features), left):
            done[task] = rows
            if file is not None:
                with file.open("a") as stream:
                    stream.write(json.dumps([task, rows]) + "\n")
    merged: dict[int, dict[str, dict[str, list]]] = {}
    for task in tasks:
        for name, figures in done[task].items():
            row = merged.setdefault(task[0], {}).setdefault(name, {})
            for figure, values in figures.items():
                row.setdefault(figure, []).extend(values)
    return merged


def share(found: dict[str, dict[str, list]], name: str, figure: str = "exact") -> str:
    values = found[name].get(figure)
    return "" if values is None else f"{np.mean(values):.3f}"


def readings(found: dict[int, dict[str, dict[str, list]]]) -> None:
    middle = found[5]
    best = np.max([row["elbo"] for row in middle.values() if "elbo" in row], axis=0)
    print(
        f"\nExact discovery, p = 10, n = 50, 200, 500, {len(best)} data sets a column. At E = 5 "
        "besides: how often the"
    )
    print(
        "result is the posterior's mode; median nats of its ELBO below the best of all rows; "
        "median iteration at which"
    )
    print("every feature is above 0.99 or below 0.01 for the first time")
    rows = []
    for name in (name for name in middle if name not in GRADIENTS):
        row = middle[name]
        below = f"{np.median(best - row['elbo']):.1f}" if "elbo" in row else ""
        decided = f"{np.median(row['decided']):.0f}" if "decided" in row else ""
        rows.append(
            [
                name,
                *(share(one, name) for one in found.values()),
                share(middle, name, "mode"),
                below,
                decided,
            ]
        )
    table(
        ["settings", *(f"E={e}" for e in found), "mode (E=5)", "ELBO below", "decided after"], rows
    )


def gradients(found: dict[int, dict[str, dict[str, list]]], n_features: int) -> None:
    n = len(next(iter(next(iter(found.values())).values()))["exact"])
    start = "σ₀ = 0.4 and 0.5" if n_features == 10 else "σ₀ = 0.04"
    print(
        f"\nGradients of 40 draws an iteration, p = {n_features}, {start}, {n} data sets a "
        "column: exact discovery;"
    )
    print(
        "medians of ELBO less U2G's, of variance beside U2G's at the start and after 50 "
        "iterations, of seconds"
    )
    rows = []
    for name in GRADIENTS:
        pairs = [(one[name], one["U2G (DisARM)"]) for one in found.values()]
        elbo = np.concatenate([np.subtract(own["elbo"], other["elbo"]) for own, other in pairs])
        cells = [name, *(share(one, name) for one in found.values()), f"{np.median(elbo):.2f}"]
        for figure in ("variance", "later"):
            ratios = np.concatenate([np.divide(own[figure], other[figure]) for own, other in pairs])
            cells.append(f"{np.nanmedian(ratios):.2f}")
        rows.append(
            [*cells, f"{np.median(np.concatenate([own['seconds'] for own, _ in pairs])):.2f}"]
        )
    environments = [f"E={e}" for e in found]
    table(
        ["gradient", *environments, "ELBO", "variance, start", "variance, later", "seconds"], rows
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--features", type=int, default=10, choices=(10, 450))
    parser.add_argument("--sets", type=int, default=36, help="data sets a number of environments")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--results", type=Path, help="folder in which results are kept, to go on from"
    )
    given = parser.parse_args()
    header("Published BIP-VI")
    each = len(ROWS) * len(STRENGTHS) if given.features == 10 else 1
    found = counted_all(given.features, -(-given.sets // each), given.jobs, given.results)
    if given.features == 10:
        readings(found)
    gradients(found, given.features)
