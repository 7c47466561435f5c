"""The benchmark of what is found in simulated networks: small genomes, and Lassos that keep few genes."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from invariance.data.multi_environment import MultiEnvironmentData
from invariance.screening import LassoFit
from invariance.simulation import knockouts

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def findings(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module("gene_findings")


def test_a_small_genome_has_as_many_pairs_as_it_has_room_for(
    findings: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gene_findings.py", "--genes", "60", "--targets", "0"])
    left = runpy.run_path(str(BENCHMARKS / "gene_findings.py"), run_name="__main__")
    assert len(left["GENOME"].simulated.pairs) == 3
    assert "60 genes, 262 wild types, 14 deletions, seed 0" in capsys.readouterr().out


def test_a_gene_that_the_lasso_leaves_out_is_neither_ranked_nor_screened(
    findings: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def of_two(data: MultiEnvironmentData, cv: int) -> LassoFit:
        return LassoFit(np.where(np.arange(data.n_features) < 2, 1.0, 0.0), 0.1)

    monkeypatch.setattr(findings, "cross_validated_lasso", of_two)
    genome = findings.Genome(knockouts(60, 40, 30, pairs=1), tempering=False)
    case = findings.Case(genome, genome.targets(1, 0)[0])
    assert case.ranked(np.zeros(59), 3) == ()
    lasso, behind = findings.screened(case)
    found = lasso() | behind()
    assert len(found["Lasso: three"]) == len(found["Lasso: all"]) == 2
    for method in ("mode", "inclusion > 1/2", "predictive"):
        assert set(found[f"BIP-screen: {method}"]) <= set(found["Lasso: all"])
