"""Environment-invariant linear least squares (Fan, Fang, Gu & Zhang 2023), minimised over all subsets."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressMode
from ..data.checks import quoted, warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, SettingError
from ..kernels.baseline_scores import subset_losses
from .base import Baseline
from .subset_lists import Lists, check_columns, checked_subsets, column_lists

# A holds squares of second moments, so that legitimate designs have far smaller pivots than the moments themselves.
_PIVOT_TOLERANCE = 1e-13
_MOST_COLUMNS = 300


class EILLS(Baseline):
    """The subset with the smallest squared error plus γ times the squared gradients in the single environments.

    Parameters
    ----------
    gamma : weight of invariance
    center : subtract the pooled means of X and y first, because the loss has no intercept; False takes the data as they
        are, as the authors' code does
    max_size : most features of a subset; None is all 2**p
    columns : how a data frame X is read, Columns(environment="site")
    n_jobs : threads; None is one, -1 all cores
    progress : a bar: "auto", True, False; or a function of a fraction and a message, as of `BIP`

    Attributes
    ----------
    losses_ : (n,) loss of each subset, the empty one 0; without max_size indexed by bit pattern over the features
        that vary; NaN where the subset is collinear in every environment
    n_unscored_ : number of NaN in losses_
    support_, coef_, intercept_ : the minimiser; the intercept is 0 with center=False

    Notes
    -----
    The loss depends on the features' units. Matrices hold squares of second moments: condition numbers pass 1e12 on
    ordinary data. The authors' code, which inverts them, then picks the smallest loss after rounding, another subset on
    another type of processor.

    Examples
    --------
    >>> from invariance.baselines import EILLS
    >>> from invariance.datasets import make_example
    >>> EILLS(gamma=1.0).fit(make_example()).support_.sum() > 0
    np.True_
    """

    def __init__(
        self,
        gamma: float = 36.0,
        center: bool = True,
        max_size: int | None = None,
        columns: Columns | None = None,
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.gamma = gamma
        self.center = center
        self.max_size = max_size
        self.columns = columns
        self.n_jobs = n_jobs
        self.progress = progress

    def _select(self, data: MultiEnvironmentData) -> Mask:
        if not self.gamma >= 0.0:
            raise SettingError(f"gamma={self.gamma!r} is not a weight: use a number from 0 on, such as 36.")
        check_columns("EILLS", data, _MOST_COLUMNS)
        space = checked_subsets("EILLS", data.n_features, self.max_size)
        losses_of = _scorer(*_second_moments(data, self.center), float(self.gamma))
        self.losses_ = np.empty(space.n_subsets)
        for block, _, (part, _) in space.blocks(
            lambda lists: losses_of(column_lists(lists, data.features)), "scoring subsets", self.n_jobs, self.progress
        ):
            self.losses_[block] = part
        self.n_unscored_ = int(np.isnan(self.losses_).sum())
        if self.n_unscored_:
            first = space.masks(np.flatnonzero(np.isnan(self.losses_))[:1])[0]
            warn(
                f"{self.n_unscored_:,} of {space.n_subsets:,} subsets are left out: their features are too collinear "
                f"(such as {quoted(np.array(data.feature_names, dtype=object)[first])}). "
                "Leave some of them out to have all subsets scored."
            )
        selected = space.masks(np.array([np.nanargmin(self.losses_)]))[0]
        chosen = np.flatnonzero(data.features.expand(selected))
        self._minimiser = np.zeros(data.features.n_columns)
        _, self._minimiser[chosen] = losses_of((np.array([0, len(chosen)]), chosen))
        return selected

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> tuple[Floats, float]:
        beta = self._minimiser
        return beta, float(data.y.mean() - data.X.mean(axis=0) @ beta) if self.center else 0.0


def _second_moments(data: MultiEnvironmentData, center: bool) -> tuple[Floats, Floats]:
    """Σ_e = X'X/n (E, q, q) and c_e = X'y/n (E, q), over columns."""
    X = data.X - data.X.mean(axis=0) if center else data.X
    y = data.y - data.y.mean() if center else data.y
    largest = float(np.abs(X).max())
    if largest > 1e60:
        name = data.features.columns[int(np.argmax(np.abs(X).max(axis=0)))]
        raise DataError(
            f"feature {name!r} reaches {largest:.3g}, whose fourth power EILLS needs and float64 cannot hold: "
            "rescale it, for example divide it by its standard deviation."
        )
    q = data.features.n_columns
    sigma, cross = np.empty((data.n_environments, q, q)), np.empty((data.n_environments, q))
    for e in range(data.n_environments):
        rows = data.rows(e)
        sigma[e] = X[rows].T @ X[rows] / len(rows)
        cross[e] = X[rows].T @ y[rows] / len(rows)
    return sigma, cross


def _scorer(sigma: Floats, cross: Floats, gamma: float) -> Callable[[Lists], tuple[Floats, Floats]]:
    """Losses (n,) of lists of subsets, and the minimiser of the last one.

    With Σ restricted to z, (Σ²)[j, k] = Σ_{l in z} Σ[j, l]Σ[l, k]: one (q, q) matrix per column l, averaged over
    environments, makes the work per subset independent of the number of environments.
    """
    weight = gamma / len(sigma)
    penalty = np.ascontiguousarray(weight * np.einsum("ejl,elk->ljk", sigma, sigma, optimize=True))
    slope = weight * np.einsum("ejl,el->lj", sigma, cross)
    constant = gamma * np.mean(cross**2, axis=0)
    terms = sigma.mean(axis=0), penalty, cross.mean(axis=0), slope, constant

    def losses(lists: Lists) -> tuple[Floats, Floats]:
        starts, members = lists
        loss, beta = np.empty(len(starts) - 1), np.empty(sigma.shape[1])
        subset_losses(*terms, starts, members, _PIVOT_TOLERANCE, loss, beta)
        return loss, beta[: starts[-1] - starts[-2]]

    return losses
