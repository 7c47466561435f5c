"""The columns of a table as they were given: numbers, or positions in a list of levels; and what cannot be used."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats
from ..exceptions import DataError
from .checks import encode_labels, listing, quoted
from .column_settings import Choices, excluding
from .columns import (
    Levels,
    array_values,
    as_frame,
    as_text,
    checked_names,
    frame_names,
    in_natural_order,
    present_values,
    reads_as_number,
    recoded,
    series_values,
)
from .text import grouped_in, number_with_comma, unit_in

# Text with more levels than this share of the rows is a list of names, not a category.
MOST_LEVELS = 0.5
# Text of whose different values at least this share are numbers was meant as numbers.
_MEANT_AS_NUMBERS = 0.5
_DATE = r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](?:\d{4}|\d{2})"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?: ?[AP]M)?(?:Z|[+-]\d{2}:?\d{2})?"
_MOMENT = re.compile(rf"(?:{_DATE})(?:[T ]+{_TIME})?|{_TIME}", re.IGNORECASE)
# Of fewer rows, a count of them may well be a measurement.
COUNTED_ROWS = 20
_MOST_WORDS = 8


class Refusal(NamedTuple):
    """Why a column cannot be used, and whether its text could be read as numbers, or its values as levels; claimed:
    whether numeric= names it, beside which no other remedy can be stated; words: those that may stand for missing
    numbers."""

    reason: str
    numeric: bool = False
    categorical: bool = False
    claimed: bool = False
    words: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class RawTable:
    """values (N, r): numbers, or positions in `levels` of the columns that hold categories; NaN where missing.

    convert : how the table's library turns a column into another type
    """

    names: tuple[str, ...]
    values: Floats
    levels: Mapping[str, Levels] = field(default_factory=dict)
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    convert: str = ".astype"

    @classmethod
    def of_frame(cls, frame: Any, names: Sequence[str], choices: Choices) -> RawTable:
        """Columns of a narwhals frame."""
        values = np.empty((len(frame), len(names)))
        levels: dict[str, Levels] = {}
        refused: dict[str, Refusal] = {}
        for j, name in enumerate(names):
            series = frame[name]
            kind = column_kind(series, name, choices)
            if isinstance(kind, Refusal):
                refused[name], values[:, j] = kind, 0.0
            elif kind is level_codes:
                values[:, j], levels[name] = _as_stated(*level_codes(series), name, choices)
            else:
                values[:, j] = kind(series, name)
        return cls(tuple(names), values, levels, refused, _converter(frame))

    @classmethod
    def of_array(cls, values: Floats, names: Sequence[str], choices: Choices) -> RawTable:
        """Columns of numbers, of which some may be categories; without a copy where none is."""
        chosen = [j for j, name in enumerate(names) if name in choices.categorical]
        if not chosen:
            return cls(tuple(names), values)
        values, levels = values.copy(), {}
        for j in chosen:
            values[:, j], levels[names[j]] = _as_stated(*coded(values[:, j].tolist(), []), names[j], choices)
        return cls(tuple(names), values, levels)


def table_of(X: Any, feature_names: Sequence[str] | None, exclude: Sequence[str]) -> tuple[Any, tuple[str, ...]]:
    """X as a float64 array or a narwhals frame, and the names of its columns, without those to exclude."""
    given = None if isinstance(X, np.ndarray) else frame_names(X)
    table: Any = array_values(X, "X") if given is None else as_frame(X, "X")
    if given is None:
        if table.ndim == 1:
            raise DataError(
                f"X is one-dimensional, shape {table.shape}: reshape it to (rows, features), for "
                "example X.reshape(-1, 1) for one feature."
            )
        if table.ndim != 2:
            raise DataError(f"X has {table.ndim} dimensions: reshape it to (rows, features).")
    names = given or [f"x{j}" for j in range(table.shape[1])]
    if feature_names is not None:
        names = checked_names(feature_names, len(names))
        table = table if given is None else table.rename(dict(zip(given, names, strict=True)))
    if not names:
        raise DataError(f"X has no features, shape {table.shape}: it needs at least one column.")
    kept = excluding(exclude, names, names)
    if given is None and len(kept) < len(names):
        table = table[:, [names.index(name) for name in kept]]
    return table, kept


def column_kind(series: Any, name: str, choices: Choices) -> Callable[..., Any] | Refusal:
    """The function that reads a column, or why none can."""
    import narwhals as nw

    dtype = series.dtype
    if name in choices.numeric:
        wrong = not_a_number(series)
        shown = f"is in numeric=, but {wrong!r} is not a number"
        return text_as_numbers if wrong is None else Refusal(shown, claimed=True)
    if dtype.is_numeric() or dtype == nw.Boolean or series.null_count() == len(series):
        return level_codes if name in choices.categorical else series_values
    if dtype in (nw.String, nw.Categorical, nw.Enum):
        return level_codes
    present = present_values(series)
    stored = str(getattr(series.to_native(), "dtype", dtype))
    example = f"dtype {stored}, for example {present[0]!r}"
    if any(isinstance(value, (complex, np.complexfloating)) for value in present):
        parts = "use its real and imaginary parts as two columns"
        return Refusal(f"holds complex numbers (dtype {stored}). Complex data not supported: {parts}")
    if not all(isinstance(value, Hashable) for value in present):
        return Refusal(f"is not numeric ({example})")
    if name in choices.categorical:
        return level_codes
    if dtype.is_temporal():
        return Refusal(f"is not numeric ({example}) but holds dates or times", categorical=True)
    if all(isinstance(value, (bool, np.bool_)) for value in present):
        return series_values
    if all(map(reads_as_number, present)):
        convert = f"convert it with {_converter(series)}(float)"
        return Refusal(f"holds numbers stored as dtype {stored} (for example {present[0]!r}): {convert}", numeric=True)
    return Refusal(f"is not numeric ({example})", categorical=True)


def _converter(table: Any) -> str:
    return ".astype" if hasattr(table.to_native(), "astype") else ".cast"


def level_codes(series: Any) -> tuple[Floats, Levels]:
    """Positions (N,) in the levels of a column, NaN where missing; and these levels."""
    import narwhals as nw

    codes, levels = coded(series.to_list(), _categories(series))
    return codes, levels._replace(declared=series.dtype in (nw.Categorical, nw.Enum))


def _as_stated(codes: Floats, levels: Levels, name: str, choices: Choices) -> tuple[Floats, Levels]:
    """Positions in the levels that the user lists for a column, if there are such; no others may occur."""
    stated = choices.levels.get(name)
    if stated is None:
        return codes, levels
    codes, strange = recoded(codes, levels.texts, stated)
    if strange:
        raise DataError(not_listed(name, strange))
    return codes, Levels(stated, in_order=True, declared=True, written=levels.written)


def not_listed(name: str, strange: str) -> str:
    return (
        f"column {name!r} has levels that categorical={{{name!r}: [...]}} does not list: {strange}. Add them to that "
        "list, or leave those rows out."
    )


def coded(values: list[Any], categories: Sequence[str]) -> tuple[Floats, Levels]:
    first_seen, labels = encode_labels(values)
    texts = [as_text(label) for label in labels]
    ordered = dict.fromkeys(categories) if categories else in_natural_order(set(texts))
    position = {text: float(k) for k, text in enumerate(ordered)}
    codes = np.array([*(position[text] for text in texts), np.nan])
    written: dict[str, frozenset[str]] = {}
    for text, label in zip(texts, labels, strict=True):
        if isinstance(label, str):
            written[text] = written.get(text, frozenset()) | {label}
    return codes[first_seen], Levels(tuple(ordered), bool(categories), written=written)


def _categories(series: Any) -> list[str]:
    """The levels in the order that the type of a column gives them; empty where it gives none."""
    import narwhals as nw

    if series.dtype == nw.Enum:
        return [as_text(level) for level in series.dtype.categories]
    # Polars' Categorical has no such attribute: the order of its levels is that of the whole process.
    categories = getattr(getattr(series.to_native(), "cat", None), "categories", None)
    return [] if categories is None else [as_text(level) for level in categories.tolist()]


def text_as_numbers(series: Any, name: str) -> Floats:
    """(N,) of a column that may hold numbers as text."""
    import narwhals as nw

    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return series_values(series, name)
    wrong = not_a_number(series)
    if wrong is not None:
        raise DataError(f"column {name!r} is read as numbers, but {wrong!r} is not a number: mend it first.")
    pairs = zip(series.to_list(), series.is_null().to_list(), strict=True)
    return np.array([np.nan if gone else float(value) for value, gone in pairs])


def not_a_number(series: Any) -> Any:
    """The first value that is not, and does not read as, a number; None where there is none."""
    return next((value for value in present_values(series) if not reads_as_number(value)), None)


def doubtful(levels: Levels, n_rows: int, convert: str) -> Refusal | None:
    """Why values that nobody called categories are unlikely to be."""
    texts = levels.texts
    if texts and not levels.declared and all(map(_MOMENT.fullmatch, texts)):
        return Refusal(f"holds dates or times (for example {texts[0]!r})", categorical=True)
    if not levels.declared and texts:
        written = [way for text in texts for way in sorted(levels.written.get(text, ())) or [text]]
        refusal = _meant_as_numbers(written, convert)
        if refusal is not None:
            return refusal
    if len(texts) > MOST_LEVELS * n_rows:
        shown = f"is not numeric but has {len(texts)} different values in {n_rows} rows (for example {texts[0]!r})"
        return Refusal(shown, categorical=True)
    return None


def _meant_as_numbers(texts: Sequence[str], convert: str) -> Refusal | None:
    """Of text that seems to be numbers, why it is not read as such."""
    strange = [text for text in texts if not reads_as_number(text)]
    grouped = grouped_in(texts)
    if not strange:
        reason = f"holds numbers stored as text (for example {texts[0]!r}): convert it with {convert}(float)"
        if grouped is not None:
            reason += f", unless {grouped.example!r} is {grouped.value}, as read_table(path, thousands='.') reads it"
        return Refusal(reason, numeric=True, categorical=True)
    if grouped is not None and grouped.certain:
        shown = f"holds numbers with thousands (for example {grouped.example!r}), which read_table(path, thousands="
        return Refusal(f"{shown}{grouped.thousands!r}) reads as {grouped.value}", categorical=True)
    if all(map(number_with_comma, strange)):
        shown = (
            f"holds numbers with a comma (for example {strange[0]!r}), which read_table(path, decimal=',') takes for"
        )
        thousands = "" if grouped is None else ", and read_table(path, thousands=',') for thousands"
        return Refusal(f"{shown} decimals{thousands}", categorical=True)
    unit = unit_in(texts)
    if unit is not None:
        shown = f"holds numbers with a unit (for example {unit[1]!r}): to read them, remove {unit[0]!r} from its values"
        return Refusal(shown, categorical=True)
    others = [text for text in strange if not number_with_comma(text) and grouped_in([text]) is None]
    if len(others) <= (1.0 - _MEANT_AS_NUMBERS) * len(texts):
        shown = listing(map(repr, others or strange), 4)
        reason = f"is not numeric: most of its different values are numbers, but not {shown}"
        return Refusal(reason, categorical=True, words=tuple(others[:_MOST_WORDS]))
    return None


def without_values(raw: RawTable) -> set[str]:
    """The columns in which every row lacks a value."""
    unclear = np.flatnonzero(np.isnan(raw.values[0])) if len(raw.values) else ()
    return {raw.names[j] for j in unclear if np.isnan(raw.values[:, j]).all()}


def row_numbers(raw: RawTable) -> dict[str, Refusal]:
    """Columns that count the rows, as identifiers do."""
    n_rows = len(raw.values)
    if n_rows < COUNTED_ROWS:
        return {}
    lowest, highest = raw.values.min(axis=0), raw.values.max(axis=0)
    with np.errstate(invalid="ignore"):
        spread = np.flatnonzero(highest - lowest == n_rows - 1)
    return {
        raw.names[j]: counts_rows(lowest[j], highest[j])
        for j in spread
        if raw.names[j] not in raw.levels and (np.diff(np.sort(raw.values[:, j])) == 1.0).all()
    }


def counts_rows(lowest: float, highest: float) -> Refusal:
    return Refusal(f"counts the rows from {lowest:.0f} to {highest:.0f}, as an identifier does")


def refuse(refused: Mapping[str, Refusal], in_table: bool, excluded: Sequence[str] = ()) -> None:
    """Raise one DataError about all columns that cannot be used, and what can be done about each kind of them;
    excluded: what is left out already."""
    if not refused:
        return
    found = "; ".join(f"column {name!r} {refusal.reason}" for name, refusal in refused.items())
    claimed = [name for name, refusal in refused.items() if refusal.claimed]
    others = {name: refusal for name, refusal in refused.items() if not refusal.claimed}
    them = "it" if len(refused) == 1 else quoted(others) if claimed else "them"
    advice = _remedies(others, them, in_table, excluded)
    if claimed:
        advice += f" Mend such values, or take {quoted(claimed)} out of numeric=."
    raise DataError(f"{found}.{advice}")


def _remedies(refused: Mapping[str, Refusal], them: str, in_table: bool, excluded: Sequence[str]) -> str:
    if not refused:
        return ""
    remedies = [leave_out(list(refused), in_table, them, excluded)]
    readable = [name for name, refusal in refused.items() if refusal.numeric]
    levelled = [name for name, refusal in refused.items() if refusal.categorical]
    if readable:
        remedies.append(f"read text as numbers with numeric={readable!r}")
    words = list(dict.fromkeys(word for refusal in refused.values() for word in refusal.words))
    if words and in_table:
        remedies.append(f"count {quoted(words)} as missing with read_table(path, na={words!r})")
    if levelled:
        remedies.append(f"take values as levels with categorical={levelled!r}")
    return f" {', or '.join(remedies)}."


def leave_out(names: list[str], in_table: bool, them: str | None = None, excluded: Sequence[str] = ()) -> str:
    """The beginning of a remedy; them: how the columns are called, if not "it" or "them"; excluded: what is left out
    already."""
    them = them or ("it" if len(names) == 1 else "them")
    return f"Leave {them} out with exclude={[*excluded, *names]!r}" if in_table else f"Leave {them} out of X"
