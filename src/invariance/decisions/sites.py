"""What small environments cost: subsets are no larger than the smallest environment can fit."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from ..data.checks import largest_size
from ..moments.moments import Moments


@dataclass(frozen=True)
class Site:
    """largest : most features of a subset that this environment has rows enough for; largest_without : if it were left
    out, by all others"""

    environment: Hashable
    rows: int
    largest: int
    largest_without: int


@dataclass(frozen=True)
class Sites:
    """largest : most features of a subset, out of n_features, that every environment has rows enough for
    enough_rows : fewest rows of an environment with which subsets may hold all features, if two environments or more
        have them
    """

    largest: int
    n_features: int
    each: tuple[Site, ...]
    enough_rows: int | None

    @property
    def capped(self) -> bool:
        return self.largest < self.n_features

    @property
    def costly(self) -> tuple[Site, ...]:
        """Environments without which subsets may be larger, the one that frees most first."""
        freeing = [site for site in self.each if site.largest_without > self.largest]
        return tuple(sorted(freeing, key=lambda site: (-site.largest_without, site.rows)))

    @property
    def binding(self) -> Site:
        """The one that subsets cannot be larger for."""
        return min(self.each, key=lambda site: (site.largest, site.rows))


def sites_of(moments: Moments) -> Sites:
    counts, widths = moments.counts, moments.varying_widths[:-1]
    everywhere = range(moments.n_environments)
    alone = [largest_size(counts[[e]], widths[[e]]) for e in everywhere]
    without = [largest_size(np.delete(counts, e), np.delete(widths, e, axis=0)) for e in everywhere]
    labels = moments.environments
    each = (Site(labels[e], int(counts[e]), alone[e], without[e]) for e in everywhere)
    return Sites(moments.largest_size, moments.n_features, tuple(each), _enough_rows(moments))


def _enough_rows(moments: Moments) -> int | None:
    for fewest in np.unique(moments.counts):
        kept = moments.counts >= fewest
        widths = moments.varying_widths[:-1][kept]
        if kept.sum() > 1 and largest_size(moments.counts[kept], widths) == moments.n_features:
            return int(fewest)
    return None
