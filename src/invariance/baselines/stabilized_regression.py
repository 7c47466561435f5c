"""Stabilised regression: the average of least squares over stable and predictive subsets.

A subset is stable if Chow's test of each environment against the fit to all others does not reject
(Pfister, Williams, Peters, Aebersold and Bühlmann 2021, arXiv:1911.01850).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import fdtrc

from .._tools.arrays import Floats, Integers, Mask
from ..data.checks import check_whole_number, warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import SettingError
from ..moments.moments import Moments, rest_moments
from ..moments.random_intercept import whitening_of
from .base import Baseline, Line
from .subsets import check_columns, checked_subsets

# Samples of rows that say how well the best stable subset could have predicted.
_N_SAMPLES = 500
# Of these subsets, those with the largest p-values, where none is stable.
_LEAST_UNSTABLE = 0.1
# Share of the outcome's squares that is rounding.
_ROUNDING_SHARE = 1e-12


@dataclass(eq=False, repr=False)
class StabilizedRegression(Baseline):
    """Average least squares over the subsets that are stable and predict well.

    A subset is stable if Chow's tests of each environment against the fit to all others, corrected
    by Bonferroni's rule, do not reject. A stable subset is averaged if its mean squared error is
    within the range that bootstrap samples of the rows give for the best stable subset. The
    defaults are those of the authors' package StabilizedRegression 1.1.

    Parameters
    ----------
    alpha_stab : float, default=0.05
        Level of the test of stability. If no subset passes, the tenth of the subsets with the
        largest p-values is used.
    alpha_pred : float, default=0.05
        Share of the samples in which the best stable subset has a larger error than the limit.
    n_subsets : int, default=100
        Number of random subsets in addition to the empty one. All 2**p subsets are used if these
        are not more, or with None.
    random_state : int, default=0
        Seed of the subsets and samples.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    subsets_ : DataFrame
        Columns subset, p_value, mean_squared_error and averaged (bool), one row for each subset.
    support_ : ndarray of shape (n_features,), bool
        Features of the averaged subsets.
    coef_ : ndarray of shape (n_columns,)
        Average of the coefficients.
    intercept_ : float
        Average of the intercepts.

    Notes
    -----
    As in the package, the variance of the test is n/(n − p) times the variance of the residuals,
    and two environments are not corrected for. In contrast to the package, environments of more
    than 1000 rows are tested with all their rows.

    References
    ----------
    Pfister, N., Williams, E. G., Peters, J., Aebersold, R. and Bühlmann, P. (2021), Stabilizing
    variable selection and regression, Annals of Applied Statistics 15, 1220-1246, arXiv:1911.01850.

    Chow, G. C. (1960), Tests of equality between sets of coefficients in two linear regressions,
    Econometrica 28, 591-605, doi:10.2307/1910133.

    Examples
    --------
    >>> from invariance.baselines import StabilizedRegression
    >>> from invariance.datasets import make_example
    >>> model = StabilizedRegression().fit(make_example())
    >>> model.subsets_.columns.tolist()
    ['subset', 'p_value', 'mean_squared_error', 'averaged']
    """

    _kinds = ("number",)

    alpha_stab: float = 0.05
    alpha_pred: float = 0.05
    n_subsets: int | None = 100
    random_state: int = 0
    columns: Columns | None = None

    def _check_settings(self) -> None:
        for name in ("alpha_stab", "alpha_pred"):
            level = getattr(self, name)
            if not 0.0 < level < 1.0:
                raise SettingError(
                    f"{name}={level!r} is not a level: use a number between 0 and 1, such as 0.05."
                )
        if self.n_subsets is not None:
            check_whole_number("n_subsets", self.n_subsets, 1)

    def _select(self, data: MultiEnvironmentData) -> Mask:
        fewest = data.n_rows - int(data.counts.max()) if data.n_environments > 1 else data.n_rows
        check_columns("StabilizedRegression", data, fewest - 2)
        rng = np.random.default_rng(self.random_state)
        moments = Moments.from_data(data.by_labels)
        masks = self._masks(data.n_features, rng)
        columns = data.features.expand(masks)
        p_values, errors, coefficients = _fits(moments, columns)
        stable = p_values >= self.alpha_stab
        if not stable.any():
            stable = p_values >= np.sort(p_values)[-int(np.ceil(_LEAST_UNSTABLE * len(masks)))]
            none = f"no subset is stable at alpha_stab={self.alpha_stab}"
            warn(f"{none}: the tenth with the largest p-values is averaged.")
        best = int(np.argmin(np.where(stable, errors, np.inf)))
        sampled = _sampled_errors(
            data, moments, np.flatnonzero(columns[best]), coefficients[best], rng
        )
        averaged = stable & (errors <= np.quantile(sampled, 1.0 - self.alpha_pred))
        subsets = [tuple(np.array(data.feature_names, dtype=object)[mask]) for mask in masks]
        self.subsets_ = pd.DataFrame(
            {
                "subset": subsets,
                "p_value": p_values,
                "mean_squared_error": errors,
                "averaged": averaged,
            }
        )
        self._average = coefficients[averaged].mean(axis=0)
        return np.asarray(masks[averaged].any(axis=0))

    def _masks(self, n_features: int, rng: np.random.Generator) -> Mask:
        """Return the subsets that are tried (n, p), the empty one first."""
        if self.n_subsets is None or self.n_subsets >= 2.0**n_features:
            space = checked_subsets("StabilizedRegression", n_features, None)
            return space.masks(np.arange(space.n_subsets))
        half = np.arange(1, -(-n_features // 2) + 1)
        shares = np.concatenate([half[: n_features // 2], half[::-1]])
        sizes = rng.choice(n_features, self.n_subsets, p=shares / shares.sum()) + 1
        masks = np.zeros((self.n_subsets + 1, n_features), dtype=bool)
        for mask, size in zip(masks[1:], sizes, strict=True):
            mask[rng.choice(n_features, size, replace=False)] = True
        return masks

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        return self._average, float(data.y.mean() - data.X.mean(axis=0) @ self._average)


def _fits(moments: Moments, columns: Mask) -> tuple[Floats, Floats, Floats]:
    """Return p-values (n,), mean squared errors (n,) and coefficients (n, q) of subsets (n, q).

    Chow's test compares the residual sum of squares of all rows and of the rows outside an
    environment.
    """
    several = moments.n_environments > 1
    pooled = moments.scatter[-1:]
    rests = rest_moments(moments).scatter[:-1] if several else pooled[:0]
    inside = moments.counts.astype(float)
    outside = moments.n_rows - inside
    p_values = np.ones(len(columns))
    errors = np.empty(len(columns))
    coefficients = np.zeros(columns.shape)
    for i, chosen in enumerate(columns):
        whole, *others = (
            _least_squares(scatter, np.flatnonzero(chosen)) for scatter in (*pooled, *rests)
        )
        coefficients[i, chosen], squares, rank = whole
        errors[i] = squares / moments.n_rows
        if several and squares > 0.0:
            left, ranks = np.array([other[1:] for other in others]).T
            added = inside - (rank - ranks)
            counted = np.maximum(added, 1.0)
            freedom = outside - 1.0 - ranks
            with np.errstate(divide="ignore"):
                variance = left / (outside - 1.0) * (outside / freedom)
                ratio = np.where(added > 0.0, (squares - left) / counted / variance, 0.0)
            tests = 1 if len(inside) == 2 else len(inside)
            p_values[i] = min(1.0, tests * fdtrc(counted, freedom, np.maximum(ratio, 0.0)).min())
    return p_values, errors, coefficients


def _least_squares(scatter: Floats, columns: Integers) -> tuple[Floats, float, int]:
    """Return coefficients (k,) of minimum norm, residual sum of squares and rank.

    They are from centred products, the outcome last.
    """
    whitening = whitening_of(scatter[np.ix_(columns, columns)])
    products = whitening.T @ scatter[columns, -1]
    left = float(scatter[-1, -1] - products @ products)
    squares = left if left > _ROUNDING_SHARE * scatter[-1, -1] else 0.0
    return whitening @ products, squares, len(products)


def _sampled_errors(
    data: MultiEnvironmentData,
    moments: Moments,
    columns: Integers,
    coefficients: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Return mean squared errors (_SAMPLES,) in all rows of fits to bootstrap samples."""
    n = data.n_rows
    means = moments.pooled_mean
    left = (data.y - means[-1]) - (data.X - means[:-1]) @ coefficients
    whitening = whitening_of(moments.scatter[-1][np.ix_(columns, columns)])
    design = np.column_stack(
        [np.full(n, n**-0.5), (data.X[:, columns] - means[columns]) @ whitening]
    )
    moved = np.empty(_N_SAMPLES)
    for i in range(_N_SAMPLES):
        times = np.bincount(rng.integers(n, size=n), minlength=n)
        weighted = design.T * times
        # The columns are orthonormal: what changes coefficients adds its square to the sum of
        # squares.
        change = np.linalg.lstsq(weighted @ design, weighted @ left, rcond=None)[0]
        moved[i] = change @ change
    return np.asarray((left @ left + moved) / n)
