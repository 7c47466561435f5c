"""Linear Gaussian structural models over several environments.

Variables are generated in a random ordering t^(1), ..., t^(p+1) of features and outcome, each given
its predecessors: p_e(x, y) = Π_i p_e(t^(i) | t^(1:i−1)) (equation 12 of the paper, Wu et al. 2025,
arXiv:2506.22675).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Floats, Integers, Mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError


def propagate(coefficients: Floats, ordering: Integers, values: Floats) -> None:
    """Turn the input of each variable, values (d, m), into the variable.

    values[i] += Σ_j coefficients[i, j] values[j], where ordering (d,) visits a variable after those
    it depends on. The sums are taken one product after the other: the same on every machine.
    """
    for k, i in enumerate(ordering):
        for j in ordering[:k][coefficients[i, ordering[:k]] != 0.0]:
            values[i] += coefficients[i, j] * values[j]


@dataclass(frozen=True, eq=False)
class StructuralModel:
    """Generate features and an outcome by a linear Gaussian structural model.

    Each variable is a linear function of those before it in one ordering. Columns 0..p-1 are the
    features and p is the outcome. In environment e column i is::

        t_i = intercepts[e, i] + Σ_j coefficients[e, i, j] t_j + Normal(0, variances[e, i])

    over the columns j before i in `ordering`. Another environment differs from the first only in
    the features that `intervened` marks; the row of the outcome is the same in all.

    Parameters
    ----------
    ordering : ndarray of shape (p + 1,), int
        Permutation of the columns, first to last.
    coefficients : ndarray of shape (E, p + 1, p + 1)
        Rows and columns are numbered as above, not by position in the ordering.
    intercepts : ndarray of shape (E, p + 1)
        Intercepts.
    variances : ndarray of shape (E, p + 1)
        Variances of the noise, positive.
    intervened : ndarray of shape (E, p), bool
        Features that were intervened on, none in the first environment.

    Raises
    ------
    SettingError
        If shapes do not match, ordering is not a permutation, a variance is not positive or a
        coefficient contradicts the ordering.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, equation 12, arXiv:2506.22675.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance.simulation import example_2
    >>> example_2().sample(200, np.random.default_rng(0)).X.shape
    (600, 2)
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
        """Return the labels e1, ..., eE."""
        return tuple(f"e{e + 1}" for e in range(self.n_environments))

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Return the names x1, ..., xp of the features.

        Returns
        -------
        tuple of str
            Names.
        """
        return tuple(f"x{j + 1}" for j in range(self.n_features))

    @property
    def truth(self) -> Mask:
        """Return the invariant features: those before the outcome in the ordering.

        Returns
        -------
        ndarray of shape (p,), bool
            Mask.
        """
        position = np.argsort(self.ordering)
        return position[:-1] < position[-1]

    def sample(
        self, n: int | ArrayLike, rng: np.random.Generator, jitter: float = 0.0
    ) -> MultiEnvironmentData:
        """Draw independent rows in the order of the environments.

        Parameters
        ----------
        n : int or array-like of shape (E,)
            Rows of each environment.
        rng : numpy.random.Generator
            Random generator.
        jitter : float, default=0.0
            Standard deviation of factors: every environment multiplies each coefficient of the
            outcome by its own Normal(1, jitter²).

        Returns
        -------
        MultiEnvironmentData
            Data, with `truth`.

        Raises
        ------
        SettingError
            If jitter is negative, or n is not a positive whole number for each environment.
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
