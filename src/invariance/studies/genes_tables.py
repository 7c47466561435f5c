"""Tables of the gene study."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .base import Table
from .genes_methods import GENE_METHODS
from .genes_metrics import undefined
from .genes_protocol import NO_EFFECT, PAPER_TARGETS, UNCHECKED, VALIDATED

if TYPE_CHECKING:
    from .genes import Genes

Target = tuple[int, str]  # panel, gene

# The settings whose predictions the paper lists, and ours.
LISTED = {"ICP-screen": "α=0.01", "BIP-VI": "t=0.5", "BIP λ=0.1": "t=0.5", "BIP-predictive": "best compatible"}
MARKS = {VALIDATED: "**{}**", NO_EFFECT: "{}ˣ", UNCHECKED: "{}\\*"}
_TEN = 10


def tables_of(study: Genes, results: pd.DataFrame) -> list[Table]:
    return [
        Table("Precision and recall: means over seeds ± standard errors", precision_table(study, results)),
        Table(
            "Genes predicted with every seed: **validated**, without effectˣ, cannot be checked\\*; ∅ none",
            targets_table(study, results),
        ),
        Table("Seconds per target and fold on one thread: median and quartiles", cost_table(study, results)),
    ]


def precision_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    lines = []
    for _, line in study.table(results).iterrows():
        low, high = line["chance_low"], line["chance_high"]
        lines.append(
            {
                "method": line["method"],
                "setting": line["setting"],
                "predicted": round(line["predicted"], 1),
                "can be checked": round(line["checkable"], 1),
                "correct": round(line["correct"], 1),
                "precision": with_error(line["precision"], line["precision_error"], undefined(line)),
                "recall": with_error(line["recall"], line["recall_error"], "no effects"),
                "at random": "" if np.isnan(low) else f"{line['chance']:.3f} ({low:.3f} to {high:.3f})",
                "": line["verdict"],
            }
        )
    return pd.DataFrame(lines)


def with_error(value: float, error: float, otherwise: str) -> str:
    if np.isnan(value):
        return otherwise
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} ± {error:.3f}"


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


def targets_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """The paper's targets where they are there, and then those with the most validated predictions, up to ten."""
    listed = {name: setting for name, setting in LISTED.items() if name in study.methods}
    found = {name: agreed(study, results, name, setting) for name, setting in listed.items()}
    right = [validated(study, genes) for genes in found.values()]
    all_targets = list(dict.fromkeys(zip(results["panel"], results["target"], strict=True)))
    hits = Counter((panel, target) for of_method in right for panel, target, _ in of_method)
    in_order = sorted(all_targets, key=lambda target: (target[1] not in PAPER_TARGETS, -hits[target]))
    lines = []
    for panel, target in in_order[:_TEN]:
        effects = study.effects(panel)
        line = {"target": target if len(study.samples) == 1 else f"{target} (panel {panel})"}
        for name, setting in listed.items():
            marked = [MARKS[effects.verdict(gene, target)].format(gene) for gene in found[name][panel, target]]
            line[f"{name} ({setting})"] = ", ".join(marked) or "∅"
        lines.append(line)
    return pd.DataFrame(lines)


def cost_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """Where one fit serves several settings it counts once; where each has its own, they count together."""
    lines = []
    for name in study.methods:
        method = GENE_METHODS[name]
        rows = results[(results["method"] == name) & (results["setting"] == method.settings[0])]
        low, median, high = np.quantile(rows["seconds"], (0.25, 0.5, 0.75))
        paper = "" if np.isnan(method.paper) else f"{method.paper:g}"
        lines.append(
            {
                "method": name,
                "median": f"{median:.2g}",
                "quartiles": f"{low:.2g} to {high:.2g}",
                "the paper's (6,169 features, 8 threads)": paper,
            }
        )
    return pd.DataFrame(lines)
