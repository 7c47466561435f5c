"""Invariant causal prediction, also with hidden variables and with stability selection.

A subset z is accepted if the residuals of the pooled regression of y on x^z have the same mean and
variance in every environment; the estimate is the intersection of all accepted subsets (Peters,
Bühlmann and Meinshausen 2016, arXiv:1501.01332).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import betainc, ndtri, stdtr
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Integers, Mask, Names
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.text import in_quotes
from ..data.checks import check_whole_number, quoted, warn
from ..data.features import as_lists
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, SettingError
from ..kernels.baseline_scores import (
    coefficient_hull,
    contrast_statistics,
    residual_moments,
    residual_moments_by_rows,
)
from ..moments.least_squares import DEPENDENT, unit_rows
from ..moments.moments import Moments
from ..posterior.summary import format_subset
from .base import Baseline
from .subsets import PER_BLOCK, check_columns, checked_subsets

# Second moments keep at least eight digits of a residual variance above this; below it the rows
# decide.
DECIDABLE = 1e-7


class ResidualTests:
    """Test whether the pooled residuals of subsets are the same in every environment."""

    def __init__(self, data: MultiEnvironmentData) -> None:
        self.data = data
        moments = Moments.from_data(data.by_labels)
        pooled = moments.scatter[-1]
        scale = 1.0 / np.sqrt(np.diagonal(pooled))
        self.counts = moments.counts.astype(float)
        self._scale = scale
        self._gram = pooled * scale[:, None] * scale
        self._local = moments.scatter[:-1] * scale[:, None] * scale
        self._means = moments.gaps * scale

    def test(self, masks: Mask) -> tuple[Floats, Mask]:
        """Return p-values (S,), and which features leave no residual (S,): these pass the test."""
        n = len(masks)
        n_environments = len(self.counts)
        if n_environments == 1:
            return np.ones(n), np.zeros(n, dtype=bool)
        columns = self.data.features.expand(masks)
        mean, scatter = residual_moments(
            self._gram, self._local, self._means, *as_lists(columns), DECIDABLE
        )
        undecided = np.flatnonzero(np.isnan(scatter[:, 0]))
        if len(undecided):
            mean[undecided], scatter[undecided] = residual_moments_by_rows(
                *self._rows, self.counts, *as_lists(columns[undecided]), DEPENDENT
            )
        determined = np.all((scatter == 0.0) & (mean == 0.0), axis=1)
        p_values = _smallest(mean, scatter, self.counts)
        p_values = np.minimum(1.0, 2.0 * (n_environments - 1) * p_values)
        return np.where(determined, 1.0, p_values), determined

    def confidence_intervals(self, parts: Iterable[Mask], alpha: float) -> Floats:
        """Return for each column the hull over the subsets of its confidence intervals, (q, 2).

        They are coefficient ± normal quantile at 1 − alpha/4 × standard error.
        """
        rows, _ = self._rows
        pooled = np.ascontiguousarray(np.transpose(np.linalg.qr(rows.T, mode="r")))
        settings = DEPENDENT, ndtri(1.0 - alpha / 4.0)
        lists = (as_lists(self.data.features.expand(part)) for part in parts)
        n_rows = float(self.data.n_rows)
        hulls = np.array([coefficient_hull(pooled, n_rows, *each, *settings) for each in lists])
        ends = np.column_stack([hulls[:, 0].min(axis=0), hulls[:, 1].max(axis=0)])
        return ends * (self._scale[:-1] / self._scale[-1])[:, None]

    @cached_property
    def _rows(self) -> tuple[Floats, Integers]:
        """Unit columns [x, y] as (d, m), each environment's rows rotated into at most d of them and
        its mean."""
        unit, _, _ = unit_rows(np.column_stack([self.data.X, self.data.y]))
        parts = []
        for e in range(self.data.n_environments):
            here = unit[:, self.data.rows(e)]
            mean = here.mean(axis=1)
            triangle = np.linalg.qr((here - mean[:, None]).T, mode="r")
            parts.append(np.vstack([triangle, np.sqrt(here.shape[1]) * mean]))
        ends = np.cumsum([len(part) for part in parts]).astype(np.int64)
        return np.ascontiguousarray(np.vstack(parts).T), ends


def _smallest(mean: Floats, scatter: Floats, counts: Floats) -> Floats:
    """Return the smallest p-value (S,) over environments and over tests of mean and variance."""
    t, df, ratio = contrast_statistics(mean, scatter, counts)
    with np.errstate(invalid="ignore"):
        means = np.where(np.isinf(t), 0.0, 2.0 * stdtr(df, -t))
        return np.minimum(means, f_test(ratio, counts - 1.0, counts.sum() - counts - 1.0)).min(
            axis=1
        )


def f_test(ratio: Floats, df: Floats, other_df: Floats) -> Floats:
    """Two-sided p-value of a ratio of variances; the tail that is computed is the one that can be
    tiny."""
    upper = ratio > 1.0
    weighted = np.where(upper, other_df / ratio, df * ratio)
    a = np.where(upper, other_df, df)
    b = np.where(upper, df, other_df)
    tail = betainc(0.5 * a, 0.5 * b, weighted / (weighted + b))
    return 2.0 * np.minimum(tail, 1.0 - tail)


@dataclass(eq=False, repr=False)
class ICP(Baseline):
    """Select the features that all subsets with invariant residuals share.

    Invariant causal prediction: each subset is fitted by pooled least squares with an intercept. In
    each environment the mean of its residuals is compared with all other rows by Welch's t-test and
    their variance by a two-sided F-test; the p-values are combined by Bonferroni's rule.

    Parameters
    ----------
    alpha : float, default=0.05
        Level. A subset is accepted if its p-value is larger.
    max_size : int, default=None
        Largest number of features in a tested subset. None tests all 2**p subsets.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read, for example
        `Columns(environment="site")`.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores.
    progress : {"auto", True, False} or callable, default="auto"
        Progress bar, or a function of a fraction and a message, as in `BIP`.

    Attributes
    ----------
    outcome_ : {"selected", "empty", "rejected"}
        Whether the accepted subsets share features, share none, or no subset was accepted.
    accepted_ : list of tuple of str
        Accepted subsets, the smallest first.
    p_values_ : ndarray of shape (n_features,)
        Largest p-value of a tested subset without the feature. NaN if the model is rejected; 1 for
        a constant feature and with a single environment.
    confidence_intervals_ : ndarray of shape (n_columns, 2)
        Hull of the intervals in all accepted subsets. NaN if the model is rejected, unbounded for
        collinear features.
    subset_p_values_ : ndarray of shape (n_subsets,)
        P-value of each subset; without `max_size` the index is the bit pattern of the subset.
    subsets_ : DataFrame
        Columns subset, size and p_value, the largest p-value first.
    model_rejected_ : bool
        Whether no subset was accepted.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    coef_ : ndarray of shape (n_columns,)
        Pooled coefficients, 0 for columns that are not selected.
    intercept_ : float
        Intercept of the pooled fit.

    See Also
    --------
    StabilityICP : Select the features that ICP selects in most bootstrap samples.
    HiddenICP : Allow for hidden confounders.

    Notes
    -----
    The smallest p-value of a subset is multiplied by 2(E − 1), as in the authors' R package
    (InvariantCausalPrediction 0.8, getpval.R), although E pairs of tests are made. With two
    environments both pairs are the same test; with more the level may be exceeded by a factor of up
    to E/(E − 1). The level alpha · (E − 1)/E is valid in any case.

    References
    ----------
    Peters, J., Bühlmann, P. and Meinshausen, N. (2016), Causal inference by using invariant
    prediction: identification and confidence intervals, Journal of the Royal Statistical Society B
    78, 947-1012, arXiv:1501.01332.

    Examples
    --------
    >>> from invariance.baselines import ICP
    >>> from invariance.datasets import make_example
    >>> model = ICP().fit(make_example())
    >>> ("age", "exercise", "smoking") in model.accepted_
    True
    """

    alpha: float = 0.05
    max_size: int | None = None
    columns: Columns | None = None
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    @property
    def subsets_(self) -> pd.DataFrame:
        check_is_fitted(self)
        order = np.argsort(-self.subset_p_values_, kind="stable")
        subsets = [tuple(self._names[mask]) for mask in self._space.masks(order)]
        return pd.DataFrame(
            {"subset": subsets, "size": map(len, subsets), "p_value": self.subset_p_values_[order]}
        )

    @property
    def accepted_(self) -> list[Names]:
        accepted = self.subsets_.query("p_value > @self.alpha")
        return accepted.sort_values("size", kind="stable")["subset"].tolist()

    def _select(self, data: MultiEnvironmentData) -> Mask:
        space = checked_subsets("ICP", data.n_features, self.max_size)
        check_columns("ICP", data, data.n_rows - 2, space.max_size)
        tests = ResidualTests(data)
        outside = np.zeros(data.n_features)
        common = np.ones(data.n_features, dtype=bool)
        self.subset_p_values_ = np.full(space.n_subsets, np.nan)
        exact: list[int] = []
        work = space.blocks(tests.test, "testing subsets", self.n_jobs, self.progress)
        for block, masks, (p_values, determined) in work:
            self.subset_p_values_[block] = p_values
            outside = np.maximum(outside, np.where(masks, 0.0, p_values[:, None]).max(axis=0))
            common &= masks[p_values > self.alpha].all(axis=0)
            exact += (block.start + np.flatnonzero(determined)[:1]).tolist()
        self._space = space
        self._names = np.array(data.feature_names, dtype=object)
        if exact:
            names = self._names[space.masks(np.array(exact[:1]))[0]]
            warn(
                f"features {format_subset(names)} determine the outcome {data.outcome_name!r} "
                "exactly, so nothing can "
                "speak against their invariance. Is one of them a copy of the outcome? Leave it "
                "out."
            )
        accepted = np.flatnonzero(self.subset_p_values_ > self.alpha)
        intervals = np.full((data.features.n_columns, 2), np.nan)
        self.model_rejected_ = len(accepted) == 0
        if self.model_rejected_:
            self.outcome_ = "rejected"
            outside[:] = np.nan
            common[:] = False
        else:
            self.outcome_ = "selected" if common.any() else "empty"
            parts = np.split(accepted, range(PER_BLOCK, len(accepted), PER_BLOCK))
            intervals = tests.confidence_intervals(map(space.masks, parts), self.alpha)
        self.p_values_ = self._expand(outside, np.nan if self.model_rejected_ else 1.0)
        self.confidence_intervals_ = self._expand_columns(intervals, 0.0)
        return common


@dataclass(eq=False, repr=False)
class StabilityICP(Baseline):
    """Select the features that ICP selects in most bootstrap samples.

    Rows are drawn with replacement within each environment. The default level and number of samples
    are from the gene study cited below, which used ICP behind a Lasso screen ("Stability-screen").

    Parameters
    ----------
    alpha : float, default=0.01
        Level of ICP in each sample.
    n_samples : int, default=50
        Number of bootstrap samples.
    threshold : float, default=0.75
        Smallest share of the samples in which a selected feature is selected, above 0.5.
    max_size : int, default=None
        Largest number of features in a tested subset. None tests all 2**p subsets.
    random_state : int, default=0
        Seed of the samples.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores.
    progress : {"auto", True, False} or callable, default="auto"
        Progress bar, or a function of a fraction and a message, as in `BIP`.

    Attributes
    ----------
    frequencies_ : ndarray of shape (n_features,)
        Share of the samples in which each feature is selected; 0 for a constant feature.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    coef_ : ndarray of shape (n_columns,)
        Pooled coefficients, 0 for columns that are not selected.
    intercept_ : float
        Intercept of the pooled fit.

    References
    ----------
    Meinshausen, N. and Bühlmann, P. (2010), Stability selection, Journal of the Royal Statistical
    Society B 72, 417-473, arXiv:0809.2932.

    Meinshausen, N., Hauser, A., Mooij, J. M., Peters, J., Versteeg, P. and Bühlmann, P. (2016),
    Methods for causal inference from gene perturbation experiments and validation, Proceedings of
    the National Academy of Sciences 113, 7361-7368, doi:10.1073/pnas.1510493113.

    Examples
    --------
    >>> from invariance.baselines import StabilityICP
    >>> from invariance.datasets import make_example
    >>> StabilityICP().fit(make_example()).frequencies_.round(2).tolist()
    [0.92, 0.06, 0.84, 0.96, 0.0, 0.0, 0.0, 0.0]
    """

    alpha: float = 0.01
    n_samples: int = 50
    threshold: float = 0.75
    max_size: int | None = None
    random_state: int = 0
    columns: Columns | None = None
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_whole_number("n_samples", self.n_samples, 1)
        if not 0.5 < self.threshold <= 1.0:
            raise SettingError(
                f"threshold={self.threshold!r} is no majority: use a share above 0.5, such as 0.75."
            )

    def _select(self, data: MultiEnvironmentData) -> Mask:
        space = checked_subsets("StabilityICP", data.n_features, self.max_size)
        check_columns("StabilityICP", data, data.n_rows - 2, space.max_size)
        generators = np.random.default_rng(self.random_state).spawn(self.n_samples)
        times = np.zeros(data.n_features)
        with ProgressBar("selecting in samples", self.n_samples, self.progress) as bar:
            for selected in ordered_map(
                lambda rng: self._selected_in(_sample(data, rng)), generators, self.n_jobs
            ):
                times += selected
                bar.advance()
        frequencies = times / self.n_samples
        self.frequencies_ = self._expand(frequencies, 0.0)
        return frequencies >= self.threshold

    def _selected_in(self, data: MultiEnvironmentData) -> Mask:
        """Return the features (p,) that all subsets accepted by ICP share.

        No feature if no subset is accepted; never a feature that is constant in these rows.
        """
        varies = np.logical_and.reduceat(np.ptp(data.X, axis=0) > 0.0, data.features.starts[:-1])
        common = varies.copy()
        tests = ResidualTests(data.narrowed(varies))
        space = checked_subsets("StabilityICP", int(varies.sum()), self.max_size)
        accepted = 0
        for _, masks, (p_values, _) in space.blocks(tests.test, "testing subsets", None, False):
            kept = masks[p_values > self.alpha]
            accepted += len(kept)
            common[varies] &= kept.all(axis=0)
        return common & (accepted > 0)


def _sample(data: MultiEnvironmentData, rng: np.random.Generator) -> MultiEnvironmentData:
    """Draw the rows of each environment with replacement."""
    rows = np.concatenate([rng.choice(data.rows(e), n) for e, n in enumerate(data.counts)])
    index = data.environment_index[rows]
    return replace(data, X=data.X[rows], y=data.y[rows], environment_index=index)


_SMALLEST_ERROR = 1e-10
_SINGULAR = 1e-13


@dataclass(eq=False, repr=False)
class HiddenICP(Baseline):
    """Estimate effects by inner-product invariance, which allows for hidden confounders.

    The hidden confounders must act with equal strength in all environments. In each contrast of one
    environment with all others (a single contrast for two environments) the effects β solve::

        (difference of X'X/n) β = difference of X'y/n

    Parameters
    ----------
    alpha : float, default=0.05
        Level. A feature is selected if its p-value is at most alpha.
    intercept : bool, default=False
        Whether to add a column of ones. Without it the moments are not centred, and the result
        depends on the origin of each column.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    p_values_ : ndarray of shape (n_features,)
        Smallest p-value over the contrasts and the columns of the feature, corrected for both by
        Bonferroni's rule; 1 for a constant feature.
    effects_ : ndarray of shape (n_columns,)
        Mean of β over the contrasts, one value for each column.
    confidence_intervals_ : ndarray of shape (n_columns, 2)
        Intersection of the intervals of all contrasts. If it is empty, the lower end is above the
        upper end.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    coef_ : ndarray of shape (n_columns,)
        Coefficients of pooled least squares on the selected features, for prediction.
    intercept_ : float
        Intercept of the pooled fit.

    References
    ----------
    Rothenhäusler, D., Bühlmann, P. and Meinshausen, N. (2019), Causal Dantzig: fast inference in
    linear structural equation models with hidden variables under additive interventions, Annals of
    Statistics 47, 1688-1722, doi:10.1214/18-AOS1732, arXiv:1706.06159.
    """

    alpha: float = 0.05
    intercept: bool = False
    columns: Columns | None = None

    def _select(self, data: MultiEnvironmentData) -> Mask:
        p_values, effects, intervals = hidden_effects(data, self.alpha, self.intercept)
        self.p_values_ = self._expand(p_values, 1.0)
        self.effects_ = self._expand_columns(effects, 0.0)
        self.confidence_intervals_ = self._expand_columns(intervals, 0.0)
        return p_values <= self.alpha


def hidden_effects(
    data: MultiEnvironmentData, alpha: float, intercept: bool
) -> tuple[Floats, Floats, Floats]:
    """p-values (p,) of the features; effects (q,) and intervals (q, 2) of their columns: all
    contrasts of one environment against the rest, combined."""
    features = data.features
    n_environments = data.n_environments
    q = features.n_columns
    if n_environments == 1:
        return np.ones(data.n_features), np.full(q, np.nan), np.tile([-np.inf, np.inf], (q, 1))
    check_columns("HiddenICP", data, data.n_rows - 1 - intercept)
    # The equations are equivariant: unit scale keeps the solve well conditioned. With an intercept
    # shifts do not count.
    if intercept:
        names = ("(intercept)", *features.columns)
        own = map(data.rows, range(n_environments))
        squares = sum(len(rows) * data.X[rows].var(axis=0) for rows in own)
        spread = np.sqrt(squares / data.n_rows)
        scale = np.where(spread > 0.0, spread, np.abs(data.X).max(axis=0))
        X = (data.X - data.X.mean(axis=0)) / scale
        y = data.y - data.y.mean()
    else:
        names = features.columns
        scale = np.abs(data.X).max(axis=0)
        X = data.X / scale
        y = data.y
    moments = _with_intercept if intercept else _as_given
    estimates = []
    for e in range(n_environments if n_environments > 2 else 1):
        inside = data.environment_index == e
        groups = np.flatnonzero(inside), np.flatnonzero(~inside)
        rows, outcome, difference, target, size = moments(X, y, groups)
        values, vectors = np.linalg.eigh(difference)
        weakest = int(np.argmin(np.abs(values)))
        if abs(values[weakest]) <= _SINGULAR * size:
            involved = np.array(names, dtype=object)[np.abs(vectors[:, weakest]) > 1e-3]
            raise DataError(
                f"environment {in_quotes(data.environments[e])} has the others' second moments of "
                f"{quoted(involved)}, "
                "whose effects cannot be told apart: leave out combinations of other features, or "
                "the environment."
            )
        inverse = (vectors / values) @ vectors.T
        directions = rows @ inverse
        influence = directions * (outcome - directions @ target)[:, None]
        variance = sum(influence[g].var(axis=0, ddof=1) / len(g) for g in groups)
        error = np.maximum(np.sqrt(variance), _SMALLEST_ERROR)
        estimates.append([inverse @ target, error])
    beta, error = np.array(estimates)[:, :, int(intercept) :].swapaxes(0, 1)
    margin = ndtri(max(0.5, 1.0 - alpha / (2.0 * n_environments))) * error
    intervals = np.column_stack([(beta - margin).max(axis=0), (beta + margin).min(axis=0)])
    tails = stdtr(data.n_rows - 1.0, -np.abs(beta) / error).min(axis=0)
    smallest = np.minimum.reduceat(2.0 * n_environments * tails, features.starts[:-1])
    p_values = np.minimum(1.0, features.widths * smallest)
    return p_values, (beta / len(beta)).sum(axis=0) / scale, intervals / scale[:, None]


Groups = tuple[NDArray[np.intp], NDArray[np.intp]]
# Rows X (N, q), y (N,); difference (q, q), target (q,): of X'X/n and X'y/n between two groups; the
# size of these.
Contrast = tuple[Floats, Floats, Floats, Floats, float]


def _as_given(X: Floats, y: Floats, groups: Groups) -> Contrast:
    (gram, cross), (other, other_cross) = (
        (X[g].T @ X[g] / len(g), X[g].T @ y[g] / len(g)) for g in groups
    )
    return X, y, gram - other, cross - other_cross, np.abs(gram).max() + np.abs(other).max()


def _with_intercept(X: Floats, y: Floats, groups: Groups) -> Contrast:
    """Return the contrast with a first column of ones, scaled to balance the equations.

    Only the intercept depends on the origin. Relative to the midpoint between the means of the two
    groups, the products of the means are the same in both and cancel in the difference, however
    large they are.
    """
    values = np.column_stack([X, y])
    means = [values[g].mean(axis=0) for g in groups]
    inner, other = (
        (values[g] - mean).T @ (values[g] - mean) / len(g)
        for g, mean in zip(groups, means, strict=True)
    )
    gap = means[0] - means[1]
    values = values - (means[0] + means[1]) / 2.0
    largest = float(np.abs(gap[:-1]).max())
    one = 1.0 / largest if largest > 0.0 else 1.0
    difference = np.zeros((len(gap), len(gap)))
    target = np.append(one * gap[-1], (inner - other)[:-1, -1])
    difference[0, 1:] = difference[1:, 0] = one * gap[:-1]
    difference[1:, 1:] = (inner - other)[:-1, :-1]
    rows = np.column_stack([np.full(len(y), one), values[:, :-1]])
    return rows, values[:, -1], difference, target, np.abs(inner).max() + np.abs(other).max()
