"""The linear Gaussian conditional: log Λ(z) from second moments, and from the rows where those cannot decide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Mask
from .._tools.parallel import n_workers, ordered_map
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import Subset, as_lists, as_mask, as_masks
from ..exceptions import DataError
from ..kernels.active_set import Scoring
from ..kernels.group_rows import GroupRows, share_from_rows
from ..kernels.neighbours import flip_changes
from ..kernels.orthogonal import relative_residuals
from ..kernels.subset_cholesky import score_subsets
from ..kernels.subset_tree import reciprocal_pivot, settle, sweep_in_place
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from .blocks import (
    DenseBlocks,
    GroupMoments,
    ListedBlocks,
    PriorTerms,
    RowScores,
    subset_blocks,
)
from .gaussian import GaussianConditional
from .row_groups import always_decidable, compressed_rows, no_rows
from .support import Unsupported, find_causes, reasons_of, too_few_rows

PIVOT_TOLERANCE = 1e-9
# While searching, every collinear feature that must be left out of a subset makes its log Λ this share worse.
COLLINEARITY_PENALTY = 0.05
_FEWEST_PER_THREAD = 256
_MOST_EXPLAINED = 50


@dataclass(frozen=True, eq=False)
class SubsetScores:
    """log Λ of all subsets up to a size. log_ratio (n,): -inf outside the support. masks(positions) -> (len, p).

    Where `dense`, the position of a subset is its bit pattern (bit j = feature j).
    """

    log_ratio: Floats
    blocks: DenseBlocks | ListedBlocks

    @property
    def dense(self) -> bool:
        return isinstance(self.blocks, DenseBlocks)

    def masks(self, positions: ArrayLike | None = None) -> Mask:
        wanted = np.arange(len(self.log_ratio)) if positions is None else np.atleast_1d(np.asarray(positions))
        return self.blocks.masks(wanted)


class LinearGaussian(GaussianConditional):
    """Outcome ~ Normal(intercept + coefficients · features in z, variance), by maximum likelihood.

    Built on data, or on moments alone. A subset that second moments in float64 cannot decide (smallest scaled pivot
    under 1e-9) is decided by the rows where these are at hand; with moments alone its log ratio is -inf.
    """

    def __init__(self, data: MultiEnvironmentData | Moments, n_jobs: int | None = None) -> None:
        self.data = data if isinstance(data, MultiEnvironmentData) else None
        self.moments = Moments.from_data(data) if isinstance(data, MultiEnvironmentData) else data
        self.moments.check_outcome()
        self.n_jobs = n_jobs

    @property
    def has_rows(self) -> bool:
        """Whether `rescore` is available: the rows are at hand and hold the present outcome."""
        return self.data is not None

    def log_ratio(self, subset: Subset) -> float:
        """log Λ of one subset, given by names or as a mask."""
        mask = as_mask(subset, self.feature_names)[None]
        return float(self.log_ratio_many(mask)[0])

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        """(S,) log Λ of the subsets in masks (S, p); -inf outside the support."""
        return self._supported(masks, np.nan)

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """As log_ratio_many, but with moments alone a collinear subset counts as its decidable part, at a cost: for
        searching only.
        """
        return self._supported(masks, COLLINEARITY_PENALTY)

    def _supported(self, masks: ArrayLike, penalty: float) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = self._score(chosen, penalty)
        outside = np.isnan(values) if self.has_rows else np.isnan(values) | self._too_large(chosen)
        values[outside] = -np.inf
        return values

    def log_ratio_all(self, max_size: int | None = None) -> SubsetScores:
        """log Λ of every subset of at most max_size features (default: as many as every environment can fit)."""
        limit = self.largest_size if max_size is None else min(max_size, self.n_features)
        self.moments.check_max_size(limit)
        blocks = self.subset_blocks(np.arange(self.n_features), PriorTerms.flat(self.n_features, limit))
        scored = ordered_map(lambda b: blocks.scored(b).log_posterior, range(blocks.n_blocks), self.n_jobs)
        return SubsetScores(np.concatenate(list(scored)), blocks)

    def flip_neighbours(self, mask: ArrayLike) -> Floats:
        """(p,) change of log Λ when each single feature is added or removed; -inf where that leaves the support."""
        chosen = as_masks(mask, self.n_features)
        change = np.empty(len(self.moments.columns))
        members = self.moments.features[chosen[0]]
        arguments = (self.moments.scatter, self._inverse_scale, self.moments.outcome)
        flip_changes(*arguments, self._weights, PIVOT_TOLERANCE, members.astype(np.int64), change)
        now = self.log_ratio_many(chosen)[0]
        if now == -np.inf:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(chosen)}.")
        change = change[self.moments.features]
        unknown = np.flatnonzero(np.isnan(change))
        change[unknown] = self.log_ratio_many(chosen ^ np.eye(self.n_features, dtype=bool)[unknown]) - now
        return change

    def rescore(self, masks: ArrayLike) -> Floats:
        """(S,) log Λ by orthogonalising the centred, scaled rows: decides what second moments cannot."""
        if self.data is None:
            raise DataError("rescoring needs the rows: build LinearGaussian from the data, not from its moments.")
        chosen = as_masks(masks, self.n_features)
        used = np.flatnonzero(chosen.any(axis=0))
        starts, members = as_lists(chosen[:, used])
        counts = self.moments.group_counts
        total = np.full(len(chosen), self._offset)
        unsupported = np.zeros(len(chosen), dtype=bool)
        residual, rank = np.empty(len(chosen)), np.empty(len(chosen), np.int64)
        columns = np.column_stack([self.data.X[:, used], self.data.y])
        groups = [self.data.rows(e) for e in range(self.data.n_environments)]
        for g, rows in enumerate([*groups, np.arange(self.data.n_rows)]):
            unit, _, _ = unit_rows(columns[rows])
            relative_residuals(unit, starts, members, DEPENDENT, residual, rank)
            unfit = (counts[g] < rank + 2) | (residual < DEPENDENT)
            total += self._weights[g] * np.log(np.where(unfit, 1.0, residual))
            unsupported |= unfit
        total[unsupported] = np.nan
        settle(total, self._weights)
        total[np.isnan(total)] = -np.inf
        return total

    def unsupported(self, masks: ArrayLike) -> Unsupported:
        """Which of the subsets are outside the support, and why."""
        chosen = as_masks(masks, self.n_features)
        outside = np.isnan(self._score(chosen))
        too_large = self._too_large(chosen) & outside
        undecidable = outside & ~too_large
        causes = find_causes(chosen[undecidable], lambda mask: ~np.isnan(self._score(mask)), self._places)
        reasons = too_few_rows(self.moments, chosen[too_large]) + reasons_of(causes, self.moments, self.has_rows)
        involved = np.any([cause.features for cause in causes], axis=0) if causes else np.zeros(self.n_features, bool)
        names = tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)
        return Unsupported(too_large, undecidable, names, tuple(reasons))

    def _places(self, mask: Mask) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Groups where an undecidable subset (p,) is so, and what it leaves of the outcome there; NaN if collinear."""
        columns = self.moments.features[mask]
        groups, shares = [], []
        for g in range(self.moments.n_environments + 1):
            if self.has_rows:
                share = share_from_rows(self.scoring.rows, g, columns.astype(np.int64), self.moments.outcome)
                share = 0.0 if np.isnan(share) else 1.0
            else:
                share = _outcome_share(self._gram(g, np.append(columns, self.moments.outcome)))
            if not share >= PIVOT_TOLERANCE:
                groups.append(g)
                shares.append(max(share, 0.0))
        return tuple(groups), tuple(shares)

    def nearly_outcome(self) -> Mask:
        """(p,) features that alone explain, in some group, all but 1e-9 of the outcome: unsupported, or nearly so."""
        y, scale = self.moments.outcome, self._inverse_scale
        correlations = self.moments.scatter[:, y] * scale * scale[:, y, None]
        return np.any(correlations[:, self.moments.features] ** 2 > 1.0 - PIVOT_TOLERANCE, axis=0)

    def dependent_features(self, masks: Mask) -> tuple[str, ...]:
        """Features that are, in some environment or in the pool, nearly a combination of others in the same subset."""
        involved = np.zeros(self.n_features, dtype=bool)
        for mask in masks[:_MOST_EXPLAINED]:
            members = np.flatnonzero(mask)
            for g in range(self.moments.n_environments + 1):
                involved[members] |= _nearly_dependent(self._gram(g, self.moments.features[members]))
        return tuple(name for name, flag in zip(self.feature_names, involved, strict=True) if flag)

    def subset_blocks(
        self, free: NDArray[np.intp], prior: PriorTerms, forced: NDArray[np.intp] | None = None
    ) -> DenseBlocks | ListedBlocks:
        """All subsets of the `free` features (each joined by the `forced` ones) that the prior allows."""
        forced = np.empty(0, np.intp) if forced is None else forced
        order = np.concatenate([forced, free]).astype(np.intp)
        columns = np.append(self.moments.features[order], self.moments.outcome)
        scale = self._inverse_scale[:, columns]
        grams = self.moments.scatter[:, columns[:, None], columns] * scale[:, :, None] * scale[:, None, :]
        absent = ~self.moments.varies[:, columns]
        for g, gram in enumerate(grams):
            for j in range(len(forced)):
                reciprocal = reciprocal_pivot(gram[j, j], absent[g, j], PIVOT_TOLERANCE)
                sweep_in_place(gram, j, len(columns) - 1, reciprocal)
        k = len(forced)
        reduced = GroupMoments(
            np.ascontiguousarray(grams[:, k:, k:]),
            np.ascontiguousarray(absent[:, k:]),
            self._weights,
            self._offset,
            PIVOT_TOLERANCE,
            RowScores(self, *(self.moments.features[part].astype(np.int64) for part in (forced, free)))
            if self.has_rows
            else None,
        )
        return subset_blocks(reduced, prior)

    @property
    def scoring_arrays(self) -> tuple[Floats, Floats, int, Floats, float, float, GroupRows]:
        """scatter, inverse scale, outcome column, weights, offset, tolerance, rows: what kernels need to score."""
        moments, scale = self.moments, self._inverse_scale
        return moments.scatter, scale, moments.outcome, self._weights, self._offset, PIVOT_TOLERANCE, self._rows

    @cached_property
    def scoring(self) -> Scoring:
        return Scoring(*self.scoring_arrays)

    @cached_property
    def _rows(self) -> GroupRows:
        if self.data is None or always_decidable(self.moments, self._inverse_scale, PIVOT_TOLERANCE):
            return no_rows(self.moments)
        return compressed_rows(self.data, self.moments)

    @cached_property
    def _inverse_scale(self) -> Floats:
        diagonal = np.einsum("gjj->gj", self.moments.scatter)
        return np.where(self.moments.varies, 1.0 / np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0)), 0.0)

    def _gram(self, g: int, columns: NDArray[np.intp]) -> Floats:
        scale = self._inverse_scale[g, columns]
        return self.moments.scatter[g][np.ix_(columns, columns)] * scale[:, None] * scale

    @cached_property
    def _weights(self) -> Floats:
        """(G,) log Λ = offset + Σ weights · log(residual share); with one environment everything cancels."""
        if self.moments.n_environments == 1:
            return np.zeros(2)
        return 0.5 * self.moments.group_counts * np.append(np.ones(self.moments.n_environments), -1.0)

    @cached_property
    def _offset(self) -> float:
        y = self.moments.outcome
        variances = self.moments.scatter[:, y, y] / self.moments.group_counts
        return float(self._weights @ np.log(variances))

    def _too_large(self, masks: Mask) -> Mask:
        varies = self.moments.varies[:, self.moments.features]
        ranks = masks.astype(np.float64) @ varies.T.astype(np.float64)
        return np.any(ranks + 2 > self.moments.group_counts, axis=1)

    def _score(self, masks: Mask, penalty: float = np.nan) -> Floats:
        out = np.empty(len(masks))
        pieces = min(n_workers(self.n_jobs), max(1, len(masks) // _FEWEST_PER_THREAD))
        bounds = np.linspace(0, len(masks), pieces + 1).astype(int)

        def score(piece: int) -> None:
            rows = slice(bounds[piece], bounds[piece + 1])
            starts, members = as_lists(masks[rows])
            columns = self.moments.features[members].astype(np.int64)
            score_subsets(self.scoring, penalty, starts, columns, out[rows])

        for _ in ordered_map(score, range(pieces), pieces):
            pass
        return out


def _outcome_share(gram: Floats) -> float:
    """What the other columns of `gram` leave of the last one; NaN where they are too collinear to tell."""
    reduced = gram.copy()
    for j in range(len(gram) - 1):
        if gram[j, j] == 0.0:
            continue
        if reduced[j, j] < PIVOT_TOLERANCE:
            return np.nan
        reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
    return float(reduced[-1, -1])


def _nearly_dependent(gram: Floats) -> Mask:
    """(p,) columns that take part in a near dependence among the unit-diagonal columns of `gram`."""
    involved = np.zeros(len(gram), dtype=bool)
    kept: list[int] = []
    reduced = gram.copy()
    for j in np.flatnonzero(np.diagonal(gram) > 0.0).tolist():
        if reduced[j, j] >= PIVOT_TOLERANCE:
            kept.append(j)
            reduced[j + 1 :, j + 1 :] -= np.outer(reduced[j + 1 :, j], reduced[j, j + 1 :]) / reduced[j, j]
            continue
        involved[j] = True
        partners = np.linalg.lstsq(gram[np.ix_(kept, kept)], gram[kept, j], rcond=None)[0]
        involved[np.array(kept)[np.abs(partners) > 1e-3]] = True
    return involved
