"""Columns of data frames and arrays as float64, with NaN where a value is missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from numbers import Real
from statistics import median
from types import MappingProxyType
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from .._tools.arrays import Fields, Floats, Names
from .._tools.text import in_series
from ..exceptions import DataError, Remedy, SettingError, use
from .basis import Spline
from .checks import check_unique, nearest, quoted, with_counts
from .labels import encode_labels, in_natural_order, level_of, written_values
from .reading import AS_PYTHON, NumberForm, limit_of, number_formats, reads_as_number
from .settings import BELOW_LIMIT, Columns, FileFormat, listed_names

ADVICE = {
    "feature": "it held numbers when the model was fitted, and needs numbers here",
    "outcome": "the outcome must be numeric, so encode it as numbers or choose another column",
    "weights": "weights are whole numbers, how many rows each counts as",
}
# Whole numbers up to this have a float64 of their own.
LARGEST_WHOLE = 2**53
_TRUTHS = (bool, np.bool_)

# ---------------------------------------------------------------- frames, series and arrays


def frame_names(table: Any) -> list[str] | None:
    """Column names of a data frame as text, or None for anything that is not a data frame."""
    names = getattr(table, "column_names", None)  # pyarrow, whose .columns are the values
    if names is None:
        names = getattr(table, "columns", None)
    return None if names is None or callable(names) else [str(name) for name in names]


def as_frame(table: Any, what: str = "table") -> Any:
    """A narwhals DataFrame with unique text column names from any eager data frame."""
    if (
        hasattr(table, "collect")
        and hasattr(table, "collect_schema")
        and not hasattr(table, "to_numpy")
    ):
        raise DataError(f"{what} is a lazy frame: call .collect() on it first.")
    names = frame_names(table)
    if names is not None:
        check_unique(names, f"the {what}")
        table = dense(table, what)
        table = table.set_axis(names, axis=1) if hasattr(table, "set_axis") else table
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    if names is None or not isinstance(frame, nw.DataFrame):
        raise DataError(
            f"{what} must be a pandas or polars DataFrame or the path of a file, got "
            f"{type(table).__name__}: for arrays use MultiEnvironmentData.from_arrays(X, y, "
            "environments)."
        )
    return frame


# As float64, of what is sparse
MOST_DENSE_BYTES = 4_000_000_000


def dense(table: Any, what: str) -> Any:
    """A matrix of scipy, or a frame of pandas with sparse columns, made dense up to so many bytes;
    others stay."""
    is_matrix = hasattr(table, "toarray") and hasattr(table, "nnz")
    is_pandas = hasattr(table, "set_axis") and hasattr(table, "columns")
    types = table.dtypes.items() if is_pandas else ()
    kinds = {name: kind.subtype for name, kind in types if hasattr(kind, "fill_value")}
    if not is_matrix and not kinds:
        return table
    needed = 8 * table.shape[0] * (table.shape[-1] if is_matrix else len(kinds))
    if needed > MOST_DENSE_BYTES:
        raise DataError(
            f"{what} is sparse and takes {needed / 1e9:.3g} GB made dense, more "
            f"than {MOST_DENSE_BYTES / 1e9:g}: choose columns first, as "
            "VarianceThreshold does."
        )
    return table.toarray() if is_matrix else table.astype(kinds)


def as_series(values: Any) -> Any | None:
    """A narwhals Series, or None for anything that is not a series."""
    if isinstance(values, (np.ndarray, list, tuple)):
        return None

    series = nw.from_native(values, series_only=True, pass_through=True)
    return series if isinstance(series, nw.Series) else None


def is_number(dtype: Any) -> bool:
    """Whether a type of narwhals is one of numbers or truth values"""
    return dtype.is_numeric() or dtype == nw.Boolean


def are_truths(values: Iterable[Any]) -> bool:
    return all(isinstance(value, _TRUTHS) for value in values)


def series_values(series: Any, name: str, role: str = "feature") -> Floats:
    """A narwhals Series as float64 (N,); booleans count 0 and 1."""
    refuse_beyond_double(series, name)
    native = series.to_native()
    dtype = getattr(native, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return np.asarray(native, dtype=np.float64)
    if is_number(series.dtype):
        return np.asarray(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if are_truths(present_values(series)):
        return mapped(series, float)
    raise DataError(f"column {name!r} {_why_no_numbers(series)}: {ADVICE[role]}.")


def text_as_numbers(series: Any, name: str) -> Floats:
    """(N,) of a column that may hold numbers as text."""
    if is_number(series.dtype):
        return series_values(series, name)
    wrong = [value for value in present_values(series) if not reads_as_number(value)]
    if wrong:
        raise DataError(
            f"column {name!r} is read as numbers (numeric=), but {wrong[0]!r} is not a number: "
            "mend it."
        )
    return mapped(series, float)


def cells(series: Any) -> list[Any]:
    """The values of a narwhals Series, None where one is missing"""
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return [None if gone else value for value, gone in pairs]


def mapped(series: Any, number: Callable[[Any], float]) -> Floats:
    """(N,) the number of each value of a narwhals Series, NaN where it is missing"""
    return np.array([np.nan if value is None else number(value) for value in cells(series)])


def in_form(frame: Any, columns: Iterable[str], decimal: str | None, thousands: str | None) -> Any:
    """A narwhals frame with numbers in the place of text of columns that is written so"""
    FileFormat(
        decimal=decimal, thousands=thousands
    )  # raises where they are unknown, or both the same
    form = NumberForm(decimal or ".", thousands)
    made = []
    for name in columns if form != AS_PYTHON else ():
        series = frame[name]
        if series.dtype == nw.String and form.reads(present_values(series)):
            values = mapped(series, form.number)
            made.append(nw.new_series(name, values, nw.Float64, backend=frame.implementation))
    return frame.with_columns(*made) if made else frame


def present_values(series: Any) -> list[Any]:
    return series.drop_nulls().to_list()


def _why_no_numbers(series: Any) -> str:
    present = present_values(series)
    stored = str(getattr(series.to_native(), "dtype", series.dtype))
    if any(isinstance(value, (complex, np.complexfloating)) for value in present):
        return f"holds complex numbers (dtype {stored}). Complex data not supported"
    example = next((value for value in present if not reads_as_number(value)), None)
    if example is None:
        return f"holds numbers stored as dtype {stored} (for example {present[0]!r})"
    return f"is not numeric (dtype {stored}, for example {example!r})"


def refuse_beyond_double(values: Any, what: str) -> None:
    """Raise where a frame, a series or an array has whole numbers that double precision cannot tell
    apart."""
    if frame_names(values) is not None:
        frame = as_frame(values, what)
        for name in frame.columns:
            refuse_beyond_double(frame[name], name)
        return
    largest = beyond_double(values)
    if largest is not None:
        raise DataError(f"column {what!r} {_beyond(largest)}", use(exclude=[what]))


def _beyond(largest: int) -> str:
    return (
        f"holds whole numbers beyond 2**53 (for example {largest}), which double precision "
        "cannot tell apart"
    )


def beyond_double(values: Any) -> int | None:
    """The whole number of a series or an array that is farthest beyond double precision"""
    series = as_series(values)
    if series is None:
        whole = isinstance(values, np.ndarray) and values.dtype.kind in "iu" and values.size > 0
    else:
        whole = series.dtype.is_integer() and series.null_count() < len(series)
    if not whole:
        return None
    largest = max(int(values.min()), int(values.max()), key=abs)
    return largest if abs(largest) > LARGEST_WHOLE else None


def holds_numbers(frame: Any) -> bool:
    """Whether all columns of a narwhals frame are numbers or booleans, whatever their type."""
    return all(
        is_number(series.dtype)
        or (
            series.dtype in (nw.Object, nw.Unknown)
            and all(isinstance(v, Real) for v in present_values(series))
        )
        for series in frame.iter_columns()
    )


def frame_values(frame: Any, names: Sequence[str]) -> Floats:
    """Columns of a narwhals DataFrame as float64 (N, p) in C order."""
    return np.column_stack([series_values(frame[name], name) for name in names])


def array_values(values: Any, what: str) -> Floats:
    """An array, or nested lists of numbers, as float64 of the same shape."""
    values = dense(values, what)
    if isinstance(values, np.ma.MaskedArray) and values.dtype.kind in "biuf":
        return np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError):
        raise DataError(
            f"{what} is not rectangular: give every row the same number of values."
        ) from None
    if array.dtype.kind in "biuf":
        with np.errstate(over="ignore"):
            return np.asarray(array, dtype=np.float64)
    if array.dtype.kind == "c":
        raise DataError(
            f"{what} holds complex numbers. Complex data not supported: use real and imaginary "
            "parts."
        )
    first = array.item(0) if array.size else None
    raise DataError(
        f"{what} is not numeric (dtype {array.dtype}, for example {first!r}): use .astype(float)."
    )


def label_list(labels: Any, role: str = "environments") -> list[Hashable]:
    """Labels, of environments unless another role is named, as a list with one entry per row."""
    if isinstance(labels, (str, bytes)):
        raise DataError(
            f"{role}={labels!r} is a single string: pass one label per row, for example "
            f"table[{labels!r}]."
        )
    shape: tuple[int, ...] = getattr(labels, "shape", (0,))
    if shape[1:] == (1,):
        labels = np.asarray(labels).ravel()
    elif len(shape) != 1:
        raise DataError(f"{role} has shape {shape}: pass one label per row, shape (N,).")
    if isinstance(labels, np.ndarray):
        return list(labels) if labels.dtype.kind in "mM" else labels.tolist()
    series = as_series(labels)
    if series is not None:
        return series.to_list()
    if not isinstance(labels, Iterable):
        raise DataError(
            f"{role} of type {type(labels).__name__} is not a sequence: pass one label per row."
        )
    return list(labels)


def aligned(X: Any, **given: Any) -> list[Any]:
    """Arguments of one value per row, in the order of the rows of X where both have an index of
    pandas. Where X has none, the arguments that have one must agree."""
    rows: Any = getattr(X, "index", None)
    owner = "X"
    found = []
    for role, values in given.items():
        index: Any = getattr(values, "index", None)
        if hasattr(index, "equals") and not hasattr(rows, "equals"):
            rows = index
            owner = role
        elif hasattr(index, "equals") and len(index) == len(rows) and not rows.equals(index):
            if owner != "X" or not (rows.is_unique and rows.isin(index).all()):
                raise DataError(
                    f"{role} has another index than {owner}: give both the same, or pass "
                    f"{role}.to_numpy() if its order is that of the rows of X."
                )
            values = values.loc[rows]
        found.append(values)
    return found


def free_name(default: str, taken: Sequence[str]) -> str:
    """A default name gives way to columns that have it."""
    while default in taken:
        default += "_"
    return default


# ---------------------------------------------------------------- cells that are changed before a
# column is read


@dataclass(frozen=True)
class Mending:
    """below_limit : what '<0.5' counts as: "half" of the limit, the "limit" or "missing"; '>9'
    counts as the limit, or missing; na : {column: values that stand for missing ones, as text}"""

    below_limit: str | None = None
    na: Mapping[str, Names] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.below_limit is not None or bool(self.na)

    @property
    def notes(self) -> Names:
        """What was changed, a sentence for each."""
        limits = {"half": "half of the limit", "limit": "the limit", "missing": "missing"}
        said = []
        if self.below_limit is not None:
            said.append(f"values such as '<0.5' count as {limits[self.below_limit]}.")
        columns: dict[Names, list[str]] = {}
        for name, codes in self.na.items():
            columns.setdefault(codes, []).append(name)
        for codes, names in columns.items():
            counted = "count" if len(codes) > 1 else "counts"
            said.append(
                f"{in_series(map(repr, codes))} {counted} as missing in {in_series(names)}."
            )
        return tuple(said)

    def of(self, columns: Collection[str]) -> Mending:
        """What is needed to read these columns."""
        return Mending(
            self.below_limit, {name: codes for name, codes in self.na.items() if name in columns}
        )

    def series(self, series: Any, name: str) -> Any:
        """A narwhals Series with what is mended; the same where nothing is."""
        codes = self.na.get(name, ())
        if not codes and (self.below_limit is None or series.dtype.is_numeric()):
            return series

        values = cells(series)
        as_numbers = {float(code) for code in codes if reads_as_number(code)}
        kept = [
            None if value is None or _is_one_of(value, codes, as_numbers) else value
            for value in values
        ]
        texts = {value for value in kept if isinstance(value, str)}
        limits = {text: limit for text in texts if (limit := limit_of(text)) is not None}
        counted = self.below_limit is not None and texts and _are_limits(texts, limits)
        if counted:
            kept = [self._counted(*limits[value]) if value in limits else value for value in kept]
        elif kept == values:
            return series
        if series.dtype.is_numeric() or (
            texts and all(value is None or reads_as_number(value) for value in kept)
        ):
            numbers = [np.nan if value is None else float(value) for value in kept]
            return nw.new_series(name, numbers, nw.Float64, backend="pandas")
        return nw.new_series(name, kept, None if not texts else nw.String, backend="pandas")

    def _counted(self, sign: str, limit: float) -> float | None:
        if self.below_limit == "missing":
            return None
        return limit / 2 if self.below_limit == "half" and sign in "<≤" else limit


def _is_one_of(value: Any, codes: Collection[str], numbers: Collection[float]) -> bool:
    """Whether a cell is one of the codes of missing values, as text or, 0.0 for 0, as a number"""
    if level_of(value) in codes:
        return True
    return not isinstance(value, _TRUTHS) and reads_as_number(value) and float(value) in numbers


# ---------------------------------------------------------------- levels

# The level of missing values, where they have one.
MISSING_LEVEL = "(missing)"


class Levels(NamedTuple):
    """texts: the levels as text; in_order: whether the column's type orders them, and lists some
    that may not occur; declared: whether the column's type, not its text alone, makes it a
    category; written: what they were made of."""

    texts: Names
    in_order: bool = False
    declared: bool = False
    written: frozenset[Hashable] = frozenset()


def joined(first: Levels | None, second: Levels) -> Levels:
    """Levels of two pieces of a column: in the order of their type, else in the natural one."""
    if first is None:
        return second
    texts = dict.fromkeys(first.texts + second.texts)
    in_order = first.in_order and second.in_order
    declared = first.declared or second.declared
    ordered = tuple(texts if in_order else in_natural_order(texts))
    return Levels(ordered, in_order, declared, first.written | second.written)


def level_codes(series: Any, name: str, missing_level: bool = False) -> tuple[Floats, Levels]:
    """Positions (N,) in the levels of a column, NaN where missing, or the last one; and these
    levels."""
    declared = series.dtype in (nw.Categorical, nw.Enum)
    # Polars' Categorical has no such attribute: the order of its levels is that of the whole
    # process.
    categories = getattr(getattr(series.to_native(), "cat", None), "categories", None)
    if series.dtype == nw.Enum:
        categories = series.dtype.categories
    ordered = [] if categories is None else [level_of(level) for level in categories]
    codes, levels = coded(series.to_list(), ordered, missing_level)
    return codes, levels._replace(declared=declared)


def coded(
    values: list[Any], categories: Sequence[str], missing_level: bool = False
) -> tuple[Floats, Levels]:
    """As `level_codes`; categories: the order of levels, where it is known"""
    first_seen, labels = encode_labels(values)
    texts = [level_of(label) for label in labels]
    ordered = list(dict.fromkeys(categories or in_natural_order(set(texts))))
    position: dict[str | None, float] = {text: float(k) for k, text in enumerate(ordered)}
    if missing_level and 0 < (first_seen < 0).sum() < len(values):
        position[None] = position.setdefault(MISSING_LEVEL, float(len(ordered)))
    levels = Levels(tuple(filter(None, position)), bool(categories), written=written_values(values))
    return np.array([*(position[text] for text in texts), position.get(None, np.nan)])[
        first_seen
    ], levels


def recoded(
    codes: Floats, texts: Names, wanted: Names, absent: Collection[str] = ()
) -> tuple[Floats, str]:
    """Positions in the wanted levels from positions in others, 0 for unknown or absent ones; which
    these are, in how many rows. A missing value stays one."""
    position = {text: float(k) for k, text in enumerate(wanted) if text not in absent}
    places = np.where(np.isnan(codes), len(texts), codes).astype(np.intp)
    counts = np.bincount(places, minlength=len(texts) + 1)
    strange = [0 if text in position else counts[k] for k, text in enumerate(texts)]
    return np.array([*(position.get(text, 0.0) for text in texts), np.nan])[places], with_counts(
        texts, strange
    )


# ---------------------------------------------------------------- which columns, and how each is
# read

Member = str | Spline


@dataclass(frozen=True)
class Choices:
    """categorical: columns whose values are levels, whatever they look like; levels: those of some
    of them, where the user lists them; numeric: columns whose text is read as numbers; groups:
    {feature: what its columns are made of}; excluded: what is left out. Columns that are in none of
    them speak for themselves. mending: what is changed in cells; missing_level: whether missing
    values of categories are a level of their own"""

    categorical: frozenset[str] = frozenset()
    numeric: frozenset[str] = frozenset()
    groups: Mapping[str, tuple[Member, ...]] = field(default_factory=dict)
    levels: Mapping[str, Names] = field(default_factory=dict)
    excluded: Names = ()
    mending: Mending = field(default_factory=Mending)
    missing_level: bool = False

    @classmethod
    def of(cls, settings: Columns, columns: Sequence[str], missing: str = "error") -> Choices:
        """Checked against the columns that may be features."""
        categorical = () if settings.categorical == "auto" else settings.categorical
        choices = cls(
            frozenset(known_columns("categorical", categorical, columns)),
            frozenset(known_columns("numeric", settings.numeric, columns)),
            _groups(settings.groups, columns),
            _levels(categorical) if isinstance(categorical, Mapping) else {},
            tuple(settings.exclude),
            Mending(
                settings.below_limit,
                {name: tuple(map(str, codes)) for name, codes in settings.na.items()},
            ),
            missing == "level",
        )
        both = choices.categorical & choices.numeric
        if both:
            raise SettingError(
                f"{quoted(sorted(both))} is both in categorical= and in numeric=: name it in one."
            )
        return choices

    @property
    def splines(self) -> dict[str, Spline]:
        """{column: its spline}"""
        members = (member for group in self.groups.values() for member in group)
        return {member.column: member for member in members if isinstance(member, Spline)}


def known_columns(
    setting: str, names: Any, columns: Sequence[str], what: str = "feature columns"
) -> list[str]:
    """The names as text, each one of the columns."""
    chosen = listed_names(setting, names)
    for name in chosen:
        if name not in columns:
            raise DataError(
                f"{setting}: {name!r} is not among the {what}; {nearest(name, columns)}"
            )
    return chosen


def resolve_columns(
    available: Sequence[str],
    outcome: object,
    environment: object,
    columns: Columns,
    where: str = "the table",
    outcome_columns: Mapping[str, object] = MappingProxyType({}),
) -> tuple[str, str, Names]:
    """Names of outcome, environment and features; outcome_columns : {role: name}, which come with
    the outcome"""
    check_unique(available, where)
    weights = {} if columns.weights is None else {"weights": columns.weights}
    roles = {"outcome": outcome, "environment": environment, **outcome_columns, **weights}
    owners = owners_of(roles, available, where)
    known_columns("na", columns.na, available, "columns")
    possible = [name for name in available if name not in owners]
    if not possible:
        raise DataError(
            f"{where} has no feature columns besides outcome and environment. Add features."
        )
    chosen = possible if columns.features is None else columns.features
    if not chosen:
        raise DataError("features is an empty list", use(features=None))
    for name in chosen:
        if name not in available:
            raise DataError(
                f"feature column {name!r} is not in {where}; {nearest(name, available)}"
            )
        if name in owners:
            raise DataError(
                f"features contains the {owners[name]} column {name!r}: take it out of the list."
            )
    check_unique(chosen, "features=")
    return str(outcome), str(environment), excluding(columns.exclude, chosen, possible)


def owners_of(roles: Mapping[str, object], available: Sequence[str], where: str) -> dict[str, str]:
    """{column: its role}, of {role: name of a column}"""
    owners: dict[str, str] = {}
    for role, name in roles.items():
        if name is None or isinstance(name, (list, tuple, np.ndarray)):
            raise DataError(
                f"{role}={name!r} is not a column name: pass the name of one column of {where}."
            )
        if str(name) not in available:
            raise DataError(
                f"{role} column {str(name)!r} is not in {where}; {nearest(str(name), available)}"
            )
        first = owners.setdefault(str(name), role)
        if first != role:
            raise DataError(
                f"column {str(name)!r} is both {first} and {role}: name two different columns."
            )
    return owners


def excluding(exclude: Any, names: Sequence[str], available: Sequence[str]) -> Names:
    """The names without those to exclude, which must be among the available columns."""
    left_out = known_columns("exclude", exclude, available)
    left = tuple(name for name in names if name not in left_out)
    if not left:
        raise DataError(f"exclude={left_out!r} leaves no feature column: leave one in.")
    return left


def _levels(listed: Mapping[Any, Any]) -> dict[str, Names]:
    """{column: its levels as text, the first of which is the reference}"""
    levels: dict[str, Names] = {}
    for name, values in listed.items():
        is_list = isinstance(values, Iterable) and not isinstance(values, str)
        texts = tuple(map(level_of, values)) if is_list else ()
        if not texts or len(set(texts)) < len(texts):
            example = use(categorical={str(name): ["a", "b"]})
            raise SettingError(
                f"categorical: {values!r} of {str(name)!r} is no list of different levels", example
            )
        levels[str(name)] = texts
    return levels


def _groups(groups: Any, columns: Sequence[str]) -> dict[str, tuple[Member, ...]]:
    """{feature: what its columns are made of}"""
    terms: Any = [] if groups is None else [groups] if isinstance(groups, Spline) else groups
    by_name = isinstance(terms, Mapping)
    if not isinstance(terms, Iterable) or not (
        by_name or all(isinstance(term, Spline) for term in terms)
    ):
        forms = use(groups={"region": ["r1", "r2"]}), use(groups=[Spline("age")])
        raise SettingError(
            f"groups={groups!r} is neither a mapping to columns nor a list of terms", *forms
        )
    named = dict(terms).items() if by_name else [(term.column, term) for term in terms]
    parsed: dict[str, tuple[Member, ...]] = {}
    owners: dict[str, str] = {}
    for name, given in named:
        name = str(name)
        given = [given] if isinstance(given, Spline) else given
        if isinstance(given, str) or not isinstance(given, Iterable) or not list(given):
            raise SettingError(
                f"groups: {name!r} is {given!r}, no list of columns", use(groups={name: ["a", "b"]})
            )
        parsed[name] = tuple(
            member if isinstance(member, Spline) else str(member) for member in given
        )
        for column in known_columns(f"groups: {name!r}", map(column_of, parsed[name]), columns):
            if column in owners:
                raise SettingError(f"groups: column {column!r} is named twice: name it once.")
            owners[column] = name
    for name in parsed:
        if name in columns and owners.get(name) != name:
            raise SettingError(
                f"groups: {name!r} is also a column outside that group: choose another name."
            )
    return parsed


def column_of(member: Member) -> str:
    return member.column if isinstance(member, Spline) else member


# Text with more levels than this share of the rows is a list of names, not a category.
MAX_LEVEL_SHARE = 0.5
# Text of whose different values at least this share are numbers was meant as numbers.
_MEANT_AS_NUMBERS = 0.5
_MEANT_AS_DATES = 0.9
# More different values than this, half of which have so many letters, are sentences and no levels.
_MOST_SENTENCES = 10
_LONG = 30
# So many different numbers with one unit behind them, '45%', are no levels.
_MOST_UNITS = 20
_WITH_UNIT = re.compile(r"[+-]?\d+(?:[.,]\d+)?\s*([^\d\s.,][^\d]*)")
_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AP]M)?(?:Z|[+-]\d{2}:?\d{2})?"
_MOMENT = re.compile(rf"(?:{_DATE})(?:[T ]+{_TIME})?|{_TIME}", re.IGNORECASE)
MOST_WORDS = 8  # of a remedy
MOST_RANGES = (
    20  # levels, such as '1/2' or '5+' among 3 and 4, that are no words for missing values
)


class Refusal(NamedTuple):
    """Why a column cannot be used, and settings, besides leaving it out, that mend it; code : as in
    `Finding`"""

    reason: str
    remedies: tuple[Remedy, ...] = ()
    code: str = "objects"


@dataclass(frozen=True, eq=False)
class RawTable:
    """values (N, r): numbers, or positions in `levels` of the columns that hold categories; NaN
    where missing."""

    names: Names
    values: Floats
    levels: Mapping[str, Levels] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: j for j, name in enumerate(self.names)}

    def column(self, name: str) -> Floats:
        """(N,) the values of a column"""
        return self.values[:, self._places[name]]

    @classmethod
    def of_frame(
        cls,
        frame: Any,
        names: Sequence[str],
        choices: Choices,
        read: Callable[[Any, str], Any] | None = None,
        ignored: Collection[str] = (),
    ) -> RawTable:
        """Columns of a narwhals frame. read : what makes numbers, or codes and levels, of a series
        and its name, by default as the values show it; ignored : columns that stay 0"""
        values = np.zeros((len(frame), len(names)))
        levels: dict[str, Levels] = {}
        refused: dict[str, Refusal] = {}
        for j, name in enumerate(names):
            if name in ignored:
                continue
            series = choices.mending.series(frame[name], name)
            kind = column_kind(series, name, choices) if read is None else read
            if isinstance(kind, Refusal):
                refused[name] = kind
                continue
            found = kind(series, name)
            if isinstance(found, tuple):
                found, levels[name] = found
            values[:, j] = found
        return cls(tuple(names), values, levels, refused)

    @classmethod
    def of_array(cls, values: Floats, names: Sequence[str], choices: Choices) -> RawTable:
        """Columns of numbers, of which some may be categories; without a copy where none is."""
        if choices.categorical.isdisjoint(names) and not choices.mending.na.keys() & set(names):
            return cls(tuple(names), values)
        columns = dict(zip(names, values.T, strict=True))
        return cls.of_frame(nw.from_dict(columns, backend="pandas"), names, choices)


def table_of(
    X: Any, feature_names: Sequence[str] | None, exclude: Sequence[str]
) -> tuple[Any, Names]:
    """X as a float64 array or a narwhals frame, and the names of its columns, without those to
    exclude."""
    given = None if isinstance(X, np.ndarray) else frame_names(X)
    table: Any = array_values(X, "X") if given is None else as_frame(X, "X")
    if given is None and table.ndim != 2:
        raise DataError(
            f"X has shape {table.shape}: reshape it to (rows, features), as X.reshape(-1, 1) does."
        )
    names = given or [f"x{j}" for j in range(table.shape[1])]
    if feature_names is not None:
        if isinstance(feature_names, str) or len(feature_names) != len(names):
            raise DataError(
                f"feature_names={feature_names!r} is not a list of {len(names)} names, one per "
                "column."
            )
        names = [str(name) for name in feature_names]
        check_unique(names, "feature_names")
        table = table if given is None else table.rename(dict(zip(given, names, strict=True)))
    if not names:
        raise DataError(f"X has no features, shape {table.shape}: it needs at least one column.")
    kept = excluding(exclude, names, names)
    if given is None and len(kept) < len(names):
        table = table[:, [names.index(name) for name in kept]]
    return table, kept


def column_kind(series: Any, name: str, choices: Choices) -> Callable[..., Any] | Refusal:
    """The function that reads a column, or why none can."""
    dtype = series.dtype
    as_levels = use(categorical=[name])
    levels = partial(level_codes, missing_level=choices.missing_level)
    if name in choices.numeric:
        return text_as_numbers
    if is_number(dtype) or series.null_count() == len(series):
        if name in choices.categorical:
            return levels
        largest = beyond_double(series)
        if largest is None:
            return series_values
        return Refusal(_beyond(largest), (as_levels,), "identifier")
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return levels
    present = present_values(series)
    reason = _why_no_numbers(series)
    if not all(isinstance(value, Hashable) for value in present) or "complex" in reason:
        return Refusal(reason)
    if name in choices.categorical:
        return levels
    if are_truths(present):
        return series_values
    if dtype.is_temporal():
        return Refusal(f"{reason}: dates or times", (as_levels,), "dates")
    if all(map(reads_as_number, present)):
        return Refusal(reason, (use(numeric=[name]),), "numbers_as_text")
    return Refusal(reason, (as_levels,))


def doubtful(name: str, levels: Levels, n_rows: int) -> Refusal | None:
    """Why values that nobody called categories are unlikely to be."""
    texts = levels.texts
    as_levels = use(categorical=[name])
    example = f"(for example {texts[0]!r})" if texts else ""
    if texts and not levels.declared:
        n_dates = sum(_MOMENT.fullmatch(text) is not None for text in texts)
        if n_dates >= _MEANT_AS_DATES * len(texts):
            return Refusal(f"holds dates or times {example}", (as_levels,), "dates")
        limits = [text for text in texts if limit_of(text) is not None]
        if 2 * len(limits) < len(texts) and _are_limits(texts, limits):
            ways = tuple(use(below_limit=way) for way in BELOW_LIMIT)
            reason = f"holds numbers and limits of detection ({quoted(limits, 4)})"
            return Refusal(reason, ways, "detection_limit")
        formats = number_formats(texts)
        strange = [text for text in texts if not reads_as_number(text)]
        if formats or not strange:
            reason = f"holds numbers stored as text (for example {(strange or texts)[0]!r})"
            remedies = *formats, *([] if strange else [use(numeric=[name])]), as_levels
            return Refusal(reason, remedies, "numbers_as_text")
        others = [text for text in strange if not number_formats([text])]
        if len(others) <= (1.0 - _MEANT_AS_NUMBERS) * len(texts):
            reason = (
                "is not numeric: most of its different values are numbers, but not "
                f"{quoted(others or strange, 4)}"
            )
            ways = (*([use(na={name: others[:MOST_WORDS]})] if others else []), as_levels)
            have_digits = any(
                char.isdigit() for text in others for char in text
            )  # they may be numbers: (2.5), 5+, 1/2
            return Refusal(reason, ways[::-1] if have_digits else ways, "words")
        units = {found and found[1] for found in map(_WITH_UNIT.fullmatch, texts)}
        if len(texts) > _MOST_UNITS and len(units) == 1 and None not in units:
            reason = f"holds numbers with {units.pop()!r} after them {example}, to be removed"
            return Refusal(reason, (as_levels,), "with_unit")
        if len(texts) > _MOST_SENTENCES and median(map(len, texts)) >= _LONG:
            reason = f"holds {len(texts)} different sentences {example}"
            return Refusal(reason, (as_levels,), "text")
    if len(texts) > MAX_LEVEL_SHARE * n_rows:
        reason = f"is not numeric but has {len(texts)} different values in {n_rows} rows {example}"
        words = any(len(text.split()) > 1 for text in texts)
        return Refusal(reason, (as_levels,), "text" if words else "identifier")
    return None


def _are_limits(texts: Collection[str], limits: Collection[str]) -> bool:
    """Whether some of the texts are limits of detection, and all others are numbers."""
    return bool(limits) and all(text in limits or reads_as_number(text) for text in texts)


def as_mended(series: Any, name: str, choices: Choices, remedy: Remedy) -> Floats | None:
    """(N,) numbers of a column of text with what a remedy changes in it; None if it changes
    something else."""
    settings = dict(remedy.settings)
    na = dict(choices.mending.na)
    if "na" in settings:
        na[name] = (*na.get(name, ()), *map(level_of, settings["na"][name]))
    mending = Mending(settings.get("below_limit", choices.mending.below_limit), na)
    mended = mending.series(series, name)
    if "numeric" in settings:
        return text_as_numbers(mended, name)
    changes = "na" in settings or "below_limit" in settings
    return series_values(mended, name) if changes and mended.dtype.is_numeric() else None


def refuse(
    refused: Mapping[str, Refusal], excluded: Sequence[str] = (), streamed: bool = False
) -> None:
    """Raise one DataError about all columns that cannot be used; excluded: what is left out
    already; streamed: words for missing values are those of all columns"""
    if not refused:
        return
    found = "; ".join(f"column {name!r} {refusal.reason}" for name, refusal in refused.items())
    lists: Fields = {"exclude": [*excluded, *refused]}
    formats: dict[Remedy, None] = {}
    for remedy in chain.from_iterable(refusal.remedies for refusal in refused.values()):
        for setting, value in remedy.settings:
            if isinstance(value, str):
                formats[remedy] = None
            elif isinstance(value, Mapping) and not streamed:
                lists[setting] = lists.get(setting, {}) | value
            else:
                words = chain(*value.values()) if isinstance(value, Mapping) else value
                lists[setting] = list(dict.fromkeys([*lists.get(setting, ()), *words]))
    raise DataError(found, *(use(**{setting: names}) for setting, names in lists.items()), *formats)
