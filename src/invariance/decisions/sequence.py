"""Whether residuals depend on those before them, where it is known when rows were taken."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.text import printable
from ..data.multi_environment import MultiEnvironmentData
from ..models.base import BoundModel, Predicts, predicts_of

# Standard errors from which on a correlation is no chance: a p-value of a thousandth.
_SURE = 3.3


@dataclass(frozen=True)
class Autocorrelation:
    """correlation : of residuals and those before them, within environments; n : times that were compared; clock : the
    column that says when, None for the index of the table; within : the column of environments, if that is known"""

    correlation: float
    n: int
    clock: str | None
    within: str | None

    @property
    def alarms(self) -> bool:
        return abs(self.correlation) * np.sqrt(self.n) > _SURE

    @property
    def sentence(self) -> str:
        column = self.clock or "date"
        within, option = "", ""
        if self.within is not None:
            within, option = f", within={self.within!r}", f" --within {self.within}"
        unnamed = "" if self.clock is not None else ", with the index as a column"
        told = f"residuals depend on those before them (correlation {self.correlation:.2f}): p-values are too small"
        shell = f"--along {printable(column)} --ar 2{option}"
        return f"{told}. Compare along time, along({printable(column)!r}, ar=2{within}) or {shell}{unnamed}."


def autocorrelation(model: BoundModel, mask: Mask) -> Autocorrelation | None:
    """Of the residuals of a subset (p,), in the order of time within environments, rows of one time together; None
    where it is not known when rows were taken, where the model accounts for it, of times to an event, and outside the
    support."""
    data = model.data
    if data is None or predicts_of(getattr(model, "specification", None)) is Predicts.time:
        return None
    when = _times(data)
    if when is None or not model.log_ratio(mask) > -np.inf:
        return None
    name, times = when
    fit = model.fit(mask, local=False)
    y = data.y if data.exposure is None else data.y / data.exposure
    residuals = y - fit.predict(data.X[:, data.features.expand(mask)])
    known = ~np.isnan(times)
    _, group = np.unique(np.column_stack([data.environment_index, times])[known], axis=0, return_inverse=True)
    group = group.ravel()
    counts = np.bincount(group)
    means = np.bincount(group, residuals[known]) / counts
    environment = np.empty(len(counts), np.intp)
    environment[group] = data.environment_index[known]
    # Groups are sorted by environment, then by time.
    means -= (np.bincount(environment, means) / np.maximum(np.bincount(environment), 1))[environment]
    follows = environment[1:] == environment[:-1]
    if follows.sum() < 3 or not np.any(means):
        return None
    correlation = float(np.sum((means[1:] * means[:-1])[follows]) / np.sum(means**2))
    # Several environments at a time have sequences of their own.
    overlap = data.design is None and len(np.unique(times[known])) < len(means)
    return Autocorrelation(correlation, int(follows.sum()), name, data.environment_name if overlap else None)


def _times(data: MultiEnvironmentData) -> tuple[str | None, Floats] | None:
    """The column that says when rows were taken, and (N,) when"""
    design = data.design
    if design is not None and design.variable is not None:
        assert design.values is not None
        alone = len(np.unique(design.values)) == len(design.values)
        return (design.variable.column, design.values) if alone and not design.variable.ar else None
    return None if data.clock is None else (data.clock.name, data.clock.values)
