"""Linear Gaussian structural models over several environments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError


def propagate(coefficients: Floats, ordering: Integers, values: Floats) -> None:
    """Turn each variable's own input, values (d, m), into the variable: values[i] += Σ_j
    coefficients[i, j] values[j]. ordering (d,) visits a variable after those it depends on. One
    product after the other: the same on every machine."""
    for k, i in enumerate(ordering):
        for j in ordering[:k][coefficients[i, ordering[:k]] != 0.0]:
            values[i] += coefficients[i, j] * values[j]


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """p features and one outcome y, each a linear function of those before it in one ordering, plus
    Gaussian noise.

    Columns 0..p-1 are the features and p is the outcome. In environment e column i is

        t_i = intercepts[e, i] + Σ_j coefficients[e, i, j] t_j + Normal(0, variances[e, i])

    over the columns j before i in `ordering`. Another environment differs from the first only in
    the features that `intervened` marks, and the outcome's row is the same in all.

    ordering : (p+1,) permutation of the columns, first to last
    coefficients : (E, p+1, p+1), rows and columns numbered as above (not by position in the
        ordering)
    intercepts, variances : (E, p+1)
    intervened : (E, p) bool, no feature in the first environment
    """

    ordering: NDArray[np.intp]
    coefficients: Floats
    intercepts: Floats
    variances: Floats
    intervened: Mask

    def __post_init__(self) -> None:
        d = len(self.ordering)
        n_environments = len(self.intercepts)
        position = np.argsort(self.ordering)
        shapes = {
            "coefficients": (d, d),
            "intercepts": (d,),
            "variances": (d,),
            "intervened": (d - 1,),
        }
        for name, shape in shapes.items():
            if np.shape(getattr(self, name)) != (n_environments, *shape):
                raise SettingError(f"{name} must be of shape {(n_environments, *shape)}.")
        if (
            not np.array_equal(self.ordering[position], np.arange(d))
            or not (self.variances > 0.0).all()
        ):
            raise SettingError(
                "ordering must hold every column 0..p once, and variances must be positive."
            )
        if self.coefficients[:, position[None, :] >= position[:, None]].any():
            raise SettingError(
                "coefficients point from a column to one that does not come after it in the "
                "ordering."
            )

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
    def feature_names(self) -> tuple[str, ...]:
        """x1, ..., xp"""
        return tuple(f"x{j + 1}" for j in range(self.n_features))

    @property
    def truth(self) -> Mask:
        """(p,) the invariant features: those that come before the outcome in the ordering."""
        position = np.argsort(self.ordering)
        return position[:-1] < position[-1]

    def sample(
        self, n: int | ArrayLike, rng: np.random.Generator, jitter: float = 0.0
    ) -> MultiEnvironmentData:
        """Independent rows, n in every environment or n[e] in environment e, in the order of the
        environments.

        jitter : every environment multiplies each coefficient of the outcome by its own Normal(1,
            jitter²)
        """
        if not 0.0 <= jitter < np.inf:
            raise SettingError(f"jitter={jitter!r} must be a finite number of at least 0.")
        counts = self._counts(n)
        parts = []
        for e, count in enumerate(counts.tolist()):
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
            environment_index=np.repeat(np.arange(self.n_environments), counts),
            feature_names=self.feature_names,
            environments=self.environments,
            environment_name="environment",
            truth=self.truth,
        )

    def _counts(self, n: int | ArrayLike) -> Integers:
        counts = np.asarray(n)
        if (
            counts.dtype.kind not in "iu"
            or counts.shape not in ((), (self.n_environments,))
            or counts.min() < 1
        ):
            raise SettingError(
                f"n={n!r} is not a positive number of rows, or one for each environment."
            )
        return np.broadcast_to(counts, self.n_environments).astype(np.int64)
