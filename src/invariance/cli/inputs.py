"""Tables that commands read: one file in memory; folders, patterns and large files in pieces, of
which moments stay."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._tools.parallel import free_bytes, n_workers
from .._tools.progress import compilation_explained
from ..data.columns import resolve_columns
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import stated
from ..data.reading import TableFile
from ..data.settings import FileFormat
from ..data.sources import crowded, frame_of, source_of, table_files
from ..data.structure import parts_of, refuse_design
from ..decisions.pipeline import FitSettings
from ..estimators.bip import BIP
from ..exceptions import DataError, Message, SettingError, use
from ..models.registry import (
    AUTO,
    FAMILY_OF_KIND,
    GAUSSIAN,
    as_family,
    family_of,
    needs_rows,
    resolve_family,
    with_family_columns,
)
from ..moments.accumulator import Wanted, needing_the_table
from ..moments.from_rows import of_source, opened
from ..moments.moments import Moments
from .console import for_shell, in_shell, say
from .options import STANDARD_INPUT, FitOptions

# Files of so many bytes are read in pieces, and once; of Parquet, 8 bytes for each value.
LARGE_INPUT = 100_000_000
_BYTES_A_VALUE = 8
# Bytes in memory for each byte of a file.
_GROWTH = 20
# Above this the uniform prior, which expects half of the features, deserves a note.
MANY_FEATURES = 30


class InputFiles:
    """The paths that a command was given. file : the one file, there or not; None for a folder, a
    pattern or several;
    rows : as `Moments.from_rows` takes them"""

    def __init__(self, paths: Sequence[Path]) -> None:
        if len(paths) > 1 and STANDARD_INPUT in paths:
            raise DataError(
                "- is standard input, and other files are named too: save it as a file first."
            )
        first = paths[0].expanduser()
        several = (
            len(paths) > 1 or first.is_dir() or (glob.has_magic(str(first)) and not first.exists())
        )
        self.file = None if several else paths[0]
        self.is_piped = paths[0] == STANDARD_INPUT
        self.rows = str(paths[0]) if len(paths) == 1 else [str(path) for path in paths]

    @property
    def size(self) -> int:
        """Bytes of all files, or of the values in them where these are more; 0 where there are
        none."""
        if self.file is not None:
            return _bytes_of(self.file.expanduser())
        with suppress(DataError):  # what is not there is refused where it is read
            return sum(_bytes_of(file.path) for file in table_files(self.rows, FileFormat()))
        return 0


def _bytes_of(path: Path) -> int:
    if not path.is_file():
        return 0
    size = path.stat().st_size
    if path.suffix == ".parquet" and find_spec("pyarrow") is not None:
        from pyarrow.parquet import read_metadata

        with suppress(OSError, ValueError):  # a broken file is refused where it is read
            about = read_metadata(path)
            size = max(size, _BYTES_A_VALUE * about.num_rows * about.num_columns)
    return size


class Need(NamedTuple):
    """what : needs all rows in memory; moments_do : whether a Gaussian model would not"""

    what: str
    moments_do: bool = False


ALL_METHODS = Need("comparing methods")


def fit_model(
    named: InputFiles,
    given: FitOptions,
    stream: bool | None,
    need: Need | None = None,
) -> tuple[BIP, Any]:
    """The model, and the rows or moments it was fitted to. stream : None by size; need : what needs
    rows anyway"""
    model = given.bip(given.jobs)
    in_pieces = _streams(named, stream, given)
    if in_pieces and not stream:
        need = need or _whole_table(given)
    data = _read_in_pieces(named, given, model, need) if in_pieces else read_rows(named, given)
    for note in default_notes(model, given, data):
        say("note", note)
    return model.fit(data), data


def _whole_table(given: FitOptions) -> Need | None:
    """Return the option that needs the whole table, which is read in pieces only with --stream."""
    settings = needing_the_table(given.missing, given.columns)
    return (
        Need(" and ".join(in_shell(name, value) for name, value in settings.items()))
        if settings
        else None
    )


def begin(model: BIP, data: MultiEnvironmentData) -> None:
    """Do what a fit does before its search: raises what it would be refused for."""
    family, data = with_family_columns(
        resolve_family(as_family(model.family), data, model.deviations), data
    )
    with compilation_explained(False), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        FitSettings.of(model, np.random.default_rng(0), family).target(data)


def try_fit(file: Path, given: FitOptions, content: bytes | None) -> None:
    """Read a table as `fit` does, and begin to fit it. content : of standard input"""
    named = InputFiles([file])
    if _streams(named, None, given) and not needs_whole(file, given):
        asked = given.outcome, given.compared, given.columns, given.environments, given.missing
        opened(named.rows, Wanted(*asked), {"form": given.form})
    source = TableFile(file.expanduser(), given.form, content)
    begin(
        given.bip(given.jobs),
        MultiEnvironmentData.from_table(source, given.outcome, given.compared, **given.reading()),
    )


def needs_whole(file: Path, given: FitOptions) -> bool:
    """Return whether a file would be read in pieces, and a setting needs the whole table."""
    return bool(needing_the_table(given.missing, given.columns)) and _streams(
        InputFiles([file]), None, given
    )


def _streams(named: InputFiles, asked: bool | None, given: FitOptions) -> bool:
    if named.is_piped and asked:
        raise SettingError(
            "--stream needs a file, and standard input is read as a whole: save it as a file."
        )
    if named.is_piped or asked is not None:
        return bool(asked)
    if named.file is None:
        return True
    if parts_of(given.compared) is not None:  # several columns of environments need all rows
        return False
    size = named.size
    free = free_bytes()
    return (size >= LARGE_INPUT or (free is not None and size * _GROWTH >= free)) and find_spec(
        "pyarrow"
    ) is not None


def _read_in_pieces(
    named: InputFiles, given: FitOptions, model: BIP, need: Need | None
) -> MultiEnvironmentData | Moments:
    """Moments, or all rows where something needs them"""
    for option in ("event", "exposure"):
        if getattr(given, option) is not None:
            need = need or Need(f"a model with --{option}")
    family = as_family(model.family)
    if needs_rows(family):
        need = need or Need(f"the model {type(family).__name__}", moments_do=True)
    if need is not None:
        return read_rows(named, given, need)
    asked = given.outcome, given.compared, given.columns, given.environments, given.missing
    source, wanted = opened(named.rows, Wanted(*asked), {"form": given.form})
    rows = wanted.screened(of_source(source, wanted, n_workers(model.n_jobs), model.progress))
    kind = rows.outcome_kind
    of_text = given.outcome in rows.rows.levels
    name = FAMILY_OF_KIND[kind.kind] if model.family == AUTO else GAUSSIAN
    if name != GAUSSIAN or of_text:
        what = (
            "an outcome of text"
            if name == GAUSSIAN
            else f"the {name.replace('_', ' ')} model ({kind.reason})"
        )
        return read_rows(named, given, Need(what, moments_do=not of_text))
    moments = rows.moments()
    weights = rows.rows.weights  # by which rows count several times, or not at all
    n_rows = rows.rows.tally.n_rows if weights is None else weights.n_rows
    other = "" if named.file is None else "; --no-stream reads it as a whole"
    what = f"read {n_rows:,} rows of {source.name} in pieces, and kept their moments and a sample"
    say("note", f"{what}{other}")
    return moments


def read_rows(
    named: InputFiles, given: FitOptions, need: Need | None = None
) -> MultiEnvironmentData:
    """All rows in memory; need : what for, where they could be read in pieces"""
    if named.file is not None and (need is None or parts_of(given.compared) is not None):
        return read_file(named.file, given)
    refuse_design(given.compared, "reading several files")
    source = source_of(
        named.rows, form=given.form, warn_unnamed=given.features is None and named.file is None
    )
    with_outcome = stated(given.event, given.exposure)
    asked = given.outcome, given.compared, given.columns, source.name, with_outcome
    *_, features = resolve_columns(source.schema.names, *asked)
    columns = [
        *features,
        given.outcome,
        *with_outcome.values(),
        *([given.weight] if given.weight else []),
    ]
    too_many = crowded(
        source, given.compared, columns, *(need or Need("reading a table as a whole (--no-stream)"))
    )
    if too_many is not None:
        raise DataError(too_many)
    why = "" if need is None else f": {need.what} needs them"
    say("note", f"all rows of {source.name} are read into memory{why}")
    if named.file is not None:
        return read_file(named.file, given)
    frame = frame_of(source, given.compared, columns)
    options = given.reading() | {"columns": replace(given.columns, features=None, exclude=())}
    return MultiEnvironmentData.from_table(frame, given.outcome, given.compared, **options)


def read_file(file: Path, given: FitOptions) -> MultiEnvironmentData:
    source = given.open(file)
    data = MultiEnvironmentData.from_table(source, given.outcome, given.compared, **given.reading())
    say(
        "detail",
        (
            f"read {data.n_rows:,} rows, {data.n_features} features and {data.n_environments} "
            f"environments from {source.name}"
        ),
    )
    return data


def default_notes(model: BIP, given: FitOptions, data: MultiEnvironmentData | Moments) -> list[str]:
    """Notes on the outcome model and the prior, where the defaults may surprise."""
    told = []
    choice = family_of(data)
    if model.family == AUTO and choice.name != GAUSSIAN:
        other = "; --family gaussian overrides" if choice.overridable else ""
        told.append(f"outcome model: {choice.name.replace('_', ' ')} ({choice.reason}){other}")
    return [*told, *map(for_shell, many_features(given, data))]


def many_features(given: FitOptions, data: MultiEnvironmentData | Moments) -> list[Message]:
    """A note on the prior, where its default may surprise"""
    if given.prior != "uniform" or given.max_size is not None or data.n_features <= MANY_FEATURES:
        return []
    return [
        Message(
            (
                f"the uniform prior expects about half of the {data.n_features} features to be "
                "invariant; for smaller subsets"
            ),
            use(prior="beta-binomial"),
            use(max_size=10),
        )
    ]
