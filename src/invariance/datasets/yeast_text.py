"""The yeast deletions as text files with tabs: deleteome_*.txt and limma_MARG_*.txt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .._tools.arrays import Floats, Mask
from ..data.checks import listing, quoted
from ..exceptions import DataError
from .conditions import Condition, Kind, understand
from .gene_names import GeneNames, looks_systematic
from .yeast_table import ORIGIN, YeastTable, numbered

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
    parts = [_read(file) for file in files]
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


def _read(file: Path) -> _Part:
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
