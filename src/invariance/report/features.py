"""What can be said of each feature."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import compress

import numpy as np

from ..decisions.words import said
from .numbers import change, number, p_value, probability
from .parts import Cell, Column, Part, name, prose, table
from .pictures import inclusion_picture
from .subject import Subject

_P_INVARIANT = Column("p_inv then", hint="the p-value of invariance of the selection after that change")
_PREDICTIVE = Column("Predictive inclusion", hint="probability among compatible subsets, by how well these predict")
_PREDICTIVE_OF_ONE = Column("Predictive inclusion", hint="probability by how well subsets predict")
_COLUMNS = (
    Column("Feature", number=False),
    Column("Selected", number=False),
    Column("Role", number=False),
    _PREDICTIVE,
    Column("Inclusion", hint="posterior probability of being in the invariant subset, as in the paper"),
    Column("Change of R²", hint="of the selection when this feature alone is left out of it, or added to it"),
    _P_INVARIANT,
    Column(
        "Coefficient", hint="of the selected features in the fit to all rows; a feature of several columns has several"
    ),
)


def feature_parts(subject: Subject) -> Iterator[Part]:
    decision, posterior, predictive = subject.decision, subject.posterior, subject.predictive
    place = {feature: j for j, feature in enumerate(posterior.feature_names)}
    unknown = np.full(posterior.n_features, np.nan)
    compatible = unknown if predictive is None else predictive.inclusion
    coefficients = _coefficients(subject)
    rows = (
        (
            name(feature.name),
            Cell("● yes", 0, "strong") if feature.selected else Cell("no", 1),
            Cell(subject.source.worded(said(decision, feature))),
            probability(compatible[place[feature.name]]),
            probability(posterior.inclusion[place[feature.name]]),
            change(feature.r2_change),
            p_value(feature.p_invariant),
            coefficients.get(feature.name, Cell("–")),
        )
        for feature in decision.features
    )
    yield inclusion_picture(decision)
    several = posterior.n_environments > 1
    kept = [several or column is not _P_INVARIANT for column in _COLUMNS]
    columns = (_PREDICTIVE_OF_ONE if column is _PREDICTIVE and not several else column for column in _COLUMNS)
    yield table("Every feature", compress(columns, kept), (tuple(compress(row, kept)) for row in rows))
    if predictive is None and several:
        none = f"No subset{decision.findings.allowed} is compatible with invariance"
        yield from prose([f"{none}, so that there is no predictive inclusion."])


def _coefficients(subject: Subject) -> dict[str, Cell]:
    """Of the pooled fit, by selected feature."""
    decision = subject.decision
    features = subject.data.features.chosen(decision.mask)
    values = decision.findings.target.model.fit(decision.mask, local=False).coefficients
    return {
        feature: number(values[start]) if width == 1 else Cell(f"{width} columns")
        for feature, start, width in zip(features.names, features.starts, features.widths, strict=False)
    }
