"""A genomicist's job: many outcomes among many genes, from a file by `invariance sweep` to a tidy
table of parents."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from cli_runner import run
from invariance import read_sweep

STRAINS = ("wild", "heat", "salt", "acid", "cold", "dry", "dark", "sweet")
ROWS = 80


def write_genes(path: Path, n_genes: int, n_targets: int) -> dict[str, set[str]]:
    """Each target follows from two genes alike in every strain, and one gene follows the target,
    otherwise in each; the parents of each target."""
    rng = np.random.default_rng(2)
    strain = np.repeat(np.arange(len(STRAINS)), ROWS)
    X = (
        rng.normal(size=(len(strain), n_genes))
        + rng.normal(0, 2, size=(len(STRAINS), n_genes))[strain]
    )
    parents: dict[str, set[str]] = {}
    targets = {}
    pairs = rng.permutation(n_genes - n_targets)[: 2 * n_targets].reshape(-1, 2)
    for k, (first, second) in enumerate(pairs):
        y = X[:, first] - 0.8 * X[:, second] + rng.normal(size=len(strain))
        X[:, n_genes - 1 - k] = np.linspace(-1, 2, len(STRAINS))[strain] * y + rng.normal(
            size=len(strain)
        )
        parents[f"t{k:02d}"] = {f"g{first:03d}", f"g{second:03d}"}
        targets[f"t{k:02d}"] = y
    table = (
        pd.DataFrame(X, columns=[f"g{j:03d}" for j in range(n_genes)]).assign(**targets).round(4)
    )
    table.assign(strain=np.array(STRAINS)[strain]).to_csv(path, index=False)
    return parents


@pytest.mark.integration
@pytest.mark.parametrize(
    ("n_genes", "n_targets", "n_jobs"),
    [(40, 2, 1), pytest.param(500, 20, 2, marks=pytest.mark.slow)],
    ids=["few genes", "500 genes"],
)
def test_from_a_file_to_the_parents(
    tmp_path: Path, n_genes: int, n_targets: int, n_jobs: int
) -> None:
    parents = write_genes(tmp_path / "genes.csv", n_genes, n_targets)
    (tmp_path / "targets.txt").write_text("\n".join(parents))
    asked = [
        "--environment",
        "strain",
        "--outcomes",
        tmp_path / "targets.txt",
        "--out",
        tmp_path / "sweep",
    ]
    engine = [
        "--engine",
        "tempering",
        "--chains",
        "2",
        "--steps",
        "300",
        "--jobs",
        str(n_jobs),
        "--quiet",
    ]
    result = run("sweep", tmp_path / "genes.csv", *asked, *engine)
    assert result.exit_code == 0, result.stderr
    assert f"Some features are selected for {n_targets} of {n_targets} outcomes" in result.stdout

    found = read_sweep(tmp_path / "sweep")
    assert set(found["outcome"]) == set(parents)
    assert found.columns.is_unique
    sure = found[found["selected"] & (found["verdict"] != "not invariant")]
    pairs = {(row.outcome, row.feature) for row in sure.itertuples()}
    true = {(target, gene) for target, genes in parents.items() for gene in genes}
    assert pairs == true
