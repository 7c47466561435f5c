"""Sheets of Excel files, each cell as it is stored."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..exceptions import DataError
from .checks import quoted
from .columns import one_line
from .missing_words import MISSING

if TYPE_CHECKING:
    import pandas as pd

    from .table_file import TableFile


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
