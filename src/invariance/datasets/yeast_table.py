"""What the readers of yeast files share: where the files come from, and what a reader hands on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .._tools.arrays import Floats

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
