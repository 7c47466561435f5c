"""Predict the rows of one new site together, and adapt to the site by a few labelled rows.

A batch of rows of one site shows where the site lies, x̄. The prediction is split there,

    ŷ = μ + (x − x̄)'b,

because what all features add to the selected ones nearly always holds within sites, while a site's
mean is either predicted well by all features (natural sites) or badly (interventions). Without
labels, μ averages the predictions of the mean by all features and by the selected ones, and b their
slopes, weighted by the errors in training sites that are held out. With labelled rows, b and μ are
averages over prior distributions of how sites differ, weighted by the evidence of held-out sites
and of the labelled rows: empirical Bayes.

Everything is computed from second moments, in units of the pooled standard deviations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Mask, Names
from ..exceptions import DataError
from ..models.base import moments_of, rows_of
from ..moments.moments import Moments
from ..moments.random_intercept import random_intercept, uncertainty
from .all_features import Data, shrinks, usable_columns, without
from .model_choice import Selection
from .new_environments import EnvironmentErrors, NewEnvironments, quantiles_of
from .predictor import (
    AveragedFit,
    Design,
    LinearPredictor,
    PredictedOutcome,
    columns_of,
)

# Training sites and rows that a batch needs, and labelled rows of the site itself.
FEWEST_SITES = 3
FEWEST_ROWS = 10
FEWEST_LABELLED = 5
# Training sites that are held out for the errors of batches: of each, all others are held out too.
MAX_BATCHES = 10

# Odds, before the training sites, that all features may be trusted with a site's mean.
PRIOR_ODDS = 19.0
# A site's own fit with fewer degrees of freedom does not estimate its noise.
FEWEST_DEGREES = 3.0

# Prior probabilities of the families of experts: slopes that vary by one variance in standard
# units, by a variance of their own, and slopes that are invariant given the selected features.
EQUAL = 0.45
OWN = 0.45
INVARIANT = 0.10
EQUAL_VARIANCES = (0.0, 0.003, 0.018, 0.1, 0.6, 4.0, 25.0, 150.0, 1000.0, 6000.0)
OWN_SCALES = (0.25, 1.0, 4.0)
# Variances of a site's mean about the line, and the prior odds of the two lines as above.
MEAN_VARIANCES = (0.0, *10.0 ** np.arange(-3.5, 2.01, 0.5))
# Degrees of freedom of the prior of the noise; rows that a training site's evidence counts as.
NOISE_FREEDOM = 5.0
EVIDENCE_ROWS = 25.0
# Rounds of the EM algorithm for the variances of slopes, its start, and the smallest variance.
ROUNDS = 20
FIRST_VARIANCE = 0.05
SMALLEST_VARIANCE = 1e-8
# Rows to which the pooled scatter counts when features are predicted by the selected ones.
SCATTER_ROWS = 3.0
RIDGE = 1e-8


@dataclass(frozen=True, eq=False)
class Line:
    """An intercept and slopes (k,) in standard units, 0 for columns that the line does not use."""

    intercept: float
    slopes: Floats

    def at(self, x: Floats) -> float:
        """Return the prediction at x (k,)."""
        return float(self.intercept + x @ self.slopes)


class SiteMoments(NamedTuple):
    """Centred products of the rows of one site: K (k, k) of the features, h (k,) with the outcome,
    q of the outcome, and the degrees of freedom, rows − 1."""

    products: Floats
    with_outcome: Floats
    outcome: float
    freedom: float

    def scaled(self, share: float) -> SiteMoments:
        """Return the moments as if there were this share of the rows."""
        return SiteMoments(
            share * self.products,
            share * self.with_outcome,
            share * self.outcome,
            share * self.freedom,
        )

    def about(self, slopes: Floats) -> SiteMoments:
        """Return the moments with the residuals of slopes (k,) as the outcome."""
        fitted = self.products @ slopes
        left = self.outcome - 2.0 * float(self.with_outcome @ slopes) + float(slopes @ fitted)
        return self._replace(with_outcome=self.with_outcome - fitted, outcome=left)

    def rotated(self, matrix: Floats) -> SiteMoments:
        """Return the moments of the features X·matrix."""
        products = matrix.T @ self.products @ matrix
        return self._replace(products=products, with_outcome=matrix.T @ self.with_outcome)


class SlopePosterior(NamedTuple):
    """Slopes (k,), log evidence, noise variance, covariance (k, k) and the residual sum of squares
    by one expert."""

    slopes: Floats
    evidence: float
    noise: float
    covariance: Floats
    residual: float


@dataclass(frozen=True, eq=False)
class Experts:
    """Prior distributions b ~ N(centre, noise·variances) of the slopes of a site.

    invariant : (m,), which experts are for v in b = Gv + b_selected, with G from the scatter of the
        features; centres, variances : (m, k); prior : (m,) probabilities before the training sites
    """

    invariant: Mask
    centres: Floats
    variances: Floats
    prior: Floats


@dataclass(frozen=True, eq=False)
class SiteTraining:
    """Summary of the training sites for predictions at a new one.

    columns : k names; centre, scale : (k,) pooled means and standard deviations; outcome_centre,
        outcome_scale : of the outcome; counts : (E,) rows
    all_features, selected : lines, slopes_within : (k,) those of a random-intercept fit, which
        predict within sites without labels
    mean_errors : (2, E) mean residual of the two lines in each site, held out; gain : by how much
        slopes of all features reduce the mean square within a held-out site; noise : mean residual
        variance of the sites' own fits, over the mean number of rows
    """

    columns: Names
    centre: Floats
    scale: Floats
    outcome_centre: float
    outcome_scale: float
    counts: Floats
    all_features: Line
    selected: Line
    slopes_within: Floats
    mean_errors: Floats
    gain: float
    noise: float

    def standard(self, X: Floats) -> Floats:
        """Return rows X (n, k) in standard units."""
        return np.asarray((X - self.centre) / self.scale)

    def weight_of_all(self, x: Floats) -> float:
        """Return the weight of all features, not the selected ones, in the mean at x (k,)."""
        n_sites = len(self.counts)
        variances = np.mean(self.mean_errors**2, axis=1) + self.noise
        gap = (self.all_features.at(x) - self.selected.at(x)) ** 2
        # log density of the gap if a line's error has this variance, a Student distribution
        density = -0.5 * np.log(variances) - 0.5 * (n_sites + 1) * np.log1p(
            gap / (n_sites * variances)
        )
        log_odds = np.log(PRIOR_ODDS) - 0.5 * n_sites * np.log(variances[0] / variances[1])
        return float(1.0 / (1.0 + np.exp(-(log_odds + density[1] - density[0]))))

    def share_of_all(self, deviations: Floats) -> float:
        """Return the share of the slopes of all features, by deviations (n, k) from the mean."""
        apart = float(np.mean((deviations @ (self.slopes_within - self.selected.slopes)) ** 2))
        return 1.0 if apart <= self.gain else self.gain / apart

    def sentence(self, weight: float, share: float) -> str:
        """Return what was done, and why; weight, share : of all features."""
        errors = self.outcome_scale * np.sqrt(np.mean(self.mean_errors**2, axis=1))
        return (
            "The rows were predicted together, as one new site. The site's mean: "
            f"{weight:.0%} by all features and {1.0 - weight:.0%} by the selected ones, which "
            f"missed the means of held-out training sites by {errors[0]:.3g} and {errors[1]:.3g}. "
            f"Differences within the site: {share:.0%} by all features."
        )

    def predict(self, X: Floats) -> tuple[Floats, float, float]:
        """Return predictions (n,) of the rows X (n, k) of one site, and the two weights."""
        standard = self.standard(X)
        x = standard.mean(axis=0)
        weight = self.weight_of_all(x)
        share = self.share_of_all(standard - x)
        slopes = share * self.slopes_within + (1.0 - share) * self.selected.slopes
        mean = weight * self.all_features.at(x) + (1.0 - weight) * self.selected.at(x)
        predicted = mean + (standard - x) @ slopes
        return self.outcome_centre + self.outcome_scale * predicted, weight, share


@dataclass(frozen=True, eq=False)
class _Sites:
    """Second moments of the training sites in standard units, and their lines."""

    data: Data
    columns: Names
    chosen: Mask
    centre: Floats
    scale: Floats
    outcome_centre: float
    outcome_scale: float

    @classmethod
    def of(cls, data: Data, selected: Names) -> _Sites:
        """selected : names of the columns of the selected features"""
        moments = moments_of(data)
        columns = usable_columns(data)
        at = moments.places(columns)
        deviations = np.sqrt(np.diagonal(moments.scatter[-1]) / moments.n_rows)
        return cls(
            data,
            columns,
            np.isin(columns, selected),
            moments.pooled_mean[at],
            deviations[at],
            float(moments.pooled_mean[moments.outcome]),
            float(deviations[moments.outcome]),
        )

    @property
    def moments(self) -> Moments:
        return moments_of(self.data)

    def means(self) -> tuple[Floats, Floats]:
        """Return the mean of each site: features (E, k), outcome (E,)."""
        gaps = self.moments.gaps
        at = self.moments.places(self.columns)
        return gaps[:, at] / self.scale, gaps[:, self.moments.outcome] / self.outcome_scale

    def each(self) -> list[SiteMoments]:
        """Return the moments within each site."""
        moments = self.moments
        at = np.append(moments.places(self.columns), moments.outcome)
        scale = np.append(self.scale, self.outcome_scale)
        results = []
        for e, count in enumerate(moments.counts):
            products = moments.scatter[e][np.ix_(at, at)] / scale[:, None] / scale
            results.append(
                SiteMoments(
                    products[:-1, :-1], products[:-1, -1], float(products[-1, -1]), count - 1.0
                )
            )
        return results

    @cached_property
    def held_out_lines(self) -> list[tuple[Line, Line, Floats]]:
        """`lines` without each site in turn"""
        return [self.lines(without(self.data, label)) for label in self.data.environments]

    def lines(self, data: Data) -> tuple[Line, Line, Floats]:
        """Return the line of all features, that of the selected ones, and the slopes of the
        random-intercept fit, of these data."""
        moments = moments_of(data)
        usable = [name for name in usable_columns(data) if name in self.columns]
        selected = [name for name in usable if name in np.array(self.columns)[self.chosen]]
        mixed = random_intercept(moments, moments.places(usable))
        pooled = self._line(moments, usable, mixed.pooled, None)
        within = self._line(moments, usable, mixed.coefficients, mixed.intercept)
        least_squares = random_intercept(moments, moments.places(selected), 0.0)
        every = Line(
            0.5 * (pooled.intercept + within.intercept), 0.5 * (pooled.slopes + within.slopes)
        )
        own = self._line(moments, selected, least_squares.coefficients, None)
        return every, own, within.slopes

    def _line(
        self, moments: Moments, names: list[str], coefficients: Floats, intercept: float | None
    ) -> Line:
        """Return a line in standard units; without an intercept, through the pooled means."""
        at = moments.places(names)
        places = [self.columns.index(name) for name in names]
        centre = moments.pooled_mean
        if intercept is None:
            intercept = float(centre[moments.outcome] - centre[at] @ coefficients)
        slopes = np.zeros(len(self.columns))
        slopes[places] = coefficients * self.scale[places] / self.outcome_scale
        raised = intercept + float(self.centre[places] @ coefficients) - self.outcome_centre
        return Line(raised / self.outcome_scale, slopes)


def site_training(data: Data, selected: Names) -> SiteTraining:
    """Return what training sites show about predictions at a new one.

    Each site is held out in turn, with the selected features fixed: the mean residual and the mean
    square within the site by the lines of the others, and the residual variance of its own fit.

    Parameters
    ----------
    data : MultiEnvironmentData or Moments
        At least three environments.
    selected : tuple of str
        Columns of the selected features.
    """
    return _training(_Sites.of(data, selected))


def _training(sites: _Sites) -> SiteTraining:
    every, own, within = sites.lines(sites.data)
    features, outcomes = sites.means()
    moments = sites.each()
    counts = sites.moments.counts.astype(float)
    n_sites = len(counts)
    mean_errors = np.empty((2, n_sites))
    gains = np.empty(n_sites)
    noises = np.empty(n_sites)
    for e, lines in enumerate(sites.held_out_lines):
        for row, line in zip(mean_errors, lines[:2], strict=True):
            row[e] = outcomes[e] - line.at(features[e])
        square = moments[e].about(lines[1].slopes).outcome / counts[e]
        residual, freedom = _own_fit(moments[e])
        if freedom < FEWEST_DEGREES:
            gains[e] = 0.5 * square
            noises[e] = 0.5 * (square + mean_errors[1, e] ** 2)
        else:
            noises[e] = residual / freedom
            gains[e] = max(square - noises[e], 0.0)
    return SiteTraining(
        sites.columns,
        sites.centre,
        sites.scale,
        sites.outcome_centre,
        sites.outcome_scale,
        counts,
        every,
        own,
        within,
        mean_errors,
        float(gains.mean()),
        float(noises.mean() / counts.mean()),
    )


def _own_fit(site: SiteMoments) -> tuple[float, float]:
    """Return the residual sum of squares of a site's own fit and its degrees of freedom."""
    slopes, _, rank, _ = np.linalg.lstsq(site.products, site.with_outcome, rcond=1e-10)
    return max(site.outcome - float(site.with_outcome @ slopes), 0.0), site.freedom - float(rank)


# ---------------------------------------------------------------- a few labelled rows


@dataclass(frozen=True, eq=False)
class SiteLine:
    """The line of one site, in the units of the data, and how uncertain it is.

    columns : k names; coefficients : (k,); centre : (k,) mean of the site's known rows; mean : the
        prediction there; noise : residual variance; covariance : (1 + k, 1 + k) of the mean and the
        coefficients; freedom : degrees of freedom of Student's t; labelled : number of labels
    """

    columns: Names
    coefficients: Floats
    centre: Floats
    mean: float
    noise: float
    covariance: Floats
    freedom: float
    labelled: int

    @property
    def intercept(self) -> float:
        return self.mean - float(self.centre @ self.coefficients)


@dataclass(frozen=True, eq=False)
class SiteAdaptation:
    """What training sites show about how a site's own line differs from theirs.

    training : as for predictions without labels; varying : (k,) which columns vary within sites;
        only these have slopes that a site's rows can show
    scatter : (v, v) pooled variance within sites; experts : prior distributions of the slopes;
        noise, weights : (m,) their residual variances and probabilities by held-out sites;
        mean_weights : (2, t) probabilities of the two lines and of the variances of a site's mean
    """

    training: SiteTraining
    varying: Mask
    chosen: Mask
    scatter: Floats
    experts: Experts
    noise: Floats
    weights: Floats
    mean_weights: Floats

    def adapted(self, X: Floats, y: Floats, known: Floats) -> SiteLine:
        """Return the line of a site by labelled rows X (m, k), y (m,), and all of its known rows
        (n, k), the labelled ones among them."""
        training = self.training
        labelled = training.standard(X)
        outcome = (y - training.outcome_centre) / training.outcome_scale
        rows = training.standard(known)
        x = rows.mean(axis=0)
        slopes, noise, covariance = self._slopes(labelled, outcome, rows)
        gap = labelled.mean(axis=0) - x
        observed = float(outcome.mean() - gap @ slopes)
        error = noise / len(outcome) + float(gap @ covariance @ gap)
        mean, variance = self._mean(x, observed, error)
        scale = training.outcome_scale
        units = np.insert(1.0 / training.scale, 0, 1.0) * scale
        joint = np.zeros((len(x) + 1, len(x) + 1))
        joint[0, 0] = variance
        joint[1:, 1:] = covariance
        return SiteLine(
            training.columns,
            slopes * units[1:],
            training.centre + training.scale * x,
            training.outcome_centre + scale * mean,
            noise * scale**2,
            joint * units[:, None] * units,
            NOISE_FREEDOM + len(outcome) - 1.0,
            len(outcome),
        )

    def _slopes(self, X: Floats, y: Floats, known: Floats) -> tuple[Floats, float, Floats]:
        """Return slopes (k,), residual variance and covariance (k, k), averaged over experts."""
        own = _moments_of_rows(X[:, self.varying], y)
        all_rows = known[:, self.varying] - known[:, self.varying].mean(axis=0)
        base = self.training.selected.slopes[self.varying]
        basis = _given_selected(all_rows.T @ all_rows, self.scatter, self.chosen)
        given = own.about(base).rotated(basis)
        results = []
        for k, invariant in enumerate(self.experts.invariant):
            site = given if invariant else own
            one = _posterior(
                site, self.experts.centres[k], self.experts.variances[k], float(self.noise[k])
            )
            if invariant:
                one = one._replace(
                    slopes=basis @ one.slopes + base, covariance=basis @ one.covariance @ basis.T
                )
            results.append(one)
        weights = _normalised(np.log(self.weights) + np.array([one.evidence for one in results]))
        slopes = weights @ np.array([one.slopes for one in results])
        noise = float(weights @ np.array([one.noise for one in results]))
        covariance = sum(
            weight * (one.covariance + np.outer(one.slopes - slopes, one.slopes - slopes))
            for weight, one in zip(weights, results, strict=True)
        )
        places = np.flatnonzero(self.varying)
        whole = np.zeros(len(self.varying))
        whole[places] = slopes
        spread = np.zeros((len(whole), len(whole)))
        spread[np.ix_(places, places)] = covariance
        return whole, noise, spread

    def _mean(self, x: Floats, observed: float, error: float) -> tuple[float, float]:
        """Return the outcome's mean at x (k,) and its variance, from an observation of it with this
        error variance."""
        variances = np.array(MEAN_VARIANCES)
        lines = np.array([[self.training.all_features.at(x)], [self.training.selected.at(x)]])
        spread = variances + error
        weights = _normalised(
            np.log(self.mean_weights)
            - 0.5 * np.log(spread)
            - 0.5 * (observed - lines) ** 2 / spread
        )
        share = variances / spread
        means = lines + share * (observed - lines)
        mean = float((weights * means).sum())
        return mean, float((weights * (share * error + (means - mean) ** 2)).sum())


def site_adaptation(data: Data, selected: Names) -> SiteAdaptation:
    """Return what training sites show about how a site's own line differs from theirs.

    Parameters
    ----------
    data : MultiEnvironmentData or Moments
        At least three environments.
    selected : tuple of str
        Columns of the selected features.

    References
    ----------
    Robbins (1956), An empirical Bayes approach to statistics. Laird and Ware (1982), Random-effects
    models for longitudinal data, doi 10.2307/2529876, for the EM algorithm.
    """
    sites = _Sites.of(data, selected)
    training = _training(sites)
    n_sites = len(training.counts)
    scatter = sum(site.products for site in sites.each()) / (training.counts.sum() - n_sites)
    varying = np.diagonal(scatter) > 0.0
    places = np.flatnonzero(varying)
    scatter = np.asarray(scatter)[np.ix_(places, places)]
    chosen = sites.chosen[varying]
    each = [
        site._replace(
            products=site.products[np.ix_(places, places)],
            with_outcome=site.with_outcome[places],
        )
        for site in sites.each()
    ]
    base = training.selected.slopes[varying]
    stacked = _Stacked.of(each)
    given = _Stacked.of(
        [site.about(base).rotated(_given_selected(site.products, scatter, chosen)) for site in each]
    )
    experts = _experts(stacked, given, scatter, chosen)
    n_experts = len(experts.prior)
    residuals = np.empty((n_sites, n_experts))
    held_out = []
    for e, lines in enumerate(sites.held_out_lines):
        others = _experts(stacked.without(e), given.without(e), scatter, chosen)
        basis = _given_selected(each[e].products, scatter, chosen)
        own = each[e].about(lines[1].slopes[varying]).rotated(basis)
        pairs = [
            (own if others.invariant[k] else each[e], others.centres[k], others.variances[k])
            for k in range(n_experts)
        ]
        held_out.append(pairs)
        residuals[e] = [_posterior(*pair, 1.0).residual / each[e].freedom for pair in pairs]
    noise = residuals.mean(axis=0)
    evidence = np.zeros(n_experts)
    for e, pairs in enumerate(held_out):
        share = min(1.0, EVIDENCE_ROWS / each[e].freedom)
        for k, (site, centre, variances) in enumerate(pairs):
            evidence[k] += _posterior(
                site.scaled(share), centre, variances, float(noise[k])
            ).evidence
    return SiteAdaptation(
        training,
        varying,
        chosen,
        scatter,
        experts,
        noise,
        _contaminated(_normalised(np.log(experts.prior) + evidence), experts.prior, n_sites),
        _mean_weights(training, float(noise.min())),
    )


def _mean_weights(training: SiteTraining, noise: float) -> Floats:
    """Return (2, t) probabilities of the lines and variances by the held-out mean residuals."""
    variances = np.array(MEAN_VARIANCES)[:, None] + noise / training.counts
    density = -0.5 * (np.log(variances) + training.mean_errors[:, None] ** 2 / variances)
    odds = np.array([PRIOR_ODDS, 1.0]) / (PRIOR_ODDS + 1.0)
    prior = np.tile(odds[:, None] / len(variances), len(variances))
    results = _normalised(np.log(prior) + density.sum(axis=2))
    return _contaminated(results, prior, len(training.counts))


def _contaminated(weights: Floats, prior: Floats, n_sites: int) -> Floats:
    """Return the weights, averaged with the prior as if by two more sites than there are."""
    share = 1.0 / (n_sites + 2.0)
    return np.asarray((1.0 - share) * weights + share * prior)


def _normalised(log_weights: Floats) -> Floats:
    weights = np.exp(log_weights - log_weights.max())
    return np.asarray(weights / weights.sum())


def _moments_of_rows(X: Floats, y: Floats) -> SiteMoments:
    X = X - X.mean(axis=0)
    y = y - y.mean()
    return SiteMoments(X.T @ X, X.T @ y, float(y @ y), len(y) - 1.0)


def _given_selected(products: Floats, scatter: Floats, chosen: Mask) -> Floats:
    """Return G = [[I, −L], [0, I]]: features X·G are the selected ones, and what the others have
    beyond their regression on these, L = (K_SS + 3W_SS)⁻¹(K_S· + 3W_S·)."""
    known = products + SCATTER_ROWS * scatter
    basis = np.eye(len(chosen))
    own = known[np.ix_(chosen, chosen)] + RIDGE * np.eye(int(chosen.sum()))
    basis[np.ix_(chosen, ~chosen)] = -np.linalg.solve(own, known[np.ix_(chosen, ~chosen)])
    return basis


class _Stacked(NamedTuple):
    """The moments of several sites: K (n, v, v), h (n, v), q (n,) and degrees of freedom (n,)."""

    products: Floats
    with_outcome: Floats
    outcome: Floats
    freedom: Floats

    @classmethod
    def of(cls, each: list[SiteMoments]) -> _Stacked:
        return cls(*(np.array(values) for values in zip(*each, strict=True)))

    def without(self, e: int) -> _Stacked:
        return _Stacked(*(np.delete(values, e, axis=0) for values in self))


def _experts(each: _Stacked, given: _Stacked, scatter: Floats, chosen: Mask) -> Experts:
    """Return the experts by these sites; given : their moments given the selected features."""
    unit = 1.0 / np.diagonal(scatter)
    every = np.arange(len(unit))
    others = np.flatnonzero(~chosen)
    own = _slope_variances(each, unit, every)
    invariant = _slope_variances(given, unit, others)
    families = [
        (each, every, EQUAL, [variance * unit for variance in EQUAL_VARIANCES]),
        (each, every, OWN, [scale * own for scale in OWN_SCALES]),
        (given, others, INVARIANT, [scale * invariant for scale in OWN_SCALES]),
    ]
    results = [
        (sites is given, _common_slopes(sites, variances, free), variances, prior / len(grid))
        for sites, free, prior, grid in families
        for variances in grid
    ]
    is_invariant, centres, variances, prior = map(np.array, zip(*results, strict=True))
    return Experts(is_invariant, centres, variances, prior)


def _common_slopes(each: _Stacked, variances: Floats, free: Integers) -> Floats:
    """Return the mean (v,) of slopes with these variances (v,) by generalised least squares, 0 but
    for the free ones."""
    shrunk = np.linalg.inv(np.eye(len(variances)) + each.products * variances)
    left = (shrunk @ each.products).sum(axis=0)
    right = (shrunk @ each.with_outcome[:, :, None]).sum(axis=0)[:, 0]
    slopes = np.zeros(len(variances))
    slopes[free] = np.linalg.lstsq(left[np.ix_(free, free)], right[free], rcond=None)[0]
    return slopes


def _slope_variances(each: _Stacked, unit: Floats, free: Integers) -> Floats:
    """Return the variance (v,) of each slope between sites, relative to the noise, by EM.

    Each is shrunk towards the geometric mean of all; unit : (v,) 1 / variance within sites.
    """
    variances = FIRST_VARIANCE * unit
    identity = np.eye(len(unit))
    n_sites = len(each.freedom)
    for _ in range(ROUNDS):
        centre = _common_slopes(each, variances, free)
        fitted = each.products @ centre
        rest = each.with_outcome - fitted
        squares = each.outcome - (each.with_outcome + rest) @ centre
        shrunk = np.linalg.inv(identity + variances[:, None] * each.products)
        deviations = (shrunk @ (variances * rest)[:, :, None])[:, :, 0]
        noise = (squares - (deviations * rest).sum(axis=1)).sum() / each.freedom.sum()
        spread = np.diagonal(shrunk, axis1=1, axis2=2) * variances
        shares = (deviations**2 / noise + spread) / unit
        typical = np.exp(np.log(shares.mean(axis=0)).mean())
        variances = unit * np.maximum(
            (shares.sum(axis=0) + 2.0 * typical) / (n_sites + 2.0), SMALLEST_VARIANCE
        )
    return np.asarray(variances)


def _posterior(
    site: SiteMoments, centre: Floats, variances: Floats, noise: float
) -> SlopePosterior:
    """Return the posterior of slopes ~ N(centre, σ²·variances), with σ² about `noise` by
    `NOISE_FREEDOM` degrees of freedom."""
    rest = site.about(centre)
    roots = np.sqrt(variances)
    values, vectors = np.linalg.eigh(np.eye(len(roots)) + roots[:, None] * rest.products * roots)
    rotated = vectors.T @ (roots * rest.with_outcome)
    slopes = centre + roots * (vectors @ (rotated / values))
    residual = rest.outcome - float(rotated**2 @ (1.0 / values))
    prior = NOISE_FREEDOM * noise
    freedom = NOISE_FREEDOM + rest.freedom
    evidence = -0.5 * float(np.log(values).sum()) - 0.5 * freedom * np.log(prior + residual)
    evidence += 0.5 * NOISE_FREEDOM * np.log(prior)
    variance = (prior + residual) / freedom
    covariance = variance * (roots[:, None] * vectors / values) @ (vectors.T * roots)
    return SlopePosterior(slopes, float(evidence), variance, covariance, residual)


@dataclass(frozen=True, eq=False)
class MixedLine:
    """A linear mixed model with a random intercept a site.

    centre, coefficients : (k,); ratio : variance of the intercepts over the noise; covariance :
        (1 + k, 1 + k) of the prediction at the centre for a new site and of the coefficients, over
        the noise; freedom : degrees of freedom of the noise
    """

    columns: Names
    centre: Floats
    coefficients: Floats
    intercept: float
    ratio: float
    noise: float
    covariance: Floats
    freedom: float

    @classmethod
    def of(cls, data: Data, columns: Names) -> MixedLine:
        moments = moments_of(data)
        at = moments.places(columns)
        fit = random_intercept(moments, at)
        return cls(
            columns,
            moments.pooled_mean[at],
            fit.coefficients,
            fit.intercept,
            fit.ratio,
            fit.noise,
            uncertainty(moments, at, fit.ratio),
            max(moments.n_rows - 1.0 - len(at), 1.0),
        )

    def adapted(self, X: Floats, y: Floats) -> SiteLine:
        """Return the line of a site with labelled rows X (m, k), y (m,): common slopes and the best
        linear unbiased prediction of its intercept."""
        n = len(y)
        left = 1.0 / (1.0 + self.ratio * n)
        shift = (1.0 - left) * float(np.mean(y - self.intercept - X @ self.coefficients))
        covariance = self.covariance.copy()
        covariance[0, 0] += self.ratio * (left - 1.0)
        mean = self.intercept + float(self.centre @ self.coefficients) + shift
        about = self.columns, self.coefficients, self.centre, mean, self.noise
        return SiteLine(*about, self.noise * covariance, self.freedom, n)


# ---------------------------------------------------------------- of a fitted model


@dataclass(frozen=True, eq=False)
class SitePrediction:
    """Hold the predictions of the rows of one new site.

    Attributes
    ----------
    prediction : ndarray of shape (n,)
        Predictions.
    interval : ndarray of shape (n, 2) or None
        Their intervals; None if errors of held-out sites are not known.
    coverage : float
        Of the intervals.
    sentence : str
        What was done, and why.
    weight_of_all : float or None
        Weight of all features, not the selected ones, in the site's mean; None if each row was
        predicted by itself.
    share_of_all : float or None
        The same of the slopes within the site.
    """

    prediction: Floats
    interval: Floats | None
    coverage: float
    sentence: str
    weight_of_all: float | None = None
    share_of_all: float | None = None

    def __str__(self) -> str:
        return self.sentence


@dataclass(frozen=True, eq=False)
class NewSites:
    """What a fitted model of numbers has for new sites.

    design : of the training rows; mixed : for sites with few labelled rows; adaptation : None if
        there are fewer than three training sites, or too many columns; reason : why there is none
    """

    design: Design
    mixed: MixedLine
    adaptation: SiteAdaptation | None
    reason: str = ""

    def adapted(self, X: Floats, y: Floats, known: Floats) -> LinearPredictor:
        """Return what predicts at a site by labelled rows X (m, k), y (m,), and all known rows."""
        if self.adaptation is None or len(y) < FEWEST_LABELLED:
            return _predictor_by(self.mixed.adapted(X, y), self.design)
        return _predictor_by(self.adaptation.adapted(X, y, known), self.design)


def new_sites(selection: Selection) -> NewSites:
    """Return what the data of a fit show about new sites, with the selected features fixed."""
    data = selection.data
    columns = usable_columns(data)
    about = Design.of(data, columns), MixedLine.of(data, columns)
    if data.n_environments < FEWEST_SITES:
        reason = f"{data.n_environments} training environments are fewer than {FEWEST_SITES}"
        return NewSites(*about, None, reason)
    if getattr(data, "design", None) is not None:
        return NewSites(*about, None, "environments are not one label")
    if shrinks(data):
        return NewSites(*about, None, "columns are many for the rows")
    try:
        return NewSites(*about, site_adaptation(data, _selected_columns(selection)))
    except DataError as error:
        return NewSites(*about, None, f"a training site cannot be held out: {error}")


def _selected_columns(selection: Selection) -> Names:
    return selection.data.features.chosen(selection.mask).columns


def batch_errors(selection: Selection, outcome: PredictedOutcome) -> NewEnvironments:
    """Return the errors of sites, each predicted as one batch by the others: of all, or of ten;
    of a sample of rows if the data are moments, none without it."""
    data = selection.data
    selected = _selected_columns(selection)
    rows = rows_of(data)
    if rows is None:
        rows = moments_of(data).sampled
    results = []
    impossible = []
    n_batches = 0 if rows is None else min(data.n_environments, MAX_BATCHES)
    for e in np.linspace(0, data.n_environments - 1, n_batches).round().astype(int).tolist():
        assert rows is not None
        label = data.environments[e]
        try:
            training = site_training(without(data, label), selected)
        except DataError:
            impossible.append(label)
            continue
        own = rows.rows(e)
        predicted, *_ = training.predict(columns_of(rows, training.columns)[own])
        errors = quantiles_of(np.abs(rows.y[own] - predicted))
        results.append(EnvironmentErrors(label, training.columns, errors, rows=len(own)))
    return NewEnvironments(outcome, tuple(results), tuple(impossible), "site")


def _predictor_by(line: SiteLine, design: Design) -> LinearPredictor:
    """Return what predicts by the line of a site; design : of the training rows, by which rows are
    far."""
    member = AveragedFit(
        np.arange(len(line.columns)),
        line.coefficients,
        line.intercept,
        1.0,
        line.noise,
        line.freedom,
        replace(design, centre=line.centre),
        line.covariance / line.noise,
    )
    return LinearPredictor(design, (member,), np.asarray)
