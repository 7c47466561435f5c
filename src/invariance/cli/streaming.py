"""Tables that stay where they are: folders, patterns, several files, and files too large for memory."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .console import say
from .inputs import TableOptions, refuse_several
from .options import STANDARD_INPUT, read_names

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..data.record_batches import RowSource
    from ..data.sources import RowSize
    from ..estimators.bip import BIP
    from ..moments.accumulator import Screened
    from ..moments.moments import Moments
    from .inputs import FileOptions

# Files from here on are read in pieces, and kept as moments.
LARGE = 500_000_000  # bytes
# No byte of a file becomes more than this in memory: smaller files need no closer look.
_MOST_GROWTH = 200


@dataclass(frozen=True)
class Named:
    """What a command names as its table: one file, or a folder, a pattern, or several files."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Named:
        from ..exceptions import DataError

        if len(paths) > 1 and any(str(path) == STANDARD_INPUT for path in paths):
            raise DataError("- is standard input, one table, and others are named beside it: save it as a file first.")
        return cls(tuple(paths))

    @property
    def file(self) -> Path | None:
        """The one file, be it there or not; None where there may be several"""
        path = self.paths[0].expanduser()
        several = len(self.paths) > 1 or path.is_dir() or (glob.has_magic(str(path)) and not path.exists())
        return None if several else self.paths[0]

    @property
    def is_piped(self) -> bool:
        return str(self.paths[0]) == STANDARD_INPUT

    @property
    def rows(self) -> str | list[str]:
        """As `Moments.from_rows` takes them."""
        texts = list(map(str, self.paths))
        return texts[0] if len(texts) == 1 else texts


class Need(NamedTuple):
    """what : it is that needs all rows; moments_do : whether a Gaussian model would do without them"""

    what: str
    moments_do: bool = False


ALL_METHODS = Need("comparing methods")
_AS_A_WHOLE = Need("reading a table as a whole")


class Counted(NamedTuple):
    """What one reading told of all rows; n_fitted : columns, with one for each level"""

    n_rows: int
    n_fitted: int


class Read(NamedTuple):
    """source : of the moments, None where all rows are in memory"""

    data: MultiEnvironmentData | Moments
    source: RowSource | None = None


def read_rows(
    named: Named,
    outcome: str,
    environment: str,
    table: TableOptions,
    need: Need | None = None,
    counted: Counted | None = None,
) -> MultiEnvironmentData:
    """All rows in memory; need : what for, where they could also stay where they are; counted : where they were read
    before"""
    if named.file is not None and need is None:
        return table.read(named.file, outcome, environment)
    from ..data.sources import row_size, source_of

    source = source_of(named.rows, **form_of(table), warn_unnamed=table.features is None and named.file is None)
    refuse_several(source.schema.names, named.paths, outcome, environment)
    columns = _columns(source, outcome, environment, table)
    size = row_size(source, environment, columns)
    crowded = _crowded(source, size, need or _AS_A_WHOLE, counted)
    if crowded is not None:
        from ..exceptions import DataError

        other = "" if need else " Without --no-stream a linear Gaussian model reads any number of rows: leave it out."
        raise DataError(f"{crowded}{other}")
    why = "" if need is None else f": {need.what} needs them"
    if named.file is not None:
        say("note", f"all rows of {source.name} are read into memory{why}")
        return table.read(named.file, outcome, environment)
    from ..data.multi_environment import MultiEnvironmentData
    from ..data.sources import frame_of

    frame = frame_of(source, environment, columns)
    say("note", f"read {len(frame):,} rows of {where(source)} into memory{why}")
    return MultiEnvironmentData.from_table(
        frame, outcome, environment, **{**table.reading(), "features": None, "exclude": ()}
    )


def read(
    named: Named,
    outcome: str,
    environment: str,
    table: TableOptions,
    model: BIP,
    stream: bool | None,
    need: Need | None = None,
) -> Read:
    """The rows or, where they stay where they are, their moments.

    stream : whether they do, None: by their size; need : what needs rows whatever the model is, if anything does
    """
    from .._tools.parallel import n_workers
    from ..models.registry import AUTO, FAMILY_OF_KIND, GAUSSIAN
    from ..moments.from_rows import of_source, opened

    if not _streams(named, table, stream):
        return Read(read_rows(named, outcome, environment, table))
    need = need or _need(model, table)
    if need is not None:
        return Read(read_rows(named, outcome, environment, table, need))
    reading = table.reading()
    choices = {name: reading[name] for name in ("exclude", "categorical", "numeric", "min_rows")}
    choices |= {"drop": reading["drop_environments"], "merge": reading["merge_environments"]}
    asked = reading["features"], reading["missing"], form_of(table)
    source, wanted = opened(named.rows, outcome, environment, *asked, **choices)
    rows = wanted.screened(of_source(source, wanted, n_workers(model.n_jobs), model.progress))
    kind = rows.outcome_kind
    family = FAMILY_OF_KIND[kind.kind] if model.family == AUTO else GAUSSIAN
    if family != GAUSSIAN or outcome in rows.rows.levels:
        what = "an outcome of words" if family == GAUSSIAN else f"the {family.replace('_', ' ')} model ({kind.reason})"
        need = Need(what, moments_do=outcome not in rows.rows.levels)
        return Read(read_rows(named, outcome, environment, table, need, _counted(rows)))
    moments = rows.moments()
    way = "" if named.file is None else "; --no-stream reads it as a whole"
    say("note", f"read {rows.rows.tally.n_rows:,} rows of {where(source)} in pieces, and kept their moments{way}")
    return Read(moments, source)


def fitted(model: BIP, read: Read, environment: str) -> BIP:
    """Rows that stay where they are, are read again for what moments do not tell."""
    from ..data.multi_environment import MultiEnvironmentData

    if isinstance(read.data, MultiEnvironmentData):
        return model.fit(read.data)
    return model.fit(read.data, environments=environment, rows=read.source)


def where(source: RowSource) -> str:
    files = getattr(source, "files", ())
    named = len(files) > 1 and source.name.startswith("'")
    return f"{len(files):,} files in {source.name}" if named else source.name


def _streams(named: Named, table: TableOptions, asked: bool | None) -> bool:
    from ..exceptions import SettingError

    file = named.file
    if named.is_piped and asked:
        raise SettingError(
            "--stream reads a file in pieces, and standard input comes as a whole: save it as a file and name that."
        )
    if asked is not None or named.is_piped or file is None:
        return asked is not False and not named.is_piped
    path = file.expanduser()
    # Without pyarrow a file can only be read as a whole.
    return (
        path.is_file()
        and find_spec("pyarrow") is not None
        and (path.stat().st_size >= LARGE or too_large(path, table, True) is not None)
    )


def too_large(path: Path, form: FileOptions, with_levels: bool = False) -> str | None:
    """Sentences about the rows of a file that does not fit into memory; None of one that does; with_levels : with a
    column for each level of every column of words, some of which nobody may want"""
    from .._tools.parallel import free_bytes

    free = free_bytes()
    if free is None or path.stat().st_size * _MOST_GROWTH < free:
        return None
    from ..data.sources import row_size, source_of

    source = source_of(str(path), **form_of(form), warn_unnamed=False)
    names = source.schema.names
    return _crowded(source, row_size(source, names[0], names, with_levels), _AS_A_WHOLE)


def form_of(table: FileOptions) -> dict[str, Any]:
    """How files are written, as `source_of` takes it."""
    signs = {name: getattr(table, name) for name in ("sep", "decimal", "encoding", "sheet", "thousands")}
    return {**signs, "na": read_names(table.na)}


def _need(model: BIP, table: TableOptions) -> Need | None:
    from ..models.registry import as_family, needs_rows

    for option in ("event", "exposure"):
        if getattr(table, option) is not None:
            return Need(f"a model with --{option}")
    family = as_family(model.family)
    if needs_rows(family):
        return Need(f"the model {type(family).__name__}", moments_do=True)
    return None


def _columns(source: RowSource, outcome: str, environment: str, table: TableOptions) -> list[str]:
    """Those that are used, without that of the environments"""
    from ..data.checks import resolve_columns
    from ..data.columns import excluding
    from ..data.outcomes import stated

    reading, available = table.reading(), source.schema.names
    outcome_columns = stated(table.event, table.exposure)
    named = resolve_columns(available, outcome, environment, reading["features"], source.name, outcome_columns)
    others = {outcome, environment, *outcome_columns.values()}
    features = excluding(reading["exclude"], named[2], [name for name in available if name not in others])
    return [*features, outcome, *outcome_columns.values()]


def _counted(rows: Screened) -> Counted:
    tally, encoding = rows.rows.tally, rows.encoding
    return Counted(tally.n_rows, len(rows.rows.columns) if encoding is None else encoding.features.n_columns + 1)


def _crowded(source: RowSource, size: RowSize, need: Need, counted: Counted | None = None) -> str | None:
    """Why all rows cannot be had, and what to do about it"""
    from ..data.sources import rows_that_fit

    exact = source.n_rows if counted is None else counted.n_rows
    if counted is not None:
        size = replace(size, n_fitted=counted.n_fitted)
    n_rows = (source.about_rows or 0) if exact is None else exact
    return rows_that_fit(n_rows, size, need.what, moments_do=need.moments_do, counted=exact is not None)
