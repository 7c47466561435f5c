"""Expression of genes in wild types and in samples where one gene is deleted."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..exceptions import DataError
from .checks import listing, quoted

WILD_TYPE, DELETION = "wild type", "deletion"


@dataclass(frozen=True, eq=False)
class Deletions:
    """Expression of d genes in n samples.

    values : (n, d); genes : d names; samples : n names
    deleted : n names of the gene that is deleted in each sample, which need not be among `genes`; None in wild types
    notes : what was noticed when the samples were read, in sentences
    """

    values: Floats
    genes: tuple[str, ...]
    samples: tuple[str, ...]
    deleted: tuple[str | None, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.values.ndim != 2:
            raise DataError(
                f"values must have a row for each sample and a column for each gene, not {self.values.ndim} axes."
            )
        n, d = self.values.shape
        for name, found, needed in (
            ("genes", len(self.genes), d),
            ("samples", len(self.samples), n),
            ("deleted", len(self.deleted), n),
        ):
            if found != needed:
                raise DataError(f"{name} has {found} entries where values, of shape {n} × {d}, need {needed}.")
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
            raise DataError(
                f"all {n:,} samples are of one kind, {kind}: wild types and deletions are needed, two environments."
            )

    @cached_property
    def wild_type(self) -> Mask:
        """(n,)"""
        return np.array([gene is None for gene in self.deleted])

    @cached_property
    def environments(self) -> NDArray[np.str_]:
        """(n,) the label of each sample's environment"""
        return np.where(self.wild_type, WILD_TYPE, DELETION)

    @cached_property
    def place(self) -> dict[str, int]:
        """{gene: its column}"""
        return {gene: j for j, gene in enumerate(self.genes)}

    @cached_property
    def rows_deleting(self) -> dict[str, NDArray[np.intp]]:
        """{gene: rows of the samples where it is deleted}"""
        rows: dict[str, list[int]] = {}
        for row, gene in enumerate(self.deleted):
            if gene is not None:
                rows.setdefault(gene, []).append(row)
        return {gene: np.array(found, dtype=np.intp) for gene, found in rows.items()}

    def deleting(self, gene: str) -> NDArray[np.intp]:
        """Rows of the samples where a gene is deleted."""
        return self.rows_deleting.get(gene, np.empty(0, dtype=np.intp))

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

    def choosing(self, rows: NDArray[np.intp] | Mask) -> Deletions:
        """Some of the samples, in this order. The notes, which speak of all samples, stay behind."""
        chosen = np.arange(len(self.samples))[rows]
        return Deletions(
            self.values[chosen],
            self.genes,
            tuple(self.samples[i] for i in chosen),
            tuple(self.deleted[i] for i in chosen),
        )

    def to_frame(self) -> pd.DataFrame:
        """One row for each sample: the genes, and columns "environment" and "deleted"."""
        frame = pd.DataFrame(self.values, columns=list(self.genes), index=pd.Index(self.samples, name="sample"))
        extra = pd.DataFrame({"environment": self.environments, "deleted": self.deleted}, index=frame.index)
        return pd.concat([frame, extra], axis=1)
