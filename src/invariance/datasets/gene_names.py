"""Systematic names of genes from the other names they go by."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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
