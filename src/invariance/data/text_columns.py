"""Columns of text of a file: the words that stand for missing values, and numbers in other forms than Python's."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..exceptions import DataError
from .checks import warn
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


def warn_of_swallowed(frame: pd.DataFrame, file: TableFile) -> None:
    """Where a cell has lines that would be rows by themselves, as after a quote that nobody closed."""
    fits = _fits_of(frame, file)
    for place, (name, texts) in enumerate(_texts_by_column(frame)):
        cells = {text: re.split(r"\r\n|\r|\n", text) for text in texts if "\n" in text or "\r" in text}
        sep = file.text.sep if cells else ""
        inside = [text for text in cells if any(_is_row(line.split(sep), fits) for line in cells[text][1:-1])]
        across = [text for text in cells if _is_row(_across(cells[text], sep, place), fits)]
        if inside or (cells and len(across) == len(cells)):
            text = (inside or across)[0]
            lines, row = cells[text], int((frame[name] == text).to_numpy().argmax())
            warn(
                f"column {name!r} of {file.name} has a cell of {len(lines)} lines in row {frame.index[row] + 1} that "
                f"look like rows ({lines[0]!r}, {lines[1]!r}), which are not read as such: if a quote was left open "
                "there, close it, or remove it."
            )


def _fits_of(frame: pd.DataFrame, file: TableFile) -> list[Callable[[str], bool] | None]:
    """Of each column: whether a text could be one of its values; None where any text could."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    missing, form = {*file.na, *MISSING}, file.numbers

    def number(text: str) -> bool:
        return text in missing or form.plain(text) is not None

    def truth(text: str) -> bool:
        return text in missing or text in _TRUTH

    kinds = frame.dtypes
    return [truth if is_bool_dtype(kind) else number if is_numeric_dtype(kind) else None for kind in kinds]


def _is_row(cells: Sequence[str], fits: Sequence[Callable[[str], bool] | None]) -> bool:
    if len(cells) != len(fits) or not any(fits):
        return False
    judged = [(fit, cell.strip()) for fit, cell in zip(fits, cells, strict=True) if fit is not None]
    return all(fit(text) for fit, text in judged) and any(text not in MISSING for _, text in judged)


def _across(lines: Sequence[str], sep: str, place: int) -> list[str]:
    """The cells after the first line of a cell at this place and before its last, which begin and end a row each."""
    first, last = lines[0].split(sep), lines[-1].split(sep)
    return [*last[:-1], "", *first[1:]] if len(last) == place + 1 else []


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
    return ((name, texts) for name, texts in _texts_by_column(frame) if texts)


def _texts_by_column(frame: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    from pandas.api.types import is_object_dtype, is_string_dtype

    for name in frame:
        texts = []
        if is_object_dtype(frame[name]) or is_string_dtype(frame[name]):
            present = np.asarray(frame[name].dropna().unique(), dtype=object)
            texts = [value for value in present if isinstance(value, str)]
        yield str(name), texts


def without_values(frame: pd.DataFrame, na: Sequence[str]) -> pd.DataFrame:
    """With no value where a word, or a number that it reads as, stands for a missing one."""
    from pandas.api.types import is_bool_dtype

    words = [*na, *(float(word) for word in na if reads_as_number(word))]
    gone = {str(name): frame[name].isin(words) for name in frame if na and not is_bool_dtype(frame[name])}
    return frame.assign(**{name: frame[name].mask(rows) for name, rows in gone.items() if rows.any()})
