"""Recalibrate the predictions of classes, counts and times to one site by its labelled rows.

On the scale of the link, η' = a + c + s·(η − c), with c the mean of η over the site's rows. The
intercept a (calibration-in-the-large) and the slope s have normal prior distributions by what the
held-out training sites needed, a random-effects meta-analysis of each, and are estimated by their
joint posterior mode.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from .._tools.arrays import Floats
from ..decisions.heterogeneity import heterogeneity
from ..exceptions import SettingError
from ..kinds.figures import around
from .new_environments import NewEnvironments

# Half the width of an interval is this many standard errors.
STANDARD_ERRORS = around(0.0, 1.0).high
FEWEST_SITES = 3
SMALLEST_VARIANCE = 1e-8


class Prior(NamedTuple):
    """Means (2,) and variances (2,) of the intercept and the slope of a new site."""

    means: Floats
    variances: Floats


def recalibration_prior(held_out: NewEnvironments) -> Prior:
    """Return the prior by the calibration of the held-out training sites.

    Raises
    ------
    SettingError
        If fewer than three sites have an intercept and a slope with intervals.
    """
    results = []
    for name in ("intercept", "slope"):
        sites = [site for site in held_out.left_out if name in site.intervals]
        sites = [site for site in sites if np.isfinite(site.intervals[name]).all()]
        if len(sites) < FEWEST_SITES:
            raise SettingError(
                f"adapting to a site needs {FEWEST_SITES} training environments whose calibration "
                f"{name} can be estimated, and there are {len(sites)}: predict without labels."
            )
        estimates = np.array([site.figures[name] for site in sites])
        widths = np.array([np.ptp(site.intervals[name]) for site in sites])
        results.append(heterogeneity(estimates, widths / (2.0 * STANDARD_ERRORS)))
    means = np.array([one.mean[0] for one in results])
    variances = np.array([one.tau[0] ** 2 + one.standard_error[0] ** 2 for one in results])
    return Prior(means, np.maximum(variances, SMALLEST_VARIANCE))


def recalibrated(
    predictor: Floats, y: Floats, exposure: Floats | None, prior: Prior, centre: float
) -> tuple[float, float]:
    """Return the intercept a and the slope s at the mode of their posterior distribution.

    Parameters
    ----------
    predictor : (m,)
        η of the labelled rows.
    y : (m,)
        0 or 1 for classes; counts; 0 or 1 for events.
    exposure : (m,) or None
        None for classes. Else the mean of y is exposure · exp(η'): for times the exposure is the
        baseline's cumulative hazard.
    centre : float
        c, the mean of η over the known rows of the site.
    """
    design = np.column_stack([np.ones(len(y)), predictor - centre])

    def objective(theta: Floats) -> tuple[float, Floats]:
        linear = design @ theta + centre
        if exposure is None:
            mean = expit(linear)
            log_likelihood = y @ linear - np.logaddexp(0.0, linear).sum()
        else:
            mean = exposure * np.exp(linear)
            log_likelihood = y @ linear - mean.sum()
        apart = theta - prior.means
        value = 0.5 * float(apart**2 @ (1.0 / prior.variances)) - float(log_likelihood)
        return value, apart / prior.variances - design.T @ (y - mean)

    results = minimize(objective, prior.means, jac=True, method="BFGS")
    return float(results.x[0]), float(results.x[1])
