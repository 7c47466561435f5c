"""The order in which moments of many pieces of rows are merged: the same wherever the pieces were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import islice
from typing import TypeVar

from .accumulator import MomentsAccumulator

# Last digits depend on it.
CHILDREN = 8

Node = TypeVar("Node")


def eights(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    waiting = iter(nodes)
    return list(iter(lambda: tuple(islice(waiting, CHILDREN)), ()))


def rooted(nodes: Sequence[Node], join: Callable[..., Node]) -> Node:
    """The root of a tree whose leaves are the nodes, from left to right; join(*nodes) makes a node of up to eight."""
    while len(nodes) > 1:
        nodes = [eight[0] if len(eight) == 1 else join(*eight) for eight in eights(nodes)]
    return nodes[0]


def merged(*rows: MomentsAccumulator) -> MomentsAccumulator:
    """A new one: those that are given stay as they are, for a task that runs again."""
    first, second, *others = rows
    return reduce(MomentsAccumulator.absorb, others, first.merge(second))


def folded(rows: Iterable[MomentsAccumulator], empty: MomentsAccumulator) -> MomentsAccumulator:
    """The root of the same tree, of rows that come one after the other and that nobody else has: few are kept."""
    growing: list[tuple[MomentsAccumulator | None, int]] = []
    for each in rows:
        node, height = each, 0
        while True:
            if height == len(growing):
                growing.append((None, 0))
            first, n = growing[height]
            node = node if first is None else first.absorb(node)
            if n + 1 < CHILDREN:
                growing[height] = node, n + 1
                break
            growing[height] = None, 0
            height += 1
    left = [node for node, _ in growing if node is not None]
    return reduce(lambda last, node: node.absorb(last), left) if left else empty
