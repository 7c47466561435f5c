"""The folder of a study's results: finished replicates survive anything, and nothing else is ever counted."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tools.files import held, keep_apart, replacing
from ..exceptions import EngineError
from .base import Row, Study

if TYPE_CHECKING:
    import pandas as pd

ROWS, SETTINGS = "rows.jsonl", "settings.json"


@dataclass(frozen=True, eq=False)
class Finished:
    """One finished replicate: its cell's key, its number, the seconds it took and its rows."""

    cell: str
    number: int
    seconds: float
    rows: list[Row]

    def line(self) -> str:
        return json.dumps({"cell": self.cell, "replicate": self.number, "seconds": self.seconds, "rows": self.rows})


class Store:
    """rows.jsonl holds one line per finished replicate, forced to the disk after every task; settings.json says
    which study they belong to. A line that a crash cut short is not a result, and its replicate is done again.
    """

    def __init__(self, folder: str | os.PathLike[str], study: Study) -> None:
        self.folder = Path(folder)
        self.study = study

    @contextmanager
    def open(self) -> Iterator[dict[tuple[str, int], Finished]]:
        """Create or check the folder and keep other processes out of it; gives what is there already."""
        with held(self.folder, EngineError):
            keep_apart(self.folder / SETTINGS, self.study.identity(), (self.folder / ROWS).exists(), EngineError)
            finished = self._read()
            with (self.folder / ROWS).open("a", encoding="utf-8") as self._rows:
                yield finished

    def add(self, batch: Iterable[Finished]) -> None:
        """Write finished replicates and wait until they are on the disk."""
        self._rows.write("".join(one.line() + "\n" for one in batch))
        self._rows.flush()
        os.fsync(self._rows.fileno())

    def table(self, finished: dict[tuple[str, int], Finished]) -> pd.DataFrame:
        """One line per row of the replicates that the study asks for, in the order of its cells."""
        import pandas as pd

        def lines() -> Iterator[dict[str, Any]]:
            for cell in self.study.cells():
                for number in range(self.study.replicates):
                    for row in finished[cell.key, number].rows:
                        yield {**dict(cell.values), "replicate": number, **row}

        return pd.DataFrame(list(lines()))

    def save(self, table: pd.DataFrame, name: str) -> Path:
        """Write a table in one step as NAME.parquet, or as NAME.csv where pyarrow is not installed."""
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            path = self.folder / f"{name}.csv"
            with replacing(path) as temporary:
                table.to_csv(temporary, index=False)
            return path
        path = self.folder / f"{name}.parquet"
        with replacing(path) as temporary:
            table.to_parquet(temporary, index=False)
        return path

    def _read(self) -> dict[tuple[str, int], Finished]:
        path = self.folder / ROWS
        if not path.exists():
            return {}
        content = path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(path, whole)
        finished = {}
        for line in content[:whole].splitlines():
            one = _parsed(line)
            if one is not None:
                finished[one.cell, one.number] = one
        return finished


def _parsed(line: bytes) -> Finished | None:
    try:
        content = json.loads(line)
        return Finished(content["cell"], content["replicate"], content["seconds"], content["rows"])
    except (ValueError, KeyError, TypeError):
        return None
