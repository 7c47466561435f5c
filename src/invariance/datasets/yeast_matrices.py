"""The yeast deletions as matrices of wild types and deletions: an R list, or its form in HDF5."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats
from ..data.checks import quoted
from ..exceptions import DataError
from .yeast_table import ORIGIN, YeastTable, numbered

if TYPE_CHECKING:
    import h5py

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
