"""Environment-invariant linear least squares (Fan, Fang, Gu & Zhang 2023), minimised over all subsets."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..checks import DataError, quoted, warn
from ..conditionals.linear_gaussian import LinearGaussian
from ..data import MultiEnvironmentData
from ..kernels.eills_losses import subset_losses
from ..parallel import ordered_map
from ..progress import ProgressBar, ProgressMode
from ..selector import EnvironmentSelector
from .subset_lists import refuse_too_many, resolve_max_size, subset_space

Floats = NDArray[np.float64]

_PER_BLOCK = 1 << 13
_SECONDS_PER_LOSS = 2e-6
# A holds squares of second moments, so that legitimate designs have far smaller pivots than the moments themselves.
_PIVOT_TOLERANCE = 1e-13
_MOST_FEATURES = 300


class EILLS(EnvironmentSelector):
    """The subset with the smallest squared error plus γ times the squared gradients in the single environments.

    Parameters
    ----------
    gamma : weight of invariance
    center : subtract the pooled means of X and y first. The loss has no intercept and depends on where zero is;
        False takes the data as they are, as the authors' code does. It depends on the features' units in any case.
    max_size : only subsets of at most so many features; None is all 2**p
    environment : name of the column of a data frame X that holds the environment labels
    n_jobs : threads; None is one, -1 all cores. The result does not depend on it.
    progress : "auto" shows a bar in terminals and notebooks when the wait passes two seconds; True, False

    Attributes
    ----------
    losses_ : (n,) loss of each subset, the empty one 0; without max_size indexed by bit pattern over the features
        that vary; NaN where the subset is collinear in every environment
    n_unscored_ : number of NaN in losses_
    support_, coef_, intercept_ : the minimiser; the intercept is 0 with center=False

    Notes
    -----
    A subset that is exactly collinear in every environment has no unique minimiser and is left out, with a warning. It
    cannot win: without the dependent feature the fit is the same and the penalty has one term less.
    With a single environment the loss rewards any fit and says nothing about invariance.

    Examples
    --------
    >>> from invariance.baselines import EILLS
    >>> from invariance.datasets import make_example
    >>> EILLS(gamma=1.0).fit_data(make_example()).support_.sum() > 0
    np.True_
    """

    def __init__(
        self,
        gamma: float = 36.0,
        center: bool = True,
        max_size: int | None = None,
        environment: str | None = None,
        n_jobs: int | None = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.gamma = gamma
        self.center = center
        self.max_size = max_size
        self.environment = environment
        self.n_jobs = n_jobs
        self.progress = progress

    def _select(self, data: MultiEnvironmentData) -> NDArray[np.bool_]:
        if not self.gamma >= 0.0:
            raise ValueError(f"gamma={self.gamma!r} is not a weight: use a number from 0 on, such as 36.")
        max_size = resolve_max_size(self.max_size, data.n_features)
        refuse_too_many("EILLS", data.n_features, max_size, _SECONDS_PER_LOSS)
        space = subset_space(data.n_features, max_size)
        terms = _loss_terms(data, self.center, float(self.gamma))
        self.losses_ = np.empty(space.n_subsets)

        def work(start: int) -> None:
            chosen = self.losses_[start : start + _PER_BLOCK]
            lists = space.lists(np.arange(start, start + len(chosen)))
            beta = np.empty(data.n_features)
            subset_losses(*terms, *lists, _PIVOT_TOLERANCE, chosen, beta)

        blocks = range(0, space.n_subsets, _PER_BLOCK)
        with ProgressBar("scoring subsets", len(blocks), self.progress) as bar:
            for _ in ordered_map(work, blocks, self.n_jobs):
                bar.advance()
        unscored = np.isnan(self.losses_)
        self.n_unscored_ = int(unscored.sum())
        if self.n_unscored_:
            last = space.masks(np.flatnonzero(unscored)[-1:])
            names = LinearGaussian(data).dependent_features(last) or np.array(data.feature_names, dtype=object)[last[0]]
            warn(
                f"{self.n_unscored_:,} of {space.n_subsets:,} subsets are left out: their features are too collinear "
                f"(involved: {quoted(names)}). Leave one of them out to have all subsets scored."
            )
        selected = space.masks(np.array([np.nanargmin(self.losses_)]))[0]
        chosen = np.flatnonzero(selected)
        self._minimiser = np.zeros(data.n_features)
        beta, lists = np.empty(len(chosen)), (np.array([0, len(chosen)]), chosen)
        subset_losses(*terms, *lists, _PIVOT_TOLERANCE, np.empty(1), beta)
        self._minimiser[chosen] = beta
        return selected

    def _coefficients(self, data: MultiEnvironmentData, selected: NDArray[np.bool_]) -> tuple[Floats, float]:
        beta = self._minimiser
        return beta, float(data.y.mean() - data.X.mean(axis=0) @ beta) if self.center else 0.0


def _loss_terms(data: MultiEnvironmentData, center: bool, gamma: float) -> tuple[Floats, ...]:
    """What `subset_losses` adds up, from Σ_e = X'X/n and c_e = X'y/n, averaged over environments.

    With Σ restricted to z, (Σ²)[j, k] = Σ_{l in z} Σ[j, l]Σ[l, k]: one (p, p) matrix per feature l makes the work per
    subset independent of the number of environments.
    """
    if data.n_features > _MOST_FEATURES:
        raise DataError(
            f"EILLS works with up to {_MOST_FEATURES} features, and there are {data.n_features:,}: screen them first "
            "with Screened(EILLS())."
        )
    X = data.X - data.X.mean(axis=0) if center else data.X
    y = data.y - data.y.mean() if center else data.y
    largest = float(np.abs(X).max())
    if largest > 1e60:
        name = data.feature_names[int(np.argmax(np.abs(X).max(axis=0)))]
        raise DataError(
            f"feature {name!r} reaches {largest:.3g}, whose fourth power EILLS needs and float64 cannot hold: "
            "rescale it, for example divide it by its standard deviation."
        )
    sigma = np.empty((data.n_environments, data.n_features, data.n_features))
    cross = np.empty((data.n_environments, data.n_features))
    for e in range(data.n_environments):
        rows = data.rows(e)
        sigma[e] = X[rows].T @ X[rows] / len(rows)
        cross[e] = X[rows].T @ y[rows] / len(rows)
    penalty = gamma / data.n_environments * np.einsum("ejl,elk->ljk", sigma, sigma, optimize=True)
    slope = gamma / data.n_environments * np.einsum("ejl,el->lj", sigma, cross)
    constant = gamma * np.mean(cross**2, axis=0)
    return sigma.mean(axis=0), np.ascontiguousarray(penalty), cross.mean(axis=0), slope, constant
