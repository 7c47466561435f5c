"""Small samples with deletions whose effects are known by hand."""

from __future__ import annotations

import numpy as np

from invariance.simulation.knockouts import Deletions

GENES = ("a", "b", "c", "d", "e")
QUICK_METHODS = ("ICP-screen", "Lasso", "Marginal")


def small_samples() -> Deletions:
    """100 wild types between -1 and 1, then deletions. Outside the band: a in a's own sample, with b and c moved by it;
    b in its own, with c moved; c stays where it was in its own; d is deleted in two samples, in one of which it moves,
    so that the mean does, and a moves too; the deleted gene z is not measured; e is never deleted.
    """
    wild = np.linspace(-1.0, 1.0, 100)[:, None] * np.array([1.0, -1.0, 1.0, -1.0, 1.0])
    samples = {
        "a": [-5.0, 3.0, -3.0, 0.0, 0.0],
        "b": [0.1, -5.0, 2.0, 0.2, 0.0],
        "c": [4.0, 0.0, 0.5, 0.0, 0.0],
        "d": [6.0, 0.0, 0.0, -6.0, 0.0],
        "d (again)": [0.0, 0.0, 0.0, 0.0, 0.0],
        "z": [9.0, 9.0, 9.0, 9.0, 9.0],
    }
    return Deletions(
        np.vstack([wild, *samples.values()]),
        GENES,
        (*(f"wt {i}" for i in range(100)), *samples),
        (*[None] * 100, "a", "b", "c", "d", "d", "z"),
    )


def regulated(seed: int = 0, n_genes: int = 12, wild_types: int = 80) -> Deletions:
    """The first gene drives the second, the second the third; every gene is deleted once, to -6."""
    rng = np.random.default_rng(seed)
    names = tuple(f"g{j}" for j in range(n_genes))
    rows = []
    for deleted in [None] * wild_types + list(range(n_genes)):
        values = rng.normal(size=n_genes)
        for j in range(n_genes):
            if 1 <= j <= 2:
                values[j] = 0.9 * values[j - 1] + 0.3 * values[j]
            if j == deleted:
                values[j] = -6.0
        rows.append(values)
    labels = (*[None] * wild_types, *names)
    return Deletions(np.array(rows), names, tuple(f"s{i}" for i in range(len(rows))), labels)
