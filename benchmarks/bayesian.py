"""The Bayesian linear Gaussian conditional beside the likelihood ratio: which subsets each of them
finds.

python benchmarks/bayesian.py            40 data sets a cell, all subsets of ten features, uniform
    prior (a minute)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from _harness import best_seconds, header
from invariance import BayesianLinearGaussian, LinearGaussian, Moments, MultiEnvironmentData
from invariance.models.base import Family
from invariance.simulation import p10

DATA_SETS = 40
P = 10
ROWS = (5, 15, 50, 200)
ENVIRONMENTS = (2, 3, 5, 10)
MODELS: dict[str, Family] = {"ratio": LinearGaussian(), "Bayes": BayesianLinearGaussian()}
PRIOR_ROWS = (0.1, 1.0, 10.0)
MASKS = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(bool)
Draw = Callable[[int, int, np.random.Generator], tuple[MultiEnvironmentData, np.ndarray]]


def paper(
    n: int, n_environments: int, rng: np.random.Generator
) -> tuple[MultiEnvironmentData, np.ndarray]:
    """The preset p10: every feature before the outcome is a cause, and interventions are strong."""
    model = p10(n_environments, rng)
    return model.sample(n, rng), model.truth


def agreeing(
    n: int, n_environments: int, rng: np.random.Generator
) -> tuple[MultiEnvironmentData, np.ndarray]:
    """Three causes, three effects that follow the outcome differently in each environment, and four
    features that have nothing to do with it; all means differ. The causes with any of the four are
    invariant."""
    site = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(site), P)) + rng.normal(size=(n_environments, P))[site]
    y = X[:, :3] @ rng.uniform(0.5, 1.5, 3) + rng.normal(size=len(site))
    X[:, 3:6] += rng.normal(size=(n_environments, 3))[site] * y[:, None]
    return MultiEnvironmentData.from_arrays(X, y, site), np.arange(P) < 3


@dataclass
class Tally:
    """Of one model in one cell, by data set."""

    exact: list[bool] = field(default_factory=list)
    true_inclusion: list[float] = field(default_factory=list)
    false_inclusion: list[float] = field(default_factory=list)
    excess: list[int] = field(default_factory=list)

    def add(self, log_ratios: np.ndarray, truth: np.ndarray) -> None:
        weights = np.exp(log_ratios - log_ratios.max())
        inclusion = weights / weights.sum() @ MASKS
        mode = MASKS[log_ratios.argmax()]
        self.exact.append(bool((mode == truth).all()))
        self.excess.append(int(mode.sum() - truth.sum()))
        for target, chosen in ((self.true_inclusion, truth), (self.false_inclusion, ~truth)):
            if chosen.any():
                target.append(float(inclusion[chosen].mean()))

    def __str__(self) -> str:
        figures = (np.mean(self.exact), np.mean(self.true_inclusion), np.mean(self.false_inclusion))
        return " ".join(f"{figure:>6.2f}" for figure in figures) + f" {np.mean(self.excess):>+6.1f}"


def tallied(
    draw: Draw, n: int, n_environments: int, models: Mapping[str, Family]
) -> dict[str, Tally]:
    tallies = {name: Tally() for name in models}
    for seed in range(DATA_SETS):
        data, truth = draw(n, n_environments, np.random.default_rng([seed, n, n_environments]))
        moments = Moments.from_data(data)
        for name, model in models.items():
            tallies[name].add(model.bind(moments).log_ratio_many(MASKS), truth)
    return tallies


def discovery(title: str, draw: Draw) -> None:
    columns = "exact   true  false   size"
    print(f"\n{title}\n{'':8}" + "".join(f"{name:>10}: {columns}" for name in MODELS))
    for n in ROWS:
        for n_environments in ENVIRONMENTS:
            tallies = tallied(draw, n, n_environments, MODELS)
            print(
                f"{n:>4}/{n_environments:<3}"
                + "".join(f"{tally!s:>38}" for tally in tallies.values()),
                flush=True,
            )


def sensitivity(n: int = 50) -> None:
    models = {f"{rows:g}": BayesianLinearGaussian(rows) for rows in PRIOR_ROWS}
    print(
        f"\np10, {n} rows by environment: exact with prior_rows =\n{'':8}"
        + "".join(f"{name:>8}" for name in models)
    )
    for n_environments in ENVIRONMENTS:
        tallies = tallied(paper, n, n_environments, models)
        exact = "".join(f"{np.mean(tally.exact):>8.2f}" for tally in tallies.values())
        print(f"{n:>4}/{n_environments:<3}{exact}", flush=True)


def calibration() -> None:
    """How often the tail probability of an invariant subset of three features is below 0.05."""
    print(
        f"\nsize at a nominal 0.05, three causes, 400 data sets\n{'':8}"
        + "".join(f"{name:>8}" for name in MODELS)
    )
    causes = np.arange(P)[None] < 3
    for n in ROWS:
        for n_environments in (2, 5):
            tails: dict[str, list[float]] = {name: [] for name in MODELS}
            for seed in range(400):
                data, _ = agreeing(n, n_environments, np.random.default_rng([1, seed]))
                for name, specification in MODELS.items():
                    model = specification.bind(Moments.from_data(data))
                    tails[name].append(
                        model.invariance_tails(causes, model.log_ratio_many(causes))[0]
                    )
            sizes = (np.mean(np.array(values) < 0.05) for values in tails.values())
            print(
                f"{n:>4}/{n_environments:<3}" + "".join(f"{size:>8.3f}" for size in sizes),
                flush=True,
            )


def speed() -> None:
    data, _ = agreeing(200, 5, np.random.default_rng(0))
    many = np.tile(MASKS, (16, 1))
    for name, specification in MODELS.items():
        model = specification.bind(data)
        rate = len(many) / best_seconds(lambda model=model: model.log_ratio_many(many), 3)
        print(f"{name}: {rate / 1e3:,.0f} thousand subsets/s, one at a time (p=10, E=5)")


if __name__ == "__main__":
    header("Bayes factors and likelihood ratios")
    print(
        "mode exactly the truth, mean inclusion of true and of other features, size of the mode "
        "less the truth's"
    )
    discovery("the paper's simulator, p10 (rows by environment / environments)", paper)
    discovery("four features without a part in it (rows by environment / environments)", agreeing)
    sensitivity()
    calibration()
    speed()
