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

WILD_TYPE, DELETION = "wild type", "deletion"


@dataclass(frozen=True, eq=False)
class Deletions:
    """Expression of d genes in n samples.

    values : (n, d); genes : d names; samples : n names
    deleted : n names of the gene that is deleted in each sample, which need not be among `genes`; None in wild types
    """

    values: Floats
    genes: tuple[str, ...]
    samples: tuple[str, ...]
    deleted: tuple[str | None, ...]

    def __post_init__(self) -> None:
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
            raise DataError(f"gene {twice[0]!r} occurs twice. Average its columns, or leave one out.")
        incomplete = ~np.isfinite(self.values).all(axis=0)
        if incomplete.any():
            gene = self.genes[int(np.argmax(incomplete))]
            raise DataError(
                f"{int(incomplete.sum())} genes have values that are missing or not finite, first {gene!r}."
            )
        if not self.wild_type.any() or self.wild_type.all():
            raise DataError("there must be wild types and deletions: samples of one kind alone are one environment.")

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

    def deleting(self, gene: str) -> NDArray[np.intp]:
        """Rows of the samples where a gene is deleted."""
        return np.flatnonzero(np.array([name == gene for name in self.deleted]))

    def choosing(self, rows: NDArray[np.intp] | Mask) -> Deletions:
        """Some of the samples, in this order."""
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
