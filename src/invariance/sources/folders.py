"""Which files a path, a pattern, a folder or a list of these stands for, and the labels in their paths."""

from __future__ import annotations

import glob
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from ..data.checks import quoted
from ..data.reading import parse_label
from ..data.table_file import PathLike, TableFile
from ..exceptions import DataError

if TYPE_CHECKING:
    import pyarrow as pa

# What Hive, Spark and others write for a missing label.
_NO_LABEL = "__HIVE_DEFAULT_PARTITION__"
_LARGEST = 2**53  # what is beyond, a code of many digits, stays text


@dataclass(frozen=True)
class Part(TableFile):
    """shown : what messages call the file
    labels : {column: (value, type)} from the folders around it, `site=A`
    """

    shown: str = ""
    labels: Mapping[str, tuple[Any, pa.DataType]] = field(default_factory=dict, compare=False)

    @property
    def name(self) -> str:
        return self.shown or super().name

    @property
    def ending(self) -> str | None:
        """What tells the kind of the file; None where nothing does."""
        return self._suffix or (self.path.suffix if self.sep is not None else None)

    @property
    def n_bytes(self) -> int:
        return self.path.stat().st_size if self.content is None else len(self.content)


def parts_of(paths: PathLike | Sequence[PathLike], **form: Any) -> list[Part]:
    """The files, in the order of the list, those of a folder or pattern in natural order; with labels that stand in
    their paths below the folder that they share. form: how the files are written, as in TableFile.of."""
    if isinstance(paths, TableFile):
        form = {each.name: getattr(paths, each.name) for each in fields(TableFile) if each.name != "path"}
        if paths.content is not None:
            return [Part(paths.path, **form)]
    found = [_files(path, **form) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    base = os.path.commonpath([folder for folder, _ in found])
    parts = [part for _, files in found for part in files]
    _check_distinct(parts)
    if len(parts) > 1:
        _check_one_kind(parts, base)
        parts = [replace(part, shown=str(part.path.relative_to(base))) for part in parts]
    return _labelled(parts, base)


def _files(path: PathLike, **form: Any) -> tuple[Path, list[Part]]:
    """The folder in which labels begin, and the files."""
    if "://" in os.fspath(path):
        raise DataError(
            f"{os.fspath(path)!r} is no path on this machine: pass a reader of its rows, such as "
            f"pyarrow.dataset.dataset({os.fspath(path)!r}).scanner().to_reader()."
        )
    place = Path(os.path.abspath(os.path.expanduser(path)))
    if place.is_dir():
        base, files = place, sorted(_walk(place), key=_natural)
    elif place.exists() or not glob.has_magic(str(place)):
        return place.parent, [_part(place, **form)]
    else:
        base = Path(*place.parts[: next(n for n, step in enumerate(place.parts) if glob.has_magic(step))])
        files = sorted(set(_matches(place, base)), key=_natural)
    if not files:
        if place.is_dir():
            raise DataError(f"{os.fspath(path)!r} holds no files. Check the path and the working directory.")
        raise DataError(
            f"the pattern {os.fspath(path)!r} matches no file: {_held(base)}. Check the path and the working directory."
        )
    parts = [_part(file, **form) for file in files]
    strange = [part for part in parts if part.ending is None]
    if strange:
        known = Counter(part.ending for part in parts if part.ending).most_common(1)
        ending = known[0][0] if known else ".csv"
        raise DataError(
            f"{os.fspath(path)!r} has files that are no tables: {quoted(_shown(strange, base))}. Say with a pattern "
            f"which to read, such as {str(Path(base, '**', f'*{ending}'))!r}."
        )
    return base, parts


def _held(folder: Path) -> str:
    """What is where a pattern begins"""
    if not folder.is_dir():
        return f"there is no folder {str(folder)!r}"
    names = sorted((path for path in folder.iterdir() if not _hidden(path.name)), key=_natural)
    return f"the folder {str(folder)!r} holds {quoted([path.name for path in names], 4) if names else 'nothing'}"


def _part(path: Path, **form: Any) -> Part:
    return cast(Part, Part.of(path, **form))


def _matches(pattern: Path, base: Path) -> Iterator[Path]:
    for text in glob.iglob(str(pattern), recursive=True):
        path = Path(text)
        if path.is_dir():
            yield from _walk(path, base)
        elif not any(map(_hidden, path.relative_to(base).parts)):
            yield path


def _walk(folder: Path, base: Path | None = None) -> Iterator[Path]:
    if base is not None and any(map(_hidden, folder.relative_to(base).parts)):
        return

    def complain(error: OSError) -> None:
        raise DataError(f"the folder {error.filename!r} cannot be read: {error.strerror}. Check its permissions.")

    for place, folders, files in os.walk(folder, onerror=complain, followlinks=True):
        folders[:] = [name for name in folders if not _hidden(name)]
        yield from (Path(place, name) for name in files if not _hidden(name))


def _hidden(name: str) -> bool:
    """Spark's _SUCCESS, .crc files and the like; not the label of a column whose name begins with _."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _natural(path: Path) -> list[tuple[list[str | int], str]]:
    """part-2 before part-10"""
    steps = [(re.split(r"(\d+)", step), step) for step in path.parts]
    return [([int(piece) if n % 2 else piece for n, piece in enumerate(pieces)], step) for pieces, step in steps]


def _shown(parts: Iterable[Part], base: PathLike) -> list[str]:
    return [os.path.relpath(part.path, base) for part in parts]


def _check_distinct(parts: Sequence[Part]) -> None:
    seen: dict[str, Path] = {}
    for part in parts:
        first = seen.setdefault(os.path.realpath(part.path), part.path)
        if first is not part.path:
            raise DataError(f"{str(part.path)!r} is among the files twice, also as {str(first)!r}: name it once.")


def _check_one_kind(parts: Sequence[Part], base: PathLike) -> None:
    examples: dict[str | None, Part] = {}
    for part in parts:
        examples.setdefault(part.ending, part)
    if len(examples) > 1:
        raise DataError(
            f"the files are of several kinds: {quoted(_shown(examples.values(), base))}. Pass files that end alike, "
            f"such as {str(Path(base, '**', f'*{parts[0].ending}'))!r}, so that no rows are read twice."
        )


def _labelled(parts: Sequence[Part], base: PathLike) -> list[Part]:
    written = [_labels_in(part, base) for part in parts]
    columns = {name: _typed([found[name] for found in written]) for name in _common_names(parts, written)}
    return [
        replace(part, labels={name: (values[n], kind) for name, (values, kind) in columns.items()})
        for n, part in enumerate(parts)
    ]


def _labels_in(part: Part, base: PathLike) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for step in part.path.relative_to(base).parts[:-1]:
        name, sign, value = map(unquote, step.partition("="))
        if not sign or not name:
            continue
        if name in found:
            raise DataError(f"the path of {part.name} has two labels {name!r}: rename one of the folders.")
        found[name] = None if value == _NO_LABEL or value in part.na else value
    return found


def _common_names(parts: Sequence[Part], written: Sequence[Mapping[str, str | None]]) -> list[str]:
    for part, found in zip(parts, written, strict=True):
        for name in {**written[0], **found}:
            if name not in found or name not in written[0]:
                without, having = (part, parts[0]) if name not in found else (parts[0], part)
                raise DataError(
                    f"the path of {without.name} has no label {name!r}, unlike that of {having.name}: move it into a "
                    "folder with such a label, or leave it out."
                )
    return list(written[0])


def _typed(written: Sequence[str | None]) -> tuple[list[Any], pa.DataType]:
    """Numbers where all labels are, else text, as codes."""
    import pyarrow as pa

    parsed = {text: parse_label(text) for text in written if text is not None}
    kinds = set(map(type, parsed.values()))
    if not kinds or str in kinds or any(abs(value) > _LARGEST for value in parsed.values() if type(value) is int):
        return list(written), pa.dictionary(pa.int32(), pa.string())
    return [None if text is None else parsed[text] for text in written], pa.int64() if kinds == {int} else pa.float64()
