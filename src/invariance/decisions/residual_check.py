"""Checks of the residuals of a subset: tails and spread, order in time, and random forests.

The forests test whether E[(y − E[y | x^z]) (1{e} − P(e | x^z))] is 0 for each environment e, the
generalised covariance measure of Shah and Peters (2020), arXiv:1804.07203.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2, norm

from .._tools.arrays import Fields, Floats, Labels, Mask, Names
from .._tools.parallel import n_workers
from .._tools.sections import Rendered, Section, by_environment
from .._tools.text import format_subset, in_quotes, printable
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData, require_data
from ..exceptions import Message, SettingError, use
from ..models.base import BoundModel, kind_of
from ..models.gaussian import GaussianModel
from ..models.gaussian_fits import row_weights
from ..models.invariance_test import Tolerance
from ..models.random_coefficients import GaussianRandomDeviations
from ..moments.moments import Moments
from ..posterior.summary import format_small_p_value as format_p
from .environments import ALARM
from .pipeline import generator

# Tails that matter: so much excess kurtosis, and so many standard errors above 0.
_HEAVY = 1.0
_ERRORS = 4.0
# A spread that depends on features: so surely, and by such a share of how squared residuals vary.
_SURE = 1e-3
_SHARE = 0.02
# Share of a sum of squares that is no more than rounding.
_ROUNDING = 1e-13


class Shape(NamedTuple):
    """excess_kurtosis of the residuals, 0 of normal noise; share_explained: what the columns of the
    subset and their squares explain of the squared residuals; p_even: the p-value that this is
    chance (Koenker's test)."""

    excess_kurtosis: float
    share_explained: float
    p_even: float


@dataclass(frozen=True)
class NoiseChecks:
    """selected : names; shape : of the residuals in units of their environment, None without rows
    n_rows : of which this is known, those of a sample where there are more
    deviations : {environment: standard deviation}; p_spread, p_mean : p-values for approximate
        invariance of the noise's scale, NaN where that is not compared, and of the coefficients;
        level : they must reach
    mends : whether a model of the mean alone could be fitted
    """

    selected: Names
    n_rows: int
    shape: Shape | None
    deviations: Mapping[Hashable, float]
    p_spread: float
    p_mean: float
    level: float
    mends: bool = True

    @property
    def heavy_tails(self) -> bool:
        return self.shape is not None and self.shape.excess_kurtosis > max(
            _HEAVY, _ERRORS * (24 / self.n_rows) ** 0.5
        )

    @property
    def sentence(self) -> str | None:
        """Return the finding and what to choose; None if it is not relevant."""
        found = []
        spread_compared = not np.isnan(self.p_spread)
        if self.shape is not None and self.heavy_tails and spread_compared:
            found.append(f"have heavy tails (excess kurtosis {self.shape.excess_kurtosis:.1f})")
        if (
            self.shape is not None
            and self.shape.p_even < _SURE
            and self.shape.share_explained > _SHARE
        ):
            found.append(f"spread unequally over the values of {format_subset(self.selected, 60)}")
        # It is the noise's scale that speaks against the subset, and not its coefficients.
        if self.p_spread < self.level <= self.p_mean:
            ordered = sorted(self.deviations.items(), key=lambda item: item[1])
            ends = (
                f"{value:.3g} in {in_quotes(label)}" for label, value in (ordered[0], ordered[-1])
            )
            found.append(
                f"spread unequally between environments (standard deviation {', '.join(ends)})"
            )
        if not found:
            return None
        told = f"the residuals {' and '.join(found)}"
        mended = spread_compared and self.mends
        return (
            Message(told, use(family="linear_gaussian_mean"))
            if mended
            else f"{told}: p-values may be too small."
        )

    def to_plain(self) -> Fields:
        return {
            "excess_kurtosis": None if self.shape is None else self.shape.excess_kurtosis,
            "p_even": None if self.shape is None else self.shape.p_even,
            "standard_deviations": {str(label): value for label, value in self.deviations.items()},
            "sentence": self.sentence,
        }


def noise_checks(model: BoundModel, mask: Mask, tolerance: Tolerance) -> NoiseChecks | None:
    """Return checks of the residuals of a subset (p,) in a linear model by least squares.

    None for other models, for random deviations, with one environment, and if the subset cannot be
    fitted; also for curves, because a model of the mean alone that keeps them is not available.
    """
    linear = (
        None
        if model.makes_curves or isinstance(model, GaussianRandomDeviations)
        else model.by_least_squares
    )
    if (
        linear is None
        or linear.moments.n_environments < 2
        or not linear.log_ratio_many(mask[None])[0] > -np.inf
    ):
        return None
    fits = linear.residuals(mask[None])
    test = linear.invariance_test(mask[None], tolerance)
    deviations = np.sqrt(fits.rss[0, :-1] / fits.freedom[0, :-1])
    return NoiseChecks(
        selected=linear.features.chosen(mask).names,
        n_rows=(linear.some_rows or linear.moments).n_rows,
        shape=_shape(linear, mask),
        deviations=dict(zip(linear.moments.environments, deviations.tolist(), strict=True)),
        p_spread=float(test.spread[0]),
        p_mean=float(test.mean[0]),
        level=tolerance.lowest_level,
        mends=linear.data is None or linear.data.design is None,
    )


def _shape(model: GaussianModel, mask: Mask) -> Shape | None:
    """Return the shape from sums over centred columns and standardised residuals; None without
    rows."""
    data = model.some_rows
    if data is None:
        return None
    slopes = np.nan_to_num(model.fit(mask).local_coefficients)
    sums = np.zeros((2 * slopes.shape[1] + 2,) * 2)
    weights = row_weights(model.moments, data)
    # Weighted rows count as fewer (Kish 1965).
    weights = weights * (weights @ data.counts) / (weights**2 @ data.counts)
    for e in range(data.n_environments):
        rows = data.rows(e)
        columns = data.X[rows][:, data.features.expand(mask)]
        y = data.y[rows]
        columns = columns - columns.mean(axis=0)
        missed = y - y.mean() - columns @ slopes[e]
        each = np.column_stack(
            [np.ones(len(rows)), columns, columns**2, missed**2 / np.mean(missed**2)]
        )
        sums += weights[e] * (each.T @ each)
    return _koenker(sums)


def _koenker(sums: Floats) -> Shape:
    """Return the shape from sums of products (k + 2, k + 2) of 1, k columns, and squared
    residuals."""
    n_rows = sums[0, 0]
    products = (sums - np.outer(sums[0], sums[0]) / n_rows)[1:, 1:]
    squares = np.diagonal(sums)[1:]
    spread = np.sqrt(np.maximum(np.diagonal(products), 0.0))
    varying = np.flatnonzero(spread[:-1] > _ROUNDING * np.sqrt(squares[:-1]))
    share = 0.0
    degrees = 1
    if len(varying):
        gram = products[np.ix_(varying, varying)] / np.outer(spread[varying], spread[varying])
        cross = products[varying, -1] / spread[varying]
        values, vectors = np.linalg.eigh(gram)
        kept = values > _ROUNDING * values[-1]
        along = vectors[:, kept].T @ cross
        share = float(along**2 @ (1.0 / values[kept]) / products[-1, -1])
        degrees = int(kept.sum())
    return Shape(float(sums[-1, -1] / n_rows) - 3.0, share, float(chi2.sf(n_rows * share, degrees)))


# ---------------------------------------------------------------- order in time

# Standard errors from which on a correlation is no chance: a p-value of a thousandth.
_NO_CHANCE = 3.3


@dataclass(frozen=True)
class Autocorrelation:
    """correlation : of residuals and those before them, within environments; n : times that were
    compared; clock : the column that says when, None for the index of the table; within : the
    column of environments, if that is known"""

    correlation: float
    n: int
    clock: str | None
    within: str | None

    @property
    def alarms(self) -> bool:
        return abs(self.correlation) * np.sqrt(self.n) > _NO_CHANCE

    @property
    def sentence(self) -> str:
        column = self.clock or "date"
        within = ""
        option = ""
        if self.within is not None:
            within = f", within={self.within!r}"
            option = f" --within {self.within}"
        unnamed = "" if self.clock is not None else ", with the index as a column"
        told = (
            f"residuals depend on those before them (correlation {self.correlation:.2f}): "
            "p-values are too small"
        )
        shell = f"--along {printable(column)} --ar 2{option}"
        return (
            f"{told}. Compare along time, along({printable(column)!r}, ar=2{within}) or "
            f"{shell}{unnamed}."
        )


def autocorrelation(model: BoundModel, mask: Mask) -> Autocorrelation | None:
    """Return the autocorrelation of the residuals of a subset (p,).

    Rows are in the order of time within environments, rows of one time together. None if times are
    not known or the model accounts for them, for times to an event, and outside the support.
    """
    data = model.data
    if data is None or kind_of(getattr(model, "specification", None)).censored:
        return None
    when = _times(data)
    if when is None or not model.log_ratio(mask) > -np.inf:
        return None
    name, times = when
    fit = model.fit(mask, local=False)
    y = data.y if data.exposure is None else data.y / data.exposure
    residuals = y - fit.predict(data.X[:, data.features.expand(mask)])
    known = ~np.isnan(times)
    _, group = np.unique(
        np.column_stack([data.environment_index, times])[known], axis=0, return_inverse=True
    )
    group = group.ravel()
    counts = np.bincount(group)
    means = np.bincount(group, residuals[known]) / counts
    environment = np.empty(len(counts), np.intp)
    environment[group] = data.environment_index[known]
    # Groups are sorted by environment, then by time.
    means -= (np.bincount(environment, means) / np.maximum(np.bincount(environment), 1))[
        environment
    ]
    follows = environment[1:] == environment[:-1]
    if follows.sum() < 3 or not np.any(means):
        return None
    correlation = float(np.sum((means[1:] * means[:-1])[follows]) / np.sum(means**2))
    # Several environments at a time have sequences of their own.
    overlap = data.design is None and len(np.unique(times[known])) < len(means)
    return Autocorrelation(
        correlation, int(follows.sum()), name, data.environment_name if overlap else None
    )


def _times(data: MultiEnvironmentData) -> tuple[str | None, Floats] | None:
    """The column that says when rows were taken, and (N,) when"""
    design = data.design
    if design is not None and design.variable is not None:
        alone = len(np.unique(design.values)) == len(design.values)
        return (design.variable.column, design.values) if alone and not design.variable.ar else None
    return None if data.clock is None else (data.clock.name, data.clock.values)


# ---------------------------------------------------------------- random forests

# Share of the environments' scatter that the features may leave before the check is said to have
# seen little.
_LITTLE_LEFT = 0.1
_TREES = 100
_FEWEST_IN_LEAF = 5


@dataclass(frozen=True, eq=False, repr=False)
class ResidualCheck(Rendered):
    """Hold tests of whether environments differ given a subset, by random forests.

    It prints as text and shows as HTML; `to_dict` has its values.

    Attributes
    ----------
    subset : tuple of str
        Names of the features.
    outcome_name : str
        Name of the outcome.
    environments : tuple
        Labels of the E environments.
    rows : tuple of int
        Rows of each environment.
    mean, spread : ndarray of shape (E,)
        P-values of the same mean, and of the same spread, of the outcome in an environment and in
        the others, given the features.
    p_value : float
        The smallest of them, corrected by Bonferroni's rule.
    r2 : float
        Share of the variance of the outcome that forests explain in held-out rows.
    untold : float
        Share of the variation of the indicators of environments that forests do not predict from
        the features. Near 0 the check cannot find differences.
    of_rows : int
        Number of rows if a sample of them was used, else 0.

    References
    ----------
    Shah, R. D. and Peters, J. (2020), The hardness of conditional independence testing and the
    generalised covariance measure, Annals of Statistics 48, 1514-1538, arXiv:1804.07203.
    """

    subset: Names
    outcome_name: str
    environments: Labels
    rows: tuple[int, ...]
    mean: Floats
    spread: Floats
    p_value: float
    r2: float
    untold: float
    of_rows: int = 0

    @property
    def alarm(self) -> bool:
        """Return whether the p-value is below 0.05.

        Returns
        -------
        bool
            True if environments differ.
        """
        return self.p_value < ALARM

    @property
    def worst(self) -> tuple[Hashable, str]:
        """Return the environment with the smallest p-value, and what differs there.

        Returns
        -------
        tuple of label and str
            Label, and "mean" or "spread".
        """
        part, place = np.unravel_index(np.argmin([self.mean, self.spread]), (2, len(self.rows)))
        return self.environments[place], ("mean", "spread")[part]

    def to_dict(self) -> Fields:
        """Return the check as values that JSON can hold.

        Returns
        -------
        dict
            Values.
        """
        names = ("environment", "rows", "p_mean", "p_spread")
        each = zip(
            map(str, self.environments),
            self.rows,
            self.mean.tolist(),
            self.spread.tolist(),
            strict=True,
        )
        return {
            "outcome": self.outcome_name,
            "subset": list(self.subset),
            "alarm": self.alarm,
            **{name: getattr(self, name) for name in ("p_value", "r2", "untold")},
            "environments": [dict(zip(names, row, strict=True)) for row in each],
        }

    @property
    def sections(self) -> tuple[Section]:
        figures = zip(self.rows, self.mean, self.spread, strict=True)
        rows = [(f"{rows:,}", format_p(mean), format_p(spread)) for rows, mean, spread in figures]
        table = by_environment(("rows", "mean", "spread"), self.environments, rows)
        found = f"nothing shows that {self.outcome_name} differs between environments"
        if self.alarm:
            label, part = self.worst
            found = (
                f"the {part} of {self.outcome_name} differs between environments, most in "
                f"{in_quotes(label)}"
            )
        given = format_subset(self.subset)
        sentences = [
            f"Given {given}, {found} (p-value {format_p(self.p_value)}, corrected).",
            f"Forests explain {max(self.r2, 0.0):.0%} of {self.outcome_name} in rows they did not "
            "see.",
        ]
        if self.untold < _LITTLE_LEFT:
            sentences.append(
                "The features nearly always tell which environment a row is from: little could be "
                "found."
            )
        if self.of_rows > sum(self.rows):
            sentences.append(f"Of {self.of_rows:,} rows a sample of {sum(self.rows):,} was tested.")
        title = f"Residuals of {self.outcome_name} given {given}, by random forests"
        return (Section(title, tuple(sentences), table=table),)


def residual_check(
    data: MultiEnvironmentData | Moments,
    subset: Subset,
    random_state: Any = 0,
    n_jobs: int | None = None,
) -> ResidualCheck:
    """Check for differences between environments of any form, given a subset.

    The subset is given by names or as a mask. Random forests predict the outcome and the
    environment of a row from the features, each row by trees that were not grown on it. If
    environments are the same given the features, the residuals of the two are uncorrelated: that is
    tested for each environment by the generalised covariance measure (Shah and Peters 2020,
    arXiv:1804.07203), and again with squared residuals of the outcome.

    The result depends on random_state and not on n_jobs.
    """
    of_rows = 0
    if isinstance(data, Moments):
        of_rows = data.n_rows
        if data.sampled is None:
            raise SettingError("residual_check needs rows, and these moments hold none: fit rows.")
        data = data.sampled
    require_data(data, "residual_check")
    for role in data.outcome_columns:
        raise SettingError(
            f"residual_check knows nothing of the {role} {getattr(data, f'{role}_name')!r} of "
            f"{data.outcome_name!r}: "
            "use diagnose of the fitted model."
        )
    if data.n_environments < 2:
        raise SettingError("there is one environment: add rows of another one to compare it with.")
    mask = as_mask(subset, data.feature_names)
    derived = frozenset() if data.encoding is None else data.encoding.derived
    kept = np.array([name not in derived for name in data.features.columns], dtype=bool)
    X = data.X[:, data.features.expand(mask) & kept]
    labels = (data.environment_index[:, None] == np.arange(data.n_environments)).astype(float)
    rng = generator(random_state)
    n_jobs = n_workers(n_jobs)
    left = data.y - _predicted(X, data.y, rng, n_jobs)
    untold = labels - _predicted(X, labels, rng, n_jobs)
    squares = left**2
    mean = _p_values(left, untold)
    spread = _p_values(squares - _predicted(X, squares, rng, n_jobs), untold)
    # Of two environments each is the other's rest.
    tests = 2 * (data.n_environments if data.n_environments > 2 else 1)
    return ResidualCheck(
        data.features.chosen(mask).names,
        data.outcome_name,
        data.environments,
        tuple(data.counts.tolist()),
        mean,
        spread,
        p_value=float(min(1.0, tests * min(mean.min(), spread.min()))),
        r2=float(1.0 - squares.mean() / data.y.var()),
        untold=float((untold**2).sum() / ((labels - labels.mean(axis=0)) ** 2).sum()),
        of_rows=of_rows,
    )


def _predicted(X: Floats, target: Floats, rng: np.random.Generator, n_jobs: int) -> Floats:
    """Target (N,) or (N, m) given X (N, k), by trees not grown on the row; without columns, the
    mean of all others."""
    seed = int(rng.integers(2**31))
    if not X.shape[1]:
        return (target.sum(axis=0) - target) / (len(target) - 1)
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        _TREES, min_samples_leaf=_FEWEST_IN_LEAF, oob_score=True, n_jobs=n_jobs, random_state=seed
    )
    return np.asarray(forest.fit(X, target).oob_prediction_)


def _p_values(left: Floats, untold: Floats) -> Floats:
    """Return p-values (E,) of no covariance of residuals of the outcome (N,) and environments (N,
    E)."""
    products = left[:, None] * untold
    spread = products.std(axis=0)
    statistic = np.sqrt(len(left)) * products.mean(axis=0) / np.where(spread > 0.0, spread, 1.0)
    return np.asarray(2.0 * norm.sf(np.abs(statistic)))
