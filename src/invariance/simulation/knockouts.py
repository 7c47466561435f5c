"""Expression of genes in a regulatory network that is known, with one gene deleted in each of many samples."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real

import numpy as np
from scipy.sparse import csr_array

from .._tools.arrays import Floats, Integers, Mask
from ..data.deletions import Deletions
from ..exceptions import DataError, SettingError
from .presets import signed

# Log2 ratios: the deviation of a gene among wild types, and the level at which its own deletion leaves it.
WILD_TYPE_DEVIATION = (0.1, 0.3)
DELETED_LEVEL = (-6.0, -1.0)
# The two genes of a planted pair are quiet; the first is deleted thoroughly, and the second follows all that it does.
PAIR_DEVIATION, PAIR_LEVEL, PAIR_WEIGHT = 0.1, -6.0, 1.0
# The share of genes that regulate others; the r-th of them becomes a parent in proportion to r^−HUBS.
REGULATORS, HUBS = 0.8, 0.5
HIDDEN_FACTORS = 3


@dataclass(frozen=True, eq=False)
class Network:
    """Gene i = Σ_j weights[i, j] · gene j + loadings[i] · hidden factors + Normal(0, deviations[i]²), without cycles.

    order : (d,) genes, causes first; weights : (d, d) sparse; deviations : (d,)
    loadings : (d, h) on h independent Normal(0, 1) factors, which move all genes and are not measured
    """

    order: Integers
    weights: csr_array
    deviations: Floats
    loadings: Floats

    def parents(self, gene: int) -> Integers:
        first, last = self.weights.indptr[gene : gene + 2]
        return self.weights.indices[first:last]

    def expression(self, wild_type: int, deleted: Integers, levels: Floats, rng: np.random.Generator) -> Floats:
        """(n, d) wild types, then samples in each of which one gene is set to a level and the others follow."""
        d, n = len(self.order), wild_type + len(deleted)
        columns = rng.standard_normal((d, n))
        columns *= self.deviations[:, None]
        columns += self.loadings @ rng.standard_normal((self.loadings.shape[1], n))
        set_in: dict[int, tuple[int, float]] = {
            gene: (wild_type + k, level) for k, (gene, level) in enumerate(zip(deleted.tolist(), levels, strict=True))
        }
        for gene in self.order.tolist():
            first, last = self.weights.indptr[gene : gene + 2]
            columns[gene] += self.weights.data[first:last] @ columns[self.weights.indices[first:last]]
            if gene in set_in:
                sample, level = set_in[gene]
                columns[gene, sample] = level
        return np.ascontiguousarray(columns.T)


@dataclass(frozen=True, eq=False)
class Knockouts:
    """Samples from a regulatory network, and the network itself.

    data : what would be measured; levels : (deletions,) what each deletion sets its gene to
    pairs : (neighbour, gene) of each planted pair: the deletion of the first moves the second by many deviations
    """

    data: Deletions
    network: Network
    levels: Floats
    pairs: tuple[tuple[str, str], ...]

    def truth(self, gene: str) -> tuple[str, ...]:
        """The parents of a gene: given these, it is the same in wild types and wherever it is not deleted itself.

        That is so for hidden=0. With hidden factors, parents are still the direct causes, but the regression on them
        differs where one of them is deleted, which then no longer tells of the factors: no subset need be invariant.
        """
        genes = self.data.genes
        if gene not in self.data.place:
            raise DataError(f"there is no gene {gene!r}: they are {genes[0]!r} to {genes[-1]!r}.")
        return tuple(genes[j] for j in self.network.parents(self.data.place[gene]))


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
    """Simulated knock-outs, by default as many as in the yeast data of Kemmeren et al. (2014), as log2 ratios.

    Genes stand in an order that their columns do not show. Four in five can regulate others, and a few of these are
    hubs with up to hundreds of children. A gene has a Poisson number of parents among the regulators before it, and is
    their weighted sum plus Gaussian noise; its deviation among wild types is about U[0.1, 0.3]. A deletion sets one
    gene to a level of U[−6, −1], and what is downstream follows. No gene is deleted twice, and those that regulate
    many are deleted more often: a gene is chosen in proportion to 1 + the number of its children.

    genes, wild_type, deletions : how many genes, wild-type samples, and samples with one gene deleted
    parents : how many parents a gene has on average, where there are as many regulators before it
    signal : the share of a gene's variance among wild types that its parents explain, were they independent
    pairs : how many genes follow, beside these parents, every move of a neighbour, whose deletion to −6 moves them by
        some forty deviations, as that of YMR104C moves YMR103C
    hidden : the share of the noise that comes from three factors that move all genes and are not measured
    seed : a whole number from 0 on, or a numpy Generator

    >>> from invariance.simulation import knockouts
    >>> simulated = knockouts(genes=200, wild_type=30, deletions=50, pairs=1)
    >>> simulated.data.values.shape
    (80, 200)
    >>> neighbour, gene = simulated.pairs[0]
    >>> neighbour in simulated.truth(gene)
    True
    """
    _check(genes, wild_type, deletions, parents, signal, pairs, hidden)
    if not isinstance(seed, np.random.Generator) and not _is_whole(seed, 0):
        raise SettingError(f"seed={seed!r} must be a whole number from 0 on, or a numpy Generator.")
    rng = np.random.default_rng(seed)
    order, scale = rng.permutation(genes), rng.uniform(*WILD_TYPE_DEVIATION, genes)
    regulates = np.zeros(genes, dtype=bool)
    regulates[rng.choice(genes, _n_regulators(genes), replace=False)] = True
    neighbours, partners = _pairs(order[~regulates[order]], pairs, rng)
    scale[np.append(neighbours, partners)] = PAIR_DEVIATION
    children, causes = _edges(order, regulates, parents, rng)
    weights = _weights(children, causes, scale, signal, rng)
    noise = scale * np.sqrt(np.where(np.isin(np.arange(genes), children), 1.0 - signal, 1.0))
    edges = np.append(children, partners), np.append(causes, neighbours)
    network = Network(
        order,
        csr_array((np.append(weights, np.full(pairs, PAIR_WEIGHT)), edges), shape=(genes, genes)),
        noise * np.sqrt(1.0 - hidden),
        (noise * np.sqrt(hidden))[:, None] * _directions(genes, HIDDEN_FACTORS if hidden else 0, rng),
    )
    deleted = _deleted(np.bincount(causes, minlength=genes), deletions, neighbours, rng)
    levels = np.where(np.isin(deleted, neighbours), PAIR_LEVEL, rng.uniform(*DELETED_LEVEL, deletions))
    names = tuple(f"g{j + 1:0{len(str(genes))}d}" for j in range(genes))
    data = Deletions(
        network.expression(wild_type, deleted, levels, rng),
        names,
        tuple(f"wild type {i + 1}" for i in range(wild_type)) + tuple(f"{names[j]} deleted" for j in deleted),
        (None,) * wild_type + tuple(names[j] for j in deleted),
    )
    planted = tuple((names[j], names[i]) for j, i in zip(neighbours, partners, strict=True))
    return Knockouts(data, network, levels, planted)


def _n_regulators(genes: int) -> int:
    return max(round(REGULATORS * genes), 1)


def _pairs(candidates: Integers, n_pairs: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Distinct genes of the candidates, which are in the network's order: in each pair the first comes first."""
    places = np.sort(rng.choice(len(candidates), (n_pairs, 2), replace=False), axis=1)
    return candidates[places[:, 0]], candidates[places[:, 1]]


def _edges(
    order: Integers, regulates: Mask, mean_parents: float, rng: np.random.Generator
) -> tuple[Integers, Integers]:
    """Children and causes, one of each for every edge."""
    regulators = order[regulates[order]]
    n_before = np.concatenate([[0], np.cumsum(regulates[order])[:-1]])
    log_popularity = -HUBS * np.log1p(rng.permutation(len(regulators)))
    parents = []
    for n, wanted in zip(n_before.tolist(), rng.poisson(mean_parents, len(order)), strict=True):
        # The largest of log weights plus Gumbel noise are draws in proportion to the weights, without replacement.
        chosen = np.argsort(-log_popularity[:n] - rng.gumbel(size=n))[:wanted]
        parents.append(regulators[chosen])
    return np.repeat(order, [len(chosen) for chosen in parents]), np.concatenate(parents)


def _weights(children: Integers, causes: Integers, scale: Floats, signal: float, rng: np.random.Generator) -> Floats:
    """Of each edge: the parents of a gene share what they explain of it, none more than thrice what another does."""
    parts = rng.uniform(0.5, 1.5, len(children))
    shares = signal * parts / np.bincount(children, parts, minlength=len(scale))[children]
    return signed(rng, np.sqrt(shares) * scale[children] / scale[causes])


def _directions(genes: int, n_factors: int, rng: np.random.Generator) -> Floats:
    """(genes, n_factors) of length 1, where there are factors"""
    raw = rng.standard_normal((genes, n_factors))
    return raw / np.linalg.norm(raw, axis=1, keepdims=True)


def _deleted(n_children: Integers, deletions: int, neighbours: Integers, rng: np.random.Generator) -> Integers:
    """Different genes, the neighbours of planted pairs among them."""
    priority = np.log1p(n_children) + rng.gumbel(size=len(n_children))
    priority[neighbours] = np.inf
    return rng.permutation(np.argsort(-priority)[:deletions])


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and bool(value >= least)


def _check(
    genes: int, wild_type: int, deletions: int, parents: float, signal: float, pairs: int, hidden: float
) -> None:
    for name, number, least in (
        ("genes", genes, 2),
        ("wild_type", wild_type, 1),
        ("deletions", deletions, 1),
        ("pairs", pairs, 0),
    ):
        if not _is_whole(number, least):
            raise SettingError(f"{name}={number!r} must be a whole number from {least} on.")
    if deletions > genes:
        raise SettingError(f"deletions={deletions} must be at most genes={genes}: no gene is deleted twice.")
    most_pairs = min(deletions, (genes - _n_regulators(genes)) // 2)
    if pairs > most_pairs:
        raise SettingError(f"pairs={pairs} must be at most {most_pairs} for {genes} genes and {deletions} deletions.")
    if not (isinstance(parents, Real) and 0.0 <= parents < np.inf):
        raise SettingError(f"parents={parents!r} must be a number from 0 on.")
    for name, share in (("signal", signal), ("hidden", hidden)):
        if not (isinstance(share, Real) and 0.0 <= share < 1.0):
            raise SettingError(f"{name}={share!r} must be at least 0 and less than 1.")
