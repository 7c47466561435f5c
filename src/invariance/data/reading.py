"""Tables from files: csv and tsv (plain or gzipped), parquet and xlsx, whole or in chunks of rows."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import os
import re
import warnings
import weakref
import zlib
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

import numpy as np

from ..exceptions import DataError, SettingError
from .checks import check_unique, listing, quoted, warn
from .columns import one_line, reads_as_number
from .settings import FileFormat
from .text import (
    MISSING,
    SEPARATOR_NAMES,
    THOUSANDS,
    DecimalSigns,
    NumberForm,
    Shown,
    TellingLines,
    Tells,
    TextForm,
    decimals_in,
    numbers_in,
    points_among,
    recognised_separator,
    records,
    stated_separator,
)

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TEXT, PARQUET, EXCEL = "text", ".parquet", ".xlsx"
_SUFFIXES = (*SEPARATORS, PARQUET, EXCEL)
_FIRST_BYTES = {b"PAR1": PARQUET, b"PK\x03\x04": EXCEL}
_GZIP = b"\x1f\x8b"
_SAMPLE = 1 << 18  # bytes
# A mark of UTF-32 begins as one of UTF-16 does.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class TableFile(os.PathLike[str]):
    """sep, decimal, encoding, sheet : as the user states them; None: as the file shows them
    na : further words that stand for missing values
    thousands : the sign between groups of three digits, where the user says that there are such
    content : of standard input, which has no path
    """

    path: Path
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    na: tuple[str, ...] = ()
    content: bytes | None = None
    thousands: str | None = None

    @classmethod
    def of(
        cls,
        path: PathLike,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        sheet: str | None = None,
        na: Sequence[str] = (),
        content: bytes | None = None,
        thousands: str | None = None,
    ) -> TableFile:
        if isinstance(path, TableFile):
            return path
        form = FileFormat(sep=sep, decimal=decimal, thousands=thousands, encoding=encoding, sheet=sheet, na=na)
        sep, decimal, words = form.sep, form.decimal, tuple(form.na)
        return cls(Path(path).expanduser(), sep, decimal, encoding, sheet, words, content, thousands)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name if self.content is None else "standard input"

    @cached_property
    def kind(self) -> str:
        """TEXT, PARQUET or EXCEL"""
        kind = self._kind()
        for option in ("sep", "encoding") if kind != TEXT else ("sheet",):
            value = getattr(self, option)
            if value is not None:
                raise SettingError(
                    f"{option}={value!r} is for {'text' if kind != TEXT else 'Excel'} files, which {self.name} is not: "
                    "leave it out."
                )
        return kind

    def _kind(self) -> str:
        if self.content is None:
            self._check_path()
        suffix = self._suffix
        if self.content is None and suffix is None and self.sep is None:
            raise DataError(
                f"cannot tell the format of {self.name!r} from its suffix: save it as {', '.join(_SUFFIXES[:-1])} or "
                f"{_SUFFIXES[-1]}; a text file may also be read with read_table(path, sep=',')."
            )
        if suffix in (PARQUET, EXCEL):
            return suffix
        with self.open() as stream:
            found = _FIRST_BYTES.get(stream.read(4))
        if found is None or self.content is not None:
            return found or TEXT
        raise DataError(f"{self.name} is no text, but a file of another kind: rename it to end in {found}.")

    def _check_path(self) -> None:
        if not self.path.exists():
            raise DataError(f"file not found: {str(self.path)!r}. Check the path and the working directory.")
        if self.path.is_dir():
            raise DataError(
                f"{str(self.path)!r} is a directory: pass the path of one table file, or "
                f"read all files in it with Moments.from_rows({str(self.path)!r}, outcome, environment)."
            )

    @property
    def _suffix(self) -> str | None:
        return next((suffix for suffix in _SUFFIXES if self.path.name.lower().endswith(suffix)), None)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes of the file, unpacked."""
        with self.path.open("rb") if self.content is None else io.BytesIO(self.content) as raw:
            packed = raw.read(2) == _GZIP or (self.content is None and self.path.name.lower().endswith(".gz"))
            raw.seek(0)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw

    @property
    def numbers(self) -> NumberForm:
        """How numbers are written where they are text."""
        return NumberForm(self.text.decimal if self.kind == TEXT else self.decimal or ".", self.thousands)

    @property
    def text(self) -> TextForm:
        """How the text of the file is written; decimal commas that nobody stated are told of."""
        return self._read_form[0]

    @property
    def signs(self) -> Shown:
        """What the numbers of the file show of its decimals; nothing where these are stated."""
        return self._read_form[1]

    @cached_property
    def _read_form(self) -> tuple[TextForm, Shown]:
        sample, encoding = self._sample()
        named, sample = stated_separator(sample)
        usual = SEPARATORS.get(self._suffix or "", ",")
        sep = self.sep or named or recognised_separator(sample, usual, self.name)
        form = TextForm(sep, self.decimal or ".", encoding, skiprows=int(named is not None))
        if self.decimal is not None:
            return form, DecimalSigns((), ()).shown
        signs = self._decimal_signs(form)
        return form._replace(decimal=self._decimal(signs, sep)), signs.shown

    def _decimal(self, signs: DecimalSigns, sep: str) -> str:
        found = signs.comma(self.name, sep)
        if found is None:
            return "."
        warn(
            f"{self.name} is read with {SEPARATOR_NAMES.get(sep, repr(sep))} between cells and with decimal "
            f"commas: {found.text!r} in {found.column!r} is {float(found.text.replace(',', '.')):g}; if it is not, say "
            "read_table(path, decimal='.')"
        )
        return ","

    def _decimal_signs(self, form: TextForm) -> DecimalSigns:
        """Of the first lines or, where these have no decimal that is clear, of all that tell, up to the first one."""
        signs, all_given = self._signs_in(form, decimals_in(form.sep))
        if signs.are_doubtful and not all_given:
            signs, _ = self._signs_in(form, numbers_in(form.sep))
        return signs

    def _signs_in(self, form: TextForm, telling: Tells) -> tuple[DecimalSigns, bool]:
        """And whether no line was left out."""
        # Cells in which thousands stand apart are found by no pattern.
        whole = _SAMPLE if self.thousands is None else math.inf
        with self.open() as stream, io.TextIOWrapper(stream, _with_mark(form.encoding), newline="") as text:
            lines = TellingLines(text, whole, telling)
            cells = records(lines, form.sep)
            signs = DecimalSigns((), ())
            with suppress(csv.Error):
                header = next(islice(cells, form.skiprows, None), [])
                signs, new = DecimalSigns(header, MISSING.union(self.na)), True
                for record in cells:
                    new |= signs.look(lines.number, self._ungrouped(record))
                    if new and lines.is_past:
                        if signs.are_clear:
                            break
                        new = False
        return signs, lines.all_given

    def _ungrouped(self, record: Sequence[str]) -> Sequence[str]:
        """Without the sign between thousands that was stated."""
        if self.thousands is None:
            return record
        return [re.sub(rf"(?<=\d){THOUSANDS[self.thousands]}(?=\d)", "", cell) for cell in record]

    def _sample(self) -> tuple[str, str]:
        """The first lines, whole, and the encoding."""
        with self.open() as stream:
            start = stream.read(_SAMPLE)
            whole = not stream.read(1)
        encoding = self.encoding or next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
        decoder = codecs.getincrementaldecoder(_with_mark(encoding))()
        sample = decoder.decode(start, final=whole)
        if "\0" in sample:
            raise DataError(
                f"{self.name} is no {encoding.upper()} text: it holds NUL characters, as UTF-16 without a mark does. "
                "Save it as UTF-8, or name its encoding, for example read_table(path, encoding='utf-16-le')."
            )
        return sample if whole else sample[: sample.rfind("\n") + 1], encoding


def _with_mark(encoding: str) -> str:
    """That also reads the mark with which UTF-8 may begin."""
    return "utf-8-sig" if encoding == "utf-8" else encoding


class Sheet(NamedTuple):
    """header : the names as they are written, "" where a column has none; rows : with these names, each in one line"""

    header: list[str]
    rows: pd.DataFrame


class _LastSheet:
    """Parsing takes seconds, and a file is asked for its names before its rows: the last sheet is kept, as long as its
    file is."""

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[TableFile], Sheet] | None = None

    def of(self, file: TableFile) -> Sheet:
        last = self._last
        if last is not None and last[0]() is file:
            return last[1]
        sheet = _parsed(file)
        self._last = weakref.ref(file, self._forget), sheet
        return sheet

    def _forget(self, file: weakref.ref[TableFile]) -> None:
        if self._last is not None and self._last[0] is file:
            self._last = None


_last_sheet = _LastSheet()


def sheet_of(file: TableFile) -> Sheet:
    return _last_sheet.of(file)


def _parsed(file: TableFile) -> Sheet:
    import pandas as pd

    with file.open() as stream, pd.ExcelFile(stream, engine="openpyxl") as book:
        sheet = _sheet_name(file, book.sheet_names)
        options: dict[str, Any] = {"na_values": list(MISSING), "keep_default_na": False}
        frame = pd.read_excel(book, sheet_name=sheet, header=None, dtype=object, **options)
    if frame.empty:
        raise pd.errors.EmptyDataError
    header = ["" if pd.isna(name) else str(name).strip() for name in frame.iloc[0]]
    body = frame[1:].set_axis(list(map(one_line, header)), axis=1).reset_index(drop=True)
    used = [bool(name) or bool(body.iloc[:, j].notna().any()) for j, name in enumerate(header)]
    return Sheet([name for name, there in zip(header, used, strict=True) if there], body.loc[:, used].infer_objects())


def _sheet_name(file: TableFile, sheets: Sequence[Any]) -> Any:
    if file.sheet in sheets or (file.sheet is None and len(sheets) == 1):
        return file.sheet or sheets[0]
    lacking = f"has no sheet {file.sheet!r}" if file.sheet is not None else "has several sheets"
    raise DataError(
        f"{file.name} {lacking}: name one of {quoted(sheets)}, for example read_table(path, sheet={str(sheets[0])!r})."
    )


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


_NEEDS = {
    PARQUET: "pyarrow: install it with pip install 'invariance[parquet]'",
    EXCEL: "openpyxl: install it with pip install 'invariance[excel]'",
}


def read_table(
    path: PathLike,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Sequence[str] = (),
    thousands: str | None = None,
) -> pd.DataFrame:
    """Read a .csv, .csv.gz, .tsv, .tsv.gz, .parquet or .xlsx file.

    ``sep`` separates the cells of a text file and ``decimal``, "." or ",", begins decimals; None: as the file shows,
    and decimal commas are told of with a DataWarning. ``thousands`` is the sign between groups of three digits, "." in
    1.234,56; it is never guessed. Both also read numbers that another file holds as text. ``encoding`` is UTF-8 unless
    stated; ``sheet`` is needed where an Excel file has several; ``na`` lists words, or numbers, that stand for missing
    values, beside NA and the like.
    Columns without a name (such as a row index written along) are left out with a DataWarning.
    """
    file = TableFile.of(path, sep, decimal, encoding, sheet, na, thousands=thousands)
    return read_columns(file, column_names(file))


def is_text(path: PathLike) -> bool:
    """Whether the values of a file are words, of which some count as missing."""
    return TableFile.of(path).kind != PARQUET


def column_names(path: PathLike, warn_unnamed: bool = True) -> list[str]:
    """The named columns of a file, in its order."""
    file = TableFile.of(path)
    with clear_errors(file):
        if file.kind == PARQUET:
            names = _parquet_names(file)
            check_unique(names, file.name)
            return names
        written = _header(file) if file.kind == TEXT else sheet_of(file).header
    header = list(map(one_line, written))
    unnamed = [str(position + 1) for position, name in enumerate(header) if not name]
    if unnamed and warn_unnamed:
        warn(
            f"{file.name}: column {listing(unnamed)} has no name in the header and was left out "
            "(a row index?); give it a name to use it"
        )
    broken = [name for name, as_written in zip(header, written, strict=True) if name != as_written]
    if broken and warn_unnamed:
        warn(f"{file.name}: line breaks and tabs in the names of columns are read as blanks: {quoted(broken)}")
    check_unique([name for name in header if name], file.name)
    return [name for name in header if name]


def read_columns(
    path: PathLike, columns: Sequence[str], labels: str | None = None, as_text: Collection[str] = ()
) -> pd.DataFrame:
    """Read ``columns``, which exist, as one frame; ``labels`` names the column of environment labels; those in
    ``as_text`` stay as they are written in a text file."""
    import pandas as pd

    file = TableFile.of(path)
    with clear_errors(file), file.open() as stream:
        if file.kind == PARQUET:
            frame = without_values(pd.read_parquet(stream, engine="pyarrow", columns=list(columns)), file.na)
        elif file.kind == EXCEL:
            rows = without_values(sheet_of(file).rows[list(columns)], file.na).infer_objects()
            frame = _with_words(rows, as_text)
        else:
            frame = pd.read_csv(stream, **_text_options(file, labels, as_text))
            warn_of_swallowed(frame, file)
    return _finished(frame[list(columns)], file, labels, as_text)


def iter_columns(
    path: PathLike,
    columns: Sequence[str],
    rows_per_chunk: int,
    labels: str | None = None,
    as_text: Collection[str] = (),
    doubted: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Like :func:`read_columns`, as frames of at most ``rows_per_chunk`` rows; ``doubted`` are those of ``as_text``
    that nobody called text."""
    file = TableFile.of(path)
    if file.kind == PARQUET:
        batches = _parquet_batches(file, columns, rows_per_chunk)
    elif file.kind == EXCEL:
        batches = _pieces(read_columns(file, columns, labels, as_text), rows_per_chunk)
    else:
        batches = _text_batches(file, _text_options(file, labels, as_text), rows_per_chunk)
    with closing(batches):
        while True:
            with clear_errors(file):  # around each step only: it must not be active while the caller works
                frame = next(batches, None)
            if frame is None:
                return
            yield _finished(frame[list(columns)], file, labels, as_text, doubted)


def _finished(
    frame: pd.DataFrame,
    file: TableFile,
    labels: str | None,
    as_text: Collection[str],
    doubted: Collection[str] = (),
) -> pd.DataFrame:
    frame = without_words(frame, file, {*as_text, labels})
    refuse_points(frame, file, {*as_text, labels} - {*doubted}, doubted)
    frame = with_numbers(frame, file, {*as_text, labels})
    return _with_labels(frame, labels if file.kind == TEXT else None)


def _parquet_batches(file: TableFile, columns: Sequence[str], rows: int) -> Generator[pd.DataFrame, None, None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with file.open() as stream, pq.ParquetFile(stream) as source:
        start = 0
        for batch in source.iter_batches(batch_size=rows, columns=list(columns)):
            frame = pa.Table.from_batches([batch]).to_pandas(ignore_metadata=True)
            yield without_values(frame.set_axis(range(start, start + len(frame))), file.na)
            start += len(frame)


def _text_batches(file: TableFile, options: dict[str, Any], rows: int) -> Generator[pd.DataFrame, None, None]:
    import pandas as pd

    with file.open() as stream, pd.read_csv(stream, chunksize=rows, **options) as chunks:
        for frame in chunks:
            warn_of_swallowed(frame, file)
            yield frame


def _pieces(frame: pd.DataFrame, rows: int) -> Generator[pd.DataFrame, None, None]:
    for start in range(0, len(frame), rows):
        yield frame[start : start + rows]


class _ParserWarningsRaised:
    """While anybody reads. The filters are those of all threads: the first to come sets them, the last to go puts back
    what was there."""

    def __init__(self) -> None:
        self._lock, self._readers = Lock(), 0

    def __enter__(self) -> None:
        import pandas as pd

        with self._lock:
            self._readers += 1
            if self._readers == 1:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("error", pd.errors.ParserWarning)

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._readers -= 1
            if not self._readers:
                self._filters.__exit__(None, None, None)


_parser_warnings_raised = _ParserWarningsRaised()


@contextmanager
def clear_errors(file: TableFile) -> Iterator[None]:
    """Turn what the parsers raise into DataErrors that name the file."""
    import pandas as pd

    try:
        with _parser_warnings_raised if file.kind == TEXT else nullcontext():
            yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(f"reading {file.name} needs {_NEEDS[file.kind]}.") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{file.name} is empty: it needs a header line and rows.") from error
    except pd.errors.ParserWarning as error:
        raise DataError(
            f"{file.name} cannot be parsed: its rows have more cells than its header has names. "
            "Give every column a name, or remove trailing separators."
        ) from error
    except pd.errors.ParserError as error:
        raise DataError(
            f"{file.name} cannot be parsed: {_tidy(error)}. Every row must have as many cells as the header."
        ) from error
    except UnicodeError as error:
        raise DataError(_not_that_encoding(file)) from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} cannot be read: {_tidy(error)}. Check that the file is intact.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in ("pyarrow", "openpyxl", "zipfile"):
            raise
        raise DataError(f"{file.name} cannot be read: {_tidy(error)}. Check that the file is intact.") from error


def _tidy(error: BaseException) -> str:
    return " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split()).rstrip(".")


def _not_that_encoding(file: TableFile) -> str:
    if file.encoding is not None:
        return f"{file.name} cannot be parsed: it is not text in the encoding {file.encoding!r}. Name another one."
    return (
        f"{file.name} cannot be parsed: it is not UTF-8 text. Save it as UTF-8, or name its encoding, for example "
        "read_table(path, encoding='latin-1')."
    )


def _header(file: TableFile) -> list[str]:
    """The names in the header line of a text file, empty where there is none."""
    import pandas as pd

    form = file.text
    sep = form.sep
    with file.open() as stream:
        first = pd.read_csv(
            stream,
            sep=sep,
            encoding=form.encoding,
            skiprows=form.skiprows,
            header=None,
            nrows=1,
            dtype=str,
            keep_default_na=False,
            skipinitialspace=True,
        )
    header = [str(name).strip() for name in first.iloc[0]]
    other = next((sign for sign in SEPARATOR_NAMES if sign != sep and sign in header[0]), None)
    if len(header) == 1 and other is not None:
        typed = "tab" if other == "\t" else other
        signs = SEPARATOR_NAMES.get(sep, repr(sep))
        raise DataError(
            f"{file.name} has a single column {header[0]!r} when cut at {signs}: say with "
            f"read_table(path, sep={typed!r}) what separates cells, and give all lines equally many of them."
        )
    return header


def _text_options(file: TableFile, labels: str | None, as_text: Collection[str]) -> dict[str, Any]:
    """Options of read_csv; no ``usecols``, with which it would cut rows that are too long without a word."""
    import pandas as pd

    with clear_errors(file):
        header = _header(file)
    names = [one_line(name) or f"unnamed column {position}" for position, name in enumerate(header)]
    options: dict[str, Any] = {
        **file.text._asdict(),
        "header": 0,
        "names": names,
        "index_col": False,
        "dtype": dict.fromkeys([*as_text, *([] if labels is None else [labels])], str) or None,
        "skipinitialspace": True,
        "low_memory": False,
        "na_values": [*MISSING, *file.na],
        "keep_default_na": False,
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # the default from pandas 3.1 on
    return options


def _with_words(frame: pd.DataFrame, as_text: Collection[str]) -> pd.DataFrame:
    """With the values of these columns as text."""
    return frame.assign(**{name: frame[name].map(str, na_action="ignore") for name in as_text if name in frame})


def _parquet_names(file: TableFile) -> list[str]:
    """Column names without the row index that pandas may have stored along."""
    import pyarrow.parquet as pq

    with file.open() as stream:
        schema = pq.read_schema(stream)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _with_labels(frame: pd.DataFrame, labels: str | None) -> pd.DataFrame:
    """Turn the text of each environment label into a number where that loses nothing ("01" stays text).

    Going label by label, and not by the type of a whole column, makes chunks agree with the whole file.
    """
    import pandas as pd

    if labels is None:
        return frame
    meaning = {text: parse_label(text) for text in frame[labels].dropna().unique()}
    values = [meaning.get(text) for text in frame[labels]]
    return frame.assign(**{labels: pd.Series(values, index=frame.index, dtype=object)})


def parse_label(text: str) -> int | float | str:
    """What the text of an environment label means."""
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if repr(value) == text:
            return value
    return text
