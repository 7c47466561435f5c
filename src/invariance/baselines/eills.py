"""Environment-invariant linear least squares (Fan, Fang, Gu & Zhang 2023), minimised over all
subsets."""

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
    """The subset with the smallest squared error plus γ times the squared gradients in the single
    environments.

    Parameters
    ----------
    gamma : weight of invariance
    center : subtract the pooled means of X and y first, because the loss has no intercept; False
        takes the data as they are, as the authors' code does
    max_size : most features of a subset; None is all 2**p
    columns : how a data frame X is read, Columns(environment="site")
    n_jobs : threads; None is one, -1 all cores
    progress : a bar: "auto", True, False; or a function of a fraction and a message, as of `BIP`

    Attributes
    ----------
    losses_ : (n,) loss of each subset, the empty one 0; without max_size indexed by bit pattern
        over the features that vary; NaN where the subset is collinear in every environment
    n_unscored_ : number of NaN in losses_
    support_, coef_, intercept_ : the minimiser; the intercept is 0 with center=False. Of classes
        and counts the last two are those of the outcome's own model of the selected features

    Notes
    -----
    The loss depends on the features' units. Matrices hold squares of second moments: condition
    numbers pass 1e12 on ordinary data. The authors' code, which inverts them, then picks the
    smallest loss after rounding, another subset on another type of processor.
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
