"""Tables from files: csv and tsv (plain or gzipped), parquet and xlsx.
What can be read in two ways is refused with both of them: a guess would be a wrong number that
looks right."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import os
import re
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar, cast

import numpy as np

from .._tools.arrays import Fields
from ..exceptions import DataError, Message, Remedy, SettingError, use
from .checks import check_unique, listing, nearest, warn
from .labels import level_of
from .settings import FileFormat, listed_names

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PathLike = str | os.PathLike[str]
T = TypeVar("T")
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TEXT = "text"
PARQUET = ".parquet"
EXCEL = ".xlsx"
_SUFFIXES = (*SEPARATORS, PARQUET, EXCEL)
_FIRST_BYTES = {b"PAR1": PARQUET, b"PK\x03\x04": EXCEL}
_GZIP = b"\x1f\x8b"
_SNIFFED_BYTES = 1 << 18  # bytes
_ALL_ROWS = 1 << 60
_MAX_LABELS = 200  # different values that may be labels
_NEEDS = {
    PARQUET: "pyarrow: pip install 'invariant-prediction[parquet]'",
    EXCEL: "openpyxl: pip install 'invariant-prediction[excel]'",
}
_UNDEFINED = "nan", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"
MISSING_WORDS = frozenset(
    {
        "",
        "NA",
        "N/A",
        "n/a",
        "<NA>",
        "#NA",
        "#N/A",
        "#N/A N/A",
        "NULL",
        "null",
        "None",
        "NaN",
        "-NaN",
        *_UNDEFINED,
    }
)
_TRUTH = {
    word: truth
    for truth in (True, False)
    for word in (str(truth), str(truth).upper(), str(truth).lower())
}
_BREAK = re.compile(r"\s*[\t\r\n\v\f\x1c-\x1e\x85\u2028\u2029]\s*")

# ---------------------------------------------------------------- how numbers are written

_EXPONENT = r"(?:[eE][+-]?\d+)?"
# {sign between thousands: what counts as it}
_GROUP_SIGNS = {",": ",", ".": r"\.", "'": "['\u2019]", " ": "[ \u00a0\u2009\u202f]"}
_DECIMAL = re.compile(rf"[+\u2212-]?(?:\d+[.,]\d*|[.,]\d+|\d+){_EXPONENT}", re.ASCII)
# Decimals, or thousands: a leading 0 is no thousand.
_GROUPED = re.compile(r"[+\u2212-]?[1-9]\d{0,2}[.,]\d{3}", re.ASCII)


_LIMIT = re.compile(r"\s*([<>≤≥])\s*=?\s*(\S+)\s*")


def reads_as_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return isinstance(value, (str, Real)) or type(value).__name__ == "Decimal"


def limit_of(text: str) -> tuple[str, float] | None:
    """(sign, number) of a limit of detection, '<0.5'; None where the text is none"""
    found = _LIMIT.fullmatch(text)
    return None if found is None or not reads_as_number(found[2]) else (found[1], float(found[2]))


class NumberForm(NamedTuple):
    """decimal : what begins decimals; thousands : the sign between groups of three digits, None:
    there are none"""

    decimal: str
    thousands: str | None = None

    def plain(self, text: str) -> str | None:
        """A number as Python writes it; None where the text is none in this form."""
        stripped = text.strip()
        if not _pattern(*self).fullmatch(stripped):
            return None
        whole = (
            stripped
            if self.thousands is None
            else re.sub(_GROUP_SIGNS[self.thousands], "", stripped)
        )
        return whole.replace(self.decimal, ".").replace("\u2212", "-")

    def number(self, text: str) -> float:
        return float(str(self.plain(text)))

    def cell(self, text: str) -> str:
        """A number or a limit of detection as Python writes it; other text as it is."""
        limit = _LIMIT.fullmatch(text)
        sign, number = ("", text) if limit is None else limit.groups()
        plain = self.plain(number)
        return text if plain is None else f"{sign}{plain}"

    def reads(self, texts: Collection[str]) -> bool:
        """Whether all of the texts are numbers in this form."""
        return all(self.plain(text) is not None for text in texts)


AS_PYTHON = NumberForm(".")
_GERMAN = NumberForm(",", ".")


@lru_cache
def _pattern(decimal: str, thousands: str | None) -> re.Pattern[str]:
    point = re.escape(decimal)
    groups = "" if thousands is None else rf"|[1-9]\d{{0,2}}(?:{_GROUP_SIGNS[thousands]}\d{{3}})+"
    return re.compile(
        rf"[+\u2212-]?(?:(?:\d+{groups})(?:{point}\d*)?|{point}\d+){_EXPONENT}", re.ASCII
    )


def number_formats(texts: Collection[str]) -> list[Remedy]:
    """File formats, other than Python's, in which all of the texts are numbers."""
    found = (
        [use(decimal=",")]
        if any("," in text for text in texts) and NumberForm(",").reads(texts)
        else []
    )
    for sign, pattern in _GROUP_SIGNS.items():
        if any(re.search(pattern, text) for text in texts):
            decimals = [
                decimal
                for decimal in ".,"
                if decimal != sign and NumberForm(decimal, sign).reads(texts)
            ]
            # The comma is stated if points would not do: the file, or its user, may say that
            # decimals have points.
            needed = {"decimal": ","} if decimals == [","] and sign != "." else {}
            found += [use(**needed, thousands=sign)] if decimals else []
    # In the wrong form 1,234 beside 567 is a thousand times too small; 1,234 beside 5,678 is too
    # large, as all are.
    return found[::-1] if found[1:] == [use(thousands=",")] else found


def _decimal(file: str, sep: str, columns: Mapping[str, Sequence[tuple[int, str]]]) -> str | None:
    """What begins decimals in columns {name: (line, text) of cells} of numbers; None where no cell
    has decimals. Raises where cells can be read in two ways: 1,234 may be thousands, and so may
    1.234 where no comma separates cells.
    """
    # {(sign, may be thousands): column, text, line}
    found: dict[tuple[str, bool], tuple[str, str, int]] = {}
    for name, cells in columns.items():
        if all(_DECIMAL.fullmatch(text) for _, text in cells):
            for line, text in cells:
                sign = text.strip("+\u2212-eE0123456789")[:1]
                if sign:
                    grouped = _GROUPED.fullmatch(text) is not None
                    found.setdefault((sign, grouped), (name, text, line))
    comma = found.get((",", False))
    point = found.get((".", False))
    grouped_point = found.get((".", True))
    if comma and point:
        raise DataError(
            (
                f"{file} has {comma[1]!r} in column {comma[0]!r}, and {point[1]!r} in column "
                f"{point[0]!r}"
            ),
            use(decimal=","),
            use(decimal="."),
        )
    doubt = found.get((",", True)) if not comma else grouped_point
    if not doubt and not point and sep != ",":
        doubt = grouped_point
    if doubt:
        name, text, line = doubt
        sign = "," if "," in text else "."
        what = (
            f"column {name!r} of {file} has {text!r} in line {line}, which may be "
            f"{text.replace(sign, '.')} or {text.replace(sign, '')}"
        )
        # Beside decimal points no comma begins decimals: cells with one stay text.
        raise DataError(what, use(decimal="." if point else sign), use(thousands=sign))
    if comma:
        warn(
            Message(
                f"{file} is read with decimal commas, as {comma[1]!r} in {comma[0]!r} is",
                use(" if that is wrong", decimal="."),
            )
        )
        return ","
    return "." if point or grouped_point else None


# ---------------------------------------------------------------- files

SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
# The line that some programs put before the header.
_SEP_LINE = re.compile(r"\ufeff?\"?sep=(?P<sep>[^\r\n])\"?\r?\n", re.IGNORECASE)


class Sniffed(NamedTuple):
    """What the first lines of a text file show. decimal : None: no cell has decimals; skiprows :
    before the header"""

    sep: str
    decimal: str | None
    encoding: str
    skiprows: int
    header: list[str]


@dataclass(frozen=True)
class TableFile(os.PathLike[str]):
    """A file and how it is written.
    content : of standard input, which has no path; shown : what messages call the file; labels :
        {column: (value, Arrow
    type)} from the folders around it, `site=A`"""

    path: Path
    form: FileFormat = field(default_factory=FileFormat)
    content: bytes | None = None
    shown: str = ""
    labels: Mapping[str, tuple[Any, Any]] = field(default_factory=dict, compare=False)

    @classmethod
    def of(cls, path: PathLike, content: bytes | None = None, **form: Any) -> TableFile:
        """form : fields of `FileFormat`"""
        return (
            path
            if isinstance(path, TableFile)
            else cls(Path(path).expanduser(), FileFormat(**form), content)
        )

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.shown or (self.path.name if self.content is None else "standard input")

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)

    @property
    def suffix(self) -> str | None:
        """The one that tells the kind of the file; None where nothing does."""
        known = next(
            (suffix for suffix in _SUFFIXES if self.path.name.lower().endswith(suffix)), None
        )
        return known or (self.path.suffix if self.form.sep is not None else None)

    @cached_property
    def kind(self) -> str:
        """TEXT, PARQUET or EXCEL"""
        if self.content is None:
            place = repr(str(self.path))
            if not self.path.exists():
                raise DataError(
                    f"file not found: {place}. Check the path and the working directory."
                )
            if self.path.is_dir():
                raise DataError(
                    f"{place} is a directory: use Moments.from_rows({place}, outcome, environment)."
                )
            if self.suffix is None:
                raise DataError(
                    (
                        f"{self.name!r} ends in none of {', '.join(_SUFFIXES)}. Rename it, or say "
                        "what separates its cells"
                    ),
                    use(sep=","),
                )
        kind = self.suffix if self.suffix in (PARQUET, EXCEL) else TEXT
        if kind == TEXT:
            with clear_errors(self), self.open() as stream:
                kind = _FIRST_BYTES.get(stream.read(4), TEXT)
            if kind != TEXT and self.content is None:
                raise DataError(
                    f"{self.name} is no text, but a file of another kind: rename it to end in "
                    f"{kind}."
                )
        for option in ("sep", "encoding") if kind != TEXT else ("sheet",):
            value = getattr(self.form, option)
            if value is not None:
                needed = "text" if kind != TEXT else "Excel"
                raise SettingError(
                    f"{option}={value!r} is for {needed} files, which {self.name} is not: leave "
                    "it out."
                )
        return kind

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes of the file, unpacked."""
        with self.path.open("rb") if self.content is None else io.BytesIO(self.content) as raw:
            packed = raw.read(2) == _GZIP or (
                self.content is None and self.path.name.lower().endswith(".gz")
            )
            raw.seek(0)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw

    @property
    def numbers(self) -> NumberForm:
        """How numbers are written where they are text."""
        decimal = self.sniffed.decimal if self.kind == TEXT else self.form.decimal
        return NumberForm(decimal or ".", self.form.thousands)

    @cached_property
    def missing(self) -> frozenset[str]:
        """Words that stand for missing values."""
        return frozenset(self.form.na) | (MISSING_WORDS if self.kind != PARQUET else frozenset())

    @cached_property
    def sniffed(self) -> Sniffed:
        import pandas as pd

        sample, encoding = self._sample()
        line = _SEP_LINE.match(sample)
        skipped = 0 if line is None else 1
        sample = sample if line is None else sample[line.end() :]
        usual = SEPARATORS.get(self.suffix or "", ",")
        sep = self.form.sep or (
            line["sep"] if line is not None else _separator(sample, usual, self.name)
        )
        records = [(line + skipped, cells) for line, cells in _records(sample, sep)]
        if not records:
            raise pd.errors.EmptyDataError
        header = list(map(one_line, records[0][1]))
        other = next((sign for sign in SEPARATOR_NAMES if sign != sep and sign in header[0]), None)
        if len(header) == 1 and other is not None:
            raise DataError(
                f"{self.name} has a single column {header[0]!r}, or lines of unequal length",
                use(sep="tab" if other == "\t" else other),
            )
        long = next((line for line, cells in records[1:] if any(cells[len(header) :])), 0)
        if long:
            raise DataError(
                f"{self.name} cannot be parsed: line {long} has more cells than the header. "
                "Give every row as many cells as the header."
            )
        if self.form.decimal is not None:
            return Sniffed(sep, self.form.decimal, encoding, skipped, header)
        sign = self.form.thousands
        between = re.compile(rf"(?<=\d){_GROUP_SIGNS[sign]}(?=\d)" if sign else r"(?!)")
        columns: dict[str, list[tuple[int, str]]] = {name: [] for name in header}
        for number, cells in records[1:]:
            for name, cell in zip(header, map(str.strip, cells), strict=False):
                cell = cell.lstrip("<>≤≥= ")
                if cell not in self.missing:
                    columns[name].append((number, between.sub("", cell)))
        return Sniffed(sep, _decimal(self.name, sep, columns), encoding, skipped, header)

    def _sample(self) -> tuple[str, str]:
        """The first lines, whole and at least two, and the encoding."""
        with self.open() as stream:
            start = stream.read(_SNIFFED_BYTES)
            while start.count(b"\n") < 2 and (more := stream.read(_SNIFFED_BYTES)):
                start += more
            whole = not stream.read(1)
        marked = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        encoding = self.form.encoding or ("utf-16" if marked else "utf-8")
        decoder = codecs.getincrementaldecoder("utf-8-sig" if encoding == "utf-8" else encoding)()
        sample = decoder.decode(start, final=whole)
        if "\0" in sample:
            raise DataError(
                f"{self.name} is no {encoding} text: it holds NUL characters",
                use(encoding="utf-16-le"),
            )
        return sample if whole else sample[: sample.rfind("\n") + 1], encoding

    @cached_property
    def sheet(self) -> pd.DataFrame:
        """Rows of an Excel file; a column may have no name, ""."""
        import pandas as pd

        with self.open() as stream, pd.ExcelFile(stream, engine="openpyxl") as book:
            stated = self.form.sheet
            sheets = book.sheet_names
            if stated not in sheets and (stated is not None or len(sheets) > 1):
                lacking = "has several sheets" if stated is None else f"has no sheet {stated!r}"
                raise DataError(
                    f"{self.name} {lacking}", *(use(sheet=str(name)) for name in sheets[:4])
                )
            options: Fields = {"na_values": list(MISSING_WORDS), "keep_default_na": False}
            frame = pd.read_excel(
                book, sheet_name=stated or sheets[0], header=None, dtype=object, **options
            )
        if frame.empty:
            raise pd.errors.EmptyDataError
        header = ["" if pd.isna(name) else one_line(str(name)) for name in frame.iloc[0]]
        body = frame[1:].set_axis(header, axis=1).reset_index(drop=True)
        return body.loc[
            :, [bool(name) or bool(body.iloc[:, j].notna().any()) for j, name in enumerate(header)]
        ]


def _records(text: str, sep: str) -> list[tuple[int, list[str]]]:
    """(line, cells) of lines that are not blank; fewer where they cannot be taken apart."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=sep, skipinitialspace=True)
    found = []
    with suppress(csv.Error):
        for cells in reader:
            if cells:
                found.append((reader.line_num, cells))
    return found


def _separator(text: str, usual: str, file: str) -> str:
    """The sign that cuts all lines into equally many cells, at least two; `usual` where none
    does."""
    widths = {sep: {len(cells) for _, cells in _records(text, sep)} for sep in SEPARATOR_NAMES}
    fitting = [sep for sep, found in widths.items() if len(found) == 1 and min(found) > 1]
    if len(fitting) > 1:
        names = " or ".join(SEPARATOR_NAMES[sep] for sep in fitting)
        remedies = [use(sep="tab" if sep == "\t" else sep) for sep in fitting]
        raise DataError(f"the cells of {file} may be separated by {names}", *remedies)
    return fitting[0] if fitting else usual


def one_line(name: str) -> str:
    """A name as it can be typed: a blank for each line break or tab, with the blanks around it."""
    return _BREAK.sub(" ", name.strip())


# ---------------------------------------------------------------- tables


def read_table(
    path: PathLike,
    sep: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    sheet: str | None = None,
    na: Sequence[str] = (),
    thousands: str | None = None,
    as_text: Sequence[str] = (),
) -> pd.DataFrame:
    """Read a table from a .csv, .tsv (also .gz), .parquet or .xlsx file.

    Parameters
    ----------
    path : str or Path
        The file.
    sep : str, default=None
        Separator of the cells of a text file, one character or "tab". None detects it.
    decimal : {".", ","}, default=None
        Decimal sign. None detects it.
    encoding : str, default=None
        Encoding. None is UTF-8.
    sheet : str, default=None
        Sheet of an Excel file.
    na : sequence of str, default=()
        Further words or numbers for missing values.
    thousands : str, default=None
        Sign between groups of three digits, which is never guessed.
    as_text : sequence of str, default=()
        Columns that stay as they are written, such as labels of environments and codes.

    Returns
    -------
    DataFrame
        The table.

    Raises
    ------
    DataError
        If the file is missing, cannot be read as a table, or is ambiguous.

    Warns
    -----
    DataWarning
        If decimal commas were detected, columns without a name were dropped, or numbers of a column
        are written in several ways, such as 01 and 1, which would be different labels.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from invariance import read_table
    >>> file = Path(tempfile.mkdtemp()) / "patients.csv"
    >>> _ = file.write_text("age;pulse" + chr(10) + "64;71,5" + chr(10))
    >>> read_table(file, decimal=",")["pulse"].tolist()
    [71.5]
    """
    file = TableFile.of(
        path, sep=sep, decimal=decimal, thousands=thousands, encoding=encoding, sheet=sheet, na=na
    )
    names = column_names(file)
    for name in listed_names("as_text", as_text):
        if name not in names:
            raise DataError(f"as_text: {name!r} is not in {file.name}; {nearest(name, names)}")
    frame = read_columns(file, names, as_text=as_text)
    if file.kind == TEXT:
        _tell_of_codes(file, frame)
    return frame


def _tell_of_codes(file: TableFile, frame: pd.DataFrame) -> None:
    """Warn of columns with few numbers, some of which the file writes in several ways."""
    few = [
        str(name)
        for name, column in frame.items()
        if column.dtype.kind in "biuf" and column.nunique() <= _MAX_LABELS
    ]
    found = {}
    for name, texts in read_columns(file, few, as_text=few).items() if few else ():
        forms = texts.str.strip().groupby(frame[name].to_numpy()).unique()
        several: Sequence[str] = max(forms, key=len, default=())
        if len(several) > 1:
            found[str(name)] = " and ".join(map(repr, sorted(several)[:3]))
    if found:
        where = listing(f"column {name!r} ({same})" for name, same in found.items())
        warn(
            Message(
                (
                    f"numbers that are written in several ways are one in {where}; if they are "
                    "labels"
                ),
                use(as_text=list(found)),
            )
        )


def column_names(path: PathLike, warn_unnamed: bool = True) -> list[str]:
    """The named columns of a file, in its order."""
    file = TableFile.of(path)
    with clear_errors(file):
        if file.kind == PARQUET:
            import pyarrow.parquet as pq

            with file.open() as stream:
                return named_once(pq.read_schema(stream), file.name).names
        header = file.sniffed.header if file.kind == TEXT else list(file.sheet.columns)
    unnamed = [str(position) for position, name in enumerate(header, 1) if not name]
    if unnamed and warn_unnamed:
        warn(
            f"{file.name}: column {listing(unnamed)} has no name in the header and was left out "
            "(a row index?)"
        )
    names = list(filter(None, header))
    if len(set(names)) < len(names) and all(map(reads_as_number, names)):
        raise DataError(
            f"the first line of {file.name} has numbers, not names of columns: add a line of names."
        )
    check_unique(names, file.name)
    return names


def with_columns(frame: pd.DataFrame, columns: Mapping[str, Any]) -> pd.DataFrame:
    """Return a copy with these columns, whatever they are called: `assign` refuses a column
    "self"."""
    copied = frame.copy(deep=False)
    for name, values in columns.items():
        copied[name] = values
    return copied


def named_once(schema: pa.Schema, where: str) -> pa.Schema:
    """Without the row index that pandas may have stored along; raise where a name occurs twice."""
    import pyarrow as pa

    index = (schema.pandas_metadata or {}).get("index_columns", [])
    kept = [field for field in schema if field.name not in index]
    check_unique([field.name for field in kept], where)
    return pa.schema(kept)


def read_columns(
    path: PathLike,
    columns: Sequence[str],
    labels: str | None = None,
    as_text: Collection[str] = (),
    other_forms: Collection[str] = (),
) -> pd.DataFrame:
    """Columns, which exist; labels : that of environment labels; as_text : stay as they are written
    in a text file;
    other_forms : in which numbers may have another form than those of the file, and then stay
        text"""
    return next(iter_columns(path, columns, _ALL_ROWS, labels, as_text, other_forms))


def iter_columns(
    path: PathLike,
    columns: Sequence[str],
    rows: int,
    labels: str | None = None,
    as_text: Collection[str] = (),
    other_forms: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """As `read_columns`, in frames of at most so many rows"""
    file = TableFile.of(path)
    kept = {*as_text, *([] if labels is None else [labels])}
    finished = partial(_with_numbers, file=file, kept=kept, other_forms=other_forms)
    if file.kind != TEXT:
        with clear_errors(file):
            frame = finished(_stored(file, list(columns), as_text))
        yield from (frame[start : start + rows] for start in range(0, max(len(frame), 1), rows))
        return
    for frame in _read_csv(file, rows, dict.fromkeys(kept, str), list(file.missing)):
        yield finished(frame[list(columns)])


def _read_csv(
    file: TableFile, rows: int, types: Any, missing: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """A text file in frames of at most so many rows. types : dtypes of columns; missing : words for
    missing values"""
    import pandas as pd

    with clear_errors(file):
        sep, decimal, encoding, skiprows, header = file.sniffed
    # No ``usecols``, with which rows that are too long would be cut without a word.
    options: Fields = {
        "sep": sep,
        "decimal": decimal or ".",
        "encoding": encoding,
        "skiprows": skiprows,
        "header": 0,
        "names": [name or f"unnamed column {n}" for n, name in enumerate(header)],
        "index_col": False,
        "dtype": types or None,
        "skipinitialspace": True,
        "low_memory": False,
        "na_values": missing,
        "keep_default_na": False,
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # the default from pandas 3.1 on
    with file.open() as stream:
        with clear_errors(file):
            batches = pd.read_csv(stream, chunksize=rows, **options)
        with batches:
            yield from steps_of(batches, file)


def steps_of(pieces: Iterator[T], file: TableFile) -> Iterator[T]:
    """Pieces of a file; errors while one is read are those of the file, others the caller's."""
    while True:
        with clear_errors(file):
            piece = next(pieces, None)
        if piece is None:
            return
        yield piece


def _stored(file: TableFile, columns: list[str], as_text: Collection[str]) -> pd.DataFrame:
    """Columns of a file whose values have types, without those that a stated word or number calls
    missing."""
    import pandas as pd
    from pandas.api.types import is_bool_dtype

    if file.kind == PARQUET:
        with file.open() as stream:
            frame = pd.read_parquet(stream, engine="pyarrow", columns=columns)
    else:
        frame = file.sheet[columns]
    na = file.form.na
    words = [*na, *(float(word) for word in na if AS_PYTHON.plain(word) is not None)]
    typed = [str(name) for name in frame if na and not is_bool_dtype(frame[name].infer_objects())]
    frame = with_columns(frame, {name: frame[name].mask(frame[name].isin(words)) for name in typed})
    if file.kind == PARQUET:
        return frame

    def written(value: Any) -> str:
        """Different texts that are one level are told of."""
        return value if isinstance(value, str) else level_of(value)

    kept = [name for name in as_text if name in columns]
    return with_columns(
        frame, {name: frame[name].map(written, na_action="ignore") for name in kept}
    )


def _with_numbers(
    frame: pd.DataFrame, file: TableFile, kept: Collection[str], other_forms: Collection[str]
) -> pd.DataFrame:
    """With missing values and numbers in the place of text that stands for them; kept : columns
    whose text stays as it is"""
    form = file.numbers
    changed = {}
    for name, texts in _texts(frame):
        values = frame[name]
        left = [text for text in texts if text.strip() not in file.missing]
        if len(left) < len(texts):
            values = values.mask(values.isin({*texts} - {*left}))
        if name not in kept and (form != AS_PYTHON or file.kind == TEXT):
            meaning: Fields = {}
            if form.reads(left):
                meaning = {text: form.number(text) for text in left}
            elif all(text in _TRUTH for text in left):
                meaning = _TRUTH
            elif form != AS_PYTHON:
                if form.decimal == "," and name not in other_forms:
                    _refuse_points(name, left, file)
                # Where most are numbers, what the others stand for can be said of cells in one
                # form.
                cells = {text: form.cell(text) for text in left}
                n_read = sum(text != cell or form.reads([text]) for text, cell in cells.items())
                meaning = cells if 2 * n_read > len(left) else {}
            if meaning:
                values = values.astype(object).map(
                    lambda value, of=meaning: of.get(value, value), na_action="ignore"
                )
        changed[name] = values
    frame = with_columns(frame, changed)
    objects = [
        str(name) for name, dtype in frame.dtypes.items() if dtype.kind == "O" and name not in kept
    ]
    return with_columns(frame, {name: frame[name].infer_objects() for name in objects})


def _refuse_points(name: str, texts: Sequence[str], file: TableFile) -> None:
    """Raise where points that may be between thousands stand in a column of numbers, and decimals
    have commas."""
    odd = [
        text
        for text in texts
        if not file.numbers.reads([text]) and (file.form.thousands or _GERMAN.plain(text))
    ]
    if odd and all(_GERMAN.plain(text) or AS_PYTHON.plain(text) for text in texts):
        what = f"column {name!r} of {file.name} holds {odd[0]!r}, and decimals are commas"
        as_numbers = use(thousands=".") if _GERMAN.reads(texts) else _as_points(file)
        raise DataError(what, as_numbers, use(exclude=[name]), use(categorical=[name]))


def _as_points(file: TableFile) -> Remedy:
    return use(decimal=".", thousands=None) if file.form.thousands == "." else use(decimal=".")


def numbers_with_points(frame: pd.DataFrame, file: TableFile) -> dict[str, tuple[str, Remedy]]:
    """{column: an example, and the form in which it is numbers} of columns that are text as
    decimals of the file are commas, and theirs are not"""
    as_text = _texts(frame) if file.numbers.decimal == "," else ()
    return {name: (texts[0], _as_points(file)) for name, texts in as_text if AS_PYTHON.reads(texts)}


def _texts(frame: pd.DataFrame) -> Iterator[tuple[str, list[str]]]:
    """(name, different texts) of columns that have some"""
    from pandas.api.types import is_object_dtype, is_string_dtype

    for name, dtype in frame.dtypes.items():
        if is_object_dtype(dtype) or is_string_dtype(dtype):
            try:
                present = np.asarray(frame[name].dropna().unique(), dtype=object)
            except TypeError:  # lists, which are refused by name where they are used
                continue
            texts = [value for value in present if isinstance(value, str)]
            if texts:
                yield str(name), texts


def words_for_missing(file: TableFile, columns: Sequence[str]) -> dict[str, set[str]]:
    """Return {column: words that stand for missing values in a text file}, "" for an empty cell."""
    frame = next(_read_csv(file, _ALL_ROWS, str, []))
    cells = {name: {text.strip() for text in frame[name].fillna("").unique()} for name in columns}
    return {name: texts & file.missing for name, texts in cells.items()}


def in_points(frame: pd.DataFrame, file: TableFile, kept: Collection[str]) -> pd.DataFrame:
    """Text as it is written in a file, but with its numbers as Python writes them; not in the
    `kept` columns."""
    form = file.numbers
    changed = {
        name: frame[name].replace({text: form.plain(text) for text in texts})
        for name, texts in (_texts(frame) if form != AS_PYTHON else ())
        if name not in kept and form.reads(texts)
    }
    return with_columns(frame, changed)


@contextmanager
def clear_errors(file: TableFile) -> Iterator[None]:
    """Turn what the parsers raise into DataErrors that name the file."""
    import pandas as pd

    try:
        yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(f"reading {file.name} needs {_NEEDS[file.kind]}.") from error
    except pd.errors.EmptyDataError as error:
        raise DataError(f"{file.name} is empty: it needs a header line and rows.") from error
    except pd.errors.ParserError as error:
        why = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise DataError(
            f"{file.name} cannot be parsed: {why}. Give every row as many cells as the header."
        ) from error
    except UnicodeError as error:
        stated = file.form.encoding
        what = f"not text in the encoding {stated!r}" if stated else "not UTF-8 text"
        remedy = use(encoding="latin-1" if stated != "latin-1" else "utf-8")
        raise DataError(f"{file.name} cannot be parsed: it is {what}", remedy) from error
    except Exception as error:
        known = isinstance(error, OSError | EOFError | zlib.error)
        if not known and type(error).__module__.split(".")[0] not in (
            "pyarrow",
            "openpyxl",
            "zipfile",
        ):
            raise
        why = " ".join(str(error).split()).rstrip(".")
        raise DataError(
            f"{file.name} cannot be read: {why}. Check that the file is intact."
        ) from error
