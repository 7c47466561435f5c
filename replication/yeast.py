"""Gene expression of yeast with one gene deleted (Kemmeren et al., Cell 2014), from the published files."""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from invariance._tools.arrays import Floats, Mask
from invariance.data.checks import listing, quoted, warn
from invariance.exceptions import DataError, FileError
from invariance.simulation.knockouts import DELETION, WILD_TYPE, Deletions

if TYPE_CHECKING:
    import h5py

WILD_TYPES, DELETIONS, GENES = 262, 1479, 6170
MATRIX = f"{WILD_TYPES} wild types, {DELETIONS:,} deletions and {GENES:,} genes"
ORIGIN = (
    "The files come from https://deleteome.holstegelab.nl (Downloads), without checksums: under Causal inference "
    f"Kemmeren.RData, with {MATRIX}, and limma_MARG_*.txt. This package downloads nothing."
)


@dataclass(frozen=True, eq=False)
class YeastTable:
    """Expression of d genes in n samples, as `Deletions` has it.

    notes : what was understood, in sentences
    warnings : what was left out or looks wrong, in sentences
    """

    values: Floats
    genes: tuple[str, ...]
    samples: tuple[str, ...]
    deleted: tuple[str | None, ...]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def numbered(names: Sequence[str]) -> tuple[str, ...]:
    """Names that occur again get a number: a, a (2), a (3)."""
    seen: Counter[str] = Counter()
    unique = []
    for name in names:
        seen[name] += 1
        unique.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return tuple(unique)


PathLike = str | os.PathLike[str]
_R_BEGINNINGS = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"RDX")
_HDF5_BEGINNING = b"\x89HDF"
_ZIP_BEGINNING = b"PK"


@dataclass(frozen=True, eq=False)
class YeastDeletions(Deletions):
    """Complete measurements of both kinds of samples; notes : what was noticed when they were read, in sentences"""

    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        shape, needed = self.values.shape, (len(self.samples), len(self.genes))
        if shape != needed or len(self.deleted) != len(self.samples):
            raise DataError(
                f"values have shape {shape} for {needed[0]} samples, {len(self.deleted)} deleted and {needed[1]} genes."
            )
        twice = [gene for gene, times in Counter(self.genes).items() if times > 1]
        if twice:
            raise DataError(f"measured twice: {quoted(twice)}. Average the columns of a gene, or leave one out.")
        incomplete = ~np.isfinite(self.values)
        if incomplete.any():
            row, column = np.argwhere(incomplete)[0]
            raise DataError(
                f"{int(incomplete.sum()):,} values are missing or not finite, first of gene {self.genes[column]!r} in "
                f"sample {self.samples[row]!r}. Leave out the genes or the samples without all values."
            )
        if not self.wild_type.any() or self.wild_type.all():
            kind = WILD_TYPE if self.wild_type.any() else DELETION
            raise DataError(f"all {shape[0]:,} samples are of one kind, {kind}: two environments are needed.")

    @cached_property
    def silenced(self) -> float:
        """Share of the deletions of measured genes with the deleted gene below all wild types; nan without any."""
        pairs = [
            (row, self.place[gene]) for gene, rows in self.rows_deleting.items() if gene in self.place for row in rows
        ]
        if not pairs:
            return np.nan
        rows, columns = np.array(pairs).T
        lowest = self.values[self.wild_type].min(axis=0)
        return float(np.mean(self.values[rows, columns] < lowest[columns]))

    def describe(self) -> str:
        """Samples, genes and deletions in a few lines, with the notes of whoever read them."""
        wild_types = int(self.wild_type.sum())
        deletions = f"{len(self.samples) - wild_types:,} deletions of {len(self.rows_deleting):,} genes"
        lines = [f"{wild_types:,} wild types and {deletions}; {len(self.genes):,} genes are measured."]
        if not np.isnan(self.silenced):
            lines.append(
                f"The deleted gene, where measured, is below all wild types in {self.silenced:.0%} of the deletions."
            )
        if unmeasured := [gene for gene in self.rows_deleting if gene not in self.place]:
            lines.append(f"Deleted and not measured: {listing(unmeasured)}.")
        if repeated := {gene: len(rows) for gene, rows in self.rows_deleting.items() if len(rows) > 1}:
            counts = listing(f"{gene} ({count})" for gene, count in repeated.items())
            lines.append(f"Deleted in several samples, all of them kept: {counts}.")
        return "\n".join([*lines, *self.notes])


def load_yeast(*paths: PathLike, names: Mapping[str, str] | None = None) -> YeastDeletions:
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
    digests = (f"SHA-256 of {file.name}: {hashlib.sha256(file.read_bytes()).hexdigest()}." for file in files)
    deletions = YeastDeletions(table.values, table.genes, table.samples, table.deleted, (*notes, *digests))
    complaints = list(table.warnings)
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
        return read_text(files, names)
    if len(files) > 1:
        raise DataError(f"{listing(file.name for file in files)}: one file, unless all are text files. {ORIGIN}")

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


def _same_values(samples: tuple[str, ...], values: Floats) -> list[str]:
    """A note on samples that hold the same values as an earlier one."""
    first: dict[bytes, str] = {}
    pairs = []
    for sample, row in zip(samples, values, strict=True):
        earlier = first.setdefault(np.ascontiguousarray(row).tobytes(), sample)
        if earlier != sample:
            pairs.append(f"{sample} as {earlier}")
    return [f"Samples with the same values as another, all of them kept: {listing(pairs)}."] if pairs else []


_EXTRA = "install it with pip install 'invariance[genes]'."


def read_rdata(file: Path) -> YeastTable:
    """A list with obs (wild types × genes), int (deletions × genes), genenames, and mutantnames or intpos.

    intpos : for each deletion the position of its gene in genenames, from 1
    """
    members = _r_list(file)
    genes = _names(members["genenames"]) if "genenames" in members else _axis_names(members["obs"], 1)
    if genes is None:
        raise DataError(f"{file.name} does not name the genes: genenames is missing, and obs has no column names.")
    for name in ("obs", "int"):
        columns = _axis_names(members[name], 1)
        if columns is not None and len(columns) == len(genes) and columns != genes:
            raise DataError(
                f"{file.name}: the columns of {name} and genenames are not the same genes in the same order."
            )
    mutants = _mutants(file, members, genes)
    wild, mutated, note = _samples_first(file, _floats(members["obs"]), _floats(members["int"]), genes, mutants, False)
    return _joined(wild, mutated, genes, mutants, _axis_names(members["obs"], 0), note)


def read_hdf5(file: Path) -> YeastTable:
    """Data sets obser/data and inter/data (genes × samples, as Python sees what R wrote), ids/genes and ids/mutants."""
    try:
        import h5py
    except ImportError as error:
        raise DataError(f"reading {file.name} needs h5py: {_EXTRA}") from error

    try:
        with h5py.File(file) as source:
            wild, mutated = (_floats(_dataset(file, source, name)) for name in ("obser/data", "inter/data"))
            genes, mutants = (_names(_dataset(file, source, name)) for name in ("ids/genes", "ids/mutants"))
    except OSError as error:
        raise DataError(f"{file.name} cannot be read as HDF5: {error}. Is the file whole? {ORIGIN}") from error
    wild, mutated, note = _samples_first(file, wild, mutated, genes, mutants, True)
    return _joined(wild, mutated, genes, mutants, None, note)


def _r_list(file: Path) -> dict[str, Any]:
    try:
        import rdata
    except ImportError as error:
        raise DataError(f"reading {file.name} needs rdata: {_EXTRA}") from error

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            objects = rdata.read_rda(file, default_encoding="utf-8")
    except NotImplementedError as error:
        raise DataError(
            f"{file.name} is not a file that R saved ({error}). If it is a packed text file, unpack it first. {ORIGIN}"
        ) from error
    except Exception as error:  # whatever the bytes of a damaged file lead the reader to
        raise DataError(f"{file.name} cannot be read as R data: {error}. Is the file whole? {ORIGIN}") from error
    lists = [found for found in objects.values() if isinstance(found, dict) and {"obs", "int"} <= set(found)]
    if len(lists) != 1:
        raise DataError(
            f"{file.name} should hold one list with obs and int; its objects are {quoted(objects)}. {ORIGIN}"
        )
    return {str(name): member for name, member in lists[0].items()}


def _dataset(file: Path, source: h5py.File, name: str) -> Any:
    if name not in source:
        found: list[str] = []
        source.visit(found.append)
        raise DataError(f"{file.name} has no {name}; it holds {quoted(found)}. {ORIGIN}")
    return source[name][()]


def _mutants(file: Path, members: Mapping[str, Any], genes: list[str]) -> list[str]:
    """The gene that each deletion deletes."""
    if "intpos" not in members:
        named = _names(members["mutantnames"]) if "mutantnames" in members else _axis_names(members["int"], 0)
        if named is None:
            raise DataError(f"{file.name} does not say which genes are deleted: it has neither intpos nor mutantnames.")
        return named
    positions = np.asarray(members["intpos"]).ravel()
    if not np.all((positions >= 1) & (positions <= len(genes))):
        raise DataError(
            f"{file.name}: intpos reaches from {positions.min()} to {positions.max()}, but counts from 1 to "
            f"{len(genes)}, the number of genes."
        )
    mutants = [genes[int(position) - 1] for position in positions]
    if "mutantnames" in members:
        named = _names(members["mutantnames"])
        if named != mutants:
            other = next((pair for pair in zip(mutants, named, strict=False) if pair[0] != pair[1]), None)
            differ = f"{other[0]!r} and {other[1]!r}" if other else f"{len(mutants)} and {len(named)} deletions"
            raise DataError(f"{file.name}: intpos and mutantnames disagree, first {differ}. One of them is wrong.")
    return mutants


def _samples_first(
    file: Path, wild: Floats, mutated: Floats, genes: Sequence[str], mutants: Sequence[str], genes_first: bool
) -> tuple[Floats, Floats, str | None]:
    """Both matrices with samples as rows, and a note where they were stored the other way than the format has it."""
    d, m = len(genes), len(mutants)
    for way in (genes_first, not genes_first):
        first, second = (wild.T, mutated.T) if way else (wild, mutated)
        if first.ndim == 2 and first.shape[1] == d and second.shape == (m, d):
            note = None if way == genes_first else "The matrices were stored with rows and columns swapped."
            return first, second, note
    raise DataError(
        f"{file.name} has {d} gene names and {m} deletions, which do not fit matrices of shapes "
        f"{' × '.join(map(str, wild.shape))} (wild types) and {' × '.join(map(str, mutated.shape))} (deletions)."
    )


def _joined(
    wild: Floats, mutated: Floats, genes: list[str], mutants: list[str], wild_names: list[str] | None, note: str | None
) -> YeastTable:
    if wild_names is None or len(wild_names) != len(wild):
        wild_names = [f"wild type {i}" for i in range(1, len(wild) + 1)]
    return YeastTable(
        np.vstack([wild, mutated]),
        tuple(genes),
        numbered([*wild_names, *mutants]),
        (*[None] * len(wild), *mutants),
        () if note is None else (note,),
    )


def _floats(matrix: Any) -> Floats:
    return np.asarray(matrix, dtype=np.float64)


def _names(names: Any) -> list[str]:
    words = np.asarray(names).ravel().tolist()
    return [(word.decode() if isinstance(word, bytes) else str(word)).strip() for word in words]


def _axis_names(matrix: Any, axis: int) -> list[str] | None:
    """Row or column names of a matrix from R; None where it has none."""
    coordinates = getattr(matrix, "coords", {})
    return _names(coordinates[f"dim_{axis}"]) if f"dim_{axis}" in coordinates else None


_VERSUS = re.compile(r"[\s.\-_]+vs\b[\s.\-_]*", re.IGNORECASE)
_DELETION = re.compile(r"[\-_. ]del(?![a-z])", re.IGNORECASE)
_WILD_TYPE = re.compile(r"(wt|refpool)\b", re.IGNORECASE)
_OTHER_CONDITION = re.compile(r"wt[\-_. ](mata|by4743|ypd)\b", re.IGNORECASE)  # mating type, ploidy and medium


class Kind(Enum):
    WILD_TYPE = "wild types"
    DELETION = "deletions"
    DOUBLE = "with two genes deleted"
    CONTROL = "wild types under another condition"
    UNKNOWN = "neither a wild type nor a deletion against a wild type"


class Condition(NamedTuple):
    kind: Kind
    gene: str | None = None  # the name of the deleted gene, as written


def understand(condition: str) -> Condition:
    """What a column compares, from its name."""
    sample, _, reference = _VERSUS.sub("\t", condition.strip(), count=1).partition("\t")
    if reference and not _WILD_TYPE.match(reference):
        return Condition(Kind.UNKNOWN)
    name, *more = _DELETION.split(sample)
    if more:
        return Condition(Kind.DELETION, name) if len(more) == 1 else Condition(Kind.DOUBLE)
    if _OTHER_CONDITION.match(sample):
        return Condition(Kind.CONTROL)
    return Condition(Kind.WILD_TYPE if _WILD_TYPE.match(sample) else Kind.UNKNOWN)


_SYSTEMATIC = re.compile(r"Y[A-P][LR]\d{3}[WC](-[A-Z])?|Q\d{4}")
_BETWEEN_SYMBOLS = re.compile(r"[;|/]")


def looks_systematic(name: str) -> bool:
    """Whether a name has the form of a systematic name, such as YAL001C, YIL014W-A or Q0010, in capitals or not."""
    return _SYSTEMATIC.fullmatch(name.upper()) is not None


def _key(name: str) -> str:
    """Without capitals, hyphens and the like, which files write in different ways."""
    return "".join(letter for letter in name.upper() if letter.isalnum())


class GeneNames:
    """What genes are called.

    given : {name: systematic name} that comes before what the files say
    symbols : (symbol, systematic name) as the files have them; a symbol may be several, with ; or | or / between
    """

    def __init__(
        self, systematic: Iterable[str], symbols: Iterable[tuple[str, str]], given: Mapping[str, str] | None = None
    ) -> None:
        meant: dict[str, set[str]] = {}
        for symbol, gene in symbols:
            for name in _BETWEEN_SYMBOLS.split(symbol):
                meant.setdefault(_key(name), set()).add(gene)
        self._given = {_key(name): gene for name, gene in (given or {}).items()}
        self._known = {key: genes.pop() for key, genes in meant.items() if key and len(genes) == 1}
        self._known.update({_key(gene): gene for gene in systematic})

    def measured(self, name: str) -> str:
        """The name of a gene that a file measures: as written, unless another was given for it."""
        return self._given.get(_key(name), name)

    def systematic(self, name: str) -> str | None:
        """The systematic name; None where no file tells, or a symbol stands for several genes."""
        key = _key(name)
        found = self._given.get(key) or self._known.get(key)
        if found is None and looks_systematic(name.replace("_", "-")):
            return name.replace("_", "-").upper()
        return found


_MISSING = ("", "NA")
_SYSTEMATIC_NAME, _GENE_SYMBOL = "systematicName", "geneSymbol"
# Above the genes, deleteome files have what is compared and the type of value. The limma_MARG files, which have no gene
# symbols, go on with dye swap, extraction protocol and sample.
_HEADER_LINES, _HEADER_LINES_WITHOUT_SYMBOLS = 2, 5


@dataclass(frozen=True, eq=False)
class _Part:
    """One file: r rows, each a reporter of a gene, and k columns of M-values.

    values : (k, r); conditions : k; genes, symbols : r, symbols "" where the file has none
    """

    name: str
    values: Floats
    conditions: tuple[str, ...]
    genes: tuple[str, ...]
    symbols: tuple[str, ...]


def read_text(files: Sequence[Path], names: Mapping[str, str] | None = None) -> YeastTable:
    """M-values (log2 ratios to the wild type) of the wild types and deletions in these files together.

    names : {name of a gene: its systematic name} for those that the files do not explain
    """
    parts = [_read_part(file) for file in files]
    called = GeneNames(
        (gene for part in parts for gene in part.genes),
        ((symbol, gene) for part in parts for symbol, gene in zip(part.symbols, part.genes, strict=True)),
        names,
    )
    notes: list[str] = []
    warnings: list[str] = []
    values, genes = _common_genes(parts, called.measured, notes, warnings)
    conditions = [condition for part in parts for condition in part.conditions]
    understood = [understand(condition) for condition in conditions]
    _check_files_differ(parts)
    _tell_left_out(conditions, understood, notes, warnings)
    rows = [row for row, condition in enumerate(understood) if condition.kind in (Kind.WILD_TYPE, Kind.DELETION)]
    values = values[rows]
    complete = _complete(values, genes, [conditions[row] for row in rows], warnings)
    return YeastTable(
        values[:, complete],
        tuple(gene for gene, kept in zip(genes, complete, strict=True) if kept),
        numbered([conditions[row] for row in rows]),
        _deleted_genes([understood[row] for row in rows], called, warnings),
        tuple(notes),
        tuple(warnings),
    )


def _read_part(file: Path) -> _Part:
    with file.open(encoding="utf-8", errors="replace") as source:
        conditions, kinds = ([cell.strip('" ') for cell in _cells(source.readline())] for _ in range(2))
        columns = [j for j, kind in enumerate(kinds) if kind == "M"]
        if not columns or len(conditions) != len(kinds):
            raise DataError(
                f"{file.name} is not a deleteome_*.txt or limma_MARG_*.txt file: its second line should say "
                f"which columns are M and which A, with tabs between them. {ORIGIN}"
            )
        gene = conditions.index(_SYSTEMATIC_NAME) if _SYSTEMATIC_NAME in conditions else 0
        symbol = conditions.index(_GENE_SYMBOL) if _GENE_SYMBOL in conditions else None
        header = _HEADER_LINES if symbol is not None else _HEADER_LINES_WITHOUT_SYMBOLS
        genes, symbols, values = [], [], []
        for number, line in enumerate(source, 3):
            cells = _cells(line)
            where = f"{file.name}, line {number:,}"
            if len(cells) != len(conditions):
                raise DataError(
                    f"{where}: {len(cells):,} cells, where the first line has {len(conditions):,}. "
                    f"The file is damaged. {ORIGIN}"
                )
            if number > header:
                genes.append(cells[gene].strip())
                symbols.append("" if symbol is None else cells[symbol].strip())
                values.append(_numbers(cells, columns, where))
            elif looks_systematic(cells[gene]):
                raise DataError(f"{where} is gene {cells[gene]!r}, where {header} lines should be above the genes.")
    if not genes:
        raise DataError(f"{file.name} ends before the first gene. The file is damaged. {ORIGIN}")
    return _Part(file.name, np.array(values).T, tuple(conditions[j] for j in columns), tuple(genes), tuple(symbols))


def _cells(line: str) -> list[str]:
    return line.rstrip("\n").split("\t")


def _numbers(cells: list[str], columns: list[int], where: str) -> Floats:
    try:
        return np.array([float(cells[j]) for j in columns])
    except ValueError:
        return np.array([_number(cells[j], f"{where}, column {j + 1:,}") for j in columns])


def _number(cell: str, where: str) -> float:
    if cell.strip() in _MISSING:
        return np.nan
    try:
        return float(cell)
    except ValueError:
        raise DataError(f"{where}: {cell!r} is no number; write NA where one is missing.") from None


def _common_genes(
    parts: Sequence[_Part], measured: Callable[[str], str], notes: list[str], warnings: list[str]
) -> tuple[Floats, list[str]]:
    """(samples of all files × genes that all files measure), reporters of one gene averaged; the names of the genes."""
    spelling: dict[str, str] = {}  # the first file's capitals
    averaged: dict[str, None] = {}
    blocks, columns = [], []
    for part in parts:
        named = [(reporter, measured(gene)) for reporter, gene in enumerate(part.genes) if gene]
        if unnamed := len(part.genes) - len(named):
            warnings.append(f"{part.name}: {unnamed:,} rows without a systematic name were left out.")
        reporters: dict[str, list[int]] = {}
        for reporter, gene in named:
            reporters.setdefault(spelling.setdefault(gene.upper(), gene), []).append(reporter)
        averaged |= dict.fromkeys(gene for gene, rows in reporters.items() if len(rows) > 1)
        blocks.append(np.column_stack([part.values[:, rows].mean(axis=1) for rows in reporters.values()]))
        columns.append({gene: j for j, gene in enumerate(reporters)})
    genes = [gene for gene in columns[0] if all(gene in known for known in columns[1:])]
    if not genes:
        raise DataError(
            f"{quoted(part.name for part in parts)} have no gene in common: are the names systematic in all?"
        )
    if averaged:
        notes.append(
            f"{len(averaged):,} genes are measured by several reporters, which were averaged: {listing(averaged)}."
        )
    if lost := [gene for gene in spelling.values() if any(gene not in known for known in columns)]:
        warnings.append(f"{len(lost):,} genes are not in all files and were left out: {listing(lost)}.")
    chosen = [block[:, [known[gene] for gene in genes]] for block, known in zip(blocks, columns, strict=True)]
    return np.vstack(chosen), genes


def _check_files_differ(parts: Sequence[_Part]) -> None:
    """Editions of one file hold the same deletions. A wild type in two files is kept, as in the published matrix."""
    home: dict[str, str] = {}
    for part in parts:
        for condition in part.conditions:
            if home.setdefault(condition, part.name) != part.name and understand(condition).kind is Kind.DELETION:
                raise DataError(
                    f"{condition!r} is both in {home[condition]} and in {part.name}: leave one of the two files out."
                )


def _tell_left_out(
    conditions: Sequence[str], understood: Sequence[Condition], notes: list[str], warnings: list[str]
) -> None:
    for kind, told in ((Kind.CONTROL, notes), (Kind.DOUBLE, warnings), (Kind.UNKNOWN, warnings)):
        found = [name for name, condition in zip(conditions, understood, strict=True) if condition.kind is kind]
        if found:
            told.append(f"Left out, {kind.value}: {quoted(found)}.")
    if not any(condition.kind is Kind.WILD_TYPE for condition in understood):
        raise DataError(
            "these files hold no wild types, which the deleteome_*.txt files leave out. Pass "
            "limma_MARG_wt_pool.txt and limma_MARG_wt_pool_platereader.txt along."
        )
    if not any(condition.kind is Kind.DELETION for condition in understood):
        raise DataError(
            "these files hold no deletions. Pass deleteome_all_mutants_controls.txt along, or "
            "limma_MARG_responsive_mutants.txt and limma_MARG_non-responsive_mutants.txt."
        )


def _complete(values: Floats, genes: Sequence[str], samples: Sequence[str], warnings: list[str]) -> Mask:
    """(d,) the genes whose values are all there"""
    missing: Mask = ~np.isfinite(values)
    empty = [name for name, row in zip(samples, missing, strict=True) if row.all()]
    if empty:
        raise DataError(f"without any value: {quoted(empty)}. Take these columns out of the file.")
    incomplete = np.any(missing, axis=0)
    if incomplete.all():
        raise DataError(f"every gene misses values, {int(missing.sum()):,} in all: no gene is left.")
    if incomplete.any():
        lost = [gene for gene, some in zip(genes, incomplete, strict=True) if some]
        warnings.append(f"{len(lost):,} genes miss values and were left out: {listing(lost)}.")
    return ~incomplete


def _deleted_genes(understood: Sequence[Condition], called: GeneNames, warnings: list[str]) -> tuple[str | None, ...]:
    deleted: list[str | None] = []
    unknown: list[str] = []
    for condition in understood:
        found = None if condition.gene is None else called.systematic(condition.gene)
        if condition.gene is not None and found is None:
            found = condition.gene.upper()
            unknown.append(condition.gene)
        deleted.append(found)
    if not unknown:
        return tuple(deleted)
    message = (
        f"The files do not tell the systematic names of deleted genes {quoted(dict.fromkeys(unknown))}. %s "
        f"names={{{unknown[0]!r}: '...'}}, with every such gene."
    )
    if 2 * len(unknown) > len(deleted) - deleted.count(None):
        raise DataError(
            message % "Take the deletions from deleteome_all_mutants_controls.txt, which tells them, or pass"
        )
    warnings.append(message % "Their samples stay, but nothing connects them with the gene: pass")
    return tuple(deleted)
