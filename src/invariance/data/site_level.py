"""Columns that are constant within every environment: recodings of its label, and settings of sites
such as a size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Mask, Places
from ..exceptions import Message, use
from .checks import quoted, warn
from .encoding import Encoding
from .features import Features


class SiteLevel(NamedTuple):
    """columns (q,) : those that are constant within every environment; values (E, k) : of these"""

    columns: Mask
    values: Floats

    @classmethod
    def of_rows(cls, X: Floats, environment_index: Places) -> SiteLevel:
        """Of columns X (N, q). Most columns vary in the first environment, and are not looked at in
        others."""
        columns = np.arange(X.shape[1])
        values = np.empty((0, X.shape[1]))
        n_environments = int(environment_index.max()) + 1
        for e in range(n_environments):
            part = X[np.ix_(np.flatnonzero(environment_index == e), columns)]
            constant = part.min(axis=0) == part.max(axis=0)
            values = np.vstack([values[:, constant], part[:1, constant]])
            columns = columns[constant]
            if not len(columns):
                return cls(np.zeros(X.shape[1], dtype=bool), np.empty((n_environments, 0)))
        return cls(np.isin(np.arange(X.shape[1]), columns), values)

    @classmethod
    def of_ranges(cls, minimum: Floats, maximum: Floats) -> SiteLevel:
        """From the ranges (E, q) of columns"""
        columns = (minimum == maximum).all(axis=0)
        return cls(columns, minimum[:, columns])

    def features(self, features: Features) -> Mask:
        """(p,) features of which all columns are constant within every environment"""
        return np.asarray(np.logical_and.reduceat(self.columns, features.starts[:-1]))

    def values_of(self, columns: Mask) -> Floats:
        """(E, k) of those of columns (q,) that are constant"""
        return self.values[:, columns[self.columns]]


def constant_in_words(names: Sequence[str], n_environments: int) -> str:
    are, rests = ("is", "its effect rests") if len(names) == 1 else ("are", "their effects rest")
    return (
        f"{quoted(names)} {are} constant within each of {n_environments} environments: "
        f"{rests} on {n_environments} values and cannot be compared between environments"
    )


def warn_of_site_level(
    features: Features, found: SiteLevel, encoding: Encoding | None, excluded: Sequence[str] = ()
) -> None:
    """Name the features that are constant within every environment, but for categories of which
    each level occurs in one environment only: `learn_encoding` warned of those. excluded : columns
    that are left out already"""
    n_environments = len(found.values)
    constant = found.features(features)
    names = []
    for j in np.flatnonzero(constant):
        values = found.values_of(features.expand(np.arange(len(constant)) == j))
        text = encoding is not None and features.names[j] in encoding.of_levels
        if not text or len(np.unique(values, axis=0)) < n_environments:
            names.append(features.names[j])
    if names:
        owners = {} if encoding is None else encoding.owners
        columns = [column for column, owner in owners.items() if owner in names] or names
        warn(
            Message(
                f"{constant_in_words(names, n_environments)}; to do without",
                use(exclude=[*excluded, *columns]),
            )
        )
