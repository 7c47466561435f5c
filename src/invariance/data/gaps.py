"""Missing values by column and environment, and the columns without which most values are kept."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.sections import Section
from .._tools.text import COLUMNS, display_width, name_labels
from .checks import SMALLEST_ENVIRONMENT, listing

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

    exclude: tuple[str, ...]
    features: int
    rows: int
    lost: tuple[Hashable, ...] = ()

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

    columns: tuple[str, ...] = ()
    environments: tuple[Hashable, ...] = ()
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
        able = [each for each in self.exclusions if each.values >= AS_GOOD * most]
        found = min(able, key=lambda each: (len(each.lost), len(each.exclude)))
        return found if found.exclude else None

    @property
    def best_everywhere(self) -> Exclusion | None:
        """The exclusion that keeps most values of those that lose fewest environments."""
        fewest = min((len(each.lost) for each in self.exclusions), default=0)
        able = [each for each in self.exclusions if len(each.lost) == fewest]
        most = max(able, key=lambda each: each.values, default=None)
        return most if most is not None and most.exclude else None

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

    def to_plain(self) -> dict[str, Any]:
        exclusions = [{**vars(each), "lost": [*map(str, each.lost)]} for each in self.exclusions]
        by_environment = vars(self) | {"environments": [*map(str, self.environments)]}
        return {**by_environment, "exclusions": exclusions}

    def sections(self, environment: str | None) -> list[Section]:
        """Tables for people; none if nothing is missing."""
        if not self.columns:
            return []
        where = "" if environment is None else f" by {environment}"
        found = [
            Section(
                f"Missing values{where}, in percent of the rows",
                table=self._table(),
                notes=self._notes(),
            )
        ]
        if self.best is not None:
            found.append(
                Section(
                    (
                        "Complete rows, if features with missing values are excluded one after the "
                        "other"
                    ),
                    table=self._rows_kept(),
                    notes=(
                        (
                            "* proposed: keeps most values (complete rows × features) to within "
                            "5%, and most environments"
                        ),
                    ),
                    text_columns=(4,),
                )
            )
        return found

    def worst(self, n_columns: int, n_environments: int) -> tuple[list[int], list[int]]:
        """Places of at most so many columns and environments with most missing values, in the order
        of the table."""
        counts = np.array(self.counts)
        lists = (counts.sum(axis=1), n_columns), (counts.sum(axis=0), n_environments)
        columns, environments = (
            sorted(np.argsort(-totals, kind="stable")[:n].tolist()) for totals, n in lists
        )
        return columns, environments

    def cells(self, n_columns: int, n_environments: int) -> tuple[tuple[str, ...], ...]:
        """Percent missing as text: a head, a line for rows, and one for each column that is
        shown."""
        columns, places = self.worst(n_columns, n_environments)
        total = sum(self.n_rows)
        several = len(self.environments) > 1
        head = ("", *(("all",) if several else ()), *(str(self.environments[e]) for e in places))
        rows = ("rows", *((str(total),) if several else ()), *(str(self.n_rows[e]) for e in places))
        lines = [head, rows]
        for j in columns:
            counts = self.counts[j]
            overall = (_percent(sum(counts), total),) if several else ()
            lines.append(
                (self.columns[j], *overall, *(_percent(counts[e], self.n_rows[e]) for e in places))
            )
        return tuple(lines)

    def _n_fitting(self) -> int:
        """How many environments fit a line of the terminal."""
        room = COLUMNS - 2 - max(map(display_width, name_labels(self.columns, MAX_LABEL))) - 9
        totals = np.array(self.counts).sum(axis=0)
        heads = name_labels([str(label) for label in self.environments], MAX_HEAD)
        widths = [
            2 + max(4, display_width(heads[e])) for e in np.argsort(-totals, kind="stable").tolist()
        ]
        return int((np.cumsum(widths) <= room).sum())

    def _table(self) -> tuple[tuple[str, ...], ...]:
        head, *lines = self.cells(MAX_LINES, self._n_fitting())
        names = name_labels([line[0] for line in lines], MAX_LABEL)
        return (
            tuple(name_labels(head, MAX_HEAD)),
            *((name, *line[1:]) for name, line in zip(names, lines, strict=True)),
        )

    def _notes(self) -> tuple[str, ...]:
        hidden = len(self.columns) - MAX_LINES, len(self.environments) - self._n_fitting()
        told = [
            f"{n} {what}"
            for n, what in zip(hidden, ("columns", "environments"), strict=True)
            if n > 0
        ]
        return (f"… {' and '.join(told)} with fewer missing values are not shown.",) if told else ()

    def _rows_kept(self) -> tuple[tuple[str, ...], ...]:
        """A line for each exclusion, up to two after the best."""
        best = self.exclusions.index(self.best) if self.best is not None else 0
        lines = [("", "features", "rows", "environments", "without")]
        before: tuple[str, ...] = ()
        last = min(best + 2, len(self.exclusions) - 1)
        first = max(0, last - MAX_LINES)
        for place, each in enumerate(self.exclusions[: last + 1]):
            new = [name for name in each.exclude if name not in before]
            before = each.exclude
            told = (
                f"{'and ' if place > 1 else ''}{listing(name_labels(new, MAX_LABEL), 2)}"
                if new
                else "none"
            )
            kept = str(len(self.environments) - len(each.lost))
            mark = "*" if place == best else ""
            if place == 0 or place > first:
                lines.append((mark, str(each.features), str(each.rows), kept, told))
        return tuple(lines)


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
    patterns, counts = _patterns(usable, present, codes, len(labels))
    alive = np.ones(len(patterns), dtype=bool)
    taken: list[str] = []
    found = []

    def kept() -> None:
        rows = counts[alive].sum(axis=0)
        without = tuple(name for name in names if name not in taken)
        lost = tuple(
            label for label, n in zip(labels, rows, strict=True) if n < SMALLEST_ENVIRONMENT
        )
        if n_whole + len(taken):
            found.append(Exclusion(without, n_whole + len(taken), int(rows.sum()), lost))

    kept()
    left = list(range(len(names)))
    while left:
        sizes = counts[alive].sum(axis=1) @ patterns[alive][:, left]
        cheapest = left.pop(int(np.argmax(sizes)))
        alive &= patterns[:, cheapest] > 0.0
        taken.append(names[cheapest])
        kept()
    return tuple(reversed(found))


def _patterns(
    usable: Mask, present: Mapping[str, Mask], codes: Integers, n_environments: int
) -> tuple[Floats, Floats]:
    """(U, m) which of m features different rows have, and (U, E) how many rows of each environment
    have these."""
    held = (
        np.array([mask[usable] for mask in present.values()], dtype=bool)
        .reshape(len(present), -1)
        .T
    )
    packed = np.packbits(held, axis=1) if held.size else np.zeros((int(usable.sum()), 1), np.uint8)
    _, first, inverse = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    counts = np.zeros((len(first), n_environments))
    np.add.at(counts, (inverse.ravel(), codes[usable]), 1.0)
    return held[first].astype(np.float64), counts
