"""How log Λ scatters where a subset's coefficients are the same in environments that have variances of their own."""

from __future__ import annotations

import numpy as np
from scipy.special import digamma, polygamma

from .._tools.arrays import Floats, Integers


def mean_deviance_moments(counts: Floats, ranks: Integers, leverages: Floats) -> tuple[Floats, Floats]:
    """Mean and variance (S,) of −2 log Λ of invariant subsets with normal noise, from counts (E,) of rows, ranks (S, E)
    of the environments' own fits, and leverages (S, E): how much of the pooled fit comes from each environment.

    An environment's own fit is ahead of the pooled one in r + 1 − h directions, r its rank and h its leverage. Its
    share of −2 log Λ is n·log(1 + q/RSS), taken as if q were a chi-square of so many degrees, and loses what estimated
    weights gain the pooled fit. With many rows −2 log Λ is chi-square of the sum of these degrees.
    """
    freedom, ahead = counts - 1.0 - ranks, np.maximum(ranks + 1.0 - leverages, 0.0)
    own, joint = freedom / 2.0, (freedom + ahead) / 2.0
    known = (freedom > 0.0).all(axis=1)
    mean, variance = np.zeros((2, len(ranks)))
    regained = 2.0 / freedom[known] * (leverages - leverages**2 / leverages.sum(axis=1, keepdims=True))[known]
    mean[known] = ((digamma(joint) - digamma(own))[known] * counts - regained).sum(axis=1)
    variance[known] = (polygamma(1, own) - polygamma(1, joint))[known] @ counts**2
    return mean, variance
