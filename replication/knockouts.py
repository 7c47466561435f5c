"""Expression of genes in a regulatory network that is known, with one gene deleted in each of many
samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.sparse import csr_array

from invariance._tools.arrays import Floats, Integers, Mask
from invariance.exceptions import DataError, SettingError
from invariance.simulation.presets import signed


@dataclass(frozen=True, eq=False)
class Deletions:
    """Expression of d genes in n samples.

    values : (n, d); genes : d names; samples : n names
    deleted : n names of the gene that is deleted in each sample, which need not be among `genes`;
        None in wild types
    non_responsive : (n,) deletions that stand in for wild types as the observational environment;
        None if there are wild types for that
    """

    values: Floats
    genes: tuple[str, ...]
    samples: tuple[str, ...]
    deleted: tuple[str | None, ...]
    non_responsive: Mask | None = None

    @cached_property
    def wild_type(self) -> Mask:
        """(n,)"""
        return np.array([gene is None for gene in self.deleted])

    @property
    def observational(self) -> Mask:
        """(n,) samples of the observational environment, the paper's e = 1"""
        return self.wild_type if self.non_responsive is None else self.non_responsive

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the observational environment and of the other one"""
        return (
            ("wild type", "deletion")
            if self.non_responsive is None
            else ("non-responsive", "responsive")
        )

    @property
    def environments(self) -> NDArray[np.str_]:
        """(n,) the label of each sample's environment"""
        return np.where(self.observational, *self.labels)

    @cached_property
    def place(self) -> dict[str, int]:
        """{gene: its column}"""
        return {gene: j for j, gene in enumerate(self.genes)}

    def deleting(self, gene: str) -> NDArray[np.intp]:
        """Rows of the samples where a gene is deleted."""
        return np.flatnonzero([name == gene for name in self.deleted])

    def to_frame(self) -> pd.DataFrame:
        """One row for each sample: the genes, and columns "environment" and "deleted"."""
        frame = pd.DataFrame(
            self.values, columns=list(self.genes), index=pd.Index(self.samples, name="sample")
        )
        return frame.assign(
            environment=self.environments, deleted=np.array(self.deleted, dtype=object)
        )


# Log2 ratios: the deviation of a gene among wild types, and the level at which its own deletion
# leaves it.
WILD_TYPE_DEVIATION = (0.1, 0.3)
DELETED_LEVEL = (-6.0, -1.0)
# The two genes of a planted pair are quiet; the first is deleted thoroughly, and the second follows
# all that it does.
PAIR_DEVIATION = 0.1
PAIR_LEVEL = -6.0
PAIR_WEIGHT = 1.0
# The share of genes that regulate others; the r-th of them becomes a parent in proportion to
# r^−HUBS.
REGULATORS = 0.8
HUBS = 0.5
HIDDEN_FACTORS = 3


@dataclass(frozen=True, eq=False)
class Network:
    """Gene i = Σ_j weights[i, j] · gene j + loadings[i] · hidden factors + Normal(0,
    deviations[i]²), without cycles.

    order : (d,) genes, causes first; weights : (d, d) sparse; deviations : (d,)
    loadings : (d, h) on h independent Normal(0, 1) factors, which move all genes and are not
        measured
    """

    order: Integers
    weights: csr_array
    deviations: Floats
    loadings: Floats

    def expression(
        self, wild_type: int, deleted: Integers, levels: Floats, rng: np.random.Generator
    ) -> Floats:
        """(n, d) wild types, then samples in each of which one gene is set to a level and the
        others follow."""
        d = len(self.order)
        n = wild_type + len(deleted)
        columns = rng.standard_normal((d, n))
        columns *= self.deviations[:, None]
        columns += self.loadings @ rng.standard_normal((self.loadings.shape[1], n))
        sample_of = {gene: k for k, gene in enumerate(deleted.tolist())}
        for gene in self.order.tolist():
            first, last = self.weights.indptr[gene : gene + 2]
            columns[gene] += (
                self.weights.data[first:last] @ columns[self.weights.indices[first:last]]
            )
            if gene in sample_of:
                columns[gene, wild_type + sample_of[gene]] = levels[sample_of[gene]]
        return np.ascontiguousarray(columns.T)


@dataclass(frozen=True, eq=False)
class Knockouts:
    """Samples from a regulatory network, and the network itself.

    data : what would be measured; levels : (deletions,) what each deletion sets its gene to
    pairs : (neighbour, gene) of each planted pair: the deletion of the first moves the second by
        many deviations
    """

    data: Deletions
    network: Network
    levels: Floats
    pairs: tuple[tuple[str, str], ...]

    def truth(self, gene: str) -> tuple[str, ...]:
        """The parents of a gene: with hidden=0 it is the same given these wherever it is not
        deleted itself.

        With hidden factors the regression on parents differs where one is deleted: no subset need
        be invariant.
        """
        genes = self.data.genes
        weights = self.network.weights
        if gene not in self.data.place:
            raise DataError(f"there is no gene {gene!r}: they are {genes[0]!r} to {genes[-1]!r}.")
        first, last = weights.indptr[self.data.place[gene] :][:2]
        return tuple(genes[j] for j in weights.indices[first:last])


def knockouts(
    genes: int = 6170,
    wild_type: int = 262,
    deletions: int = 1479,
    *,
    parents: float = 3.0,
    signal: float = 0.5,
    pairs: int = 10,
    hidden: float = 0.0,
    seed: int | np.random.Generator = 0,
) -> Knockouts:
    """Simulated knock-outs, by default as many as in the yeast data of Kemmeren et al. (2014), as
    log2 ratios.

    Genes stand in an order that their columns do not show. Four in five can regulate others, a few
    of them hundreds. A gene has a Poisson number of parents among the regulators before it, and is
    their weighted sum plus Gaussian noise; its deviation among wild types is about U[0.1, 0.3]. A
    deletion sets one gene to a level of U[−6, −1], and what is downstream follows. No gene is
    deleted twice; it is chosen in proportion to 1 + the number of its children.

    genes, wild_type, deletions : how many genes, wild-type samples, and samples with one gene
        deleted
    parents : how many parents a gene has on average, where there are as many regulators before it
    signal : the share of a gene's variance among wild types that its parents explain, were they
        independent
    pairs : how many genes follow, beside these parents, every move of a neighbour, whose deletion
        to −6 moves them by some forty deviations, as that of YMR104C moves YMR103C
    hidden : the share of the noise that comes from three factors that move all genes and are not
        measured
    seed : a whole number from 0 on, or a numpy Generator

    >>> from replication.knockouts import knockouts
    >>> simulated = knockouts(genes=200, wild_type=30, deletions=50, pairs=1)
    >>> simulated.data.values.shape
    (80, 200)
    >>> neighbour, gene = simulated.pairs[0]
    >>> neighbour in simulated.truth(gene)
    True
    """
    n_regulators = max(round(REGULATORS * genes), 1)
    for name, value, kind, least, below in (
        ("genes", genes, Integral, 2, np.inf),
        ("wild_type", wild_type, Integral, 1, np.inf),
        ("deletions", deletions, Integral, 1, genes + 1),
        ("pairs", pairs, Integral, 0, min(deletions, (genes - n_regulators) // 2) + 1),
        ("parents", parents, Real, 0, np.inf),
        ("signal", signal, Real, 0, 1),
        ("hidden", hidden, Real, 0, 1),
    ):
        if not isinstance(value, kind) or not least <= value < below:
            raise SettingError(
                f"{name}={value!r} is not a number from {least} to below {below}, whole for counts."
            )
    rng = np.random.default_rng(seed)
    order = rng.permutation(genes)
    scale = rng.uniform(*WILD_TYPE_DEVIATION, genes)
    regulates = np.zeros(genes, dtype=bool)
    regulates[rng.choice(genes, n_regulators, replace=False)] = True
    others = order[~regulates[order]]
    # In the network's order: of each pair the first comes first.
    neighbours, partners = others[
        np.sort(rng.choice(len(others), (pairs, 2), replace=False), axis=1)
    ].T
    scale[np.append(neighbours, partners)] = PAIR_DEVIATION
    children, causes = _edges(order, regulates, parents, rng)
    # The parents of a gene share what they explain of it, none more than thrice what another does.
    parts = rng.uniform(0.5, 1.5, len(children))
    shares = signal * parts / np.bincount(children, parts, minlength=genes)[children]
    weights = signed(rng, np.sqrt(shares) * scale[children] / scale[causes])
    noise = scale * np.sqrt(np.where(np.isin(np.arange(genes), children), 1.0 - signal, 1.0))
    directions = rng.standard_normal((genes, HIDDEN_FACTORS if hidden else 0))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    edges = np.append(children, partners), np.append(causes, neighbours)
    network = Network(
        order,
        csr_array((np.append(weights, np.full(pairs, PAIR_WEIGHT)), edges), shape=(genes, genes)),
        noise * np.sqrt(1.0 - hidden),
        (noise * np.sqrt(hidden))[:, None] * directions,
    )
    priority = np.log1p(np.bincount(causes, minlength=genes)) + rng.gumbel(size=genes)
    priority[neighbours] = np.inf
    deleted = rng.permutation(np.argsort(-priority)[:deletions])
    levels = np.where(
        np.isin(deleted, neighbours), PAIR_LEVEL, rng.uniform(*DELETED_LEVEL, deletions)
    )
    names = tuple(f"g{j + 1:0{len(str(genes))}d}" for j in range(genes))
    data = Deletions(
        network.expression(wild_type, deleted, levels, rng),
        names,
        tuple(f"wild type {i + 1}" for i in range(wild_type))
        + tuple(f"{names[j]} deleted" for j in deleted),
        (None,) * wild_type + tuple(names[j] for j in deleted),
    )
    planted = tuple((names[j], names[i]) for j, i in zip(neighbours, partners, strict=True))
    return Knockouts(data, network, levels, planted)


def _edges(
    order: Integers, regulates: Mask, mean_parents: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Children and causes, one of each for every edge."""
    regulators = order[regulates[order]]
    n_before = np.concatenate([[0], np.cumsum(regulates[order])[:-1]])
    log_popularity = -HUBS * np.log1p(rng.permutation(len(regulators)))
    parents = []
    for n, wanted in zip(n_before.tolist(), rng.poisson(mean_parents, len(order)), strict=True):
        # The largest of log weights plus Gumbel noise are draws in proportion to the weights,
        # without replacement.
        chosen = np.argsort(-log_popularity[:n] - rng.gumbel(size=n))[:wanted]
        parents.append(regulators[chosen])
    return np.repeat(order, [len(chosen) for chosen in parents]), np.concatenate(parents)
