"""Missing values by column and environment, and the columns without which most values are kept."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Fields, Integers, Labels, Mask, Names
from .._tools.sections import Section
from .._tools.text import COLUMNS, display_width, name_labels
from .checks import SMALLEST_ENVIRONMENT, listing
from .features import distinct

if TYPE_CHECKING:
    import pandas as pd

# Columns are excluded only if that keeps a tenth more values.
WORTHWHILE = 1.1
# Exclusions that keep so large a share of the most values are as good.
AS_GOOD = 0.95
# Of tables on a terminal.
MAX_LINES = 20
MAX_LABEL = 20
MAX_HEAD = 11


@dataclass(frozen=True)
class Exclusion:
    """Complete rows without some features.

    exclude : features that are left out; features : how many stay; rows : complete in all of these
        and in the outcome;
    lost : environments with fewer than three such rows
    """

    exclude: Names
    features: int
    rows: int
    lost: Labels = ()

    @property
    def values(self) -> int:
        """Complete rows × features."""
        return self.rows * self.features


@dataclass(frozen=True)
class MissingValues:
    """Count of missing values in each environment.

    columns : those that have some, c of them; environments : E labels; n_rows (E,) : rows of each;
        counts (c, E)
    exclusions : from no column that is left out to all that have gaps; each takes in the column
        that costs fewest rows
    """

    columns: Names = ()
    environments: Labels = ()
    n_rows: tuple[int, ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()
    exclusions: tuple[Exclusion, ...] = ()

    @property
    def best(self) -> Exclusion | None:
        """The exclusion that is proposed; None if no column is worth it.

        Of those that keep most values, to within 5%, the one that loses fewest environments, then
        fewest features.
        """
        if not self.exclusions:
            return None
        most = max(each.values for each in self.exclusions)
        if most < WORTHWHILE * self.exclusions[0].values:
            return None
        able = (each for each in self.exclusions if each.values >= AS_GOOD * most)
        found = min(able, key=lambda each: (len(each.lost), len(each.exclude)))
        return found if found.exclude else None

    @property
    def best_everywhere(self) -> Exclusion | None:
        """The exclusion that keeps most values of those that lose fewest environments."""
        most = min(
            self.exclusions,
            key=lambda each: (len(each.lost), -each.values),
            default=Exclusion((), 0, 0),
        )
        return most if most.exclude else None

    def to_frame(self, percent: bool = False) -> pd.DataFrame:
        """Return missing values, columns × environments, as counts or as percent of the rows."""
        import pandas as pd

        counts = np.array(self.counts, dtype=np.int64).reshape(
            len(self.columns), len(self.environments)
        )
        shown = 100.0 * counts / np.maximum(self.n_rows, 1) if percent else counts
        return pd.DataFrame(
            shown, index=pd.Index(self.columns, name="column"), columns=list(self.environments)
        )

    def exclusions_to_frame(self) -> pd.DataFrame:
        """Return one row for each number of features."""
        import pandas as pd

        return pd.DataFrame([{**vars(each), "values": each.values} for each in self.exclusions])

    def to_plain(self) -> Fields:
        exclusions = [{**vars(each), "lost": [*map(str, each.lost)]} for each in self.exclusions]
        by_environment = vars(self) | {"environments": [*map(str, self.environments)]}
        return {**by_environment, "exclusions": exclusions}

    def sections(self, environment: str | None) -> list[Section]:
        """Tables for people; none if nothing is missing."""
        if not self.columns:
            return []
        where = "" if environment is None else f" by {environment}"
        title = f"Missing values{where}, in percent of the rows"
        n = self._n_fitting()
        found = [Section(title, table=self._table(n), notes=self._notes(n))]
        if self.best is not None:
            title = (
                "Complete rows, if features with missing values are excluded one after the other"
            )
            note = (
                "* proposed: keeps most values (complete rows × features) to within 5%, and most "
                "environments"
            )
            found.append(Section(title, table=self._rows_kept(), notes=(note,), text_columns=(4,)))
        return found

    def cells(self, n_columns: int, n_environments: int) -> tuple[Names, ...]:
        """Percent missing as text: a head, a line for rows, and one for each of the columns and
        environments with most missing values, in the order of the table."""
        counts = np.array(self.counts)
        rows = np.array(self.n_rows)
        columns = sorted(_most_first(counts.sum(axis=1))[:n_columns])
        places = sorted(_most_first(counts.sum(axis=0))[:n_environments])
        heads = ["", *(str(self.environments[e]) for e in places)]
        counts = counts[columns]
        shown = counts[:, places]
        n_rows = rows[places]
        if len(self.environments) > 1:
            heads.insert(1, "all")
            shown = np.column_stack([counts.sum(axis=1), shown])
            n_rows = np.append(rows.sum(), n_rows)
        lines = [
            (self.columns[j], *map(_percent, line, n_rows))
            for j, line in zip(columns, shown.tolist(), strict=True)
        ]
        return (tuple(heads), ("rows", *map(str, n_rows)), *lines)

    def _n_fitting(self) -> int:
        """How many environments fit a line of the terminal."""
        room = COLUMNS - 2 - max(map(display_width, name_labels(self.columns, MAX_LABEL))) - 9
        heads = name_labels([str(label) for label in self.environments], MAX_HEAD)
        order = _most_first(np.array(self.counts).sum(axis=0))
        widths = [2 + max(4, display_width(heads[e])) for e in order]
        return int((np.cumsum(widths) <= room).sum())

    def _table(self, n_environments: int) -> tuple[Names, ...]:
        head, *lines = self.cells(MAX_LINES, n_environments)
        names = name_labels([line[0] for line in lines], MAX_LABEL)
        short = ((name, *line[1:]) for name, line in zip(names, lines, strict=True))
        return (tuple(name_labels(head, MAX_HEAD)), *short)

    def _notes(self, n_environments: int) -> Names:
        hidden = {
            "columns": len(self.columns) - MAX_LINES,
            "environments": len(self.environments) - n_environments,
        }
        told = " and ".join(f"{n} {what}" for what, n in hidden.items() if n > 0)
        return (f"… {told} with fewer missing values are not shown.",) if told else ()

    def _rows_kept(self) -> tuple[Names, ...]:
        """A line for each exclusion, up to two after the best."""
        best = self.exclusions.index(self.best) if self.best is not None else 0
        lines: list[Names] = [("", "features", "rows", "environments", "without")]
        before: Names = ()
        last = min(best + 2, len(self.exclusions) - 1)
        first = max(0, last - MAX_LINES)
        for place, each in enumerate(self.exclusions[: last + 1]):
            new = [name for name in each.exclude if name not in before]
            before = each.exclude
            told = listing(name_labels(new, MAX_LABEL), 2) if new else "none"
            told = f"and {told}" if place > 1 and new else told
            kept = len(self.environments) - len(each.lost)
            mark = "*" if place == best else ""
            if place == 0 or place > first:
                lines.append((mark, *map(str, (each.features, each.rows, kept)), told))
        return tuple(lines)


def _most_first(totals: Integers) -> list[int]:
    return np.argsort(-totals, kind="stable").tolist()


def _percent(count: int, of: int) -> str:
    """A share as people read it; "." for none."""
    if not count:
        return "."
    share = 100.0 * count / max(of, 1)
    return "<1" if share < 1.0 else ">99" if 99.0 < share < 100.0 else f"{share:.0f}"


def exclusions(
    usable: Mask,
    present: Mapping[str, Mask],
    n_whole: int,
    codes: Integers,
    labels: Sequence[Hashable],
) -> tuple[Exclusion, ...]:
    """Complete rows for each number of features that are left out.

    From the features without missing values on, the feature is taken in that costs fewest rows.

    usable (N,) : rows with a label and an outcome; present : {feature with missing values: (N,)
        whether there is one};
    n_whole : features without missing values; codes (N,) : environments
    """
    names = list(present)
    held = np.column_stack([mask[usable] for mask in present.values()])
    first, group = distinct(held)
    patterns = held[first].astype(np.float64)
    counts = np.zeros((len(first), len(labels)))
    np.add.at(counts, (group, codes[usable]), 1.0)
    alive = np.ones(len(patterns), dtype=bool)
    left = list(range(len(names)))
    found = []
    while True:
        rows = counts[alive].sum(axis=0)
        n_features = n_whole + len(names) - len(left)
        if n_features:
            without = tuple(names[j] for j in left)
            lost = tuple(compress(labels, rows < SMALLEST_ENVIRONMENT))
            found.append(Exclusion(without, n_features, int(rows.sum()), lost))
        if not left:
            return tuple(reversed(found))
        sizes = counts[alive].sum(axis=1) @ patterns[alive][:, left]
        cheapest = left.pop(int(np.argmax(sizes)))
        alive &= patterns[:, cheapest] > 0.0
