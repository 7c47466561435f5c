"""Pieces of rows that wait to become a block, and what is said of columns that change on the way."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats
from ..data.levels import Levels
from ..data.raw import Refusal
from .arrow_columns import LEVELS

# Text with more different values, which nobody calls levels, is a list of names.
MOST_LEVELS = 1000
# Values (n,) of each column, and the positions (n,) of the rows' environments
Piece = tuple[list[Floats], NDArray[np.int64]]


def in_blocks(pieces: list[Piece], rows: int) -> Iterator[list[Piece]]:
    """All of them where they have as many rows, or fewer; else blocks of so many rows, as levels on the way demand."""
    if sum(len(codes) for _, codes in pieces) <= rows:
        yield from [pieces] if pieces else []
        return
    for values, codes in pieces:
        for start in range(0, len(codes), rows):
            chosen = slice(start, start + rows)
            yield [([column[chosen] for column in values], codes[chosen])]


def too_many_levels(levels: Levels) -> Refusal:
    shown = f"is not numeric but has more than {MOST_LEVELS} different values (for example {levels.texts[0]!r})"
    return Refusal(shown, categorical=True)


def changed_kind(name: str, known: str) -> str:
    if known == LEVELS:
        return (
            f"column {name!r} holds text, or categories, in some rows and numbers in others: store it in one way, or "
            f"take its values as levels, categorical={[name]!r}."
        )
    return (
        f"column {name!r} holds numbers, or true and false, in the first rows of the file, and other values later on: "
        f"mend these, or take its values as levels, categorical={[name]!r}."
    )
