"""Environments that are not one label: along a variable, sequences of rows, several factors at
once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, permutations
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Fields, Floats, Integers, Labels, Mask, Names, Places
from ..exceptions import DataError, SettingError, use
from .checks import SMALLEST_ENVIRONMENT, quoted, rows_text
from .columns import as_frame, frame_names
from .labels import encode_labels
from .reading import reads_as_number
from .weights import Weights

# Blocks of the variable by which rows are described, and left out to judge predictions.
_MOST_BLOCKS = 5
_FEWEST_VALUES = 3
# Differences of a clock count as equal up to a tenth; one step is one up to a quarter, which months
# are in days.
_LENGTHS_APART = 10.0
_STEP_TOLERANCE = 0.25
# By how much, relatively, multiples of a step may miss it.
_MISSED = 1e-6
# The share of differences that are the shortest one, from which on that is the step.
_OFTEN = 0.25


@dataclass(frozen=True)
class Along:
    """What `along` returns."""

    column: str
    ar: int = 0
    within: str | None = None

    def __post_init__(self) -> None:
        if isinstance(self.ar, bool) or not isinstance(self.ar, Integral) or self.ar < 0:
            raise SettingError(f"ar={self.ar!r} is no number of rows before: use 0, 1, 2 or 4.")
        for name in (self.column, self.within):
            if not isinstance(name, str | None) or not self.column:
                raise SettingError(f"along() needs the name of a column, not {name!r}.")
        if self.within is not None and not self.ar:
            raise SettingError(
                f"within={self.within!r} says which rows follow each other: state ar=2 or --ar 2, "
                "too."
            )

    def __repr__(self) -> str:
        given = [
            repr(self.column),
            f"ar={self.ar}" * bool(self.ar),
            f"within={self.within!r}" * (self.within is not None),
        ]
        return f"along({', '.join(filter(None, given))})"


def along(column: str, ar: int = 0, within: str | None = None) -> Along:
    """Specify a numeric column or dates along which coefficients must stay the same.

    It is used for `environment=` or `environments=`, alone or in a list with columns of labels.

    Parameters
    ----------
    column : str
        Name of the column, such as time or dose.
    ar : int, default=0
        Order of autoregressive noise: rows follow each other along the column. 2 is a good start, 4
        for quarters. Steps are differences of the column; the most frequent difference is one step,
        a longer one is a gap, after which a new sequence begins, and parts of a step are refused.
    within : str, default=None
        Column whose values have sequences of their own, such as the states of a panel.

    Returns
    -------
    Along
        The specification.

    Raises
    ------
    SettingError
        If ar is not a whole number from 0 on, or `within` is given without ar.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from invariance import BIP, along
    >>> rng = np.random.default_rng(0)
    >>> years = np.repeat(np.arange(1980, 2000), 10)
    >>> table = pd.DataFrame({"year": years, "rain": rng.normal(size=200)})
    >>> growth = 2.0 * table["rain"] + rng.normal(size=200)
    >>> model = BIP().fit(table, growth, environments=along("year"))
    >>> model.selected_features_, model.invariant_
    (('rain',), True)
    """
    return Along(column, ar, within)


class Parts(NamedTuple):
    """Columns of labels, and the variable besides them."""

    labels: Names
    along: Along | None

    @property
    def columns(self) -> dict[str, str]:
        """{role: column} of all of them but the first"""
        names = {f"environment {place}": name for place, name in enumerate(self.labels, 1)}
        if self.along is not None:
            names["along"] = self.along.column
            if self.along.within not in (None, *self.labels):
                names["within"] = str(self.along.within)
        return dict(list(names.items())[1:])

    @property
    def name(self) -> str:
        """The column that labels of environments come from."""
        return (
            self.labels[0] if self.labels else self.along.column if self.along is not None else ""
        )


def parts_of(environment: Any) -> Parts | None:
    """What a design is made of; None for one column of labels, or for anything that is no names of
    columns."""
    listed = [environment] if isinstance(environment, Along) else environment
    if isinstance(listed, str) or not isinstance(listed, list | tuple):
        return None
    labels = tuple(part for part in listed if isinstance(part, str))
    variables = [part for part in listed if isinstance(part, Along)]
    if (
        len(labels) + len(variables) < len(listed)
        or not listed
        or (len(labels) == 1 and not variables)
    ):
        return None
    if len(variables) > 1:
        raise SettingError(
            f"environments along {quoted([part.column for part in variables])}: name one variable."
        )
    return Parts(labels, variables[0] if variables else None)


def refuse_design(environment: Any, what: str) -> None:
    """Raise where something knows labels only."""
    parts = parts_of(environment)
    if parts is not None:
        named = (
            repr(parts.along)
            if parts.along is not None
            else f"several factors, {list(parts.labels)}"
        )
        raise SettingError(
            f"{what} takes one column of labels, not {named}: fit the whole table with BIP()."
        )


def refuse_repeats(variable: Along | None, counted: Weights) -> None:
    """Raise where weights repeat rows of a sequence."""
    if variable is not None and variable.ar and counted.total > counted.n_rows - counted.n_absent:
        raise DataError(
            (
                f"weights {counted.column!r} repeat rows, and in the sequence of {variable!r} "
                "each row occurs once"
            ),
            use(" or leave the weights out", ar=0),
        )


class Factor(NamedTuple):
    """codes (N,) into the levels, -1 where missing"""

    name: str
    codes: Places
    levels: Labels


@dataclass(frozen=True, eq=False)
class Design:
    """Of N rows, the factors and the variable along which coefficients are compared.

    values (N,) : of the variable, NaN where missing; microseconds since 1970 of dates; 0 without a
        variable
    units, steps (N,) : of sequences, whose rows each is, and when, in steps of the clock; 0 where
        ar is 0
    """

    factors: tuple[Factor, ...]
    variable: Along | None
    values: Floats
    dates: bool
    units: Integers
    steps: Integers

    @classmethod
    def read(cls, parts: Parts, column: Any, missing: str) -> Design:
        """column(name) : a narwhals series; missing : "error" raises where a value is missing"""
        factors = tuple(
            Factor(name, *encode_labels(column(name).to_list())) for name in parts.labels
        )
        for factor in factors:
            _refuse_missing(factor.name, factor.codes < 0, missing)
            if len(factor.levels) < 2:
                raise DataError(
                    f"environment column {factor.name!r} has one level: leave it out of the list."
                )
        for (inner, outer), turned in combinations(_nested(factors), 2):
            if turned == (outer, inner):
                raise DataError(
                    f"environment columns {inner!r} and {outer!r} separate the same rows: "
                    "leave one of them out of the list."
                )
        if parts.along is None:
            none = np.zeros(len(factors[0].codes), np.int64)
            return cls(factors, None, none.astype(np.float64), False, none, none)
        name = parts.along.column
        within = parts.along.within
        values, dates = positions(column(name), name)
        _refuse_missing(name, np.isnan(values), missing)
        units = np.zeros(len(values), np.int64)
        if within is not None:
            units, _ = encode_labels(column(within).to_list())
            _refuse_missing(within, units < 0, missing)
            steady = [factor.name for factor in factors if _one_each(factor.codes, units)]
            if steady and parts.along.ar:
                raise SettingError(
                    f"{quoted(steady)} is the same in all rows of one {within}: with ar= "
                    "its levels pass for noise that follows rows before. Compare by it "
                    "without ar=, or leave it out."
                )
        n_values = len(np.unique(values[~np.isnan(values)]))
        if n_values < _FEWEST_VALUES:
            raise DataError(
                f"{name!r} has {n_values} values, too few to look along it", use(environment=name)
            )
        steps = _steps(parts.along, values, units, dates)
        return cls(factors, parts.along, values, dates, units, steps)

    @cached_property
    def nested(self) -> list[tuple[str, str]]:
        """Pairs (inner, outer) of names of factors: each level of the inner one occurs in one level
        of the outer one"""
        return _nested(self.factors)

    @property
    def known(self) -> Mask:
        """(N,) rows of which nothing is missing"""
        known = np.all([factor.codes >= 0 for factor in self.factors] + [self.units >= 0], axis=0)
        return known & ~np.isnan(self.values)

    @property
    def labels(self) -> list[Hashable]:
        """Of the environments by which rows are described: levels of the first factor, or blocks of
        the variable; None where something is missing"""
        if self.factors:
            first = self.factors[0]
            return [
                first.levels[code] if known else None
                for code, known in zip(first.codes, self.known, strict=True)
            ]
        known = self.known
        labels = np.full(len(self.units), None, dtype=object)
        labels[known] = self.of_rows(known)._blocks()
        return labels.tolist()

    @property
    def windows(self) -> Places:
        """(n, q + 1) rows that have q rows before them in their unit, and these, the latest
        first"""
        q = 0 if self.variable is None else self.variable.ar
        order = np.lexsort((self.steps, self.units)) if q else np.arange(len(self.units))
        rows = order[np.arange(q, len(order))[:, None] - np.arange(q + 1)]
        units = self.units[rows]
        steps = self.steps[rows] + np.arange(q + 1) * bool(q)
        return np.asarray(rows[((units == units[:, :1]) & (steps == steps[:, :1])).all(axis=1)])

    def _blocks(self) -> NDArray[np.object_]:
        """(N,) up to five consecutive blocks of values, as "1977 to 1981", each with about as many
        of the rows that have enough rows before them"""
        distinct, place = np.unique(self.values, return_inverse=True)
        led = self.windows[:, 0] if len(self.windows) else slice(None)
        counts = np.bincount(place[led], minlength=len(distinct))
        middles = (np.cumsum(counts) - 0.5 * counts) / counts.sum()
        for n_blocks in range(min(_MOST_BLOCKS, len(distinct)), 1, -1):
            used, block = np.unique(
                np.minimum(n_blocks * middles, n_blocks - 1).astype(int), return_inverse=True
            )
            if np.bincount(block, counts).min() >= SMALLEST_ENVIRONMENT:
                break
        ends = [distinct[block == b][[0, -1]] for b in range(len(used))]
        texts = [" to ".join(dict.fromkeys(map(self.written, end))) for end in ends]
        if len(set(texts)) < len(texts):
            texts = [f"{low!r} to {high!r}" for low, high in (end.tolist() for end in ends)]
        return np.array(texts, dtype=object)[block[place]]

    def written(self, value: float) -> str:
        """A value of the variable as it is printed."""
        if not self.dates:
            return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"
        whole_days = not np.any(np.nan_to_num(self.values) % _DAY)
        return str(
            np.datetime64(round(value), "us").astype(
                "datetime64[D]" if whole_days else "datetime64[s]"
            )
        )

    @property
    def span(self) -> tuple[float, float]:
        return float(np.nanmin(self.values)), float(np.nanmax(self.values))

    @property
    def fitted(self) -> Span | None:
        """The range of the variable, for tables to predict."""
        if self.variable is None:
            return None
        return Span(self.variable.column, *self.span, *map(self.written, self.span))

    def relabelled(self, name: str) -> Factor:
        """The factor of this name."""
        found = next((factor for factor in self.factors if factor.name == name), None)
        if found is None:
            known = quoted([factor.name for factor in self.factors]) or "none"
            raise SettingError(f"new={name!r} is no factor of the environments: there are {known}.")
        return found

    def to_columns(self) -> Fields:
        """{column: (N,)} of a table again; units of sequences are numbers"""
        columns: Fields = {
            name: [levels[code] for code in codes] for name, codes, levels in self.factors
        }
        if self.variable is not None:
            dates = (
                self.values.round().astype("int64").astype("datetime64[us]")
                if self.dates
                else self.values
            )
            columns[self.variable.column] = dates
            if self.variable.within not in (None, *columns):
                columns[str(self.variable.within)] = self.units
        return columns

    def of_rows(self, rows: NDArray[Any]) -> Design:
        """Of some rows, by a mask or by their places; levels that do not occur there are gone."""
        factors = []
        for name, codes, levels in self.factors:
            used = np.unique(codes[rows][codes[rows] >= 0])
            left = np.where(codes[rows] < 0, -1, np.searchsorted(used, codes[rows]))
            factors.append(Factor(name, left, tuple(levels[code] for code in used)))
        return replace(
            self,
            factors=tuple(factors),
            values=self.values[rows],
            units=self.units[rows],
            steps=self.steps[rows],
        )

    @property
    def name(self) -> str:
        """The column that labels of environments come from."""
        if self.factors:
            return self.factors[0].name
        assert self.variable is not None
        return self.variable.column

    def in_order(self, codes: Places, labels: Labels) -> tuple[Places, Labels]:
        """Codes (N,) and labels of environments, blocks in the order of the variable."""
        if self.factors:
            return codes, labels
        order = np.argsort([self.values[codes == e].min() for e in range(len(labels))])
        return np.argsort(order)[codes], tuple(labels[e] for e in order)

    @property
    def in_words(self) -> str:
        """What is compared: "by hospital and along year"."""
        parts = [f"by {factor.name}" for factor in self.factors]
        if self.variable is not None:
            parts.append(f"along {self.variable.column}")
        return " and ".join(parts)

    @property
    def everywhere(self) -> str:
        """Where rows are: "in all 4 levels of hospital and from 1977 to 1999"."""
        levels = " and ".join(f"{len(factor.levels)} of {factor.name}" for factor in self.factors)
        parts = [f"in all {levels.replace(' of', ' levels of', 1)}"] if self.factors else []
        if self.variable is not None:
            parts.append(f"from {self._range}")
        return " and ".join(parts)

    @property
    def compared(self) -> str:
        """What is compared, with the range of the variable."""
        over = "" if self.variable is None else f" (from {self._range})"
        return f"{self.in_words}{over}"

    @property
    def _range(self) -> str:
        return " to ".join(map(self.written, self.span))

    @property
    def notes(self) -> Names:
        """What the environments are that tables and pictures show."""
        blocks = f"up to {_MOST_BLOCKS} blocks of it, for description"
        shown = self.factors[0].name if self.factors else blocks
        told = f"coefficients are compared {self.compared}; tables by environment show {shown}."
        if self.variable is None or not self.variable.ar:
            return (told,)
        ar = self.variable.ar
        within = self.variable.within
        sequence = "rows" if within is None else f"rows of one {within}"
        others = "" if within is None else f"; rows that differ in {within!r} count as independent"
        notes = [told, f"noise of {sequence} may depend on that of the {ar} before{others}."]
        n_gaps = self._n_gaps
        if n_gaps:
            notes.append(
                f"{n_gaps:,} gap{'s' * (n_gaps > 1)} of {self.variable.column!r} "
                f"break{'s' * (n_gaps == 1)} sequences: {len(self.windows):,} of "
                f"{rows_text(len(self.units))} have the {ar} before them and are compared."
            )
        ranked = (
            "subsets are compared by how they predict a row given those before it; R² is without "
            "those."
        )
        return (*notes, ranked)

    @property
    def _n_gaps(self) -> int:
        """Pairs of rows of one unit that follow each other after more than one step"""
        order = np.lexsort((self.steps, self.units))
        apart = np.diff(self.steps[order]) > 1
        return int(np.sum(apart & (np.diff(self.units[order]) == 0)))


@dataclass(frozen=True)
class Span:
    """The range of the variable that was fitted, from low to high; first, last : these as they are
    printed"""

    column: str
    low: float
    high: float
    first: str
    last: str

    def beyond(self, table: Any) -> Mask:
        """(n,) rows of a table to predict that do not lie within, or have no value; none where the
        table lacks the column"""
        if self.column not in (frame_names(table) or ()):
            return np.zeros(len(table), dtype=bool)
        values, _ = positions(as_frame(table)[self.column], self.column)
        return np.asarray(~((values >= self.low) & (values <= self.high)))

    def told(self, beyond: Mask) -> str:
        return (
            f"{int(beyond.sum()):,} of {rows_text(len(beyond))} lie outside {self.first} to "
            f"{self.last} of {self.column!r}, or have no value there, where coefficients "
            "may be others"
        )


_DAY = 86_400_000_000


@dataclass(frozen=True, eq=False)
class Clock:
    """When rows were taken. name : of the column, None for the index of the table; values (N,), NaN
    where missing"""

    name: str | None
    values: Floats

    def of_rows(self, rows: NDArray[Any]) -> Clock:
        return replace(self, values=self.values[rows])


def clock_of(table: Any, unused: Sequence[str]) -> Clock | None:
    """The time index of a table of pandas or, of its columns that are not used, the one that holds
    dates."""
    import narwhals as nw
    import pandas as pd

    index = getattr(table, "index", None)
    if isinstance(index, pd.DatetimeIndex | pd.PeriodIndex):
        series = nw.from_native(pd.Series(index), series_only=True)
        return Clock(None, positions(series, "index")[0])
    names = [name for name in unused if name in (frame_names(table) or ())]
    frame = as_frame(table) if names else {}
    found = []
    for name in names:
        series = frame[name]
        first = str(next(iter(series.drop_nulls().head(1)), ""))
        as_text = not series.dtype.is_numeric() and _ISO.match(first)
        if series.dtype in (nw.Datetime, nw.Date) or as_text:
            with suppress(DataError):
                found.append(Clock(name, positions(series, name)[0]))
    return found[0] if len(found) == 1 else None


_ISO = re.compile(r"\d{4}-\d{2}(-\d{2}|$)")


def _refuse_missing(name: str, rows: Mask, missing: str) -> None:
    if rows.any() and missing == "error":
        what = f"environment column {name!r} is missing in {rows_text(int(rows.sum()))}"
        raise DataError(what, use(missing="drop"))


def positions(series: Any, name: str) -> tuple[Floats, bool]:
    """(N,) numbers of a narwhals series, NaN where missing, and whether they are dates, in
    microseconds since 1970."""
    import pandas as pd

    values = series.to_list()
    gone = np.array(
        [value is None or value != value or type(value).__name__ == "NaTType" for value in values],
        bool,
    )
    present = [value for value, missing in zip(values, gone, strict=True) if not missing]
    found = np.full(len(values), np.nan)
    if all(map(reads_as_number, present)):
        found[~gone] = [float(value) for value in present]
        if np.isinf(found).any():
            raise DataError(f"column {name!r} has infinite values: leave those rows out.")
        return found, False
    try:
        if isinstance(present[0], pd.Period):
            dates = pd.PeriodIndex(present).to_timestamp()
        else:
            dates = pd.DatetimeIndex(
                pd.to_datetime(pd.Series(present, dtype=object), format="ISO8601", utc=True)
            )
            if (dates != dates.normalize()).any():
                # Days that begin at midnight of another time zone are these days.
                local = pd.DatetimeIndex(
                    [pd.Timestamp(value).tz_localize(None) for value in present]
                )
                dates = local if (local == local.normalize()).all() else dates
    except (ValueError, TypeError):
        wrong = next((value for value in present if isinstance(value, str)), present[0])
        raise DataError(
            f"column {name!r} has neither numbers nor dates, as 2024-05-31: mend {wrong!r}."
        ) from None
    found[~gone] = dates.tz_localize(None).to_numpy("datetime64[us]").astype(np.int64)
    return found, True


def _nested(factors: Sequence[Factor]) -> list[tuple[str, str]]:
    """As `Design.nested`"""
    pairs = []
    for inner, outer in permutations(factors, 2):
        known = (inner.codes >= 0) & (outer.codes >= 0)
        cells = np.unique(inner.codes[known] * len(outer.levels) + outer.codes[known])
        if len(cells) == len(np.unique(cells // len(outer.levels))):
            pairs.append((inner.name, outer.name))
    return pairs


def _one_each(codes: Integers, units: Integers) -> bool:
    """Whether each unit (N,) has one of the codes (N,)"""
    return len(np.unique(np.column_stack([units, codes]), axis=0)) == len(np.unique(units))


def _steps(variable: Along, values: Floats, units: Integers, dates: bool) -> Integers:
    """(N,) places of rows in the sequence of their unit, in steps of the clock; only differences
    within a unit count. 0 without ar"""
    steps = np.zeros(len(values), np.int64)
    if not variable.ar:
        return steps
    order = np.lexsort((values, units))
    lengths = np.diff(values[order])
    follows = (np.diff(units[order]) == 0) & (units[order][1:] >= 0) & ~np.isnan(lengths)
    twice = follows & (lengths == 0.0)
    if twice.any():
        unit = ""
        remedy = "name what has one by within=, in a terminal --within."
        if variable.within is not None:
            unit = f" of each {variable.within}"
            remedy = "keep one, take means, or name another within."
        raise DataError(
            f"a sequence needs one row{unit} for each {variable.column}, and has "
            f"{rows_text(int(twice.sum()))} too many: {remedy}"
        )
    counted = np.zeros(len(lengths), np.int64)
    if follows.any():
        counted[follows] = _whole_steps(variable, lengths[follows], dates)
    steps[order[1:]] = np.cumsum(counted)
    return steps


def _whole_steps(variable: Along, lengths: Floats, dates: bool) -> Integers:
    """(n,) how many steps of the clock rows (n,) lie after those before them: a step is the
    shortest length if that is frequent and all are multiples of it, else the most frequent one; one
    row follows another after one step, up to a quarter of it, as months have 28 to 31 days"""
    multiples = lengths / lengths.min()
    whole = np.round(multiples)
    if (np.abs(multiples - whole) <= _MISSED * multiples).all() and (whole == 1.0).mean() >= _OFTEN:
        return whole.astype(np.int64)
    logs = np.round(_LENGTHS_APART * np.log(lengths / np.median(lengths)))
    bins, frequencies = np.unique(logs, return_counts=True)
    step = float(np.median(lengths[logs == bins[np.argmax(frequencies)]]))
    ratios = lengths / step
    irregular = (np.abs(ratios - 1.0) > _STEP_TOLERANCE) & (ratios < 2.0 - _STEP_TOLERANCE)
    if irregular.any():
        worst = float(lengths[np.argmax(irregular)])
        unit, days = (_DAY, " days") if dates else (1.0, "")
        each = ""
        typed = f"--along number --ar {variable.ar}"
        if variable.within is not None:
            each = f" of each {variable.within}"
            typed += f" --within {shlex.quote(variable.within)}"
        raise DataError(
            f"{variable.column!r} is an irregular clock: after {int(irregular.sum()):,} of "
            f"{rows_text(len(lengths))} the next comes in a part of a step "
            f"({step / unit:.4g}{days}, not {worst / unit:.4g}). Number the rows{each}, and "
            f"compare along that column: {replace(variable, column='number')!r}, in a terminal "
            f"{typed}."
        )
    return np.round(ratios).astype(np.int64)


def is_columns(environments: Any, available: Sequence[str] | None, table: Any) -> bool:
    """Whether what `fit` got names columns of a design, and is no list of a label for each row of
    the table."""
    if isinstance(environments, Along):
        return True
    if parts_of(environments) is None:
        return False
    named = [part for part in environments if isinstance(part, str)]
    return len(named) < len(environments) or (
        len(named) < len(table) and not set(named).isdisjoint(available or ())
    )
