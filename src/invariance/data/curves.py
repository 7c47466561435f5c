"""Data whose numeric features became curves: natural cubic splines in the place of single columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from .._tools.arrays import Floats
from .encoding import Encoding, check_names
from .features import Features
from .multi_environment import MultiEnvironmentData
from .terms import Numbers, Spline, SplineBasis, Term

# A column that takes fewer values is a code or a scale with steps, and stays as it is.
FEWEST_VALUES = 10


def with_curves(data: MultiEnvironmentData, knots: int) -> MultiEnvironmentData:
    """The same rows with a natural cubic spline for each feature that is one column of numbers with at least
    `FEWEST_VALUES` values, with fewer knots where many rows share theirs. All other features stay as they are."""
    given = dict(zip(data.features.columns, data.X.T, strict=True))
    before = _encoding_of(data)
    encoding = replace(before, members=tuple((name, _curved(terms, given, knots)) for name, terms in before.members))
    check_names(encoding, [name for name in (data.outcome_name, data.environment_name) if name is not None])
    columns: dict[str, Floats] = {}
    widths: dict[str, int] = {}
    for name, terms in encoding.members:
        made = {column: values for term in terms for column, values in _columns(term, given)}
        if made:
            widths[name] = len(made)
            columns |= made
    grouping = Features(tuple(widths), tuple(columns), np.array(list(widths.values()), dtype=np.int64))
    return replace(data, X=np.column_stack(list(columns.values())), grouping=grouping, encoding=encoding)


def _encoding_of(data: MultiEnvironmentData) -> Encoding:
    """How a table becomes the columns of the data; where these are the table's, that is all it says."""
    if data.encoding is not None:
        return data.encoding
    if data.grouping is None:
        names = data.names_as_given
        return Encoding(names, tuple((name, (Numbers(name),)) for name in names))
    groups = data.features.groups
    members = ((name, tuple(map(Numbers, groups.get(name, (name,))))) for name in data.feature_names)
    return Encoding(data.features.columns, tuple(members))


def _curved(terms: tuple[Term, ...], given: Mapping[str, Floats], knots: int) -> tuple[Term, ...]:
    """What a feature is made of, with a curve in the place of a single column of many values."""
    match terms:
        case (Numbers(column),) if column in given and len(np.unique(given[column])) >= FEWEST_VALUES:
            return (Spline(column, knots).possible(given[column]) or terms[0],)
    return terms


def _columns(term: Term, given: Mapping[str, Floats]) -> list[tuple[str, Floats]]:
    """Those of the columns of a term that vary: as they are, or of a curve that is new."""
    known = [(name, given[name]) for name in term.names if name in given]
    if isinstance(term, SplineBasis) and len(known) == 1:
        return list(zip(term.names, term.encode(given[term.column]).T, strict=True))
    return known
