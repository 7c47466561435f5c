"""Predictions that do not depend on the seed."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pandas as pd

from .genes_protocol import VALIDATED

if TYPE_CHECKING:
    from .genes import Genes

Target = tuple[int, str]  # panel, gene

# The settings whose predictions the paper lists, and ours.
LISTED = {"ICP-screen": "α=0.01", "BIP-VI": "t=0.5", "BIP λ=0.1": "t=0.5", "BIP-predictive": "best compatible"}


def agreed(study: Genes, results: pd.DataFrame, method: str, setting: str) -> dict[Target, list[str]]:
    """Genes that a method predicts for each target with every seed, where the deletion of the gene is held out; in all
    folds, where it was not deleted.
    """
    chosen = results[(results["method"] == method) & (results["setting"] == setting)]
    votes: dict[Target, dict[str, float]] = {}
    splits = {
        (panel, number): study.split(panel, number)
        for panel in chosen["panel"].unique()
        for number in range(study.replicates)
    }
    n_folds = chosen["fold"].nunique()
    for row in chosen.to_dict("records"):
        split = splits[row["panel"], row["replicate"]]
        of_target = votes.setdefault((row["panel"], row["target"]), {})
        for gene in row["genes"].split():
            fold = split.fold_of(gene)
            weight = 1 / n_folds if fold is None else float(fold == row["fold"])
            of_target[gene] = of_target.get(gene, 0.0) + weight
    return {
        target: [gene for gene, vote in of_target.items() if vote > study.replicates - 1e-9]
        for target, of_target in votes.items()
    }


def validated(study: Genes, found: dict[Target, list[str]]) -> set[tuple[int, str, str]]:
    """(panel, target, gene) of the predictions that a deletion confirms."""
    return {
        (panel, target, gene)
        for (panel, target), genes in found.items()
        for gene in genes
        if study.effects(panel).verdict(gene, target) == VALIDATED
    }


def listed_by(study: Genes, results: pd.DataFrame) -> dict[str, dict[Target, list[str]]]:
    """{method: what it predicts with every seed} for the methods whose predictions are listed."""
    return {name: agreed(study, results, name, setting) for name, setting in LISTED.items() if name in study.methods}


def correct_by_target(study: Genes, results: pd.DataFrame) -> Counter[Target]:
    """How many predictions of the listed methods a deletion confirms."""
    found = listed_by(study, results).values()
    return Counter((panel, target) for genes in found for panel, target, _ in validated(study, genes))
