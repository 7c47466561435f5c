"""The linear Gaussian conditional: log Λ(z) from second moments, and from the rows where those cannot decide."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..checks import DataError, quoted
from ..data import MultiEnvironmentData
from ..kernels.neighbours import flip_changes
from ..kernels.orthogonal import relative_residuals
from ..kernels.subset_cholesky import score_subsets
from ..kernels.subset_tree import reciprocal_pivot, settle, sweep_in_place
from ..least_squares import DEPENDENT, unit_rows
from ..moments import Moments
from ..parallel import n_workers, ordered_map
from ..subsets import Subset, as_lists, as_mask, as_masks
from .blocks import DenseBlocks, GroupMoments, ListedBlocks, PriorTerms, subset_blocks
from .gaussian import GaussianConditional

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

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


@dataclass(frozen=True, eq=False)
class Unsupported:
    """Why given subsets have log ratio -inf. too_large, undecidable (S,): bool; features: the names involved."""

    too_large: Mask
    undecidable: Mask
    features: tuple[str, ...]

    @property
    def count(self) -> int:
        return int((self.too_large | self.undecidable).sum())

    def __str__(self) -> str:
        large, undecidable = int(self.too_large.sum()), int(self.undecidable.sum())
        reasons = []
        if large:
            reasons.append(f"{large} have more features than some environment's rows can fit")
        if undecidable:
            reasons.append(f"{undecidable} hold features too collinear for second moments ({quoted(self.features)})")
        return f"{self.count} subsets outside the support" + (": " + "; ".join(reasons) if reasons else "")


class LinearGaussian(GaussianConditional):
    """Outcome ~ Normal(intercept + coefficients · features in z, variance), by maximum likelihood.

    Built on moments alone, or on data, whose rows then serve `rescore`. A subset that second moments in float64
    cannot decide (smallest scaled pivot under 1e-9) has log ratio -inf in `log_ratio_many` and `log_ratio_all`;
    `log_ratio` of a single subset turns to the rows.
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
        value = self.log_ratio_many(mask)[0]
        if value == -np.inf and self.has_rows:
            value = self.rescore(mask)[0]
        return float(value)

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        """(S,) log Λ of the subsets in masks (S, p); -inf outside the support."""
        return self._supported(masks, np.nan)

    def search_ratio_many(self, masks: ArrayLike) -> Floats:
        """As log_ratio_many, but a collinear subset counts as its decidable part, at a cost: for searching only."""
        return self._supported(masks, COLLINEARITY_PENALTY)

    def _supported(self, masks: ArrayLike, penalty: float) -> Floats:
        chosen = as_masks(masks, self.n_features)
        values = self._score(chosen, penalty)
        values[self._too_large(chosen) | np.isnan(values)] = -np.inf
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
        if np.isnan(change).all() or self._too_large(chosen)[0]:
            raise DataError(f"the subset to start from is not supported: {self.unsupported(chosen)}.")
        change = change[self.moments.features]
        change[np.isnan(change)] = -np.inf
        flipped = chosen ^ np.eye(self.n_features, dtype=bool)
        change[self._too_large(flipped)] = -np.inf
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
        """Which of the subsets are outside the support of the second-moment computations, and why."""
        chosen = as_masks(masks, self.n_features)
        too_large = self._too_large(chosen)
        undecidable = np.isnan(self._score(chosen)) & ~too_large
        names = self.dependent_features(chosen[undecidable]) if undecidable.any() else ()
        return Unsupported(too_large, undecidable, names)

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
        )
        return subset_blocks(reduced, prior)

    @cached_property
    def scoring_arrays(self) -> tuple[Floats, Floats, int, Floats, float, float]:
        """scatter, inverse scale, outcome column, weights, offset, tolerance: what a kernel needs to score subsets."""
        moments = self.moments
        return moments.scatter, self._inverse_scale, moments.outcome, self._weights, self._offset, PIVOT_TOLERANCE

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
            score_subsets(*self.scoring_arrays, penalty, starts, columns, out[rows])

        for _ in ordered_map(score, range(pieces), pieces):
            pass
        return out


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
