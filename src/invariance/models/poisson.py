"""Counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, Message, use
from ..kernels.likelihoods import POISSON, Rows, work_for
from ..kernels.newton import maximise
from .base import Predicts
from .regression import REPORTED, Regression, RegressionModel, environment_starts, sums_by_environment

# Mean count · pseudo_rows² over the rows of the smallest environment: here pseudo-data add about 1 to −2 log Λ of what
# is invariant.
_LARGEST_PULL = 3.0


def exposure_of(data: MultiEnvironmentData) -> Floats:
    """(N,) 1 where none is given"""
    return np.ones(data.n_rows) if data.exposure is None else data.exposure


def check_counts(data: MultiEnvironmentData, model: str) -> None:
    """Raise DataError where the outcome is not counts."""
    wrong = (data.y < 0.0) | (data.y != np.floor(data.y))
    if wrong.any():
        example = data.y[wrong][0]
        raise DataError(
            f"the {model} model is for counts, and {data.outcome_name!r} is no whole number from 0 on in "
            f"{int(wrong.sum()):,} rows, for example {example:g}",
            use(family="auto"),
        )
    if not data.y.any():
        raise DataError(f"the {model} model needs events, and {data.outcome_name!r} is 0 in all rows.")


@dataclass(frozen=True)
class Poisson(Regression):
    """Outcome ~ Poisson with mean exposure · exp(intercept + coefficients · columns of z), by maximum likelihood.

    pseudo_rows : how many rows the pseudo-data of each environment weigh, whose outcome is what the pooled rate makes
        of their exposure; 0: none. They keep fits finite where an environment has no events

    Counts scatter more than this in most data, and invariant subsets are then rejected: use NegativeBinomial there.
    """

    name: ClassVar[str] = "Poisson"
    predicts: ClassVar[Predicts] = Predicts.rate
    takes: ClassVar[tuple[str, ...]] = ("exposure",)

    def check(self, data: MultiEnvironmentData) -> None:
        check_counts(data, self.name)

    def remarks(self, model: RegressionModel, masks: Mask) -> tuple[str, ...]:
        words = overdispersion_words(overdispersion(model, masks[0])) if len(masks) else ""
        return (*_pull(self, model.data), *((words,) if words else ()))

    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        exposure = exposure_of(data)
        rate = data.y.sum() / exposure.sum()
        extra = self.shares(data)[data.environment_index]
        outcome, weight = data.y + extra * rate * exposure, (1.0 + extra) * exposure
        return Rows(POISSON, columns, environment_starts(data), outcome[order], weight[order])

    def beginning(self, rows: Rows) -> Floats:
        events, weight = sums_by_environment(rows.outcome, rows.starts), sums_by_environment(rows.weight, rows.starts)
        rate = (np.append(events, events.sum()) + 0.5) / np.append(weight, weight.sum())
        return np.asarray(np.log(rate))[:, None]

    def mean(self, predictor: Floats) -> Floats:
        return np.asarray(np.exp(predictor))


def _pull(specification: Poisson, data: MultiEnvironmentData) -> tuple[str, ...]:
    """A sentence where pseudo-data weigh so much that they may reject what is invariant."""
    mean = float(data.y.mean())
    if mean * specification.pseudo_rows**2 <= _LARGEST_PULL * data.counts.min():
        return ()
    what = (
        f"The counts are large (mean {mean:,.0f}), and pseudo-data weigh so much that they may reject invariant subsets"
    )
    return (Message(what, use(family="poisson(pseudo_rows=0)")),)


# Here chi-square laws for Poisson counts reject what is invariant about twice as often as they state.
LARGEST_HARMLESS = 1.2


def overdispersion(model: RegressionModel, subset: Subset) -> float:
    """Pearson's χ² over its degrees of freedom, of the Poisson fit with common slopes and an intercept for each
    environment: about 1 where counts are Poisson. NaN for other models, and where no degree of freedom is left or
    the fit comes to no end."""
    if not isinstance(model.specification, Poisson):
        return np.nan
    mask = as_mask(subset, model.feature_names)
    rows, data = model.problem, model.data
    n_environments = data.n_environments
    sites = np.repeat(np.eye(n_environments), data.counts, axis=1)
    slopes = rows.columns[1:][model.features.expand(mask)]
    columns = np.concatenate([sites, slopes])
    k = len(columns)
    theta = np.zeros(k)
    theta[:n_environments] = model.beginning[:-1, 0]
    own = rows._replace(columns=columns)
    work, inverse = work_for(own, k), np.empty((k, k))
    largest, rank = maximise(own, 0, n_environments, np.arange(k), k, theta, k, inverse, False, REPORTED, work)
    if np.isnan(largest):
        return np.nan
    order = model.specification.order(data)
    mean = exposure_of(data)[order] * np.exp(theta @ columns)
    degrees = data.n_rows - rank
    return float(np.sum((data.y[order] - mean) ** 2 / mean) / degrees) if degrees > 0 else np.nan


def overdispersion_words(ratio: float) -> str:
    """What to do about it; empty where nothing is to be done."""
    if not ratio > LARGEST_HARMLESS:
        return ""
    what = f"The counts vary {ratio:.1f} times as much as a Poisson law has it"
    return Message(what, use(family="negative_binomial"))
