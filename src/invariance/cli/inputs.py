"""Tables that commands read: one file in memory; folders, patterns and large files in pieces, of which moments stay."""

from __future__ import annotations

import glob
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ..exceptions import DataError, SettingError
from .console import detail, say
from .options import STANDARD_INPUT, FileOptions, ModelOptions, TableOptions, read_names

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..data.record_batches import RowSource
    from ..estimators.bip import BIP
    from ..moments.moments import Moments

# Files of so many bytes are read in pieces.
LARGE = 500_000_000
# Upper limit of bytes in memory for each byte of a file.
_MOST_GROWTH = 200
# Above this the uniform prior, which expects half of the features, deserves a note.
MANY_FEATURES = 30


@dataclass(frozen=True)
class Named:
    """The paths that a command was given."""

    paths: tuple[Path, ...]

    @classmethod
    def of(cls, paths: Sequence[Path]) -> Named:
        if len(paths) > 1 and STANDARD_INPUT in paths:
            raise DataError("- is standard input, and other files are named too: save it as a file first.")
        return cls(tuple(paths))

    @property
    def file(self) -> Path | None:
        """The one file, whether it exists or not; None for a folder, a pattern or several files."""
        path = self.paths[0].expanduser()
        several = len(self.paths) > 1 or path.is_dir() or (glob.has_magic(str(path)) and not path.exists())
        return None if several else self.paths[0]

    @property
    def is_piped(self) -> bool:
        return self.paths[0] == STANDARD_INPUT

    @property
    def rows(self) -> str | list[str]:
        """As `Moments.from_rows` takes them."""
        texts = list(map(str, self.paths))
        return texts[0] if len(texts) == 1 else texts


class Need(NamedTuple):
    """what : needs all rows in memory; moments_do : whether a Gaussian model would not"""

    what: str
    moments_do: bool = False


ALL_METHODS = Need("comparing methods")
_AS_A_WHOLE = Need("reading a table as a whole")


class Read(NamedTuple):
    """source : where moments can read the rows again; None where rows are in memory"""

    data: MultiEnvironmentData | Moments
    source: RowSource | None = None


def read(
    named: Named,
    outcome: str,
    environment: str,
    table: TableOptions,
    model: BIP,
    stream: bool | None,
    need: Need | None = None,
) -> Read:
    """Rows or moments. stream : None by size; need : what needs rows whatever the model is"""
    from .._tools.parallel import n_workers
    from ..models.registry import AUTO, FAMILY_OF_KIND, GAUSSIAN
    from ..moments.from_rows import of_source, opened

    if not _streams(named, table, stream):
        return Read(read_rows(named, outcome, environment, table))
    need = need or _need(model, table)
    if need is not None:
        return Read(read_rows(named, outcome, environment, table, need))
    asked = table.columns(), table.environments(), table.missing.value, table.format()
    source, wanted = opened(named.rows, outcome, environment, *asked)
    rows = wanted.screened(of_source(source, wanted, n_workers(model.n_jobs), model.progress))
    kind = rows.outcome_kind
    family = FAMILY_OF_KIND[kind.kind] if model.family == AUTO else GAUSSIAN
    of_text = outcome in rows.rows.levels
    if family != GAUSSIAN or of_text:
        what = "an outcome of text" if family == GAUSSIAN else f"the {family.replace('_', ' ')} model ({kind.reason})"
        return Read(read_rows(named, outcome, environment, table, Need(what, moments_do=not of_text)))
    moments = rows.moments()
    other = "" if named.file is None else "; --no-stream reads it as a whole"
    say("note", f"read {rows.rows.tally.n_rows:,} rows of {where(source)} in pieces, and kept their moments{other}")
    return Read(moments, source)


def read_rows(
    named: Named, outcome: str, environment: str, table: TableOptions, need: Need | None = None
) -> MultiEnvironmentData:
    """All rows in memory; need : what for, where they could be read in pieces"""
    from ..data.multi_environment import MultiEnvironmentData

    if named.file is not None and need is None:
        return read_file(named.file, outcome, environment, table)
    from ..data.sources import frame_of, source_of

    source = source_of(named.rows, **table.format(), warn_unnamed=table.features is None and named.file is None)
    refuse_several(source.schema.names, named.paths, outcome, environment)
    columns = _columns(source, outcome, environment, table)
    crowded = _crowded(source, environment, columns, need or _AS_A_WHOLE)
    if crowded is not None and need is None:
        raise DataError(f"{crowded} Without --no-stream a linear Gaussian model reads any number of rows.")
    if crowded is not None:
        raise DataError(crowded)
    why = "" if need is None else f": {need.what} needs them"
    if named.file is not None:
        say("note", f"all rows of {source.name} are read into memory{why}")
        return read_file(named.file, outcome, environment, table)
    frame = frame_of(source, environment, columns)
    say("note", f"read {len(frame):,} rows of {where(source)} into memory{why}")
    options = table.reading() | {"features": None, "exclude": ()}
    return MultiEnvironmentData.from_table(frame, outcome, environment, **options)


def read_file(file: Path, outcome: str, environment: str, table: TableOptions) -> MultiEnvironmentData:
    from ..data.multi_environment import MultiEnvironmentData

    source = table.open(file)
    if len(read_names(outcome)) > 1:
        from ..data.reading import column_names

        refuse_several(column_names(source, warn_unnamed=False), [source.path], outcome, environment)
    data = MultiEnvironmentData.from_table(source, outcome, environment, **table.reading())
    found = f"{data.n_rows:,} rows, {data.n_features} features and {data.n_environments} environments"
    detail(f"read {found} from {source.name}")
    return data


def refuse_several(columns: Sequence[str], files: Sequence[Path], outcome: str, environment: str) -> None:
    """Raise where --outcome lists several columns, as for `invariance sweep`."""
    names = dict.fromkeys(read_names(outcome))
    if len(names) > 1 and outcome not in columns and all(name in columns for name in names):
        named = ["--environment", environment, "--outcomes", outcome, "--out", "sweep"]
        line = shlex.join(["invariance", "sweep", *map(str, files), *named])
        raise DataError(f"--outcome {shlex.quote(outcome)} names {len(names)} columns; to fit each of them: {line}")


def fitted(model: BIP, read: Read, environment: str) -> BIP:
    from ..data.multi_environment import MultiEnvironmentData
    from ..data.settings import Columns

    if isinstance(read.data, MultiEnvironmentData):
        return model.fit(read.data)
    return model.set_params(columns=Columns(environment=environment)).fit(read.data, rows=read.source)


def where(source: RowSource) -> str:
    files = getattr(source, "files", ())
    named = len(files) > 1 and source.name.startswith("'")
    return f"{len(files):,} files in {source.name}" if named else source.name


def _streams(named: Named, table: TableOptions, asked: bool | None) -> bool:
    if named.is_piped and asked:
        raise SettingError("--stream needs a file, and standard input is read as a whole: save it as a file.")
    if named.is_piped or asked is not None:
        return bool(asked)
    if named.file is None:
        return True
    path = named.file.expanduser()
    large = path.is_file() and (path.stat().st_size >= LARGE or too_large(path, table) is not None)
    return large and find_spec("pyarrow") is not None


def too_large(path: Path, form: FileOptions) -> str | None:
    """Why a file does not fit into memory, or None"""
    from .._tools.parallel import free_bytes

    free = free_bytes()
    if free is None or path.stat().st_size * _MOST_GROWTH < free or find_spec("pyarrow") is None:
        return None
    from ..data.sources import source_of

    source = source_of(str(path), **form.format(), warn_unnamed=False)
    names = source.schema.names
    return _crowded(source, names[0], names, _AS_A_WHOLE)


def _crowded(source: RowSource, environment: str, columns: Sequence[str], need: Need) -> str | None:
    from ..data.sources import bytes_per_row, rows_that_fit

    size = bytes_per_row(source, environment, columns)
    counted = source.n_rows is not None
    return rows_that_fit(source.about_rows or 0, size, need.what, moments_do=need.moments_do, counted=counted)


def _need(model: BIP, table: TableOptions) -> Need | None:
    from ..models.registry import as_family, needs_rows

    for option in ("event", "exposure"):
        if getattr(table, option) is not None:
            return Need(f"a model with --{option}")
    family = as_family(model.family)
    return Need(f"the model {type(family).__name__}", moments_do=True) if needs_rows(family) else None


def _columns(source: RowSource, outcome: str, environment: str, table: TableOptions) -> list[str]:
    """Used columns but that of the environments."""
    from ..data.columns import resolve_columns
    from ..data.outcomes import stated
    from ..data.settings import Columns

    reading, outcome_columns = table.reading(), stated(table.event, table.exposure)
    columns = Columns(features=reading["features"], exclude=reading["exclude"])
    *_, features = resolve_columns(source.schema.names, outcome, environment, columns, source.name, outcome_columns)
    return [*features, outcome, *outcome_columns.values()]


def notes(model: BIP, settings: ModelOptions, data: MultiEnvironmentData | Moments) -> list[str]:
    """Notes on the outcome model and the prior, where the defaults may surprise."""
    from ..models.registry import AUTO, GAUSSIAN, family_of

    told, choice = [], family_of(data)
    if model.family == AUTO and choice.name != GAUSSIAN:
        other = "; --family gaussian overrides" if choice.overridable else ""
        told.append(f"outcome model: {choice.name.replace('_', ' ')} ({choice.reason}){other}")
    if settings.prior == "uniform" and settings.max_size is None and data.n_features > MANY_FEATURES:
        told.append(
            f"the uniform prior expects about half of the {data.n_features} features to be invariant; "
            "--prior beta-binomial favours small subsets, and --max-size 10 sets a limit"
        )
    return told
