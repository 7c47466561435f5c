"""Define a family by its maximum likelihood fit of one table: write one method, `maximise`.

The score of a subset z is the log likelihood ratio of one fit for all environments and one for
each::

    log Λ(z) = max Σ_e Σ_i log g(y_ei | x_ei^z) − Σ_e max Σ_i log p_e(y_ei | x_ei^z)

(equations 5 to 7 of the paper, Wu et al. 2025, arXiv:2506.22675).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats, Integers, Mask
from .._tools.parallel import ordered_map
from .._tools.text import in_quotes
from ..data.checks import quoted, rows_text, with_counts
from ..data.features import Subset, as_mask, as_masks
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, SettingError, use
from ..moments.least_squares import independent_columns
from .base import (
    BASELINE,
    DISPERSION,
    IN_MEAN,
    INTERCEPT,
    INVERSE_LINKS,
    BoundModel,
    EnvironmentData,
    Fit,
    Level,
    Memory,
    Null,
    Remarks,
    kind_of,
    link_of,
    rows_for,
    too_few_rows_for,
)
from .gaussian import LinearGaussian
from .gaussian_fits import row_groups
from .invariance_test import EACH, Tolerance, deviance_moments, deviance_test, sidak

_MOST_REMEMBERED = 500_000
# A pooled fit that is better than the local ones by less than this share of their size is so by the
# optimiser's error.
_ROUNDING = 1e-6
# Linear predictors at which `mean` is compared with the inverse of the declared link.
_PROBE = np.array([-2.0, 0.0, 0.5, 3.0])
# Without features most families predict the mean of the outcome, but for the optimiser's error; one
# that is farther off, in standard errors of that mean, predicts something else.
_EXACT = 1e-4
_FAR = 4.0
# Without a parameter for the scatter p-values rest on many rows: with fewer than so many for each
# parameter of an environment's fit, invariant data are rejected at 5% in .07 to .08
# (benchmarks/families_by_others.py).
_FEW_PER_PARAMETER = 10


class Figures(NamedTuple):
    """Hold log Λ, pooled log-likelihood, degrees of freedom of −2 log Λ and pooled parameters,
    (S,)."""

    log_ratio: Floats
    pooled: Floats
    degrees: Floats
    parameters: Floats

    @classmethod
    def of(
        cls, log_ratio: Floats, pooled: Floats, ranks: Integers, profiled: Integers | int
    ) -> Figures:
        """ranks (S, E + 1): identified parameters of the fits; profiled: those that are not counted
        there."""
        parameters = (ranks + profiled).astype(float)
        degrees = parameters[:, :-1].sum(axis=1) - parameters[:, -1]
        return cls(log_ratio, pooled, degrees, parameters[:, -1])


class LikelihoodRatioModel(BoundModel):
    """Base of models whose log Λ is a ratio of maximised likelihoods of the rows; each subset is
    fitted once."""

    data: MultiEnvironmentData

    def __init__(
        self,
        specification: Any,
        data: MultiEnvironmentData,
        n_jobs: int | None = None,
        level: Level = Level.full,
    ) -> None:
        super().__init__(data)
        self.specification = specification
        self.data = data
        self.n_jobs = n_jobs
        self.level = level
        # Whether fits to several environments have a baseline for each
        self.free = level is not Level.full and self.n_environments > 1
        self._memory = Memory(_MOST_REMEMBERED)

    @property
    def lower_levels(self) -> tuple[Level, ...]:
        return (Level.effects,) if self.n_environments > 1 else ()

    def at_level(self, level: Level) -> BoundModel:
        """Return the model of the same rows whose pooled fits are stratified: a baseline for each
        environment, the same slopes."""
        if level is self.level or level is Level.effects_noise_free:
            return super().at_level(level)
        return type(self)(self.specification, self.data, self.n_jobs, level)

    def compared(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """Return the parts of a fit that must be the same at this level."""
        return tuple(part for part in parts if not (self.free and part in (INTERCEPT, BASELINE)))

    def judged_by(self, tolerance: Tolerance) -> str:
        what = ("invariance of effects", *self.judged[1:]) if self.free else self.judged
        return tolerance.in_words(*what)

    def require_free_baselines(self) -> None:
        """Raise SettingError where environments have one baseline."""
        if not self.free:
            raise SettingError(
                f"at the level {str(self.level)!r} environments have one baseline",
                use(baseline="free"),
            )

    @property
    def n_baselines(self) -> int:
        """Parameters of the pooled fit that an environment has of its own"""
        return self.n_environments if self.free else 0

    @abstractmethod
    def computed(self, masks: Mask) -> Figures:
        """Return the figures of the subsets in masks (S, p); log Λ is NaN outside the support."""

    @property
    def name(self) -> str:
        return str(self.specification.name)

    def figures(self, masks: ArrayLike) -> Figures:
        """Return the figures of subsets (S, p), each fitted once; log Λ is -inf outside the
        support."""
        chosen = as_masks(masks, self.n_features)
        known = self._memory.of(chosen, lambda new: np.column_stack(self.computed(new)).tolist())
        figures = Figures(*np.array(known).reshape(len(known), len(Figures._fields)).T)
        log_ratio = np.where(np.isnan(figures.log_ratio), -np.inf, figures.log_ratio)
        return figures._replace(log_ratio=log_ratio)

    def without(self, environment: Hashable) -> BoundModel:
        others = [label for label in self.data.environments if label != environment]
        bound: BoundModel = self.specification.bind(self.data.choosing(others), self.n_jobs)
        return bound.at_level(self.level)

    @cached_property
    def empty(self) -> float:
        """Pooled log-likelihood of the empty subset"""
        value = float(self.figures(np.zeros(self.n_features, dtype=bool)).pooled[0])
        if np.isnan(value):
            raise DataError(
                f"the {self.name} model cannot be fitted to {self.data.outcome_name!r} alone."
            )
        return value

    def log_ratio_many(self, masks: ArrayLike) -> Floats:
        return self.figures(masks).log_ratio

    def gain_many(self, masks: ArrayLike) -> Floats:
        figures = self.figures(masks)
        return np.where(figures.log_ratio > -np.inf, figures.pooled - self.empty, -np.inf)

    def compatible(self, masks: ArrayLike, tolerance: Tolerance) -> Mask:
        """An environment and the rest differ in no more than all environments do: where that would
        be little for the two, the rest is not fitted."""
        joint, allowed = self._all_together(masks, tolerance)
        figures = self.figures(masks)
        enough = EACH * tolerance.level
        environments = self.data.n_environments
        passed = joint >= tolerance.level
        # An environment may lack parameters of the pooled fit.
        common = figures.parameters - self.n_baselines
        fewest = common - np.maximum((environments - 1) * common - figures.degrees, 0.0)
        asked = np.flatnonzero(passed & (fewest > 0.0))
        share = allowed * self.data.counts.min() / self.n_rows
        degrees = fewest[asked]
        alone = deviance_test(
            -2.0 * figures.log_ratio[asked], self.least_unit * degrees, degrees, share[asked]
        )
        open_yet = passed.copy()
        open_yet[asked[sidak(np.tile(alone[:, None], environments)) >= enough]] = False
        each = self.each_p_values(masks, open_yet, allowed)
        return np.asarray(passed & ~(each < enough))

    def null_many(self, masks: ArrayLike) -> Null:
        return self.null_of(self.figures(masks))

    @cached_property
    def _linear(self) -> BoundModel | None:
        """The linear Gaussian model of the working outcome, in environments where that varies; None
        with one of them"""
        data = self.data
        y = self.specification.working_outcome(self.data)
        varying = [e for e in range(data.n_environments) if np.ptp(y[data.rows(e)]) > 0.0]
        kept = np.flatnonzero(np.isin(data.environment_index, varying))
        index = np.searchsorted(varying, data.environment_index[kept])
        labels = [data.environments[e] for e in varying]
        part = replace(
            data, X=data.X[kept], y=y[kept], environment_index=index, environments=tuple(labels)
        )
        return LinearGaussian().bind(part, self.n_jobs) if len(varying) > 1 else None

    def random_effects_risk_many(self, masks: ArrayLike) -> Floats:
        """Return the risk of least squares fits to the working outcome; inf outside the support."""
        chosen = as_masks(masks, self.n_features)
        risks = (
            np.full(len(chosen), np.inf)
            if self._linear is None
            else self._linear.random_effects_risk_many(chosen)
        )
        return np.where(self.in_support(chosen), risks, np.inf)

    def separate_gains_many(self, masks: ArrayLike) -> Floats:
        """Return the gains of least squares fits to the working outcome.

        They are 0 if it varies in at most one environment.
        """
        chosen = as_masks(masks, self.n_features)
        return (
            np.where(chosen, 0.0, np.nan)
            if self._linear is None
            else self._linear.separate_gains_many(chosen)
        )

    def in_support(self, masks: Mask) -> Mask:
        """Return whether the subsets in masks (S, p) can be fitted, (S,)."""
        return self.log_ratio_many(masks) > -np.inf

    @property
    @abstractmethod
    def always(self) -> Integers | int:
        """Return the parameters of the fit to each environment beside those of columns, (E,)."""

    @cached_property
    def largest_size(self) -> int:
        """Return the largest size for which every environment has a row more than parameters."""
        each = (
            np.cumsum(np.sort(needed)) <= room
            for needed, room in zip(self._needed.T, self._room, strict=True)
        )
        return min(int(enough.sum()) for enough in each)

    def supported(self, masks: Mask) -> Mask:
        """Return whether the environments suffice for the subsets in masks (S, p), (S,).

        Each must have enough rows, and each feature must vary in some environment.
        """
        enough = (masks.astype(np.int64) @ self._needed <= self._room).all(axis=1)
        return np.asarray(enough & ~masks[:, self._constant].any(axis=1))

    @cached_property
    def _needed(self) -> Integers:
        """Return the columns of each feature that vary in an environment, (p, E)."""
        varies = [np.ptp(self.data.X[rows], axis=0) > 0.0 for rows in row_groups(self.data)[:-1]]
        return np.add.reduceat(np.array(varies, np.int64), self.features.starts[:-1], axis=1).T

    @property
    def _constant(self) -> Integers:
        """Features that no environment can say anything of where its baseline is free"""
        return np.flatnonzero(~self._needed.any(axis=1)) if self.free else np.empty(0, np.intp)

    @cached_property
    def _room(self) -> Integers:
        """Return the largest number of columns of a subset that vary in an environment, (E,)."""
        return np.asarray(self.data.counts - self.always - 1)

    def outside_support(self, masks: ArrayLike) -> tuple[str, ...]:
        chosen = as_masks(masks, self.n_features)
        fits = self.supported(chosen)
        reasons = tuple(
            f"{reason}: a fit comes to no end" for reason in super().outside_support(chosen[fits])
        )
        constant = self._constant[chosen[:, self._constant].any(axis=0)]
        if len(constant):
            names = quoted([self.feature_names[j] for j in constant])
            reasons = (
                f"{names} constant in every environment: free baselines hide the effect",
                *reasons,
            )
        few = chosen.astype(np.int64) @ self._needed > self._room
        if not few.any():
            return reasons
        e = int(np.argmin(self._room))
        place = f"environment {in_quotes(self.data.environments[e])}"
        return too_few_rows_for(place, int(self.data.counts[e]), int(self._room[e])), *reasons

    # Least that −2 log Λ of an environment against the rest is expected to be, in degrees of
    # freedom
    least_unit: float = 1.0

    def null_of(
        self, figures: Figures, counts: Integers | None = None, others: Integers | int = 0
    ) -> Null:
        """Return the distribution of log Λ under invariance.

        For many rows −2 log Λ is chi-squared, with a degree of freedom for each parameter that may
        differ. counts (G,) : rows of the groups that are compared, if these are not the
        environments; others (G,) : baselines that each group has beside the first
        """
        degrees = (
            figures.degrees if self.data.n_environments > 1 else np.zeros_like(figures.degrees)
        )
        return Null.of_deviance(degrees, 2.0 * degrees, degrees)

    def scattered_null(
        self, figures: Figures, counts: Integers | None = None, others: Integers | int = 0
    ) -> Null:
        """`null_of` where fits have a parameter for the scatter too: the law of a linear Gaussian
        model with as many"""
        rows = np.append(self.data.counts if counts is None else counts, self.data.n_rows).astype(
            float
        )
        more = np.broadcast_to(others, len(rows) - 1)
        local = (figures.degrees + figures.parameters - more.sum()) / (len(rows) - 1)
        parameters = np.column_stack([local[:, None] + more, figures.parameters])
        return Null.of_deviance(*deviance_moments(rows, parameters - 2.0), figures.degrees)


class Maximum(NamedTuple):
    """log_likelihood at the maximum, coefficients (k,) and intercept there, number of parameters in
    all."""

    log_likelihood: float
    coefficients: Floats
    intercept: float
    n_parameters: int


class ByLikelihood(ABC):
    """Define a family by its maximum likelihood fit of one table.

    A subclass is a frozen dataclass. It implements `maximise` and declares, as class attributes,
    the `kind` of the outcome ("number", "class" or "count") and the `link` ("identity", "log",
    "logit", or another name with a `mean` of its own). They determine whether effects are
    differences or ratios, and how held-out data are scored; what is undefined for them is refused.

    Attributes
    ----------
    name : str, default="maximum likelihood"
        Name of the model in descriptions.
    kind : str
        Kind of the outcome.
    link : str
        Link between the mean and the linear predictor.
    """

    name: str = "maximum likelihood"
    kind: ClassVar[str]
    link: ClassVar[str]

    @abstractmethod
    def maximise(self, X: Floats, y: Floats) -> Maximum | None:
        """Fit one table by maximum likelihood, with an intercept.

        Parameters
        ----------
        X : ndarray of shape (n, k)
            Columns.
        y : ndarray of shape (n,)
            Outcome.

        Returns
        -------
        Maximum or None
            Log likelihood, coefficients (k,), intercept and number of parameters; None if there is
            no maximum, for example with too few rows.
        """

    def mean(self, predictor: Floats) -> Floats:
        """Return the expected outcome at values of the linear predictor.

        Parameters
        ----------
        predictor : ndarray of shape (n,)
            Intercept plus coefficients times columns.

        Returns
        -------
        ndarray of shape (n,)
            Expected outcome, by default the inverse of `link`.
        """
        return np.asarray(INVERSE_LINKS[link_of(self)](predictor))

    def working_outcome(self, data: MultiEnvironmentData) -> Floats:
        """Return numbers (N,) whose least squares show how coefficients differ between
        environments.

        They are logarithms with a log link; else the outcome itself, which to first order has the
        same coefficients up to a factor.
        """
        return (
            np.asarray(np.log(data.y)) if link_of(self) == "log" and data.y.min() > 0.0 else data.y
        )

    def check(self) -> None:
        """Raise where no kind and link are declared, or where others are than `mean` has."""
        name = type(self).__name__
        kind = kind_of(self)
        link = link_of(self)
        if kind.censored:
            what = (
                f"{name} declares kind='time', but maximise() is not told which times are censored"
            )
            raise SettingError(what, use(family="piecewise_exponential"))
        if link not in INVERSE_LINKS:
            if type(self).mean is ByLikelihood.mean:
                raise SettingError(
                    f"{name} declares the link {link!r}: add mean(), its inverse, or use a known "
                    "link."
                )
        elif not np.allclose(self.mean(_PROBE), INVERSE_LINKS[link](_PROBE), rtol=1e-9, atol=0.0):
            raise SettingError(
                f"{name} declares the link {link!r}, of which its mean() is not the inverse: mend "
                "one."
            )

    def check_outcome(self, data: MultiEnvironmentData) -> None:
        """Raise where outcomes are none of the declared kind."""
        kind = kind_of(self)
        y = data.y
        known = kind.fits(y)
        if not known.all():
            told = (
                f"{type(self).__name__} declares kind={kind.name!r}: {data.outcome_name!r} "
                f"must be {kind.coding}"
            )
            raise DataError(
                f"{told}, and is not in {rows_text(int((~known).sum()))}, such as {y[~known][0]:g}."
            )

    def check_mean(self, data: MultiEnvironmentData, intercept: float) -> str:
        """Return what is to be said of a prediction without features that is not the mean of the
        outcome; raise where it is out of its range, or where another link makes it the mean."""
        y = data.y
        name = type(self).__name__
        link = link_of(self)
        mean = float(y.mean())
        error = float(y.std()) / np.sqrt(len(y))
        predicted = float(self.mean(np.array([intercept]))[0])
        exact = _EXACT * (abs(mean) + error)
        if abs(predicted - mean) <= max(exact, _EXACT * float(np.ptp(y))):
            return ""
        told = (
            f"{name} predicts {predicted:.4g} without features by the link {link!r}, and "
            f"{data.outcome_name!r}"
        )
        with np.errstate(over="ignore"):
            others = {
                other: float(inverse(np.array([intercept]))[0])
                for other, inverse in INVERSE_LINKS.items()
            }
        right = [other for other, value in others.items() if abs(value - mean) <= exact]
        if right:
            raise SettingError(
                f"{told} has the mean {mean:.4g}, as by the link {right[0]!r}: declare the link "
                "it fits."
            )
        if not y.min() <= predicted <= y.max():
            ends = f"is between {y.min():.4g} and {y.max():.4g}"
            raise SettingError(
                f"{told} {ends}: mend its link, its mean() or the intercept of maximise()."
            )
        return (
            f"{told} has the mean {mean:.4g}: it predicts something else."
            if abs(predicted - mean) > _FAR * error
            else ""
        )

    def bind(self, data: EnvironmentData, n_jobs: int | None = None) -> LikelihoodModel:
        """Bind the family to data.

        Parameters
        ----------
        data : MultiEnvironmentData
            Rows.
        n_jobs : int, default=None
            Threads.

        Returns
        -------
        LikelihoodModel
            A model that scores subsets.

        Raises
        ------
        SettingError
            If kind and link do not match, or `maximise` does not.
        DataError
            If the family cannot be fitted to this outcome.
        """
        self.check()
        rows = rows_for(self.name, data)
        self.check_outcome(rows)
        return LikelihoodModel(self, rows, n_jobs)


class LikelihoodModel(LikelihoodRatioModel):
    """A specification tied to rows. Columns that are constant or dependent in an environment are
    left out there.

    strata (N,) : rows with the same number have the same baseline, if baselines are free; None: the
        environments
    """

    def __init__(
        self,
        specification: Any,
        data: MultiEnvironmentData,
        n_jobs: int | None = None,
        level: Level = Level.full,
        strata: Integers | None = None,
    ) -> None:
        super().__init__(specification, data, n_jobs, level)
        self._strata = data.environment_index if strata is None else strata
        nothing = specification.maximise(np.empty((data.n_rows, 0)), data.y)
        self._always = 1 if nothing is None else nothing.n_parameters
        self._other_mean = (
            "" if nothing is None else specification.check_mean(data, nothing.intercept)
        )
        self._scatters = self._always > 1
        self.compares = self.compared((*IN_MEAN, DISPERSION) if self._scatters else IN_MEAN)
        self.judged = ("invariance", "rho", *["tau"] * self._scatters)

    @property
    def always(self) -> int:
        return self._always

    def null_of(
        self, figures: Figures, counts: Integers | None = None, others: Integers | int = 0
    ) -> Null:
        if not self._scatters:
            return super().null_of(figures)
        beside = [self._dummies(rows).shape[1] for rows in row_groups(self.data)[:-1]]
        return self.scattered_null(figures, others=np.array(beside))

    def remarks(self, masks: ArrayLike) -> Remarks:
        """Return remarks on environments with few rows for the leading subsets, and on an invalid
        mean."""
        alarms = (self._other_mean,) if self._other_mean else ()
        leading = as_masks(masks, self.n_features).astype(np.int64)
        parameters = self._always + int((leading @ self._needed).max(initial=0))
        few = self.data.counts < _FEW_PER_PARAMETER * parameters
        if self._scatters or self.data.n_environments < 2 or not few.any():
            return Remarks(alarms=alarms)
        where = with_counts(self.data.environments, np.where(few, self.data.counts, 0))
        told = f"Fewer than {_FEW_PER_PARAMETER} rows for each of {parameters} parameters: {where}"
        return Remarks(
            (f"{told}. P-values of invariance rest on many rows, and may be too small.",), alarms
        )

    def against_the_rest(self, masks: Mask) -> Iterator[tuple[Floats, Null]]:
        for e, label in enumerate(self.data.environments):
            groups = (self.data.environment_index == e).astype(np.intp)
            data = replace(self.data, environment_index=groups, environments=(None, label))
            pair = LikelihoodModel(self.specification, data, self.n_jobs, self.level, self._strata)
            yield pair.log_ratio_many(masks), pair.null_many(masks)

    def fit(self, subset: Subset, local: bool = True) -> Fit:
        """One subset; intercept: with free baselines their mean over rows."""
        mask = as_mask(subset, self.feature_names)
        self.require(bool(self.supported(mask[None])[0]), mask)
        chosen = self.features.expand(mask)
        fits = self._fitted(chosen, local) or []
        self.require(bool(fits), mask)
        slopes = np.full((len(fits), int(chosen.sum())), np.nan)
        for row, (fit, used) in zip(slopes, fits, strict=True):
            row[used] = fit.coefficients
        intercepts = np.array([fit.intercept for fit, _ in fits])
        names = self.features.chosen(mask).columns
        pooled = np.nan_to_num(slopes[-1])
        return Fit(names, pooled, intercepts[-1], slopes[:-1], intercepts[:-1], self.specification)

    def baselines(self, subset: Subset) -> tuple[Floats, Floats]:
        """Return the baseline of each environment on the scale of the link, by the stratified fit,
        of a row with the mean of each column over all rows; standard errors are not known.

        Returns
        -------
        values, errors : ndarray of shape (n_environments,)
        """
        mask = as_mask(subset, self.feature_names)
        self.require_free_baselines()
        X = self.data.X[:, self.features.expand(mask)]
        dummies = self._dummies(np.arange(self.n_rows))
        columns = np.column_stack([dummies, X - X.mean(axis=0)])
        fit = self.specification.maximise(columns[:, independent_columns(columns)], self.data.y)
        self.require(fit is not None, mask)
        values = fit.intercept + np.append(0.0, fit.coefficients[: dummies.shape[1]])
        return values, np.full(self.n_environments, np.nan)

    def computed(self, masks: Mask) -> Figures:
        enough = self.supported(masks)
        unknown = (np.nan, np.nan, 0.0, np.nan)
        fitted = ordered_map(self._figures_of, self.features.expand(masks[enough]), self.n_jobs)
        each = [next(fitted) if possible else unknown for possible in enough]
        return Figures(*np.array(each, dtype=float).reshape(len(each), len(Figures._fields)).T)

    def _figures_of(self, chosen: Mask) -> tuple[float, ...]:
        found = self._fitted(chosen)
        if found is None:
            return np.nan, np.nan, 0.0, np.nan
        *local, pooled = [fit for fit, _ in found]
        degrees = sum(fit.n_parameters for fit in local) - pooled.n_parameters
        own = sum(fit.log_likelihood for fit in local)
        differ = len(local) > 1 and not (self.free and degrees == 0)
        value = pooled.log_likelihood - own if differ else 0.0
        # Above 0 an optimiser stopped early: a little, which is rounding, or too early for log Λ to
        # make sense.
        if value > 0.0:
            value = 0.0 if value <= _ROUNDING * max(1.0, abs(own)) else -np.inf
        return value, pooled.log_likelihood, degrees, pooled.n_parameters

    def _fitted(self, chosen: Mask, local: bool = True) -> list[tuple[Maximum, Mask]] | None:
        """Fits of chosen columns (q,) and the columns that each could use, the pooled one last;
        None where none is."""
        fits = []
        for rows in row_groups(self.data)[0 if local else -1 :]:
            X = self.data.X[np.ix_(rows, chosen)]
            dummies = self._dummies(rows)
            n_dummies = dummies.shape[1]
            columns = np.column_stack([dummies, X]) if n_dummies else X
            used = independent_columns(columns)
            fit = self.specification.maximise(columns[:, used], self.data.y[rows])
            if fit is None or not np.isfinite(fit.log_likelihood):
                return None
            if n_dummies:
                steps, slopes = np.split(fit.coefficients, [n_dummies])
                fit = fit._replace(
                    coefficients=slopes, intercept=fit.intercept + dummies.mean(axis=0) @ steps
                )
            fits.append((fit, used[n_dummies:]))
        return fits

    def _dummies(self, rows: Integers) -> Floats:
        """Return dummies (n, S − 1) of the strata of these rows, without the first.

        Without columns if baselines are not free.
        """
        strata = np.unique(self._strata[rows])[1:] if self.free else np.empty(0)
        return (self._strata[rows][:, None] == strata).astype(float)
