"""Gene expression of yeast with one gene deleted (Kemmeren et al., Cell 2014), from the published files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats
from ..data.checks import listing, warn
from ..exceptions import DataError, FileError
from ..simulation.knockouts import Deletions
from .yeast_table import DELETIONS, GENES, MATRIX, ORIGIN, WILD_TYPES, YeastTable

PathLike = str | os.PathLike[str]
_R_BEGINNINGS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"RDX")
_HDF5_BEGINNING = b"\x89HDF"
_ZIP_BEGINNING = b"PK"
# No checksum comes with the files. These were written down in a public repository.
_WITNESS = "github.com/Mjvolk3/torchcell"


class _Published(NamedTuple):
    lines: int | None = None
    sha256: str | None = None


_PUBLISHED = {
    "deleteome_all_mutants_controls.txt": _Published(lines=6184),
    "deleteome_all_mutants_ex_wt_var_controls.txt": _Published(
        6125, "7f93af3567f943c8e428bb18e09633cd996aafd756bfdddd24b04312fdc61580"
    ),
    "deleteome_responsive_mutants_ex_wt_var_controls.txt": _Published(
        sha256="563f30640c2a938e8e465ce7fc68a4929d43ec26656deba09859b285c86f9286"
    ),
}


def load_yeast(*paths: PathLike, names: Mapping[str, str] | None = None) -> Deletions:
    """Log2 expression ratios of yeast genes in wild types and in strains with one gene deleted.

    paths : one of
        Kemmeren.RData (needs the extra `genes`): 262 wild types, 1,479 deletions, 6,170 genes;
        its form in HDF5, with obser/data, inter/data, ids/genes and ids/mutants (needs the extra `genes`);
        text files, together: deleteome_all_mutants_controls.txt, which has no wild types, or limma_MARG_*_mutants.txt,
        and limma_MARG_wt_pool.txt, limma_MARG_wt_pool_platereader.txt; or a folder with them
    names : {name of a gene: its systematic name}, for names that text files do not explain

    `describe()` of the result tells what was understood. Nothing is left out without a DataWarning, apart from the
    three comparisons of wild types under other conditions in the deleteome files.
    """
    files = [file for path in paths for file in _files_at(path)]
    if not files:
        raise DataError(f"load_yeast needs the path of a file, such as load_yeast('Kemmeren.RData'). {ORIGIN}")
    table = _read(files, names)
    notes = [*table.notes, *table.warnings, *_same_values(table.samples, table.values)]
    checks = [check for file in files for check in _compared(file)]
    deletions = Deletions(
        table.values, table.genes, table.samples, table.deleted, (*notes, *(check.text for check in checks))
    )
    complaints = [*table.warnings, *(check.text for check in checks if check.doubtful)]
    if np.isnan(deletions.silenced):
        complaints.append("No deleted gene is among the measured ones: do both have systematic names?")
    if deletions.silenced < 0.5:
        complaints.append(
            f"Only in {deletions.silenced:.0%} of the deletions is the deleted gene below all wild types: the names of "
            "the deletions do not seem to belong to their rows."
        )
    for complaint in complaints:
        warn(complaint)
    return deletions


def _files_at(path: PathLike) -> list[Path]:
    place = Path(path).expanduser()
    if not place.exists():
        raise FileError(f"there is no file {str(path)!r}. {ORIGIN}")
    if not place.is_dir():
        return [place]
    files = sorted(place.glob("*.txt"))
    if not files:
        raise DataError(f"the folder {str(path)!r} has no .txt files: name the file to read. {ORIGIN}")
    return files


def _read(files: list[Path], names: Mapping[str, str] | None) -> YeastTable:
    kinds = {_kind(file) for file in files}
    if kinds == {"text"}:
        from .yeast_text import read_text

        return read_text(files, names)
    if len(files) > 1:
        raise DataError(f"{listing(file.name for file in files)}: one file, unless all are text files. {ORIGIN}")
    from .yeast_matrices import read_hdf5, read_rdata

    table = read_hdf5(files[0]) if kinds == {"hdf5"} else read_rdata(files[0])
    wild_types = table.deleted.count(None)
    fits = (wild_types, len(table.deleted) - wild_types, len(table.genes)) == (WILD_TYPES, DELETIONS, GENES)
    verdict = "so has this one" if fits else "this is another one, or a part of it"
    return replace(table, notes=(*table.notes, f"The published matrix has {MATRIX}: {verdict}."))


def _kind(file: Path) -> str:
    with file.open("rb") as source:
        beginning = source.read(8)
    if beginning.startswith(_HDF5_BEGINNING):
        return "hdf5"
    if beginning.startswith(_R_BEGINNINGS):
        return "R"
    if beginning.startswith(_ZIP_BEGINNING):
        raise DataError(f"{file.name} is a zip archive. Unpack it, or read panels from .npz with load_yeast_panels().")
    return "text"


class _Check(NamedTuple):
    text: str
    doubtful: bool = False


def _compared(file: Path) -> list[_Check]:
    """The file beside what is known in public of the file of that name."""
    known = _PUBLISHED.get(file.name, _Published())
    checks = []
    with file.open("rb") as source:
        digest = hashlib.file_digest(source, "sha256").hexdigest()
    if known.sha256 is None:
        checks.append(_Check(f"SHA-256 of {file.name}: {digest}; none is published to compare it with."))
    elif digest == known.sha256:
        checks.append(_Check(f"SHA-256 of {file.name}: {digest}, as noted in {_WITNESS}."))
    else:
        other = (
            f"SHA-256 of {file.name}: {digest}; {_WITNESS} noted {known.sha256}: another edition, or a damaged file."
        )
        checks.append(_Check(other, doubtful=True))
    if known.lines is not None:
        with file.open("rb") as source:
            lines = sum(1 for _ in source)
        if lines < known.lines:
            cut = f"{file.name} has {lines:,} lines where {known.lines:,} are published: it may be cut off."
            checks.append(_Check(cut, doubtful=True))
    return checks


def _same_values(samples: tuple[str, ...], values: Floats) -> list[str]:
    """A note on samples that hold the same values as an earlier one."""
    first: dict[bytes, str] = {}
    pairs = []
    for sample, row in zip(samples, values, strict=True):
        earlier = first.setdefault(np.ascontiguousarray(row).tobytes(), sample)
        if earlier != sample:
            pairs.append(f"{sample} as {earlier}")
    return [f"Samples with the same values as another, all of them kept: {listing(pairs)}."] if pairs else []
