"""The pairs of one column in a sweep, as tables and as a picture."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from .._tools.plotting import CHOSEN, PLAIN, Size, axes_for, plain_ticks, save_drawing, tidy, title
from .._tools.sections import Rendered, Section
from .._tools.text import name_labels
from ..data.checks import nearest, quoted
from ..exceptions import DataError
from .edges import CONDITIONS, NAME_WIDTH, edges

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAIR = ["outcome", "feature"]
_OWN = (*PAIR, "inclusion", "p_edge", "selected", "edge")
DIGITS = 9
MAX_SHOWN = 10  # of the features of a column, and of its outcomes


@dataclass(frozen=True, eq=False, repr=False)
class EdgePage(Rendered):
    """Hold the pairs of one column in a sweep: its features, and outcomes it is a feature of.

    Attributes
    ----------
    name : str
        The column.
    fdr : float
        The rate of `edges`.
    table : DataFrame
        Columns outcome, feature, inclusion, p_edge, selected, edge (whether `edges` lists the pair)
        and the checks; first the pairs with the column as the outcome, by inclusion, then those
        with it as a feature, by p_edge.
    """

    name: str
    fdr: float
    table: pd.DataFrame

    @property
    def sections(self) -> Iterator[Section]:
        for other, heading in (
            ("feature", "Features of"),
            ("outcome", "Outcomes with the feature"),
        ):
            rows = self._pairs(other)
            shown = rows[:MAX_SHOWN]
            if len(shown):
                checks = (name for name in self._checks if rows[name].notna().any())
                columns = ["inclusion", "p_edge", "edge", *checks]
                labels = name_labels(shown[other].tolist(), NAME_WIDTH)
                shown = shown.assign(inclusion=shown["inclusion"].map("{:.3f}".format))
                cells = [map(_verdict_cell, shown[name].tolist()) for name in columns]
                table = (other, *columns), *zip(labels, *cells, strict=True)
                more = (f"… {len(rows) - len(shown):,} more",) if len(rows) > len(shown) else ()
                n_edges = int(rows["edge"].sum())
                counted = f"{heading} {self.name}: {len(rows):,} pairs, {n_edges:,} of them edges"
                yield Section(counted, table=table, notes=more)
        control = (
            f"Edges are those of the whole sweep with at most {100.0 * self.fdr:g}% of "
            "outcomes wrong, if"
        )
        yield Section("What is controlled", (control,), notes=CONDITIONS)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw inclusion probabilities of the leading pairs, with p_edge and checks beside each.

        Parameters
        ----------
        ax : Axes, default=None
            Axes to draw on. None makes a new figure.

        Returns
        -------
        Axes
            The axes.
        """
        ax = axes_for(ax, self._plot_size)
        rows = self._drawn
        pairs = zip(rows["feature"], rows["outcome"], strict=True)
        names = name_labels(
            [f"{feature} → {outcome}" for feature, outcome in pairs], 2 * NAME_WIDTH
        )
        places = list(range(len(rows)))
        colors = [CHOSEN if edge else PLAIN for edge in rows["edge"]]
        ax.barh(places, rows["inclusion"], height=0.6, color=colors, zorder=2)
        ax.set_yticks(places, names)
        ax.set_ylim(max(len(rows), 3) - 0.4, -0.6)
        ax.set_xlim(0.0, 1.0)
        ax.set_xlabel("inclusion probability")
        tidy(ax)
        beside = ax.secondary_yaxis("right")
        beside.set_yticks(places, self._beside(rows), fontsize="small")
        beside.tick_params(length=0)
        beside.spines[:].set_visible(False)
        plain_ticks(ax)
        title(
            ax,
            f"Pairs with {self.name} (orange: edges, at most {100.0 * self.fdr:g}% of outcomes "
            "wrong)",
        )
        return ax

    def save_plot(self, path: str | Path) -> Path:
        """Write the picture to a file.

        Parameters
        ----------
        path : str or Path
            File; its ending gives the format, png if it does not have one.

        Returns
        -------
        Path
            The file that was written.
        """
        return save_drawing(self.plot, self._plot_size, path)

    @property
    def _plot_size(self) -> Size:
        return 9.0, 1.4 + 0.3 * max(len(self._drawn), 3)

    @property
    def _drawn(self) -> pd.DataFrame:
        return pd.concat([self._pairs(other)[:MAX_SHOWN] for other in ("feature", "outcome")])

    def _pairs(self, other: str) -> pd.DataFrame:
        """Return rows with the column as the outcome (other="feature") or as the feature."""
        own = "outcome" if other == "feature" else "feature"
        return self.table[self.table[own] == self.name]

    @property
    def _checks(self) -> list[str]:
        return [str(name) for name in self.table if name not in _OWN]

    def _beside(self, rows: pd.DataFrame) -> list[str]:
        shown = rows[["p_edge", *self._checks]].rename(columns={"p_edge": "p"})
        return [
            "; ".join(
                f"{name}: {_verdict_cell(value)}"
                for name, value in row.items()
                if not pd.isna(value)
            )
            for row in shown.to_dict("records")
        ]


def _verdict_cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if pd.isna(value):
        return ""
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def edges_of(
    sweep: pd.DataFrame, name: str, fdr: float = 0.1, checks: pd.DataFrame | None = None
) -> EdgePage:
    """Show the features of one column and the outcomes that it is a feature of.

    Parameters
    ----------
    sweep : DataFrame
        Table of `invariance.sweep` or `read_sweep`.
    name : str
        A column: a target, a regulator, or both.
    fdr : float, default=0.1
        As in `edges`, which decides over all outcomes of the sweep which pairs are edges.
    checks : DataFrame, default=None
        Columns outcome and feature, each pair once, and further columns with results of held-out
        data or other laboratories.

    Returns
    -------
    EdgePage
        Prints as two tables; `plot` draws them.

    Raises
    ------
    DataError
        If the column is not in the sweep or could not be fitted, or checks do not have the columns.
    SettingError
        If fdr is not between 0 and 1.

    Examples
    --------
    >>> import pandas as pd
    >>> from invariance import edges_of, sweep
    >>> from invariance.datasets import make_example
    >>> table = sweep(make_example(), outcomes=["blood_pressure"])
    >>> pair = {"outcome": ["blood_pressure"], "feature": ["salt"]}
    >>> trial = pd.DataFrame(pair).assign(trial="no effect")
    >>> page = edges_of(table, "blood_pressure", checks=trial)
    >>> page.table.loc[page.table.edge, "feature"].sort_values().tolist()
    ['age', 'exercise', 'smoking']
    """
    listed = edges(sweep, fdr)[PAIR].assign(edge=True)
    rows = sweep[(sweep["outcome"] == name) | (sweep["feature"] == name)]
    if rows["feature"].isna().any():
        raise DataError(f"the sweep could not fit {name!r}: {rows['verdict'].iloc[0]}")
    if rows.empty:
        names = list(dict.fromkeys([*sweep["outcome"], *sweep["feature"].dropna()]))
        raise DataError(f"{name!r} is in no pair of the sweep; {nearest(name, names, 'names')}")
    table = rows[[*PAIR, "inclusion", "p_edge", "selected"]].merge(listed, "left", on=PAIR)
    table["edge"] = table["edge"].notna()
    if checks is not None:
        table = table.merge(_checked(checks, table), "left", on=PAIR)
    # Rounding must not decide the order of pairs.
    table["rounded"] = table["inclusion"].round(DIGITS)
    into = table[table["outcome"] == name].sort_values("rounded", ascending=False, kind="stable")
    out_of = table[table["outcome"] != name].sort_values(
        ["p_edge", "rounded"], ascending=[True, False], kind="stable"
    )
    both = pd.concat([into, out_of], ignore_index=True)
    return EdgePage(name, fdr, both.drop(columns="rounded"))


def _checked(checks: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return verdicts that can be joined to the pairs, each pair once."""
    if not isinstance(checks, pd.DataFrame) or not {*PAIR} <= {*checks.columns}:
        raise DataError(
            "checks need the columns 'outcome' and 'feature', and one for each verdict."
        )
    taken = [column for column in checks if column in table and column not in PAIR]
    if taken:
        raise DataError(f"checks have columns of the sweep's own: {quoted(taken)}. Rename them.")
    twice = checks.loc[checks.duplicated(PAIR), PAIR]
    if len(twice):
        outcome, feature = twice.iloc[0]
        raise DataError(
            f"checks have {len(twice):,} pairs twice, first {feature!r} → {outcome!r}: keep one "
            "row a pair."
        )
    return checks


__all__ = ["EdgePage", "edges_of"]
