"""The posterior profile of one target: its leading genes, and what their deletions say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .genes_agreement import Target, correct_by_target
from .genes_methods import GENE_METHODS
from .genes_protocol import PAPER_TARGETS

if TYPE_CHECKING:
    from .genes import Genes

PROFILED = "BIP-VI"
# Methods whose ranking is shown, and what they rank by.
RANKED = {PROFILED: "inclusion probability", "BIP-ratio": "odds over prior odds"}
_TOP = 10


@dataclass(frozen=True)
class Profile:
    """The highest scores of genes for one target: (gene, mean over seeds, verdict of its deletion)."""

    panel: int
    target: str
    leading: tuple[tuple[str, float, str], ...]

    def first(self, verdict: str) -> str | None:
        return next((gene for gene, _, found in self.leading if found == verdict), None)


def profile_of(study: Genes, results: pd.DataFrame, method: str = PROFILED) -> Profile | None:
    """Of the paper's target, or else of the one with the most validated predictions of those whose scores are kept;
    None without the method.
    """
    if method not in study.methods:
        return None
    panel, target = _chosen(study, results)
    rows = results[(results["panel"] == panel) & (results["target"] == target)]
    rows = rows[(rows["method"] == method) & (rows["setting"] == GENE_METHODS[method].settings[0])]
    means = held_out_means(study, rows)
    effects = study.effects(panel)
    leading = sorted(means.items(), key=lambda pair: -pair[1])[:_TOP]
    return Profile(panel, target, tuple((gene, value, effects.verdict(gene, target)) for gene, value in leading))


def held_out_means(study: Genes, rows: pd.DataFrame) -> dict[str, float]:
    """{gene: mean of its scores for one target} over the fits that held out its deletion, over all where it was not
    deleted; over those in which it varies.
    """
    scores: dict[str, list[float]] = {}
    for row in rows.to_dict("records"):
        split = study.split(row["panel"], row["replicate"])
        for entry in row["ranking"].split():
            gene, _, score = entry.rpartition("=")
            if split.fold_of(gene) in (None, row["fold"]):
                scores.setdefault(gene, []).append(float(score))
    return {gene: float(np.mean(values)) for gene, values in scores.items()}


def _chosen(study: Genes, results: pd.DataFrame) -> Target:
    studied = set(zip(results["panel"], results["target"], strict=True))
    targets = [target for target in study.profiled if target in studied]
    published = [(panel, target) for panel, target in targets if target == PAPER_TARGETS[0]]
    if published:
        return published[0]
    hits = correct_by_target(study, results)
    return max(targets, key=lambda target: hits[target])
