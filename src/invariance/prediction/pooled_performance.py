"""How well a new site will be predicted: a random-effects meta-analysis of held-out sites.

The measures of internal-external cross-validation, θ_e with standard errors s_e, are pooled by
restricted maximum likelihood on a scale on which they are about normal: the mean with the interval
of Hartung and Knapp, and the standard deviation τ between sites. The prediction interval for a new
site has the quantiles of the average of N(μ̂(τ), τ² + se(τ)²) over τ, weighted by the restricted
likelihood (a uniform prior distribution of τ). With τ̂ in place of that average, intervals are too
short if τ is about as large as the standard errors (`benchmarks/new_site.py intervals`).

References
----------
Gelman (2006), Prior distributions for variance parameters in hierarchical models, doi
10.1214/06-BA117A.
Debray et al. (2017), A guide to systematic review and meta-analysis of prediction model
performance, doi 10.1136/bmj.i6460. Higgins, Thompson and Spiegelhalter (2009), doi
10.1111/j.1467-985X.2008.00552.x
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm
from scipy.stats import t as student

from .._tools.arrays import Floats
from .._tools.sections import Rendered, Section
from ..decisions.heterogeneity import FEWEST_FOR_PREDICTION, heterogeneity
from ..kinds.figures import around

if TYPE_CHECKING:
    import pandas as pd

    from .new_environments import EnvironmentErrors

COVERAGE = 0.95
# Measures of sites with fewer events are shown and not pooled.
FEWEST_EVENTS = 10
FEWEST_SITES = 2
STANDARD_ERRORS = around(0.0, 1.0).high
# The grid of τ for prediction intervals: its size, its largest value in standard deviations of the
# estimates, and how many deviations from the mean quantiles are searched.
SPREADS = 200
LARGEST_SPREAD = 4.0
FARTHEST = 8.0


class Scale(NamedTuple):
    """A transformation under which a measure is about normal, and its inverse."""

    to: Callable[[Floats], Floats]
    back: Callable[[Floats], Floats]


PLAIN = Scale(np.asarray, np.asarray)
LOGARITHM = Scale(np.log, np.exp)
LOG_ODDS = Scale(logit, expit)
# Calibration intercepts of classes, counts and times are on the scale of the link already.
SCALES = {
    "intercept": PLAIN,
    "slope": PLAIN,
    "rmse": LOGARITHM,
    "auc": LOG_ODDS,
    "concordance": LOG_ODDS,
}
HEADS = {
    "intercept": "calibration-in-the-large",
    "slope": "calibration slope",
    "rmse": "RMSE",
    "auc": "AUC",
    "concordance": "concordance",
    "observed/expected": "observed:expected",
}


class Pooled(NamedTuple):
    """A measure over held-out sites: number of sites, mean with its 95% interval, τ on the scale of
    pooling, and the 95% prediction interval for a new site, NaN below four sites."""

    measure: str
    sites: int
    mean: float
    lower: float
    upper: float
    tau: float
    prediction_lower: float
    prediction_upper: float


@dataclass(frozen=True, repr=False)
class PooledPerformance(Rendered):
    """Hold measures of predictions over held-out sites, and what to expect at a new one.

    Attributes
    ----------
    measures : tuple of Pooled
        Number of sites, mean with its 95% interval, τ and 95% prediction interval of each measure.
    excluded : tuple of str
        Sites with fewer than ten events.
    """

    measures: tuple[Pooled, ...]
    excluded: tuple[str, ...] = ()

    def to_frame(self) -> pd.DataFrame:
        """Return one row for each measure, with the fields of `Pooled`.

        Returns
        -------
        DataFrame
            Columns measure, sites, mean, lower, upper, tau, prediction_lower, prediction_upper.
        """
        import pandas as pd

        return pd.DataFrame(self.measures, columns=list(Pooled._fields))

    def cells(self) -> list[tuple[str, ...]]:
        """Return the rows of the table as texts, the head first."""
        rows = [
            (
                HEADS[one.measure],
                str(one.sites),
                f"{one.mean:.3g}",
                _ends(one.lower, one.upper),
                f"{one.tau:.3g}",
                _ends(one.prediction_lower, one.prediction_upper),
            )
            for one in self.measures
        ]
        return [("measure", "sites", "mean", "95% CI", "τ", "95% prediction"), *rows]

    @property
    def sentences(self) -> list[str]:
        """What the table shows, and what it does not."""
        told = [
            "Random-effects means over held-out environments; prediction intervals for a new one."
        ]
        if any(np.isnan(one.prediction_lower) for one in self.measures):
            told.append(f"Prediction intervals need {FEWEST_FOR_PREDICTION} environments.")
        if self.excluded:
            names = ", ".join(self.excluded)
            told.append(f"Not pooled, with fewer than {FEWEST_EVENTS} events: {names}.")
        return told

    @property
    def sections(self) -> tuple[Section, ...]:
        table = tuple(self.cells()) if self.measures else ()
        return (Section("At a new environment", tuple(self.sentences), table=table),)


def _ends(lower: float, upper: float) -> str:
    return "–" if np.isnan(lower) else f"{lower:.3g} to {upper:.3g}"


def pooled_performance(
    left_out: Sequence[EnvironmentErrors], of_classes: bool
) -> PooledPerformance:
    """Return the meta-analysis of the measures of held-out environments.

    of_classes : with observed over expected events; of counts and times the logarithm of that is
        the calibration intercept.
    Measures without standard errors, such as an AUC of 0 or 1, are not pooled; nor are environments
    with fewer than ten events.
    """
    few = [one for one in left_out if one.events is not None and one.events < FEWEST_EVENTS]
    pooled_sites = [one for one in left_out if one not in few]
    results = []
    for measure, scale in SCALES.items():
        sites = [
            one for one in pooled_sites if np.isfinite(one.intervals.get(measure, (np.nan,))).all()
        ]
        estimates = scale.to(np.array([one.figures[measure] for one in sites]))
        ends = scale.to(np.array([one.intervals[measure] for one in sites]).reshape(-1, 2))
        results.append((measure, scale, estimates, np.ptp(ends, axis=1) / (2.0 * STANDARD_ERRORS)))
    if of_classes:
        results.append(("observed/expected", LOGARITHM, *_observed_over_expected(pooled_sites)))
    measures = tuple(
        _pooled(measure, scale, estimates, errors)
        for measure, scale, estimates, errors in results
        if len(estimates) >= FEWEST_SITES
    )
    return PooledPerformance(measures, tuple(str(one.environment) for one in few))


def _observed_over_expected(left_out: Sequence[EnvironmentErrors]) -> tuple[Floats, Floats]:
    """Return logarithms of observed over expected events, and their standard errors √((1 − O/n)/O),
    of sites in which not all rows have the event."""
    counted = [one for one in left_out if one.events and one.events < one.rows]
    ratios = [one.figures["observed"] / one.figures["predicted"] for one in counted]
    events = np.array([one.events for one in counted], dtype=float)
    rows = np.array([one.rows for one in counted], dtype=float)
    return np.log(np.array(ratios)), np.sqrt((1.0 - events / rows) / events)


def predictive_interval(
    estimates: Floats, errors: Floats, coverage: float = COVERAGE
) -> tuple[float, float]:
    """Return the ends of the interval for the true value at a new site; NaN below four sites.

    Parameters
    ----------
    estimates, errors : (E,)
        Of the held-out sites, and their standard errors.
    coverage : float, default=0.95
    """
    if len(estimates) < FEWEST_FOR_PREDICTION:
        return np.nan, np.nan
    largest = LARGEST_SPREAD * np.std(estimates, ddof=1) + 2.0 * np.median(errors)
    spreads = np.linspace(0.0, largest, SPREADS)
    weights = 1.0 / (spreads[:, None] ** 2 + errors**2)
    total = weights.sum(axis=1)
    means = weights @ estimates / total
    squares = (weights * (estimates - means[:, None]) ** 2).sum(axis=1)
    log_likelihood = 0.5 * (np.log(weights).sum(axis=1) - np.log(total) - squares)
    share = np.exp(log_likelihood - log_likelihood.max())
    share /= share.sum()
    deviations = np.sqrt(spreads**2 + 1.0 / total)

    def quantile(probability: float) -> float:
        def excess(value: float) -> float:
            return float(share @ norm.cdf((value - means) / deviations)) - probability

        low = float(np.min(means - FARTHEST * deviations))
        high = float(np.max(means + FARTHEST * deviations))
        return float(brentq(excess, low, high))

    return quantile(0.5 - 0.5 * coverage), quantile(0.5 + 0.5 * coverage)


def _pooled(measure: str, scale: Scale, estimates: Floats, errors: Floats) -> Pooled:
    results = heterogeneity(estimates, errors)
    n_sites = int(results.n_environments[0])
    mean = results.mean[0]
    margin = student.ppf(0.5 + 0.5 * COVERAGE, n_sites - 1.0) * results.hartung_knapp[0]
    ends = scale.back(np.array([mean - margin, mean + margin]))
    expected = scale.back(np.array(predictive_interval(estimates, errors)))
    return Pooled(
        measure,
        n_sites,
        float(scale.back(mean)),
        float(ends[0]),
        float(ends[1]),
        float(results.tau[0]),
        float(expected[0]),
        float(expected[1]),
    )
