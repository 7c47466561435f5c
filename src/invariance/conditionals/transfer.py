"""What a fit to all other environments misses in each one, from second moments alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..moments.least_squares import least_squares, least_squares_of_root
from ..moments.moments import Moments
from ..moments.roots import root_of
from ..moments.two_sum import distance, gaps_between
from .pivots import PIVOT_TOLERANCE


def left_out_errors(moments: Moments, masks: Mask) -> Floats:
    """(S, E) sums of squared errors in each environment of the fit to the others, of subsets given by columns (S, q);
    NaN where second moments cannot tell, because columns nearly depend on each other."""
    used = moments.feature_columns[np.flatnonzero(masks.any(axis=0))]
    columns = np.append(used, moments.outcome)
    others = _OtherEnvironments.of(moments, columns)
    chosen = masks[:, masks.any(axis=0)]
    return np.array([others.errors(np.flatnonzero(mask)) for mask in chosen]).reshape(len(masks), -1)


def left_out_errors_from_rows(data: MultiEnvironmentData, chosen: Mask) -> Floats:
    """(E,) the same of one subset, given by its columns (q,), from the rows."""
    X, errors = data.X[:, chosen], np.empty(data.n_environments)
    for e in range(data.n_environments):
        own = data.environment_index == e
        fit = least_squares(X[~own], data.y[~own])
        errors[e] = np.sum((data.y[own] - fit.intercept - X[own] @ fit.coefficients) ** 2)
    return errors


def left_out_errors_from_roots(moments: Moments, roots: Floats, chosen: Mask) -> Floats:
    """The same from factors (E, m, d) of the rows."""
    used = np.append(moments.feature_columns[chosen], moments.outcome)
    errors, gaps = np.empty(moments.n_environments), _OtherEnvironments.of(moments, used).gaps
    for e in range(moments.n_environments):
        others = np.delete(np.arange(moments.n_environments), e)
        fit = least_squares_of_root(root_of(moments, roots, others, used), np.zeros(len(used)))
        weights = np.append(-fit.coefficients, 1.0)
        own = root_of(moments, roots, [e], used) @ weights
        errors[e] = own @ own + moments.counts[e] * (gaps[e] @ weights) ** 2
    return errors


class _OtherEnvironments:
    """scatter, others (E, d, d): centred products in each environment, and over all rows of the others; gaps (E, d):
    mean of the environment minus that of the others; the outcome is last."""

    def __init__(self, scatter: Floats, others: Floats, gaps: Floats, counts: Floats) -> None:
        self.scatter, self.others, self.gaps, self.counts = scatter, others, gaps, counts

    @classmethod
    def of(cls, moments: Moments, columns: NDArray[np.intp]) -> _OtherEnvironments:
        local = moments.scatter[:-1, columns[:, None], columns]
        counts, centre, remainder = moments.counts.astype(float), moments.centre[:, columns], moments.rest[:, columns]
        others, gaps = np.zeros_like(local), np.zeros_like(centre)
        for e in range(len(counts)):
            rest = np.arange(len(counts)) != e
            apart = gaps_between(counts[rest], centre[rest], remainder[rest])
            others[e] = local[rest].sum(axis=0) + (apart * counts[rest][:, None]).T @ apart
            first = int(np.argmax(rest))
            gaps[e] = distance(centre[e], remainder[e], centre[first], remainder[first]) + apart[0]
        return cls(local, others, gaps, counts)

    def errors(self, members: NDArray[np.intp]) -> Floats:
        """(E,) of the columns `members`"""
        outcome = self.others.shape[-1] - 1
        slopes = self._slopes(members, outcome)
        cross = self.scatter[:, members, outcome]
        own = np.einsum("ei,eij,ej->e", slopes, self.scatter[:, members[:, None], members], slopes)
        missed = self.gaps[:, outcome] - np.einsum("ei,ei->e", self.gaps[:, members], slopes)
        errors = self.scatter[:, outcome, outcome] - 2.0 * np.einsum("ei,ei->e", cross, slopes) + own
        return np.maximum(errors, 0.0) + self.counts * missed**2

    def _slopes(self, members: NDArray[np.intp], outcome: int) -> Floats:
        """(E, k) of the fit to the others; 0 for a column that is constant there"""
        grams = self.others[:, members[:, None], members]
        diagonal = np.einsum("eii->ei", grams)
        scale = np.where(diagonal > 0.0, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)
        unit = grams * scale[:, :, None] * scale[:, None, :]
        unit += (scale == 0.0)[:, :, None] * np.eye(len(members))
        right = self.others[:, members, outcome] * scale
        if not len(members):
            return right
        if np.linalg.eigvalsh(unit).min() < PIVOT_TOLERANCE:
            return np.full(right.shape, np.nan)
        return np.asarray(np.linalg.solve(unit, right[:, :, None])[:, :, 0] * scale)
