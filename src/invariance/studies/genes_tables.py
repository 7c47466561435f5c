"""Tables of the gene study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .base import Table
from .genes_agreement import LISTED, correct_by_target, listed_by
from .genes_methods import GENE_METHODS
from .genes_metrics import undefined
from .genes_profile import RANKED, profile_of
from .genes_protocol import NO_EFFECT, PAPER_TARGETS, UNCHECKED, VALIDATED

if TYPE_CHECKING:
    from .genes import Genes

MARKS = {VALIDATED: "**{}**", NO_EFFECT: "{}ˣ", UNCHECKED: "{}\\*"}
_TEN = 10


def tables_of(study: Genes, results: pd.DataFrame) -> list[Table]:
    return [
        Table(
            "Precision and recall: means over seeds ± standard errors. At random: were as many genes of each fit drawn "
            "by lot, with the central 95% of one seed. p: of being right as often by lot, with that of the method "
            "adjusted for its settings and for the other methods",
            precision_table(study, results),
        ),
        Table(
            "Genes predicted with every seed by the fit that holds out their deletion, or by all fits where they were "
            "not deleted: **validated**, without effectˣ, cannot be checked\\*; ∅ none",
            targets_table(study, results),
        ),
        *profile_tables(study, results),
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
                "p": "" if np.isnan(line["p_value"]) else f"{line['p_value']:.2g}",
                "p of the method": f"{line['method_p_value']:.2g}",
            }
        )
    return pd.DataFrame(lines)


def with_error(value: float, error: float, otherwise: str) -> str:
    if np.isnan(value):
        return otherwise
    return f"{value:.3f}" if np.isnan(error) else f"{value:.3f} ± {error:.3f}"


def targets_table(study: Genes, results: pd.DataFrame) -> pd.DataFrame:
    """The paper's targets where they are there, and then those with the most validated predictions, up to ten."""
    found = listed_by(study, results)
    hits = correct_by_target(study, results)
    all_targets = list(dict.fromkeys(zip(results["panel"], results["target"], strict=True)))
    in_order = sorted(all_targets, key=lambda target: (target[1] not in PAPER_TARGETS, -hits[target]))
    lines = []
    for panel, target in in_order[:_TEN]:
        effects = study.effects(panel)
        line = {"target": target if len(study.samples) == 1 else f"{target} (panel {panel})"}
        for name, genes in found.items():
            marked = [MARKS[effects.verdict(gene, target)].format(gene) for gene in genes[panel, target]]
            line[f"{name} ({LISTED[name]})"] = ", ".join(marked) or "∅"
        lines.append(line)
    return pd.DataFrame(lines)


def profile_tables(study: Genes, results: pd.DataFrame) -> list[Table]:
    """The leading genes of one target by each method that ranks them."""
    found = []
    for name, meaning in RANKED.items():
        profile = profile_of(study, results, name)
        if profile is not None:
            frame = pd.DataFrame(profile.leading, columns=["gene", meaning, "its deletion"])
            found.append(Table(f"Leading genes of {profile.target} by {name}", frame))
    return found


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
