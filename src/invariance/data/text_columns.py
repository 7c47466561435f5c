"""Columns of text of a file: the words that stand for missing values, and numbers in other forms than Python's."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import compress
from typing import TYPE_CHECKING

import numpy as np

from ..exceptions import DataError
from .columns import reads_as_number
from .missing_words import MISSING
from .number_text import NumberForm, points_among
from .table_file import PARQUET, TEXT, TableFile

if TYPE_CHECKING:
    import pandas as pd

_TRUTH = {word: truth for truth in (True, False) for word in (str(truth), str(truth).upper(), str(truth).lower())}


def without_words(frame: pd.DataFrame, file: TableFile, kept: Collection[str | None]) -> pd.DataFrame:
    """With no value where a word with blanks around it stands for a missing one; what is left is read as it would have
    been without, but for the `kept` columns."""
    words = {*file.na, *(MISSING if file.kind != PARQUET else ())}
    changed = {}
    for name, texts in _texts_of(frame):
        gone = {text for text in texts if text.strip() in words} if words else set()
        if not gone:
            continue
        left = frame[name].mask(frame[name].isin(gone))
        if name not in kept and file.kind == TEXT:
            left = _read_again(left, [text for text in texts if text not in gone], file.numbers)
        changed[name] = left if name in kept else left.infer_objects()
    return frame.assign(**changed)


def _read_again(values: pd.Series, texts: Sequence[str], form: NumberForm) -> pd.Series:
    """Numbers, or true and false, where all texts are"""
    if all(form.plain(text) is not None for text in texts):
        return values.astype(object).map(form.number, na_action="ignore")
    if all(text in _TRUTH for text in texts):
        return values.astype(object).map(_TRUTH, na_action="ignore")
    return values


def refuse_swallowed(frame: pd.DataFrame, file: TableFile) -> None:
    """Raise where a cell has lines that would be rows by themselves, as after a quote that nobody closed."""
    from pandas.api.types import is_numeric_dtype

    numeric = [is_numeric_dtype(kind) for kind in frame.dtypes]
    for name, texts in _texts_of(frame):
        place = list(frame.columns).index(name)
        for text in texts:
            lines = re.split(r"\r\n|\r|\n", text) if "\n" in text or "\r" in text else []
            if lines and _holds_rows(lines, file.text.sep, place, numeric):
                row = int((frame[name] == text).to_numpy().argmax())
                raise DataError(
                    f"column {name!r} of {file.name} has a cell of {len(lines)} lines in row {frame.index[row] + 1}, "
                    f"and they look like rows ({lines[0]!r}, {lines[1]!r}): close the quote before them, or remove it."
                )


def _holds_rows(lines: Sequence[str], sep: str, place: int, numeric: Sequence[bool]) -> bool:
    """Whether a line between the first and the last is a row by its numbers; or whether the last and the first are,
    which then begin and end one each."""
    first, *middle, last = (line.split(sep) for line in lines)
    around = [*last[:-1], "", *first[1:]] if len(last) == place + 1 else []
    return any(numeric) and any(
        len(cells) == len(numeric)
        and any(map(reads_as_number, cells))
        and all(reads_as_number(cell) or cell.strip() in MISSING for cell in compress(cells, numeric))
        for cells in (*middle, around)
    )


def with_numbers(frame: pd.DataFrame, file: TableFile, kept: Collection[str | None]) -> pd.DataFrame:
    """With columns of text as numbers where all of their values are such, in the form that was stated or shown."""
    form = file.numbers
    changed = {}
    for name, texts in _columns_of_text(frame, form, kept):
        if all(form.plain(text) is not None for text in texts):
            changed[name] = frame[name].astype(object).map(form.number, na_action="ignore").infer_objects()
    return frame.assign(**changed)


def refuse_points(frame: pd.DataFrame, file: TableFile, kept: Collection[str | None], doubted: Collection[str]) -> None:
    """Raise where thousands that nobody stated, or decimals beside them, would pass for other numbers."""
    for name, texts in _columns_of_text(frame, file.numbers, kept):
        points = points_among(texts, file.numbers, as_text=name in doubted)
        if points is None:
            continue
        text = points.grouped if points.decimal is None or file.thousands is None else points.decimal
        row = int((frame[name] == text).to_numpy().argmax())
        found = f"column {name!r} of {file.name} holds {text!r} in row {frame.index[row] + 1}, and decimals are"
        levels = f"or take all values as levels, categorical=[{name!r}]"
        if file.thousands is not None:
            raise DataError(f"{found} written with a comma: write all those of that column so, {levels}.")
        value = points.grouped.replace(".", "").replace(",", ".")
        mended = "" if points.decimal is None else f", after {points.decimal!r} is written with a comma too"
        raise DataError(
            f"{found} written with a comma: if it is {value}, say so with read_table(path, thousands='.'){mended}; if "
            f"not, write it with a comma, {levels}."
        )


def in_points(frame: pd.DataFrame, file: TableFile, kept: Collection[str]) -> pd.DataFrame:
    """Text as it is written in a file, but with its numbers as Python writes them; not in the `kept` columns."""
    changed = {}
    for name, texts in _columns_of_text(frame, file.numbers, kept):
        plain = {text: file.numbers.plain(text) for text in texts}
        if None not in plain.values():
            changed[name] = frame[name].replace(plain)
    return frame.assign(**changed)


def _columns_of_text(
    frame: pd.DataFrame, form: NumberForm, kept: Collection[str | None]
) -> Iterator[tuple[str, list[str]]]:
    """(name, different texts) of columns in which numbers may be written in another way than Python has them."""
    for name, texts in _texts_of(frame) if form != NumberForm(".") else ():
        if name not in kept:
            yield name, texts


def _texts_of(frame: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """(name, different texts) of columns that have some"""
    from pandas.api.types import is_object_dtype, is_string_dtype

    for name in frame:
        if is_object_dtype(frame[name]) or is_string_dtype(frame[name]):
            present = np.asarray(frame[name].dropna().unique(), dtype=object)
            texts = [value for value in present if isinstance(value, str)]
            if texts:
                yield str(name), texts


def without_values(frame: pd.DataFrame, na: Sequence[str]) -> pd.DataFrame:
    """With no value where a word, or a number that it reads as, stands for a missing one."""
    from pandas.api.types import is_bool_dtype

    words = [*na, *(float(word) for word in na if reads_as_number(word))]
    gone = {str(name): frame[name].isin(words) for name in frame if na and not is_bool_dtype(frame[name])}
    return frame.assign(**{name: frame[name].mask(rows) for name, rows in gone.items() if rows.any()})
