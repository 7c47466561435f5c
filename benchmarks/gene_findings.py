"""Which regulators of a gene are found? Precision and recall against the known network of simulated
knock-outs.

python benchmarks/gene_findings.py --targets 60 --jobs 2     full size: 6,170 genes, 262 wild types,
    1,479 deletions
python benchmarks/gene_findings.py --targets 60 --jobs 16 --tempering      sampling all features: a
    minute a target
python benchmarks/gene_findings.py --genes 600 --wild-type 100 --deletions 300 --targets 20        a
    small genome
python benchmarks/gene_findings.py --targets 0 --pairs 2 --iterations 4000     planted pairs, the
    published BIP-VI too

Without --tempering, steepest ascents at several λ say which features matter, 13 at most, and all
subsets of these are scored: posteriors are over subsets of these, not of all genes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from scipy.special import expit, logit
from scipy.stats import t as student
from threadpoolctl import threadpool_limits

from _harness import header, peak_memory_gb
from invariance import (
    BetaBinomialPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.decisions.predictive import flipped_log_prior, predictive_posterior
from invariance.inference.base import Engine, RunOptions, Target
from invariance.inference.enumeration import Enumeration
from invariance.inference.mean_field import FreeSpace
from invariance.kernels.mean_field import Objective, Trace, ascend
from invariance.moments.moments import Moments
from invariance.posterior.posterior import Posterior
from invariance.screening import LassoFit, cross_validated_lasso, screening_of
from invariance.sweeps.data import SweepData
from replication.genes_methods import DELETIONS, GENES, WILD_TYPES
from replication.knockouts import Knockouts, knockouts

PRIOR = BetaBinomialPrior(max_size=20)
# The Lasso sees so many genes, those that correlate most with the target: with all of them it takes
# minutes a target.
CORRELATED = 300
SCREENED = 10
# A gene that moves by so many deviations of the wild types in the target's own deletion is
# downstream of the target.
DOWNSTREAM = 4.5
# A subset is contradicted where a sample that deletes a candidate is so improbable given all
# others.
CONTRADICTED = 0.01
STRETCH = 50
# Where ascents are made, and how many of the features that they meet are kept.
ASCENTS = (0.03, 0.1, 0.3, 1.0)
MOST_MET = 13

Found = dict[str, tuple[str, ...]]


@dataclass(frozen=True, eq=False)
class Genome:
    """Simulated samples and their second moments, which all targets share."""

    simulated: Knockouts
    tempering: bool

    @cached_property
    def table(self) -> MultiEnvironmentData:
        data = self.simulated.data
        return _table(data.values, data.environments, data.genes, len(data.genes) - 1)

    @cached_property
    def moments(self) -> Moments:
        return Moments.from_data(self.table)

    @cached_property
    def deleted(self) -> set[str]:
        return {gene for gene in self.simulated.data.deleted if gene is not None}

    def targets(self, n: int, seed: int) -> list[str]:
        """Genes at random, without those of planted pairs, which `pairs` looks at."""
        planted = {gene for pair in self.simulated.pairs for gene in pair}
        others = [gene for gene in self.simulated.data.genes if gene not in planted]
        return [others[i] for i in np.random.default_rng(seed).permutation(len(others))[:n]]


def _table(
    values: np.ndarray, environments: np.ndarray, genes: tuple[str, ...], outcome: int
) -> MultiEnvironmentData:
    labels, codes = np.unique(environments, return_inverse=True)
    return MultiEnvironmentData(
        X=np.delete(values, outcome, axis=1),
        y=values[:, outcome].copy(),
        environment_index=codes,
        feature_names=genes[:outcome] + genes[outcome + 1 :],
        environments=tuple(labels.tolist()),
        outcome_name=genes[outcome],
    )


@dataclass(eq=False)
class Case:
    """One target: its own deletion is not used to fit, and what was found by each method."""

    genome: Genome
    target: str
    found: Found = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @cached_property
    def moments(self) -> Moments:
        genome = self.genome
        rows = tuple(genome.simulated.data.deleting(self.target).tolist())
        return SweepData(genome.moments, genome.table, {self.target: rows}).moments_for(
            self.target
        )[0]

    @cached_property
    def rows(self) -> MultiEnvironmentData:
        data = self.genome.simulated.data
        kept = np.array([gene != self.target for gene in data.deleted])
        return _table(
            data.values[kept], data.environments[kept], data.genes, data.place[self.target]
        )

    def goal(self, reward: float, excluded: np.ndarray | None = None) -> Target:
        model = LinearGaussian(prediction=reward).bind(self.moments)
        prior = PRIOR.bind(model.feature_names, model.largest_size)
        out = np.zeros(model.n_features, dtype=bool) if excluded is None else excluded
        return Target(model, replace(prior, forced_out=out))

    @cached_property
    def not_met(self) -> np.ndarray:
        """(p,) the features that no steepest ascent meets"""
        met: dict[int, None] = {}
        for reward in ASCENTS:
            met |= dict.fromkeys(np.flatnonzero(ascent(self.goal(reward))).tolist())
        return ~np.isin(np.arange(self.rows.n_features), list(met)[:MOST_MET])

    def engine_and_goal(
        self, reward: float, excluded: np.ndarray | None = None
    ) -> tuple[Engine, Target]:
        if self.genome.tempering:
            return Tempering(), self.goal(reward, excluded)
        return Enumeration(), self.goal(
            reward, self.not_met if excluded is None else self.not_met | excluded
        )

    def names(self, mask: np.ndarray) -> tuple[str, ...]:
        return tuple(
            name for name, flag in zip(self.moments.feature_names, mask, strict=True) if flag
        )

    def ranked(self, values: np.ndarray, n: int) -> tuple[str, ...]:
        """The largest values, fewer where the others are 0."""
        leading = np.argsort(-values, kind="stable")[:n]
        return tuple(self.moments.feature_names[j] for j in leading if values[j] > 0.0)

    @property
    def downstream(self) -> np.ndarray:
        """(p,) genes that move where the target itself is deleted, if it is"""
        data = self.genome.simulated.data
        wild = data.values[data.wild_type]
        moves = np.abs(data.values[data.deleting(self.target)] - wild.mean(axis=0)) / wild.std(
            axis=0, ddof=1
        )
        return np.delete((moves > DOWNSTREAM).any(axis=0), data.place[self.target])

    @cached_property
    def deleted_in(self) -> np.ndarray:
        """(n,) which feature each of `rows` deletes; -1 for none"""
        place = {name: j for j, name in enumerate(self.moments.feature_names)}
        return np.array(
            [
                place.get(gene, -1)
                for gene in self.genome.simulated.data.deleted
                if gene != self.target
            ]
        )

    def uncontradicted(self, posterior: Posterior) -> np.ndarray:
        """(p,) the most probable subset that predicts the samples in which a member of a leading
        subset is deleted."""
        candidates = np.flatnonzero(posterior.masks[:50].any(axis=0))
        challenges = np.isin(self.deleted_in, candidates)
        for mask in posterior.masks[:300]:
            residuals, df = _studentised(self.rows.X[:, mask], self.rows.y)
            worst = np.abs(residuals[challenges]).max(initial=0.0)
            if 2 * student.sf(worst, df) * challenges.sum() >= CONTRADICTED:
                return mask
        return posterior.mode_mask


def _studentised(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, int]:
    """Residuals over their standard errors, each from a fit to all other rows, and the degrees of
    freedom."""
    basis = np.linalg.qr(np.column_stack([np.ones(len(y)), X]))[0]
    residuals = y - basis @ (basis.T @ y)
    left = 1.0 - (basis**2).sum(axis=1)
    df = len(y) - basis.shape[1] - 1
    return residuals / np.sqrt(left * (residuals @ residuals - residuals**2 / left) / df), df


def ascent(target: Target) -> np.ndarray:
    """(p,) the subset that no flip improves, from the empty one by the best flip each time"""
    mask = target.start
    prior = target.prior
    while True:
        now = prior.log_odds[mask].sum() + prior.log_size_weight[mask.sum()]
        change = target.model.flip_neighbours(mask) + flipped_log_prior(prior, mask) - now
        best = int(np.argmax(change))
        if change[best] <= 0.0:
            return mask
        mask = mask ^ (np.arange(len(mask)) == best)


def over_all(case: Case, seed: int) -> list[Callable[[], Found]]:
    """Over all features: what one run of an engine gives, by method."""
    options = RunOptions(1, np.random.default_rng(seed), progress=False)
    n_true = len(case.genome.simulated.truth(case.target))

    def paper() -> Found:
        engine, goal = case.engine_and_goal(0.0)
        posterior = engine.run(goal, options)
        found = {
            "paper: mode": case.names(posterior.mode_mask),
            "paper: inclusion > 1/2": case.names(posterior.inclusion > 0.5),
        }
        if not case.genome.tempering:
            return found
        # The prior's inclusion is the same for every gene: the ratio to it ranks as the inclusion
        # does.
        return found | {
            "paper: ratio to prior, true number": case.ranked(posterior.inclusion, n_true),
            "paper: ratio to prior, three": case.ranked(posterior.inclusion, 3),
        }

    def rewarded(reward: float) -> Found:
        engine, goal = case.engine_and_goal(reward)
        posterior = engine.run(goal, options)
        return {
            f"λ = {reward}: mode": case.names(posterior.mode_mask),
            f"λ = {reward}: inclusion > 1/2": case.names(posterior.inclusion > 0.5),
            f"λ = {reward}, not contradicted": case.names(case.uncontradicted(posterior)),
        }

    def informed() -> Found:
        engine, goal = case.engine_and_goal(0.1, case.downstream)
        posterior = engine.run(goal, options)
        return {
            "λ = 0.1, not downstream": case.names(posterior.mode_mask),
            "λ = 0.1, not downstream, not contradicted": case.names(case.uncontradicted(posterior)),
        }

    def predictive() -> Found:
        engine, goal = case.engine_and_goal(0.0)
        posterior = predictive_posterior(goal, engine, options)
        if posterior is None:
            return {"predictive": (), "median": ()}
        return {
            "predictive": case.names(posterior.mode_mask),
            "median": case.names(posterior.inclusion >= 0.5),
        }

    return [
        paper,
        *(partial(rewarded, reward) for reward in (0.03, 0.1, 0.3)),
        informed,
        predictive,
    ]


def screened(case: Case) -> list[Callable[[], Found]]:
    """The Lasso, and exact inference over the features that it ranks highest."""
    n_true = len(case.genome.simulated.truth(case.target))
    products = case.moments.scatter[-1][case.moments.outcome] / np.sqrt(
        np.diagonal(case.moments.scatter[-1])
    )
    near = np.argsort(-np.abs(products[case.moments.feature_columns]))[:CORRELATED]
    is_near = np.isin(np.arange(case.rows.n_features), near)
    seen = case.rows.narrowed(is_near)
    fits: list[LassoFit] = []

    def lasso() -> Found:
        fits.append(cross_validated_lasso(seen, cv=5))
        size = np.zeros(case.rows.n_features)
        size[is_near] = np.abs(fits[0].coefficients)
        return {
            "Lasso: three": case.ranked(size, 3),
            "Lasso: true number": case.ranked(size, n_true),
            "Lasso: all": case.names(size > 0.0),
        }

    def behind() -> Found:
        model = LinearGaussian().bind(seen.narrowed(screening_of(seen, fits[0], SCREENED).kept))
        target = Target(model, UniformPrior().bind(model.feature_names))
        options = RunOptions(1, np.random.default_rng(0), progress=False)
        posterior = Enumeration().run(target, options)
        best = predictive_posterior(target, Enumeration(), options)
        chosen = {
            "BIP-screen: mode": posterior.mode_mask,
            "BIP-screen: inclusion > 1/2": posterior.inclusion > 0.5,
            "BIP-screen: predictive": np.zeros(model.n_features, bool)
            if best is None
            else best.mode_mask,
        }
        names = np.array(model.feature_names)
        return {method: tuple(names[mask].tolist()) for method, mask in chosen.items()}

    return [lasso, behind]


def examined(number: int) -> tuple[str, Found, dict[str, float]]:
    """One target with all methods: what each found, and in how many seconds."""
    case = Case(GENOME, TARGETS[number])
    with warnings.catch_warnings(), threadpool_limits(1):
        warnings.simplefilter("ignore")
        case.moments  # noqa: B018
        for work in over_all(case, number) + screened(case):
            started = time.perf_counter()
            found = work()
            case.found |= found
            case.seconds |= dict.fromkeys(found, time.perf_counter() - started)
    return case.target, case.found, case.seconds


def counted(cases: list[Case], method: str) -> str:
    """Precision and recall over all pairs of target and feature, then over those whose feature was
    deleted."""
    simulated = GENOME.simulated
    deleted = GENOME.deleted
    shares = []
    for among in (set(simulated.data.genes), deleted):
        found = [
            (case.target, gene) for case in cases for gene in case.found[method] if gene in among
        ]
        true = {
            (case.target, gene)
            for case in cases
            for gene in simulated.truth(case.target)
            if gene in among
        }
        right = len(true & set(found))
        shares += [right / len(found) if found else np.nan, right / len(true) if true else np.nan]
    exact = np.mean(
        [set(case.found[method]) == set(simulated.truth(case.target)) for case in cases]
    )
    per_target = np.mean([len(case.found[method]) for case in cases])
    values = " ".join(f"{share:>9.2f}" for share in shares)
    return (
        f"{values} {exact:>7.2f} {per_target:>9.1f} "
        f"{np.mean([case.seconds[method] for case in cases]):>8.1f}"
    )


def findings(jobs: int) -> None:
    cases: list[Case] = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        for done in as_completed([pool.submit(examined, number) for number in range(len(TARGETS))]):
            target, found, seconds = done.result()
            cases.append(Case(GENOME, target, found, seconds))
            print(f"{len(cases)} of {len(TARGETS)} targets", file=sys.stderr, flush=True)
    n_true = sum(len(GENOME.simulated.truth(case.target)) for case in cases)
    n_deleted = sum(case.target in GENOME.deleted for case in cases)
    print(
        f"\n{len(cases)} targets with {n_true} parents; deleted in a sample themselves: "
        f"{n_deleted}. No fit of a "
        "target sees that sample; 'not downstream' leaves out what moves in it."
    )
    if not GENOME.tempering:
        print(
            f"posteriors without a screen are over subsets of at most {MOST_MET} features, those "
            "that ascents meet"
        )
    print(
        "over all features, then over those that were deleted in a sample; exact: share of "
        "targets; size: found"
    )
    print(
        f"\n{'':42} {'precision':>9} {'recall':>9} {'precision':>9} {'recall':>9} {'exact':>7} "
        f"{'size':>9} {'s':>8}"
    )
    for method in cases[0].found:
        print(f"{method:42} {counted(cases, method)}", flush=True)


def ascended(case: Case, raw: bool, iterations: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Expected sizes (iterations,) along the published BIP-VI, and the inclusion (p,) where it
    ends.

    raw: the objective is not divided by the number of rows
    """
    engine = Variational.genes(iterations=iterations)
    rng = np.random.default_rng(seed)
    model = LinearGaussian().bind(case.moments)
    space = FreeSpace(
        Target(model, UniformPrior(min(200, model.largest_size)).bind(model.feature_names))
    )
    prior = space.target.prior.over_free
    n_rows = 1.0 if raw else float(model.n_rows)
    objective = Objective(
        prior.log_odds, prior.log_size_weight, prior.max_size, n_rows, engine.infeasible_value
    )
    scorer = space.scorer(engine.memory, searching=True)
    f = len(prior.log_odds)
    rates = engine.schedule.rates(iterations)
    lowest = np.zeros(1)
    logits = np.full(f, logit(engine.inclusion))
    sizes = np.empty(iterations)
    for first in range(0, iterations, STRETCH):
        part = slice(first, min(first + STRETCH, iterations))
        steps = part.stop - first
        trace = Trace(*np.empty((3, steps)), np.empty((steps, f)))
        uniforms = rng.random((steps, engine.pairs, f))
        analytic = rng.random(steps) < engine.kl_analytic_probability
        ascend(logits, uniforms, rates[part], analytic, objective, lowest, scorer, trace)
        sizes[part] = expit(trace.logits).sum(axis=1)
    return sizes, expit(logits)


def pairs(n: int, iterations: int) -> None:
    """What each setting says of the neighbours of planted pairs."""
    planted = GENOME.simulated.pairs[:n]
    print(
        f"\n{len(planted)} planted pairs: the neighbour's inclusion and rank, and how many genes "
        "have more than 1/2"
    )
    for neighbour, gene in planted:
        case = Case(GENOME, gene)
        place = case.moments.feature_names.index(neighbour)
        options = RunOptions(1, np.random.default_rng(0), progress=False)

        def say(
            setting: str, inclusion: np.ndarray, seconds: float, more: str = "", place: int = place
        ) -> None:
            rank = 1 + int((inclusion > inclusion[place]).sum())
            above = int((inclusion > 0.5).sum())
            print(
                f"  {setting:34} {inclusion[place]:>6.3f} {rank:>6} {above:>6} {seconds:>7.1f} s "
                f"{more}",
                flush=True,
            )

        print(f"{neighbour} → {gene}")
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            for reward in (0.0, 0.1):
                started = time.perf_counter()
                posterior = Tempering().run(case.goal(reward), options)
                name = (
                    "paper's posterior, tempering" if reward == 0.0 else f"λ = {reward}, tempering"
                )
                say(name, posterior.inclusion, time.perf_counter() - started)
            for raw in (False, True):
                started = time.perf_counter()
                sizes, inclusion = ascended(case, raw, iterations, seed=0)
                at = [t for t in (1, iterations // 4, iterations // 2, iterations) if t]
                sizes_at = ", ".join(f"{sizes[t - 1]:.0f} at {t:,}" for t in at)
                name = f"published VI, {'raw' if raw else 'divided by N'}"
                say(name, inclusion, time.perf_counter() - started, f"expected size {sizes_at}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--genes", type=int, default=GENES)
    parser.add_argument("--wild-type", type=int, default=WILD_TYPES)
    parser.add_argument(
        "--deletions", type=int, help="as many for each gene as in the published file"
    )
    parser.add_argument("--signal", type=float, default=0.5)
    parser.add_argument("--hidden", type=float, default=0.0)
    parser.add_argument("--targets", type=int, default=60)
    parser.add_argument("--tempering", action="store_true", help="sample subsets of all features")
    parser.add_argument("--pairs", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=10_000, help="of BIP-VI, for the pairs")
    parser.add_argument("--jobs", type=int, default=1, help="processes, which share the moments")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    header("What is found of a regulatory network")
    n_deletions = (
        max(round(given.genes * DELETIONS / GENES), 1)
        if given.deletions is None
        else given.deletions
    )
    n_pairs = min(10, given.genes // 20, n_deletions)
    options = {"signal": given.signal, "hidden": given.hidden, "pairs": n_pairs, "seed": given.seed}
    GENOME = Genome(
        knockouts(given.genes, given.wild_type, n_deletions, **options), given.tempering
    )
    print(
        f"{given.genes:,} genes, {given.wild_type:,} wild types, {n_deletions:,} deletions, seed "
        f"{given.seed}"
    )
    GENOME.moments  # noqa: B018
    TARGETS = GENOME.targets(given.targets, given.seed)
    if TARGETS:
        findings(given.jobs)
    if given.pairs:
        pairs(given.pairs, given.iterations)
    print(f"\npeak memory {peak_memory_gb():.1f} GB")
