"""Tables from files: csv and tsv (plain or gzipped) and parquet, whole or in chunks of rows."""

from __future__ import annotations

import os
import warnings
import zlib
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..exceptions import DataError
from .checks import check_unique, listing, warn

if TYPE_CHECKING:
    import pandas as pd

PathLike = str | os.PathLike[str]
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
SEPARATOR_NAMES = {",": "commas", "\t": "tabs", ";": "semicolons", "|": "bars"}


def read_table(path: PathLike) -> pd.DataFrame:
    """Read a .csv, .csv.gz, .tsv, .tsv.gz or .parquet file.

    Columns without a name (such as a row index written along) are left out with a DataWarning.
    """
    return read_columns(path, column_names(path))


def is_text(path: PathLike) -> bool:
    """Whether the values of a file are words, of which some count as missing."""
    return _locate(path)[1] != ".parquet"


def column_names(path: PathLike, warn_unnamed: bool = True) -> list[str]:
    """The named columns of a file, in its order."""
    file, kind = _locate(path)
    if kind == ".parquet":
        with _clear_errors(file):
            names = _parquet_names(file)
        check_unique(names, file.name)
        return names
    header = _header(file, SEPARATORS[kind])
    unnamed = [str(position + 1) for position, name in enumerate(header) if not name]
    if unnamed and warn_unnamed:
        warn(
            f"{file.name}: column {listing(unnamed)} has no name in the header and was left out "
            "(a row index?); give it a name to use it"
        )
    return [name for name in header if name]


def read_columns(
    path: PathLike, columns: Sequence[str], labels: str | None = None, as_text: Collection[str] = ()
) -> pd.DataFrame:
    """Read ``columns``, which exist, as one frame; ``labels`` names the column of environment labels; those in
    ``as_text`` stay as they are written in a text file."""
    import pandas as pd

    file, kind = _locate(path)
    with _clear_errors(file):
        if kind == ".parquet":
            frame = pd.read_parquet(file, engine="pyarrow", columns=list(columns))
            return frame[list(columns)]
        frame = pd.read_csv(file, **_text_options(file, SEPARATORS[kind], labels, as_text))
    return _with_labels(frame[list(columns)], labels)


def iter_columns(
    path: PathLike,
    columns: Sequence[str],
    rows_per_chunk: int,
    labels: str | None = None,
    as_text: Collection[str] = (),
) -> Iterator[pd.DataFrame]:
    """Like :func:`read_columns`, as frames of at most ``rows_per_chunk`` rows."""
    file, kind = _locate(path)
    if kind == ".parquet":
        batches = _parquet_batches(file, columns, rows_per_chunk)
    else:
        batches = _text_batches(file, _text_options(file, SEPARATORS[kind], labels, as_text), rows_per_chunk)
    with closing(batches):
        while True:
            with _clear_errors(file):  # around each step only: it must not be active while the caller works
                frame = next(batches, None)
            if frame is None:
                return
            yield _with_labels(frame[list(columns)], None if kind == ".parquet" else labels)


def _parquet_batches(file: Path, columns: Sequence[str], rows: int) -> Generator[pd.DataFrame, None, None]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as source:
        for batch in source.iter_batches(batch_size=rows, columns=list(columns)):
            yield pa.Table.from_batches([batch]).to_pandas(ignore_metadata=True)


def _text_batches(file: Path, options: dict[str, Any], rows: int) -> Generator[pd.DataFrame, None, None]:
    import pandas as pd

    with pd.read_csv(file, chunksize=rows, **options) as chunks:
        yield from chunks


def _locate(path: PathLike) -> tuple[Path, str]:
    file = Path(path).expanduser()
    kind = next((k for k in (*SEPARATORS, ".parquet") if file.name.lower().endswith(k)), None)
    if not file.exists():
        raise DataError(f"file not found: {str(path)!r}. Check the path and the working directory.")
    if file.is_dir():
        raise DataError(f"{str(path)!r} is a directory: pass the path of one table file.")
    if kind is None:
        raise DataError(
            f"cannot tell the format of {file.name!r} from its suffix: save it as {', '.join(SEPARATORS)} or .parquet."
        )
    return file, kind


@contextmanager
def _clear_errors(file: Path) -> Iterator[None]:
    """Turn what the parsers raise into DataErrors that name the file."""
    import pandas as pd

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)
            yield
    except DataError:
        raise
    except ImportError as error:
        raise DataError(
            f"reading {file.name} needs pyarrow: install it with pip install 'invariance[parquet]'."
        ) from error
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
    except UnicodeDecodeError as error:
        raise DataError(f"{file.name} cannot be parsed: it is not UTF-8 text. Save it as UTF-8.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file.name} cannot be read: {_tidy(error)}. Check that the file is intact.") from error
    except Exception as error:
        if type(error).__module__.split(".")[0] != "pyarrow":
            raise
        raise DataError(f"{file.name} cannot be read: {_tidy(error)}. Check that the file is intact.") from error


def _tidy(error: BaseException) -> str:
    return " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split()).rstrip(".")


def _header(file: Path, separator: str) -> list[str]:
    """The names in the header line, empty where there is none."""
    import pandas as pd

    with _clear_errors(file):
        first = pd.read_csv(
            file, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False, skipinitialspace=True
        )
    header = [str(name).strip() for name in first.iloc[0]]
    if len(header) == 1:
        for other in {*SEPARATOR_NAMES} - {separator}:
            if other in header[0]:
                fitting = [suffix for suffix in SEPARATORS if SEPARATORS[suffix] == other and suffix.count(".") == 1]
                rename = f", or rename it to end in {fitting[0]}" if fitting else ""
                raise DataError(
                    f"{file.name} has a single column {header[0]!r}: its cells seem to be separated by "
                    f"{SEPARATOR_NAMES[other]}, not {SEPARATOR_NAMES[separator]}. Save it with "
                    f"{SEPARATOR_NAMES[separator]}{rename}."
                )
    check_unique([name for name in header if name], file.name)
    return header


def _text_options(file: Path, separator: str, labels: str | None, as_text: Collection[str]) -> dict[str, Any]:
    """Options of read_csv; no ``usecols``, with which it would cut rows that are too long without a word."""
    import pandas as pd

    header = _header(file, separator)
    names = [name or f"unnamed column {position}" for position, name in enumerate(header)]
    options: dict[str, Any] = {
        "sep": separator,
        "header": 0,
        "names": names,
        "index_col": False,
        "dtype": dict.fromkeys([*as_text, *([] if labels is None else [labels])], str) or None,
        "skipinitialspace": True,
        "low_memory": False,
    }
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):
        options["float_precision"] = "round_trip"  # the default from pandas 3.1 on
    return options


def _parquet_names(file: Path) -> list[str]:
    """Column names without the row index that pandas may have stored along."""
    import pyarrow.parquet as pq

    schema = pq.read_schema(file)
    index = (schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in schema.names if name not in index]


def _with_labels(frame: pd.DataFrame, labels: str | None) -> pd.DataFrame:
    """Turn the text of each environment label into a number where that loses nothing ("01" stays text).

    Going label by label, and not by the type of a whole column, makes chunks agree with the whole file.
    """
    import pandas as pd

    if labels is None:
        return frame
    meaning = {text: _parse_label(text) for text in frame[labels].dropna().unique()}
    values = [meaning.get(text) for text in frame[labels]]
    return frame.assign(**{labels: pd.Series(values, index=frame.index, dtype=object)})


def _parse_label(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            value = kind(text)
        except ValueError:
            continue
        if repr(value) == text:
            return value
    return text
