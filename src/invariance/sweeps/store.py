"""The folder of a sweep: Parquet files of finished outcomes, each of them whole or not there."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.files import held, keep_apart, replacing
from ..data.checks import warn
from ..exceptions import EngineError, FileError
from .fitting import Entry

if TYPE_CHECKING:
    import pandas as pd

MANIFEST = "manifest.json"
COLUMNS = {
    "outcome": "str",
    "feature": "str",
    "inclusion": "float",
    "predictive": "float",
    "selected": "bool",
    "verdict": "str",
    "p_invariant": "float",
    "r2": "float",
    "seconds": "float",
    "notes": "str",
}
_MOST_WAITING, _LONGEST_WAIT = 64, 5.0  # outcomes, seconds
_MOST_PARTS = 256
_ROWS_PER_PART = 1_000_000


class Store:
    """part-*.parquet hold the rows of finished outcomes, those of an outcome in one file; manifest.json says what they
    depend on. Files take their place in one step and are forced to the disk, so that a crash costs the outcomes of the
    last five seconds. Many small files become few: the large one is there before the small ones go, and an outcome that
    is in two files counts once.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder = folder
        self.identity = identity
        self._waiting: list[Entry] = []

    @contextmanager
    def open(self) -> Iterator[set[str]]:
        """Create or check the folder and keep other processes out of it; gives the outcomes that are finished."""
        _pyarrow()
        with held(self.folder, EngineError):
            keep_apart(self.folder / MANIFEST, self.identity, bool(parts_of(self.folder)), EngineError)
            for unfinished in self.folder.glob(".*.parquet"):
                unfinished.unlink()
            done = set(self._finished())
            self._written = time.monotonic()
            try:
                yield done
            finally:
                self._write()

    def add(self, entry: Entry) -> None:
        self._waiting.append(entry)
        if len(self._waiting) >= _MOST_WAITING or time.monotonic() - self._written >= _LONGEST_WAIT:
            self._write()
            if len(parts_of(self.folder)) >= _MOST_PARTS:
                self.compact()

    def compact(self) -> None:
        """Make few files of many."""
        self._write()
        together: list[Path] = []
        n_rows = 0
        for path in parts_of(self.folder):
            size = _pyarrow().parquet.read_metadata(path).num_rows
            if n_rows and n_rows + size > _ROWS_PER_PART:
                self._join(together)
                together, n_rows = [], 0
            together.append(path)
            n_rows += size
        self._join(together)

    def results(self) -> pd.DataFrame:
        return results_in(self.folder)

    def _join(self, paths: list[Path]) -> None:
        if len(paths) < 2:
            return
        self._save(_concatenated(map(_read_part, paths)))
        for path in paths:
            path.unlink()

    def _write(self) -> None:
        if self._waiting:
            self._save(_arrow_table(self._waiting))
            self._waiting = []
        self._written = time.monotonic()

    def _save(self, table: Any) -> None:
        numbers = [int(_number(path)) for path in parts_of(self.folder)]
        path = self.folder / f"part-{max(numbers, default=0) + 1:06d}.parquet"
        try:
            with replacing(path, durable=True) as temporary:
                _pyarrow().parquet.write_table(table, temporary, write_page_checksum=True)
        except OSError as error:
            raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error

    def _finished(self) -> Iterator[str]:
        """Outcomes that need not be done again. A damaged file is put aside."""
        for path in parts_of(self.folder):
            try:
                table = _read_part(path)
            except EngineError as error:
                warn(f"{error}: its outcomes are done again")
                path.rename(path.with_suffix(".damaged"))
            else:
                yield from table["outcome"].unique().to_pylist()


class InMemory:
    """What a sweep without a folder keeps its results in: the same table as that of a `Store`, without Parquet."""

    def __init__(self) -> None:
        self._rows: list[dict[str, Any]] = []

    @contextmanager
    def open(self) -> Iterator[set[str]]:
        yield set()

    def add(self, entry: Entry) -> None:
        self._rows.extend(_rows(entry))

    def compact(self) -> None:
        pass

    def results(self) -> pd.DataFrame:
        import pandas as pd

        kinds = {"str": pd.Series([""]).dtype, "float": float, "bool": bool}
        table = pd.DataFrame(self._rows, columns=list(COLUMNS))
        return _sorted(table.astype({name: kinds[kind] for name, kind in COLUMNS.items()}))


def parts_of(folder: Path) -> list[Path]:
    """In the order in which they were written; other files are none of ours."""
    return sorted(path for path in folder.glob("part-*.parquet") if _number(path).isdecimal())


def _number(path: Path) -> str:
    return path.stem.removeprefix("part-")


def read_sweep(folder: Any) -> pd.DataFrame:
    """The table of a sweep from its folder, finished or not: as `invariance.sweep` returns it, of all outcomes there.

    It may be read while the sweep runs.
    """
    path = Path(folder).expanduser()
    if not (path / MANIFEST).is_file():
        raise FileError(f"{str(path)!r} is not the folder of a sweep: it has no {MANIFEST}.")
    return results_in(path)


def results_in(folder: Path) -> pd.DataFrame:
    """Sorted by outcome; the features of each by inclusion."""
    while True:
        try:
            table = _concatenated(_whole_parts(folder))
        except FileNotFoundError:
            continue  # it has just become part of another: look again
        return _sorted(table.to_pandas())


def _sorted(table: pd.DataFrame) -> pd.DataFrame:
    return table.sort_values("outcome", kind="stable", ignore_index=True)


def _whole_parts(folder: Path) -> Iterator[Any]:
    for path in parts_of(folder):
        try:
            yield _read_part(path)
        except EngineError as error:
            warn(f"{error}: its outcomes are not in the table until the same sweep is run again")


def _concatenated(parts: Iterable[Any]) -> Any:
    """All rows, those of an outcome that is in several parts once."""
    pa = _pyarrow()
    tables, seen = [_arrow_table([])], set[str]()
    for part in parts:
        outcomes = set(part["outcome"].unique().to_pylist())
        if outcomes & seen:
            known = pa.compute.is_in(part["outcome"], value_set=pa.array(sorted(seen)))
            part = part.filter(pa.compute.invert(known))
        seen |= outcomes
        tables.append(part)
    return pa.concat_tables(tables)


def _read_part(path: Path) -> Any:
    pa = _pyarrow()
    try:
        return pa.parquet.read_table(path, page_checksum_verification=True, partitioning=None)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise EngineError(f"{str(path)!r} is damaged ({str(error).splitlines()[0]})") from error


def _arrow_table(entries: list[Entry]) -> Any:
    """One row for each feature that is kept, and one without a feature where a fit failed."""
    pa = _pyarrow()
    kinds = {"str": pa.string(), "float": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    return pa.Table.from_pylist([row for entry in entries for row in _rows(entry)], schema=schema)


def _rows(entry: Entry) -> Iterator[dict[str, Any]]:
    same = {
        "outcome": entry.outcome,
        "verdict": entry.verdict,
        "p_invariant": entry.p_invariant,
        "r2": entry.r2,
        "seconds": entry.seconds,
        "notes": " ".join(entry.notes),
    }
    if entry.failed:
        yield {**same, "feature": None, "inclusion": np.nan, "predictive": np.nan, "selected": False}
    probabilities = entry.inclusion.tolist(), entry.predictive.tolist()
    for feature, inclusion, predictive, chosen in zip(
        entry.features, *probabilities, entry.selected.tolist(), strict=True
    ):
        yield {**same, "feature": feature, "inclusion": inclusion, "predictive": predictive, "selected": chosen}


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.parquet
    except ImportError:
        raise FileError("the folder of a sweep holds Parquet: pip install 'invariance[parquet]'.") from None
    return pyarrow
