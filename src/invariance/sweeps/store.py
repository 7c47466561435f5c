"""The folder of a sweep: Parquet files of finished outcomes, written atomically."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pandas as pd

from .._tools.files import check_identity, lock_folder, replacing
from ..exceptions import FileError
from .fitting import RESULT_COLUMNS, Rows

MANIFEST = "manifest.json"
# outcomes, seconds
_MAX_WAITING_OUTCOMES = 64
_LONGEST_WAIT = 5.0


class Store:
    """Store the results of a sweep in a folder, or in memory without one.

    part-*.parquet have the rows of finished outcomes, all rows of an outcome in one file;
    manifest.json has the settings that they depend on. Files are written atomically, so that a
    crash costs the outcomes of the last five seconds.
    """

    def __init__(self, folder: Path | None, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self.identity = identity
        self._waiting: list[Rows] = []
        self._written = time.monotonic()

    @contextmanager
    def open(self) -> Iterator[set[str]]:
        """Create or check the folder and keep other processes out of it; gives the outcomes that
        are finished."""
        if self.folder is None:
            yield set()
            return
        _loaded_pyarrow()
        with lock_folder(self.folder):
            check_identity(self.folder / MANIFEST, self.identity, bool(parts_of(self.folder)))
            for unfinished in self.folder.glob(".*.parquet"):
                unfinished.unlink()
            try:
                yield set(results_in(self.folder)["outcome"])
            finally:
                self._write()

    def add(self, rows: Rows) -> None:
        """Add the rows of one outcome."""
        self._waiting.append(rows)
        if (
            len(self._waiting) >= _MAX_WAITING_OUTCOMES
            or time.monotonic() - self._written >= _LONGEST_WAIT
        ):
            self._write()

    def results(self) -> pd.DataFrame:
        self._write()
        return self._table() if self.folder is None else results_in(self.folder)

    def _table(self) -> pd.DataFrame:
        return _sorted(pd.DataFrame([*chain(*self._waiting)], columns=list(RESULT_COLUMNS)))

    def _write(self) -> None:
        if self.folder is None or not self._waiting:
            return
        numbers = [int(path.stem.removeprefix("part-")) for path in parts_of(self.folder)]
        path = self.folder / f"part-{max(numbers, default=0) + 1:06d}.parquet"
        pa = _loaded_pyarrow()
        kinds = {"str": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
        schema = pa.schema([(name, kinds[kind]) for name, kind in RESULT_COLUMNS.items()])
        table = pa.Table.from_pandas(self._table(), schema, preserve_index=False)
        try:
            with replacing(path) as temporary:
                pa.parquet.write_table(
                    table.replace_schema_metadata(), temporary, write_page_checksum=True
                )
        except OSError as error:
            raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
        self._waiting = []
        self._written = time.monotonic()


def parts_of(folder: Path) -> list[Path]:
    """Return the parts in the order in which they were written; other files are ignored."""
    found = folder.glob("part-*.parquet")
    return sorted(path for path in found if path.stem.removeprefix("part-").isdecimal())


def read_sweep(folder: Any) -> pd.DataFrame:
    """Read the table of a sweep from its folder.

    The sweep may still be running.

    Parameters
    ----------
    folder : str or Path
        The folder `out` of `invariance.sweep`.

    Returns
    -------
    DataFrame
        As `invariance.sweep` returns it, for all outcomes in the folder.

    Raises
    ------
    FileError
        If the folder is not that of a sweep or a file is damaged, or the extra `parquet` is
        missing.

    Examples
    --------
    >>> import tempfile
    >>> from invariance import read_sweep, sweep
    >>> from invariance.datasets import make_example
    >>> folder = tempfile.mkdtemp() + "/sweep"
    >>> table = sweep(make_example(), outcomes=["blood_pressure"], out=folder)
    >>> read_sweep(folder).feature.tolist() == table.feature.tolist()
    True
    """
    path = Path(folder).expanduser()
    if not (path / MANIFEST).is_file():
        raise FileError(f"{str(path)!r} is not the folder of a sweep: it has no {MANIFEST}.")
    return results_in(path)


def results_in(folder: Path) -> pd.DataFrame:
    """Return all rows sorted by outcome, the features of each by inclusion."""
    pa = _loaded_pyarrow()
    parts = [pd.DataFrame(columns=list(RESULT_COLUMNS))]
    for path in parts_of(folder):
        try:
            found = pa.parquet.read_table(path, page_checksum_verification=True, partitioning=None)
        except (pa.ArrowException, OSError) as error:
            raise FileError(
                f"{str(path)!r} is damaged ({str(error).splitlines()[0]}): delete it, and run the "
                "same sweep again, "
                "which does its outcomes once more."
            ) from error
        if set(found.column_names) != set(RESULT_COLUMNS):
            raise FileError(
                f"{str(path)!r} has the columns of another version: sweep into another folder."
            )
        parts.append(found.to_pandas())
    return _sorted(pd.concat(parts[1:] or parts))


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    kinds = {"str": pd.Series([""]).dtype, "float": float, "bool": bool}
    typed = table.astype({name: kinds[kind] for name, kind in RESULT_COLUMNS.items()})
    return typed.sort_values("outcome", kind="stable", ignore_index=True)


def _loaded_pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise FileError(
            "the folder of a sweep holds Parquet: pip install 'invariant-prediction[parquet]'."
        ) from None
    return pyarrow
