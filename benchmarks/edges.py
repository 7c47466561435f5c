"""Edges of a sweep: how many are false, and how many are found, in knock-out worlds whose network
is known.

python benchmarks/edges.py --sets 100 --jobs 16         worlds of 10 genes, every subset tested
python benchmarks/edges.py --genes 40 --sets 20 --jobs 16         the subsets of 12 leading genes

A world has a network of its own, wild types, and samples that delete each gene in turn; the two
environments are wild types and deletions, and no fit of a gene sees the samples that delete it.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from joblib import Parallel, delayed

from _harness import header
from invariance import BIP, Tolerance, edges, sweep
from replication.knockouts import DELETED_LEVEL, Network, knockouts


@dataclass(frozen=True)
class World:
    """strength : of deletions, 1 as in the yeast study; hidden : share of the noise from factors
    that move all genes;
    jitter : deviation of coefficients between environments, relative; bent : parents act by tanh,
        all but linear among
    wild types; tails : t noise with so many degrees of freedom; unnamed : nobody says which gene a
    sample deletes;
    shift : of the mean of every gene in deletions, in deviations, which breaks the invariance of
        all"""

    strength: float = 1.0
    hidden: float = 0.0
    jitter: float = 0.0
    bent: bool = False
    tails: int | None = None
    unnamed: bool = False
    shift: float = 0.0


WORLDS = {
    "deletions as in yeast": World(),
    "a third as strong": World(0.3),
    "a tenth as strong": World(0.1),
    "coefficients jitter by 10%": World(jitter=0.1),
    "coefficients jitter by 30%": World(jitter=0.3),
    "a third, hidden factors": World(0.3, hidden=0.3),
    "hidden factors": World(hidden=0.3),
    "a third, parents act by tanh": World(0.3, bent=True),
    "parents act by tanh": World(bent=True),
    "a third, t noise (3)": World(0.3, tails=3),
    "t noise (3)": World(tails=3),
    "a third, deletions not named": World(0.3, unnamed=True),
    "a third, all genes shifted by .3": World(0.3, shift=0.3),
    "a third, all genes shifted by 1": World(0.3, shift=1.0),
}


def samples(
    world: World, network: Network, n: int, deleted: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """(n + deletions, d) wild types or deletions: one gene is set to a level, and the others
    follow."""
    d = len(network.order)
    rows = n + len(deleted)
    noise = (
        rng.standard_normal((d, rows))
        if world.tails is None
        else rng.standard_t(world.tails, (d, rows)) / 3**0.5
    )
    columns = network.deviations[:, None] * noise
    columns += network.loadings @ rng.standard_normal((network.loadings.shape[1], rows))
    columns += world.shift * network.deviations[:, None] * rng.standard_normal((d, 1))
    weights = network.weights.toarray()
    weights *= 1.0 + world.jitter * rng.standard_normal(weights.shape)
    levels = world.strength * rng.uniform(*DELETED_LEVEL, len(deleted))
    for gene in network.order.tolist():
        columns[gene] += weights[gene] @ (np.tanh(columns) if world.bent else columns)
        columns[gene, n:][deleted == gene] = levels[deleted == gene]
    return columns.T


def drawn(
    world: World, genes: int, wild_type: int, repeats: int, seed: int
) -> tuple[pd.DataFrame, set[tuple[str, str]]]:
    """A table, and (outcome, direct cause) of all edges."""
    rng = np.random.default_rng(seed)
    simulated = knockouts(genes, 1, 1, parents=2.0, pairs=0, hidden=world.hidden, seed=rng)
    names = np.array(simulated.data.genes)
    network = simulated.network
    deleted = np.tile(np.arange(genes), repeats)
    parts = [
        samples(world, network, wild_type, deleted[:0], rng),
        samples(world, network, 0, deleted, rng),
    ]
    table = pd.DataFrame(np.vstack(parts), columns=names)
    table["kind"] = ["wild type"] * wild_type + ["deletion"] * len(deleted)
    table["deleted"] = [None] * wild_type + names[deleted].tolist()
    return table, {(gene, cause) for gene in names for cause in simulated.truth(gene)}


def by_pairs(found: pd.DataFrame, fdr: float) -> pd.DataFrame:
    """Benjamini-Yekutieli over all pairs."""
    p = np.sort(found["p_edge"].fillna(1.0))
    ranks = np.arange(1, len(p) + 1)
    limits = fdr * ranks / (len(p) * (1.0 / ranks).sum())
    return found[found["p_edge"] <= limits[p <= limits].max(initial=-1.0)]


def hochberg(found: pd.DataFrame, fdr: float) -> pd.DataFrame:
    """Benjamini-Hochberg over outcomes: `edges` without the factor for dependence."""
    return edges(
        found, min(fdr * (1.0 / np.arange(1, found["outcome"].nunique() + 1)).sum(), 0.999)
    )


METHODS: dict[str, Callable[[pd.DataFrame], pd.DataFrame]] = {
    "edges, fdr .05": lambda found: edges(found, 0.05),
    "edges, fdr .1": lambda found: edges(found, 0.1),
    "edges, fdr .2": lambda found: edges(found, 0.2),
    "BH over outcomes, .1": lambda found: hochberg(found, 0.1),
    "BY over pairs, .1": lambda found: by_pairs(found, 0.1),
    "inclusion ≥ .9": lambda found: found[found["inclusion"] >= 0.9],
    "inclusion ≥ .99": lambda found: found[found["inclusion"] >= 0.99],
    "paper_inclusion ≥ .9": lambda found: found[found["paper_inclusion"] >= 0.9],
}


def counted(world: World, given: argparse.Namespace, seed: int) -> np.ndarray:
    """(methods, 5) edges, false edges, outcomes with edges, those with a false one, true edges
    there are"""
    table, truth = drawn(world, given.genes, given.wild_type, given.repeats, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table, named = (
            (table.drop(columns="deleted"), None) if world.unnamed else (table, "deleted")
        )
        model = BIP(prior="beta-binomial", tolerance=Tolerance.strict()) if given.strict else None
        found = sweep(table, model, environments="kind", perturbed=named, progress=False)
        claimed = [method(found) for method in METHODS.values()]
    counts = []
    for part in claimed:
        pairs = list(zip(part["outcome"], part["feature"], strict=True))
        false = [pair for pair in pairs if pair not in truth]
        counts.append(
            [
                len(pairs),
                len(false),
                len({k for k, _ in pairs}),
                len({k for k, _ in false}),
                len(truth),
            ]
        )
    return np.array(counts, dtype=float)


def shares(counts: np.ndarray) -> str:
    """counts (sets, 5): mean over sets of the shares of false outcomes and edges (0 of 0 is 0);
    power; edges a set"""
    n, false, outcomes, false_outcomes, true = counts.T
    means = [
        np.mean(part / np.maximum(whole, 1.0))
        for part, whole in ((false_outcomes, outcomes), (false, n))
    ]
    error = np.std(false_outcomes / np.maximum(outcomes, 1.0)) / len(n) ** 0.5
    return (
        f"{means[0]:>9.3f} ± {error:.3f} {means[1]:>8.3f} "
        f"{(n - false).sum() / true.sum():>8.2f} {n.mean():>8.1f}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--genes", type=int, default=10)
    parser.add_argument("--wild-type", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=10, help="deletions of each gene")
    parser.add_argument("--sets", type=int, default=100, help="data sets of each world")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--strict", action="store_true", help="test exact invariance")
    parser.add_argument("--only", nargs="*", default=list(WORLDS), help="worlds")
    given = parser.parse_args()
    header("Edges of a sweep: errors and power")
    print(
        f"{given.genes} genes, {given.wild_type} wild types, {given.repeats} deletions of each "
        f"gene, {given.sets} sets"
    )
    for name in given.only:
        drawn_sets = (delayed(counted)(WORLDS[name], given, seed) for seed in range(given.sets))
        counts = np.array(Parallel(given.jobs)(drawn_sets))
        print(f"\n{name:32} {'false outcomes':>14} {'false edges':>13} {'power':>6} {'edges':>8}")
        for place, method in enumerate(METHODS):
            print(f"  {method:26} {shares(counts[:, place])}", flush=True)
