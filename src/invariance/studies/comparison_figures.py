"""Pictures of the comparison of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pandas as pd

from .figures import mean_band, numbered_axis, panels, shades, shared_legend, whiskered_lines
from .methods import METHODS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = (("exact", "exact discovery rate"), ("covered", "coverage"))


def rates_figure(table: pd.DataFrame, methods: Sequence[str], environments: Sequence[int]) -> Figure:
    """Two panels, exact discovery and coverage against E; table has one line per method and E."""
    figure, axes = panels(1, 2, 9.0, 4.2, sharey=True)
    for ax, (kind, label) in zip(axes[0], _KINDS, strict=True):
        _rates(ax, table, kind, methods, environments)
        ax.set_title(label, fontsize="medium")
        ax.set_ylabel("share of data sets" if kind == "exact" else "")
    shared_legend(figure, axes[0, 0], (len(methods) + 1) // 2)
    return figure


def rates_by_size(
    table: pd.DataFrame, methods: Sequence[str], environments: Sequence[int], sizes: Sequence[int]
) -> Figure:
    """One column of two panels for each n; table has one line per method, E and n (text)."""
    figure, axes = panels(2, len(sizes), 3.2 * len(sizes) + 0.4, 6.0, sharex=True, sharey=True)
    for column, n in enumerate(sizes):
        for row, (kind, label) in enumerate(_KINDS):
            ax = axes[row, column]
            _rates(ax, table[table["n"] == str(n)], kind, methods, environments)
            if row == 0:
                ax.set_title(f"n = {n}", fontsize="medium")
                ax.set_xlabel("")
            if column == 0:
                ax.set_ylabel(label)
    shared_legend(figure, axes[0, 0], (len(methods) + 1) // 2)
    return figure


def _rates(ax: Axes, table: pd.DataFrame, kind: str, methods: Sequence[str], environments: Sequence[int]) -> None:
    lines = []
    for name in methods:
        rows = table[table["method"] == name].set_index("E").loc[list(environments)]
        bands = list(zip(rows[kind], rows[f"{kind}_low"], rows[f"{kind}_high"], strict=True))
        lines.append((name, METHODS[name].color, METHODS[name].dashes, bands))
    whiskered_lines(ax, environments, lines)
    numbered_axis(ax, environments, "environments, E")
    ax.set_ylim(-0.03, 1.04)


def posterior_figure(
    results: pd.DataFrame, engines: Sequence[str], environments: Sequence[int], strengths: Sequence[float]
) -> Figure:
    """One panel per method that has a posterior: its mean value at the truth against E, a line per strength."""
    figure, axes = panels(1, len(engines), 3.8 * len(engines) + 0.6, 3.9, sharey=True)
    for ax, name in zip(axes[0], engines, strict=True):
        chosen = results[results["method"] == name].dropna(subset=["posterior"])
        lines = []
        for color, strength in zip(shades(len(strengths)), strengths, strict=True):
            rows = chosen[chosen["strength"] == strength]
            bands = [mean_band(rows.loc[rows["E"] == e, "posterior"], high=1.0) for e in environments]
            lines.append((f"{strength:.2g}", color, "-", bands))
        whiskered_lines(ax, environments, lines)
        ax.set_title(name, fontsize="medium")
        numbered_axis(ax, environments, "environments, E")
        ax.set_ylim(-0.03, 1.04)
    axes[0, 0].set_ylabel("posterior at the true subset")
    shared_legend(figure, axes[0, 0], len(strengths), "intervention strength")
    return figure
