"""Linear Gaussian structural models over several environments: sampling, population moments, heterogeneity."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import as_lists, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..kernels.compiled import kernel
from ..kernels.row_residuals import relative_residuals
from ..moments.moments import Moments, filled_pool


@kernel
def propagate(coefficients, ordering, values):  # type: ignore[no-untyped-def]
    """Turn each variable's own input, values (d, m), into the variable: values[i] += Σ_j coefficients[i, j] values[j].

    ordering (d,) visits a variable after those it depends on. No fused operations: the same on every machine.
    """
    for k in range(ordering.size):
        i = ordering[k]
        for before in range(k):
            j = ordering[before]
            c = coefficients[i, j]
            if c != 0.0:
                for r in range(values.shape[1]):
                    values[i, r] += c * values[j, r]


UNDECIDABLE = 1e-20  # squared, scaled pivot under which float64 no longer gives μ to about 1e-5
ROUNDING = 1e-9  # μ ≥ 0 by definition: a value this little below is rounding
MOST_SUBSETS = 2**20


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """p features and one outcome y, each a linear function of those before it in one ordering, plus Gaussian noise.

    Columns 0..p-1 are the features and p is the outcome. In environment e column i is

        t_i = intercepts[e, i] + Σ_j coefficients[e, i, j] t_j + Normal(0, variances[e, i])

    over the columns j before i in `ordering`. Another environment differs from the first only in the features that
    `intervened` marks, and the outcome's row is the same in all.

    ordering : (p+1,) permutation of the columns, first to last
    coefficients : (E, p+1, p+1), rows and columns numbered as above (not by position in the ordering)
    intercepts, variances : (E, p+1)
    intervened : (E, p) bool, no feature in the first environment
    feature_names : p names; empty means x1, ..., xp
    """

    ordering: NDArray[np.intp]
    coefficients: Floats
    intercepts: Floats
    variances: Floats
    intervened: Mask
    feature_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("coefficients", "intercepts", "variances", "intervened", "ordering"):
            kind = {"intervened": bool, "ordering": np.intp}.get(name, float)
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=kind))
        if not self.feature_names:
            object.__setattr__(self, "feature_names", tuple(f"x{j + 1}" for j in range(self.n_features)))
        self._check()

    @property
    def n_features(self) -> int:
        return len(self.ordering) - 1

    @property
    def n_environments(self) -> int:
        return len(self.intercepts)

    @property
    def environments(self) -> tuple[str, ...]:
        """Labels e1, ..., eE."""
        return tuple(f"e{e + 1}" for e in range(self.n_environments))

    @property
    def truth(self) -> Mask:
        """(p,) the invariant features: those that come before the outcome in the ordering."""
        position = np.argsort(self.ordering)
        return position[:-1] < position[-1]

    def sample(self, n: int | ArrayLike, rng: np.random.Generator, jitter: float = 0.0) -> MultiEnvironmentData:
        """Independent rows, n in every environment or n[e] in environment e, in the order of the environments.

        jitter : every environment multiplies each coefficient of the outcome by its own Normal(1, jitter²)
        """
        return self._rows(np.arange(self.n_environments), n, rng, jitter)

    def sample_apart(
        self, n: int | ArrayLike, n_fresh: int, rng: np.random.Generator, jitter: float = 0.0
    ) -> tuple[MultiEnvironmentData, MultiEnvironmentData]:
        """The rows of `sample`, those of the last n_fresh environments apart: new environments to predict in."""
        if not 0 < n_fresh < self.n_environments:
            raise SettingError(f"n_fresh={n_fresh} must be from 1 to {self.n_environments - 1}.")
        seen, fresh = np.split(np.arange(self.n_environments), [self.n_environments - n_fresh])
        return self._rows(seen, n, rng, jitter), self._rows(fresh, n, rng, jitter)

    def population_moments(self, n: int | ArrayLike = 1000) -> Moments:
        """Moments of n rows per environment without sampling error; the range of every column is infinite."""
        counts = self._counts(n)
        means, factors = self._population()
        local = (factors * counts[:, None, None]) @ factors.swapaxes(1, 2)
        return Moments(
            columns=(*self.feature_names, self._outcome_name),
            outcome=self.n_features,
            environments=self.environments,
            counts=counts,
            centre=means,
            rest=np.zeros_like(means),
            minimum=np.full(means.shape, -np.inf),
            maximum=np.full(means.shape, np.inf),
            scatter=filled_pool(counts, means, np.zeros_like(means), local),
        )

    def mu(self, masks: ArrayLike) -> Floats:
        """(S,) heterogeneity μ(z) of the subsets in masks (S, p): how far y | x^z is from being the same everywhere.

        The paper's μ̄(z) = ½ [ log σ²_pool(z) − (1/E) Σ_e log σ²_e(z) ], with σ²_e(z) the residual variance of y on x^z
        in environment e and σ²_pool(z) that in their equal mixture: the limit of −log Λ(z) / N, 0 for an invariant z.

        Residuals come from orthogonalising factors of the covariances, without squares. Where columns are collinear, or
        fix y, up to a squared, scaled pivot under 1e-20 in some environment or in the pool, μ is nan.
        """
        chosen = as_masks(masks, self.n_features)
        used = np.append(np.flatnonzero(chosen.any(axis=0)), self.n_features)
        starts, members = as_lists(chosen[:, used[:-1]])
        means, factors = self._population()
        shifts = (means - means.mean(axis=0))[:, used]
        factors = factors[:, used]
        mixture = np.concatenate([*factors, shifts.T], axis=1) / np.sqrt(self.n_environments)
        local = np.mean([_log_variances(factor, starts, members) for factor in factors], axis=0)
        values = 0.5 * (_log_variances(mixture, starts, members) - local)
        values[values < -ROUNDING] = np.nan
        return np.maximum(values, 0.0)

    def mu_min(self, max_size: int | None = None) -> float:
        """The smallest μ(z) over subsets of at most max_size features except the truth; nan where some μ is (see `mu`),
        inf where there is no other subset."""
        p = self.n_features
        limit = p if max_size is None else min(max_size, p)
        if sum(comb(p, k) for k in range(limit + 1)) > MOST_SUBSETS:
            raise SettingError(f"more than {MOST_SUBSETS} subsets of up to {limit} of {p} features: lower max_size.")
        members = [chosen for k in range(limit + 1) for chosen in combinations(range(p), k)]
        masks = np.zeros((len(members), p), dtype=bool)
        for mask, chosen in zip(masks, members, strict=True):
            mask[list(chosen)] = True
        others = masks[(masks != self.truth).any(axis=1)]
        return float(np.min(self.mu(others))) if len(others) else np.inf

    @property
    def _outcome_name(self) -> str:
        return "outcome" if "y" in self.feature_names else "y"

    def _rows(
        self, chosen: NDArray[np.intp], n: int | ArrayLike, rng: np.random.Generator, jitter: float
    ) -> MultiEnvironmentData:
        """Rows of the chosen environments, in their order."""
        if not 0.0 <= jitter < np.inf:
            raise SettingError(f"jitter={jitter!r} must be a finite number of at least 0.")
        kept, parts = self._counts(n)[chosen], []
        for e, count in zip(chosen.tolist(), kept.tolist(), strict=True):
            columns = rng.standard_normal((self.n_features + 1, count))
            columns *= np.sqrt(self.variances[e])[:, None]
            columns += self.intercepts[e][:, None]
            coefficients = self.coefficients[e].copy()
            if jitter:
                coefficients[-1] *= rng.normal(1.0, jitter, self.n_features + 1)
            propagate(coefficients, self.ordering, columns)
            parts.append(columns.T)
        rows = np.concatenate(parts)
        return MultiEnvironmentData(
            X=np.ascontiguousarray(rows[:, :-1]),
            y=rows[:, -1].copy(),
            environment_index=np.repeat(np.arange(len(chosen)), kept),
            feature_names=self.feature_names,
            environments=tuple(self.environments[e] for e in chosen),
            outcome_name=self._outcome_name,
            environment_name="environment",
            truth=self.truth,
        )

    def _population(self) -> tuple[Floats, Floats]:
        """Means (E, p+1) and factors F (E, p+1, p+1) of the covariances F F'."""
        d = self.n_features + 1
        means, factors = np.empty((self.n_environments, d)), np.empty((self.n_environments, d, d))
        for e in range(self.n_environments):
            columns = np.column_stack([np.diag(np.sqrt(self.variances[e])), self.intercepts[e]])
            propagate(self.coefficients[e], self.ordering, columns)
            factors[e], means[e] = columns[:, :-1], columns[:, -1]
        return means, factors

    def _counts(self, n: int | ArrayLike) -> Integers:
        counts = np.asarray(n)
        if counts.dtype.kind not in "iu" or counts.shape not in ((), (self.n_environments,)) or counts.min() < 1:
            raise SettingError(f"n={n!r} is not a positive number of rows, or one for each environment.")
        return np.broadcast_to(counts, self.n_environments).astype(np.int64)

    def _check(self) -> None:
        d, n_environments = len(self.ordering), len(self.intercepts)
        if n_environments == 0 or d < 2 or not np.array_equal(np.sort(self.ordering), np.arange(d)):
            raise SettingError("ordering must hold every column 0..p once, p being the outcome, with p ≥ 1 and E ≥ 1.")
        shapes = {"coefficients": (d, d), "intercepts": (d,), "variances": (d,), "intervened": (d - 1,)}
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != (n_environments, *shape) or not np.isfinite(values).all():
                raise SettingError(f"{name} must be finite and of shape {(n_environments, *shape)}.")
        if not (self.variances > 0.0).all() or len({*self.feature_names}) != d - 1 or len(self.feature_names) != d - 1:
            raise SettingError(f"variances must be positive, and feature_names {d - 1} different names.")
        position = np.argsort(self.ordering)
        if self.coefficients[:, position[None, :] >= position[:, None]].any():
            raise SettingError("coefficients point from a column to one that does not come after it in the ordering.")
        differs = (self.coefficients != self.coefficients[0]).any(axis=2)
        differs |= (self.intercepts != self.intercepts[0]) | (self.variances != self.variances[0])
        if differs[:, -1].any():
            raise SettingError("the outcome's row must be the same in every environment.")
        if (differs[:, :-1] & ~self.intervened).any() or self.intervened[0].any():
            raise SettingError("intervened must mark where a feature may differ from the first environment.")


def _log_variances(factor: Floats, starts: Integers, members: Integers) -> Floats:
    """(S,) log residual variance of the last row of `factor` (k, m) on the rows of each subset; nan if undecidable."""
    norms = np.linalg.norm(factor, axis=1)
    triangle = np.asarray(np.linalg.qr((factor / norms[:, None]).T, mode="r"))
    share, rank = relative_residuals(triangle.T, starts, members, len(factor) - 1, UNDECIDABLE)
    share[(rank < np.diff(starts)) | (share == 0.0)] = np.nan
    return np.log(share) + 2.0 * np.log(norms[-1])
