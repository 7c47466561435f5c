"""Pictures of the gene study."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .._tools.plotting import BLUE, VERMILION
from .base import Picture
from .figures import panels, shared_legend
from .genes_methods import GENE_METHODS
from .genes_profile import PROFILED, Profile, profile_of
from .genes_protocol import NO_EFFECT, UNCHECKED, VALIDATED, Effects

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .genes import Genes

_VERDICT_COLORS = {VALIDATED: VERMILION, NO_EFFECT: BLUE, UNCHECKED: "0.65"}
_DOTS = (18.0, 130.0)


def pictures_of(study: Genes, results: pd.DataFrame) -> list[Picture]:
    table = study.table(results)
    drawn = [
        Picture(
            "precision-recall",
            "Precision and recall over held-out deletions: a dot for each setting, larger where the method predicts "
            "fewer genes, with bars of 2 standard errors over seeds. Dashed: the share of deletions with an effect, "
            "the precision of predicting all of them.",
            precision_recall(table, study.methods),
        )
    ]
    profile = profile_of(study, results)
    if profile is not None:
        drawn.append(
            Picture(
                "profile",
                f"{profile.target}: the ten genes with the highest inclusion probabilities of {PROFILED}, each from "
                "the fits that held out its deletion, where there is one, and what that deletion says.",
                profile_figure(profile),
            )
        )
        genes = [gene for verdict in (VALIDATED, NO_EFFECT) if (gene := profile.first(verdict)) is not None]
        if genes:
            drawn.append(
                Picture(
                    "validation",
                    f"{profile.target} against genes of its profile: wild types (×), deletions of others (●) and "
                    "the deletion of the gene itself (★), which the fit did not see. Dashed: the 1% and 99% quantiles "
                    "of wild types. A star outside both pairs of lines validates the gene.",
                    scatter_figure(study.effects(profile.panel), profile.target, genes),
                )
            )
    return drawn


def precision_recall(table: pd.DataFrame, methods: tuple[str, ...]) -> Figure:
    figure, axes = panels(1, 1, 6.4, 5.2)
    ax = axes[0, 0]
    base = table["effects"].sum() / max(table["candidates"].sum(), 1)
    ax.axhline(base, color="0.5", linestyle="--", linewidth=1.0)
    for name in methods:
        rows = table[(table["method"] == name) & table["precision"].notna() & table["recall"].notna()]
        if rows.empty:
            continue
        ax.errorbar(
            rows["recall"],
            rows["precision"],
            xerr=2 * rows["recall_error"].fillna(0.0),
            yerr=2 * rows["precision_error"].fillna(0.0),
            fmt="none",
            ecolor=GENE_METHODS[name].color,
            elinewidth=0.8,
            alpha=0.6,
        )
        ax.plot(rows["recall"], rows["precision"], color=GENE_METHODS[name].color, linewidth=0.7, alpha=0.5)
        sizes = dot_sizes(rows["predicted"])
        ax.scatter(rows["recall"], rows["precision"], s=sizes, c=GENE_METHODS[name].color, label=name)
    ax.set_xlabel("recall")
    ax.set_ylabel("precision")
    ax.set_xlim(left=0.0)
    ax.set_ylim(0.0, 1.02)
    if ax.get_legend_handles_labels()[0]:
        shared_legend(figure, ax, 4)
    return figure


def dot_sizes(predicted: pd.Series) -> np.ndarray:
    """Larger for settings of one method that predict fewer genes; the smallest for a single setting."""
    low, high = _DOTS
    spread = predicted.max() - predicted.min()
    share = (predicted.max() - predicted) / spread if spread else 0.0 * predicted
    return (low + (high - low) * share).to_numpy()


def profile_figure(profile: Profile) -> Figure:
    figure, axes = panels(1, 1, 6.4, 3.8)
    ax = axes[0, 0]
    for verdict, color in _VERDICT_COLORS.items():
        bars = [(i, value) for i, (_, value, found) in enumerate(profile.leading) if found == verdict]
        if bars:
            ax.bar(*zip(*bars, strict=True), color=color, label=verdict, zorder=2)
    ax.axhline(0.5, color="0.3", linestyle="--", linewidth=1.0)
    ax.set_xticks(range(len(profile.leading)), [gene for gene, _, _ in profile.leading], rotation=40, ha="right")
    ax.set_ylim(0.0, 1.02)
    ax.set_ylabel("inclusion probability")
    ax.set_title(profile.target, fontsize="medium")
    shared_legend(figure, ax, len(_VERDICT_COLORS))
    return figure


def scatter_figure(effects: Effects, target: str, genes: list[str]) -> Figure:
    figure, axes = panels(1, len(genes), max(4.4 * len(genes), 5.6), 4.2, sharey=True)
    for ax, gene in zip(axes[0], genes, strict=True):
        _scatter(ax, effects, target, gene)
    axes[0, 0].set_ylabel(target)
    shared_legend(figure, axes[0, 0], 3)
    return figure


def _scatter(ax: Axes, effects: Effects, target: str, gene: str) -> None:
    samples = effects.deletions
    x, y = samples.place[gene], samples.place[target]
    own, perturbing = (np.isin(np.arange(len(samples.samples)), samples.deleting(name)) for name in (gene, target))
    for rows, marker, color, size, label in (
        (samples.wild_type, "x", "0.45", 22, "wild type"),
        (~samples.wild_type & ~own & ~perturbing, "o", BLUE, 14, "deletion"),
        (own, "*", VERMILION, 220, "its own deletion, held out"),
    ):
        ax.scatter(
            samples.values[rows, x], samples.values[rows, y], s=size, c=color, marker=marker, label=label, zorder=2
        )
    for j, draw in ((x, ax.axvline), (y, ax.axhline)):
        for limit in (effects.low[j], effects.high[j]):
            draw(limit, color="0.3", linestyle="--", linewidth=0.9)
    ax.set_xlabel(gene)
    ax.set_title(effects.verdict(gene, target), fontsize="medium")
