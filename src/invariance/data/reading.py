"""Tables from files: csv and tsv (plain or gzipped), parquet and xlsx, whole or in chunks of rows."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from threading import Lock
from typing import TYPE_CHECKING, Any

from ..exceptions import DataError
from .checks import check_unique, listing, quoted, warn
from .columns import one_line
from .excel import sheet_of
from .missing_words import MISSING
from .table_file import EXCEL, PARQUET, TEXT, PathLike, TableFile
from .text_columns import refuse_points, warn_of_swallowed, with_numbers, without_values, without_words
from .text_form import SEPARATOR_NAMES

if TYPE_CHECKING:
    import pandas as pd

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
