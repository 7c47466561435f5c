"""Gene expression of yeast with one gene deleted (Kemmeren et al., Cell 2014), from the published
files."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from invariance._tools.arrays import Floats
from invariance.data.checks import listing, quoted, warn
from invariance.exceptions import DataError, FileError, SettingError

from .knockouts import Deletions

WILD_TYPES = 262
DELETIONS = 1479
GENES = 6170
ORIGIN = (
    "The files come from https://deleteome.holstegelab.nl (Downloads), without checksums: under "
    "Causal inference "
    f"Kemmeren.RData, with {WILD_TYPES} wild types, {DELETIONS:,} deletions and {GENES:,} genes, "
    "and limma_MARG_*.txt. "
    "This package downloads nothing."
)
PANELS = "panels_nodes.npz"
STRAINS = "deletions.npz"
# A strain that changes fewer genes than this is called non-responsive, as Kemmeren et al. (2014)
# do.
RESPONSIVE_CHANGES = 4
OBSERVATIONAL = ("wild-types", "non-responsive")
_R_BEGINNINGS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"RDX")
_STRAIN_ARRAYS = ("log2_ratio_times_2000", "genes", "deleted", "replicate", "changes")
_STEPS_PER_UNIT = 2000.0
_EXTRA = "pip install 'invariant-prediction[genes]'."


@dataclass(frozen=True, eq=False)
class YeastDeletions(Deletions):
    """Complete measurements of both kinds of samples; notes : on the files that they were read
    from"""

    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape = self.values.shape
        needed = (len(self.samples), len(self.genes))
        if shape != needed or len(self.deleted) != len(self.samples):
            raise DataError(
                f"values have shape {shape} for {needed[0]} samples, {len(self.deleted)} deleted "
                f"and {needed[1]} genes."
            )
        twice = [gene for gene, times in Counter(self.genes).items() if times > 1]
        if twice:
            raise DataError(
                f"measured twice: {quoted(twice)}. Average the columns of a gene, or leave one out."
            )
        incomplete = ~np.isfinite(self.values)
        if incomplete.any():
            row, column = np.argwhere(incomplete)[0]
            raise DataError(
                f"{int(incomplete.sum()):,} values are missing or not finite, first of gene "
                f"{self.genes[column]!r} in "
                f"sample {self.samples[row]!r}. Leave out the genes or the samples without all "
                "values."
            )
        if not self.observational.any() or self.observational.all():
            kinds = " samples or all are ".join(self.labels)
            raise DataError(
                f"all {shape[0]:,} samples are {kinds} samples: both are needed. {ORIGIN}"
            )

    @cached_property
    def silenced(self) -> float:
        """Share of the deletions of measured genes with the deleted gene below all samples of the
        observational environment that have the gene; nan without any."""
        below = []
        for row, gene in enumerate(self.deleted):
            if gene in self.place:
                level = self.values[:, self.place[gene]]
                others = self.observational.copy()
                others[self.deleting(gene)] = False
                below.append(level[row] < level[others].min())
        return float(np.mean(below)) if below else np.nan

    def describe(self) -> str:
        """Samples, genes and deletions in a few lines."""
        wild_types = int(self.wild_type.sum())
        n_deleted = len({gene for gene in self.deleted if gene is not None})
        deletions = f"{len(self.samples) - wild_types:,} deletions of {n_deleted:,} genes"
        lines = [
            f"{wild_types:,} wild types and {deletions}; {len(self.genes):,} genes are measured.",
            f"The deleted gene, if measured, is below all {self.labels[0]} samples in "
            f"{self.silenced:.0%} of the "
            "deletions.",
        ]
        if self.non_responsive is not None:
            lines.append(
                f"Environment one is {int(self.observational.sum()):,} non-responsive strains, "
                "which change fewer than "
                f"{RESPONSIVE_CHANGES} genes, in place of wild types; environment two the other "
                f"{int((~self.observational).sum()):,}."
            )
        if unmeasured := sorted(
            {gene for gene in self.deleted if gene is not None} - set(self.genes)
        ):
            lines.append(f"Deleted and not measured: {listing(unmeasured)}.")
        return "\n".join([*lines, *self.notes])


def load_yeast(
    *paths: str | os.PathLike[str],
    names: Mapping[str, str] | None = None,
    observational: str | None = None,
) -> YeastDeletions:
    """Log2 expression ratios of yeast genes in wild types and in strains with one gene deleted.

    paths : one of
        Kemmeren.RData (needs the extra `genes`);
        its form in HDF5, with obser/data, inter/data, ids/genes and ids/mutants (needs the extra
        `genes`); text files, together: deleteome_all_mutants_controls.txt, which has no wild types,
        or limma_MARG_*_mutants.txt, and limma_MARG_wt_pool.txt, limma_MARG_wt_pool_platereader.txt;
        or a folder with them deletions.npz, or its folder: strains without wild types, with the
        number of genes that each strain changes
    names : {name of a gene: its systematic name}, for names that text files do not explain
    observational : "wild-types" or "non-responsive", the samples of environment one; by default
        wild types if the file has any

    Nothing is left out without a DataWarning.
    """
    if observational not in (None, *OBSERVATIONAL):
        raise SettingError(
            f"observational={observational!r} is not known: use {' or '.join(OBSERVATIONAL)}."
        )
    files = [file for path in paths for file in _files_at(Path(path).expanduser())]
    kinds = {_kind(file) for file in files}
    if kinds == {"npz"} and len(files) == 1:
        return _strains(files[0], observational)
    if observational == "non-responsive":
        raise DataError(
            f"{STRAINS} alone says how many genes a strain changes: leave out observational= for "
            f"{paths}."
        )
    if kinds == {"text"}:
        found = read_text(files, names or {})
    elif len(files) == 1:
        found = read_hdf5(files[0]) if kinds == {"hdf5"} else read_rdata(files[0])
    else:
        raise DataError(
            f"load_yeast needs one file, a folder with {STRAINS}, or text files: "
            f"load_yeast('Kemmeren.RData'). {ORIGIN}"
        )
    return _checked(YeastDeletions(*found, notes=_digests(files)))


def _digests(files: Iterable[Path]) -> tuple[str, ...]:
    return tuple(
        f"SHA-256 of {file.name}: {hashlib.sha256(file.read_bytes()).hexdigest()}."
        for file in files
    )


def _checked(deletions: YeastDeletions) -> YeastDeletions:
    if not deletions.silenced >= 0.5:
        warn(
            f"Only in {deletions.silenced:.0%} of the deletions is the deleted gene below all "
            f"{deletions.labels[0]} "
            "samples: are the names of the deletions systematic, and do they belong to their rows?"
        )
    return deletions


def _files_at(place: Path) -> list[Path]:
    if not place.exists():
        raise FileError(f"there is no file {str(place)!r}. {ORIGIN}")
    if (place / STRAINS).exists():
        return [place / STRAINS]
    return sorted(place.glob("*.txt")) if place.is_dir() else [place]


def _kind(file: Path) -> str:
    with file.open("rb") as source:
        beginning = source.read(8)
    if beginning.startswith(b"\x89HDF"):
        return "hdf5"
    if beginning.startswith(b"PK"):
        return "npz"
    return "R" if beginning.startswith(_R_BEGINNINGS) else "text"


def _strains(file: Path, observational: str | None) -> YeastDeletions:
    """Read log2_ratio_times_2000 (strains × genes), genes, deleted, replicate and changes from an
    archive of NumPy."""
    try:
        with np.load(file, allow_pickle=False) as archive:
            lacking = [name for name in _STRAIN_ARRAYS if name not in archive]
            if lacking:
                raise DataError(
                    f"{file.name} has no {quoted(lacking)}: {STRAINS} needs the arrays "
                    f"{', '.join(_STRAIN_ARRAYS)}."
                )
            ratios, genes, deleted, replicate, changes = (archive[name] for name in _STRAIN_ARRAYS)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{file.name} cannot be read as {STRAINS}: {error}. Is the file whole?"
        ) from error
    if observational == "wild-types":
        raise DataError(
            f"{file.name} has no wild types: use observational='non-responsive', or Kemmeren.RData."
        )
    if not len(deleted) == len(replicate) == len(changes) == len(ratios):
        lengths = (
            f"{len(deleted)} deleted genes, {len(replicate)} replicates and {len(changes)} "
            "numbers of changes"
        )
        raise DataError(f"{file.name} has {lengths} for {len(ratios)} strains.")
    names = _words(deleted)
    samples = tuple(
        f"{name} {number}" for name, number in zip(names, _words(replicate), strict=True)
    )
    found = (
        ratios / _STEPS_PER_UNIT,
        tuple(_words(genes)),
        samples,
        tuple(names),
        changes < RESPONSIVE_CHANGES,
    )
    return _checked(YeastDeletions(*found, notes=_digests([file])))


# values (n, d), genes, samples, deleted: as in `Deletions`
Found = tuple[Floats, tuple[str, ...], tuple[str, ...], tuple[str | None, ...]]


def read_rdata(file: Path) -> Found:
    """A list with obs (wild types × genes), int (deletions × genes), genenames, and mutantnames or
    intpos.

    intpos : for each deletion the position of its gene in genenames, from 1
    """
    try:
        import rdata
    except ImportError as error:
        raise DataError(f"reading {file.name} needs rdata: {_EXTRA}") from error
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            objects = rdata.read_rda(file, default_encoding="utf-8")
        members = next(
            found for found in objects.values() if isinstance(found, dict) and "obs" in found
        )
        genes = _words(members["genenames"])
        wild = members["obs"]
        mutated = members["int"]
        mutants = _words(members["mutantnames"]) if "mutantnames" in members else None
        if "intpos" in members:
            positions = np.asarray(members["intpos"]).ravel().astype(int)
            if positions.min() < 1:
                raise IndexError("intpos counts from 1")
            deleted = [genes[position - 1] for position in positions]
            if mutants not in (None, deleted):
                raise ValueError("intpos and mutantnames disagree")
            mutants = deleted
        elif mutants is None:
            raise KeyError("mutantnames")
        for matrix in (wild, mutated):
            columns = getattr(matrix, "coords", {}).get("dim_1")
            if columns is not None and _words(columns) != genes:
                raise ValueError(
                    "genenames and the columns of a matrix are not the same genes in the same order"
                )
    except Exception as error:  # whatever the bytes of a damaged file lead the reader to
        raise DataError(
            f"{file.name} is not the published list of R: {error!r}. Is the file whole? {ORIGIN}"
        ) from error
    named = getattr(wild, "coords", {})
    samples = (
        _words(named["dim_0"])
        if "dim_0" in named
        else [f"wild type {i + 1}" for i in range(len(wild))]
    )
    return _joined(
        file, np.asarray(wild, float), np.asarray(mutated, float), genes, samples, mutants
    )


def read_hdf5(file: Path) -> Found:
    """Data sets obser/data and inter/data (genes × samples, as Python sees what R wrote), ids/genes
    and ids/mutants."""
    try:
        import h5py
    except ImportError as error:
        raise DataError(f"reading {file.name} needs h5py: {_EXTRA}") from error
    try:
        with h5py.File(file) as source:
            wild, mutated = (
                np.asarray(source[name][()], float).T for name in ("obser/data", "inter/data")
            )
            genes, mutants = (_words(source[name][()]) for name in ("ids/genes", "ids/mutants"))
    except (OSError, KeyError) as error:
        raise DataError(
            f"{file.name} cannot be read as HDF5: {error}. Is the file whole? {ORIGIN}"
        ) from error
    return _joined(
        file, wild, mutated, genes, [f"wild type {i + 1}" for i in range(len(wild))], mutants
    )


def _joined(
    file: Path,
    wild: Floats,
    mutated: Floats,
    genes: list[str],
    samples: list[str],
    mutants: list[str],
) -> Found:
    if wild.shape != (len(samples), len(genes)) or mutated.shape != (len(mutants), len(genes)):
        raise DataError(
            f"{file.name} has {len(genes)} gene names and {len(mutants)} deletions, which do not "
            "fit matrices of "
            f"shapes {wild.shape} (wild types) and {mutated.shape} (deletions)."
        )
    return (
        np.vstack([wild, mutated]),
        tuple(genes),
        (*samples, *mutants),
        (*[None] * len(wild), *mutants),
    )


def _words(names: Any) -> list[str]:
    words = np.asarray(names).ravel().tolist()
    return [(word.decode() if isinstance(word, bytes) else str(word)).strip() for word in words]


_VERSUS = re.compile(r"[\s.\-_]+vs\b[\s.\-_]*", re.IGNORECASE)
_DELETION = re.compile(r"[\-_. ]del(?![a-z])", re.IGNORECASE)
_WILD_TYPE = re.compile(r"(wt|refpool)\b", re.IGNORECASE)
_OTHER_CONDITION = re.compile(
    r"wt[\-_. ](mata|by4743|ypd)\b", re.IGNORECASE
)  # mating type, ploidy and medium
_SYSTEMATIC = re.compile(r"Y[A-P][LR]\d{3}[WC](-[A-Z])?|Q\d{4}")
# Above the genes, deleteome files have what is compared and the type of value. The limma_MARG
# files, which have no gene symbols, go on with dye swap, extraction protocol and sample.
_HEADER_LINES = 2
_HEADER_LINES_WITHOUT_SYMBOLS = 5


def deleted_in(condition: str) -> str | None:
    """The gene that is deleted in what a column compares, as written; None in a wild type, "" in
    anything else."""
    sample, _, reference = _VERSUS.sub("\t", condition.strip(), count=1).partition("\t")
    name, *more = _DELETION.split(sample)
    if (reference and not _WILD_TYPE.match(reference)) or len(more) > 1:
        return ""
    if more:
        return name
    return None if _WILD_TYPE.match(sample) and not _OTHER_CONDITION.match(sample) else ""


def read_text(files: Sequence[Path], names: Mapping[str, str]) -> Found:
    """M-values (log2 ratios to the wild type) of the wild types and deletions in these files
    together; reporters of one
    gene are averaged. names : {name of a gene: its systematic name} for those that the files do not
        explain
    """
    tables, symbols = zip(*map(_read_table, files), strict=True)
    known = [
        condition for table in tables for condition in set(table.columns) if deleted_in(condition)
    ]
    twice = [condition for condition, count in Counter(known).items() if count > 1]
    if twice:
        raise DataError(f"{quoted(twice)}: in two of the files. Leave one of the two editions out.")
    joined = pd.concat(tables, axis=1, join="inner")
    kinds = [deleted_in(condition) for condition in joined.columns]
    if left_out := [
        condition for condition, kind in zip(joined.columns, kinds, strict=True) if kind == ""
    ]:
        warn(
            f"Left out, neither a wild type nor a deletion against a wild type: {quoted(left_out)}."
        )
    joined = joined.loc[:, [kind != "" for kind in kinds]]
    complete = joined.dropna()
    if not len(complete):
        raise DataError(
            f"no gene has all values in {quoted(file.name for file in files)}: are the names "
            "systematic?"
        )
    if lost := sorted({gene for table in tables for gene in table.index} - set(complete.index)):
        warn(
            f"{len(lost):,} genes are not in all files or miss values, and are left out: "
            f"{listing(lost)}."
        )
    called = systematic_names(complete.index, [pair for pairs in symbols for pair in pairs], names)
    deleted = tuple(None if name is None else called(name) for name in kinds if name != "")
    if unknown := [name for name in kinds if name and not _SYSTEMATIC.fullmatch(called(name))]:
        warn(
            "The files do not tell the systematic names of deleted genes "
            f"{quoted(dict.fromkeys(unknown))}: pass "
            f"names={{{unknown[0]!r}: '...'}}, with every such gene."
        )
    return complete.to_numpy().T, tuple(complete.index), tuple(complete.columns), deleted


def _read_table(file: Path) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Genes × conditions, and (symbol, gene) where the file has symbols."""
    with file.open(encoding="utf-8", errors="replace") as source:
        lines = [
            [cell.strip('" ') for cell in source.readline().rstrip("\n").split("\t")]
            for _ in range(5)
        ]
    conditions, kinds = lines[:2]
    columns = [j for j, kind in enumerate(kinds) if kind == "M"]
    if not columns or len(conditions) != len(kinds):
        raise DataError(
            f"{file.name} is not a deleteome_*.txt or limma_MARG_*.txt file: its second line "
            "should say "
            f"which columns are M and which A, with tabs between them. {ORIGIN}"
        )
    gene = conditions.index("systematicName") if "systematicName" in conditions else 0
    symbol = conditions.index("geneSymbol") if "geneSymbol" in conditions else None
    header = _HEADER_LINES_WITHOUT_SYMBOLS if symbol is None else _HEADER_LINES
    if any(_SYSTEMATIC.fullmatch(line[gene].upper()) for line in lines[2:header]):
        raise DataError(
            f"{file.name} has genes before line {header + 1}, where it should have a header."
        )
    try:
        table = pd.read_csv(file, sep="\t", header=None, skiprows=header, dtype=str)
        table = table[table[gene].notna()]
        values = table[columns].astype(float)
    except (ValueError, KeyError) as error:
        raise DataError(f"{file.name} is damaged: {error}. {ORIGIN}") from error
    genes = [str(name).strip().upper() for name in table[gene]]
    values.index, values.columns = pd.Index(genes), pd.Index([conditions[j] for j in columns])
    found = (
        [] if symbol is None else list(zip(table[symbol].fillna("").map(str), genes, strict=True))
    )
    return values.groupby(level=0, sort=False).mean(), found


def systematic_names(
    genes: Iterable[str], symbols: Iterable[tuple[str, str]], given: Mapping[str, str]
) -> Callable[[str], str]:
    """A function from any name of a gene to its systematic name; a name that stands for no gene or
    for several stays.

    symbols : (symbol, systematic name), several symbols with ; or | or / between; given : comes
        before both
    """
    meant: dict[str, set[str]] = {}
    for symbol, gene in symbols:
        for name in re.split(r"[;|/]", symbol):
            meant.setdefault(_key(name), set()).add(gene)
    known = {key: min(found) for key, found in meant.items() if len(found) == 1}
    known |= {_key(gene): gene for gene in genes}
    known |= {_key(name): gene for name, gene in given.items()}
    return lambda name: known.get(_key(name), name.replace("_", "-").upper())


def _key(name: str) -> str:
    """Without capitals, hyphens and the like, which files write in different ways."""
    return "".join(letter for letter in name.upper() if letter.isalnum())


def load_yeast_panels(path: str | os.PathLike[str]) -> tuple[YeastDeletions, ...]:
    """Excerpts of the file, panels of genes that are each deleted once: panels_nodes.npz, or the
    folder where it lies.

    A panel is 2% of the published matrix: few direct parents of a gene are inside, and a null
    result is possible.
    """
    place = Path(path).expanduser()
    file = place / PANELS if place.is_dir() else place
    try:
        with np.load(file) as archive:
            arrays = [archive[name] for name in ("X", "samples", "genes", "is_obs", "ko_index")]
        return tuple(_panel(*one) for one in zip(*arrays, strict=True))
    except DataError:
        raise
    except Exception as error:
        raise DataError(
            f"{file} cannot be read as {PANELS}: {error}. Check that the file is whole."
        ) from error


def _panel(
    values: np.ndarray,
    samples: np.ndarray,
    genes: np.ndarray,
    wild_type: np.ndarray,
    position: np.ndarray,
) -> YeastDeletions:
    if not np.array_equal(wild_type, position < 0):
        raise DataError(
            "is_obs and ko_index of a panel do not agree on which samples are wild types."
        )
    names = tuple(genes.tolist())
    deleted = tuple(None if j < 0 else names[j] for j in position.tolist())
    return YeastDeletions(values, names, tuple(samples.tolist()), deleted)
