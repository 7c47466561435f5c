"""Simulated knock-outs: the network, what deletions do to it, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance.exceptions import DataError, SettingError
from replication.knockouts import Knockouts, knockouts

SMALL = {"genes": 60, "wild_type": 40, "deletions": 50, "pairs": 3}


def total_effects(simulated: Knockouts) -> np.ndarray:
    """(d, d) what one unit of gene j adds to gene i over all paths, by plain algebra."""
    weights = simulated.network.weights.toarray()
    return np.linalg.inv(np.eye(len(weights)) - weights)


def structural_covariance(simulated: Knockouts) -> np.ndarray:
    network = simulated.network
    total = total_effects(simulated)
    noise = np.diag(network.deviations**2) + network.loadings @ network.loadings.T
    return total @ noise @ total.T


@settings(max_examples=10)
@given(st.integers(0, 2**32), st.integers(2, 80), st.floats(0, 6))
def test_no_gene_causes_an_earlier_one(seed: int, genes: int, parents: float) -> None:
    simulated = knockouts(genes, 3, min(genes, 5), parents=parents, pairs=0, seed=seed)
    network = simulated.network
    position = np.argsort(network.order)
    children, causes = network.weights.nonzero()
    np.testing.assert_array_equal(np.sort(network.order), np.arange(genes))
    assert (position[causes] < position[children]).all()
    for gene in simulated.data.genes:
        marked = np.flatnonzero(network.weights.toarray()[simulated.data.place[gene]])
        assert simulated.truth(gene) == tuple(simulated.data.genes[j] for j in marked)


def test_parents_children_and_deletions_are_as_many_as_asked_for() -> None:
    simulated = knockouts(1000, 5, 250, parents=2.0, pairs=0)
    weights = simulated.network.weights
    n_parents = np.diff(weights.indptr)
    n_children = np.bincount(weights.indices, minlength=1000)
    assert n_parents.mean() == pytest.approx(2.0, abs=0.2)
    assert n_parents.var() == pytest.approx(2.0, abs=0.5)
    assert n_children.max() > 20
    assert 0.15 < np.mean(n_children == 0) < 0.65
    deleted = np.isin(simulated.data.genes, [name for name in simulated.data.deleted if name])
    assert n_children[deleted].mean() > 2.0 * n_children[~deleted].mean()


@pytest.mark.parametrize("signal", [0.3, 0.6])
def test_parents_explain_the_share_that_was_asked_for(signal: float) -> None:
    simulated = knockouts(400, 5, 100, pairs=0, signal=signal)
    variances = np.diag(structural_covariance(simulated))
    explained = 1.0 - simulated.network.deviations**2 / variances
    has_parents = np.diff(simulated.network.weights.indptr) > 0
    np.testing.assert_allclose(explained[~has_parents], 0.0, atol=1e-12)
    assert np.mean(explained[has_parents]) == pytest.approx(signal, abs=0.03)
    assert np.quantile(np.sqrt(variances), [0.02, 0.5, 0.98]) == pytest.approx(
        [0.1, 0.2, 0.3], abs=0.03
    )


@pytest.mark.parametrize("hidden", [0.0, 0.4])
def test_wild_types_have_the_moments_of_the_network(hidden: float) -> None:
    simulated = knockouts(30, 20_000, 10, pairs=2, hidden=hidden, seed=3)
    values = simulated.data.values[simulated.data.wild_type]
    expected = structural_covariance(simulated)
    deviations = np.sqrt(np.diag(expected))
    np.testing.assert_allclose(values.mean(axis=0) / deviations, 0.0, atol=0.04)
    difference = (np.cov(values.T) - expected) / np.outer(deviations, deviations)
    np.testing.assert_allclose(difference, 0.0, atol=0.05)
    plain = knockouts(30, 5, 10, pairs=2, seed=3).network
    noise = simulated.network.deviations**2, (simulated.network.loadings**2).sum(axis=1)
    np.testing.assert_allclose(
        noise, [(1 - hidden) * plain.deviations**2, hidden * plain.deviations**2]
    )


@settings(max_examples=8)
@given(st.integers(0, 2**32))
def test_a_deletion_moves_what_is_downstream_and_nothing_else(seed: int) -> None:
    simulated = knockouts(**SMALL, seed=seed)
    network = simulated.network
    total = total_effects(simulated)
    genes = np.array(
        [simulated.data.place[name] for name in simulated.data.deleted if name is not None]
    )
    # The same noise, with every deleted gene one unit lower.
    high, low = (
        network.expression(4, genes, simulated.levels - drop, np.random.default_rng(0))
        for drop in (0.0, 1.0)
    )
    np.testing.assert_array_equal(high[:4], low[:4])
    np.testing.assert_array_equal(high[4 + np.arange(len(genes)), genes], simulated.levels)
    np.testing.assert_allclose(low[4:] - high[4:], -total[:, genes].T, atol=1e-9)


def test_planted_pairs_move_by_many_deviations() -> None:
    simulated = knockouts(**SMALL, seed=4)
    data = simulated.data
    deviations = np.sqrt(np.diag(structural_covariance(simulated)))
    assert len({gene for pair in simulated.pairs for gene in pair}) == 6
    for neighbour, gene in simulated.pairs:
        (row,) = data.deleting(neighbour)
        assert data.values[row, data.place[neighbour]] == -6.0
        assert neighbour in simulated.truth(gene)
        assert data.values[row, data.place[gene]] / deviations[data.place[gene]] < -20.0


def test_a_seed_or_a_generator_decides_everything() -> None:
    first, drawn, other = (
        knockouts(**SMALL, seed=seed) for seed in (1, np.random.default_rng(1), 2)
    )
    np.testing.assert_array_equal(first.data.values, drawn.data.values)
    assert (first.data.deleted, first.pairs) == (drawn.data.deleted, drawn.pairs)
    assert not np.array_equal(first.data.values, other.data.values)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("genes", 60.0), ("wild_type", 0), ("deletions", 61), ("pairs", 7)],
        *[("parents", np.nan), ("signal", 1.0), ("hidden", -0.5)],
    ],
)
def test_impossible_settings_are_refused(name: str, value: float) -> None:
    with pytest.raises(SettingError, match=f"{name}="):
        knockouts(**(SMALL | {name: value}))


def test_an_unknown_gene_is_named() -> None:
    with pytest.raises(DataError, match="'YMR104C'"):
        knockouts(**SMALL).truth("YMR104C")
