"""Environment-invariant linear least squares, minimised over all subsets.

The loss of coefficients β with support z is the mean over environments of::

    mean (y − x'β)² + γ Σ_{j in z} (mean x_j (y − x'β))²

(Fan, Fang, Gu and Zhang 2023, arXiv:2303.03092).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressMode
from ..data.checks import quoted, warn
from ..data.features import as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, SettingError
from ..kernels.baseline_scores import subset_losses
from .base import Baseline, Line, kind_for
from .subsets import check_columns, checked_subsets

# A holds squares of second moments, so that legitimate designs have far smaller pivots than the
# moments themselves.
_PIVOT_TOLERANCE = 1e-13
_MAX_COLUMNS = 300


@dataclass(eq=False, repr=False)
class EILLS(Baseline):
    """Select the subset with the smallest environment-invariant squared error.

    The loss of a subset is the mean squared error plus γ times the mean, over environments, of the
    squared gradients with respect to its coefficients.

    Parameters
    ----------
    gamma : float, default=36.0
        Weight γ of the penalty for differences between environments.
    center : bool, default=True
        Whether to subtract the pooled means of X and y first, because the loss has no intercept.
        False uses the data as they are, like the authors' code.
    max_size : int, default=None
        Largest number of features in a subset. None scores all 2**p subsets.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores.
    progress : {"auto", True, False} or callable, default="auto"
        Progress bar, or a function of a fraction and a message, as in `BIP`.

    Attributes
    ----------
    losses_ : ndarray of shape (n_subsets,)
        Loss of each subset, 0 for the empty one. Without `max_size` the index is the bit pattern of
        the subset over the features that vary. NaN if the subset is collinear in every environment.
    n_unscored_ : int
        Number of NaN in `losses_`.
    support_ : ndarray of shape (n_features,), bool
        Features of the best subset.
    coef_ : ndarray of shape (n_columns,)
        Minimiser of the loss; for classes and counts the pooled fit of their own model.
    intercept_ : float
        Intercept; 0 with `center=False`.

    Notes
    -----
    The loss depends on the units of the features. The matrices contain squares of second moments,
    so that condition numbers exceed 1e12 on ordinary data. The authors' code inverts them and then
    selects the smallest loss after rounding, which differs between types of processors.

    References
    ----------
    Fan, J., Fang, C., Gu, Y. and Zhang, T. (2023), Environment invariant linear least squares,
    arXiv:2303.03092.

    Examples
    --------
    >>> from invariance.baselines import EILLS
    >>> from invariance.datasets import make_example
    >>> EILLS().fit(make_example()).losses_.shape
    (256,)
    """

    gamma: float = 36.0
    center: bool = True
    max_size: int | None = None
    columns: Columns | None = None
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    def _select(self, data: MultiEnvironmentData) -> Mask:
        if not self.gamma >= 0.0:
            raise SettingError(
                f"gamma={self.gamma!r} is not a weight: use a number from 0 on, such as 36."
            )
        check_columns("EILLS", data, _MAX_COLUMNS)
        space = checked_subsets("EILLS", data.n_features, self.max_size)
        losses_of = _scorer(data, self.center, float(self.gamma))
        self.losses_ = np.empty(space.n_subsets)
        for block, _, (losses, _) in space.blocks(
            losses_of, "scoring subsets", self.n_jobs, self.progress
        ):
            self.losses_[block] = losses
        unscored = np.flatnonzero(np.isnan(self.losses_))
        self.n_unscored_ = len(unscored)
        if self.n_unscored_:
            first = np.array(data.feature_names, dtype=object)[space.masks(unscored[:1])[0]]
            warn(
                f"{self.n_unscored_:,} of {space.n_subsets:,} subsets are left out: their "
                "features are too collinear "
                f"(such as {quoted(first)}). Leave some of them out to have all subsets scored."
            )
        best = space.masks(np.array([np.nanargmin(self.losses_)]))
        self._minimiser = np.zeros(data.features.n_columns)
        _, self._minimiser[data.features.expand(best[0])] = losses_of(best)
        return best[0]

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        if not kind_for(data).by_least_squares:  # which its own least squares do not predict
            return super()._coefficients(data, selected)
        beta = self._minimiser
        return beta, float(data.y.mean() - data.X.mean(axis=0) @ beta) if self.center else 0.0


def _scorer(
    data: MultiEnvironmentData, center: bool, gamma: float
) -> Callable[[Mask], tuple[Floats, Floats]]:
    """Losses (n,) of subsets (n, p), and the minimiser of the last one. With Σ = X'X/n restricted
    to z, (Σ²)[j, k] = Σ_{l in z} Σ[j, l]Σ[l, k]: one (q, q) matrix per column l, averaged over
    environments, makes the work per subset independent of the number of environments."""
    X = data.X - data.X.mean(axis=0) if center else data.X
    y = data.y - data.y.mean() if center else data.y
    largest = np.abs(X).max(axis=0)
    if largest.max() > 1e60:
        name = data.features.columns[int(np.argmax(largest))]
        raise DataError(
            f"feature {name!r} reaches {largest.max():.3g}, whose fourth power EILLS needs and "
            "float64 cannot hold: "
            "rescale it, for example divide it by its standard deviation."
        )
    groups = [data.rows(e) for e in range(data.n_environments)]
    sigma = np.array([X[rows].T @ X[rows] / len(rows) for rows in groups])
    cross = np.array([X[rows].T @ y[rows] / len(rows) for rows in groups])
    weight = gamma / len(sigma)
    penalty = np.ascontiguousarray(weight * np.einsum("ejl,elk->ljk", sigma, sigma, optimize=True))
    slope = np.ascontiguousarray(weight * np.einsum("ejl,el->lj", sigma, cross))
    constant = gamma * np.mean(cross**2, axis=0)
    terms = sigma.mean(axis=0), penalty, cross.mean(axis=0), slope, constant

    def losses(masks: Mask) -> tuple[Floats, Floats]:
        starts, members = as_lists(data.features.expand(masks))
        loss = np.empty(len(starts) - 1)
        beta = np.empty(sigma.shape[1])
        subset_losses(*terms, starts, members, _PIVOT_TOLERANCE, loss, beta)
        return loss, beta[: starts[-1] - starts[-2]]

    return losses
