"""Small files in the formats of the published yeast data."""

from __future__ import annotations

import gzip
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

GENES = ("YAL001C", "YBR020W", "YIL014W-A", "YKL112W", "YML100W", "snR10")
SYMBOLS = ("TFC3", "GAL1", "", "ABF1", "ARG5,6", "SNR10")


def expression(wild_types: int, deleted: Sequence[str], genes: Sequence[str] = GENES, seed: int = 0) -> np.ndarray:
    """(samples, genes), wild types first; a deleted gene is far down."""
    values = np.random.default_rng(seed).normal(0, 0.1, (wild_types + len(deleted), len(genes)))
    for row, gene in enumerate(deleted, wild_types):
        if gene in genes:
            values[row, genes.index(gene)] = -3.0 - 0.01 * row
    return values.round(6)


# R's serialisation (XDR, version 2, as R 2 and 3 save it); each function gives the bytes of one object.

_NOTHING, _SYMBOL, _PAIR, _STRING, _INTEGERS, _NUMBERS, _STRINGS, _LIST = 254, 1, 2, 9, 13, 14, 16, 19
_HAS_ATTRIBUTES, _HAS_TAG, _ASCII = 1 << 9, 1 << 10, 1 << 18


def _integers(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}i", *numbers)


def _string(word: str) -> bytes:
    return _integers(_STRING | _ASCII, len(word.encode())) + word.encode()


def _pairs(members: dict[str, bytes]) -> bytes:
    links = [_integers(_PAIR | _HAS_TAG, _SYMBOL) + _string(name) + value for name, value in members.items()]
    return b"".join(links) + _integers(_NOTHING)


def _vector(kind: int, length: int, body: bytes, **attributes: bytes) -> bytes:
    flags = kind | (_HAS_ATTRIBUTES if attributes else 0)
    return _integers(flags, length) + body + (_pairs(attributes) if attributes else b"")


def r_strings(words: Sequence[str] | None) -> bytes:
    if words is None:
        return _integers(_NOTHING)
    return _vector(_STRINGS, len(words), b"".join(map(_string, words)))


def r_integers(numbers: Sequence[int], **attributes: bytes) -> bytes:
    return _vector(_INTEGERS, len(numbers), np.asarray(numbers, dtype=">i4").tobytes(), **attributes)


def r_list(members: dict[str, bytes]) -> bytes:
    return _vector(_LIST, len(members), b"".join(members.values()), names=r_strings(list(members)))


def r_matrix(values: np.ndarray, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> bytes:
    attributes = {"dim": r_integers(values.shape)}
    if rows is not None or columns is not None:
        attributes["dimnames"] = _vector(_LIST, 2, r_strings(rows) + r_strings(columns))
    return _vector(_NUMBERS, values.size, values.ravel("F").astype(">f8").tobytes(), **attributes)


def save_r(path: Path, **objects: bytes) -> Path:
    path.write_bytes(gzip.compress(b"RDX2\nX\n" + _integers(2, 0x030202, 0x020300) + _pairs(objects)))
    return path


@dataclass
class TextTable:
    """A file with tabs: for each condition columns M, A and p_value, or A first where `swapped` names it."""

    conditions: Sequence[str]
    values: np.ndarray  # (conditions, genes)
    genes: Sequence[str] = GENES
    symbols: Sequence[str] | None = SYMBOLS  # none: the form of limma_MARG files
    swapped: Sequence[str] = field(default_factory=tuple)

    def lines(self) -> list[list[str]]:
        ids = ["systematicName"] if self.symbols is None else ["reporterId", "systematicName", "geneSymbol"]
        kinds = [
            ["A", "M", "p_value"] if condition in self.swapped else ["M", "A", "p_value"]
            for condition in self.conditions
        ]
        header = [
            [*ids, *(condition for condition in self.conditions for _ in range(3))],
            [*["dataType"] * len(ids), *(kind for three in kinds for kind in three)],
        ]
        if self.symbols is None:
            for name, cell in (("dyeSwap", "1"), ("protocol", "yeast RNA isolation"), ("sample", "s")):
                header.append([name, *[cell] * 3 * len(self.conditions)])
        return [*header, *(self._row(j, kinds) for j in range(len(self.genes)))]

    def _row(self, j: int, kinds: list[list[str]]) -> list[str]:
        ids = [self.genes[j]] if self.symbols is None else [f"r{j}", self.genes[j], self.symbols[j]]
        cells = []
        for i, three in enumerate(kinds):
            M = "NA" if np.isnan(self.values[i, j]) else repr(float(self.values[i, j]))
            cells += [{"M": M, "A": "9.5", "p_value": "0.5"}[kind] for kind in three]
        return [*ids, *cells]

    def write(self, path: Path, end: str = "\n") -> Path:
        path.write_text("".join("\t".join(line) + end for line in self.lines()), encoding="utf-8", newline="")
        return path
