"""What would tell the leading subsets apart: which feature an intervention should move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..conditionals.gaussian import GaussianModel
from ..conditionals.regression_model import RegressionModel
from ..posterior.posterior import Posterior

SHIFT = 2.0
_MOST_SUBSETS = 10
# Of the first one's probability, in what a subset must have to count as leading.
_LEADING = 0.01
# Share of the noise's standard deviation by which predictions must come apart to be worth an experiment.
_VISIBLE = 0.1


@dataclass(frozen=True, eq=False)
class Leading:
    """subsets: names of k subsets; probabilities (k,); changes (k, p): how much each expects the outcome to change when
    a feature alone is moved by two standard deviations and all others stay; noise: standard deviation of the outcome
    around the pooled fit of the first."""

    subsets: tuple[tuple[str, ...], ...]
    probabilities: Floats
    changes: Floats
    noise: float


@dataclass(frozen=True)
class Experiment:
    """Moving a feature alone: by how much the leading subsets' predictions then disagree (their standard deviation,
    weighted by probability, in units of the outcome), and the subset and change at either end."""

    feature: str
    disagreement: float
    lowest: tuple[tuple[str, ...], float]
    highest: tuple[tuple[str, ...], float]


def leading_subsets(model: GaussianModel | RegressionModel, posterior: Posterior) -> Leading:
    """The most probable subsets of a posterior, each with at least a hundredth of the first one's probability."""
    log_probabilities = posterior.log_probabilities[:_MOST_SUBSETS]
    kept = np.flatnonzero(log_probabilities >= log_probabilities[0] + np.log(_LEADING))
    masks, probabilities = posterior.masks[kept], np.exp(log_probabilities[kept])
    names = np.array(posterior.feature_names, dtype=object)
    changes = np.array([_changes(model, mask) for mask in masks])
    return Leading(tuple(tuple(names[mask]) for mask in masks), probabilities, changes, _noise(model, masks[0]))


def _noise(model: GaussianModel | RegressionModel, mask: Mask) -> float:
    if isinstance(model, RegressionModel):
        data = model.data
        return float(np.std(data.y - model.fit(mask, local=False).predict(data.X[:, data.features.expand(mask)])))
    residuals = model.residuals(mask[None])
    return float(np.sqrt(residuals.rss[0, -1] / residuals.freedom[0, -1]))


def _changes(model: GaussianModel | RegressionModel, mask: Mask) -> Floats:
    """(p,) expected change of the outcome per shift, from a row in the middle of all; of a feature of several columns,
    its size when these move together as they vary."""
    features, fit = model.features, model.fit(mask, local=False)
    coefficients = np.zeros(features.n_columns)
    coefficients[features.expand(mask)] = fit.coefficients
    middle = 0.0
    if isinstance(model, RegressionModel):
        middle = fit.intercept + float(model.data.X.mean(axis=0) @ coefficients)
    changes = np.zeros(features.n_features)
    for j in np.flatnonzero(mask):
        own = np.arange(features.starts[j], features.starts[j + 1])
        size = np.sqrt(coefficients[own] @ _covariance(model, own) @ coefficients[own])
        moved = SHIFT * (np.copysign(size, coefficients[own[0]]) if len(own) == 1 else size)
        changes[j] = float(np.diff(fit.mean(np.array([middle, middle + moved])))[0])
    return changes


def _covariance(model: GaussianModel | RegressionModel, columns: NDArray[np.intp]) -> Floats:
    """Over all rows, of columns of the features."""
    if model.rows is not None and (isinstance(model, RegressionModel) or not model.moments.scatter.size):
        return np.atleast_2d(np.cov(model.rows.X[:, columns], rowvar=False, bias=True))
    assert not isinstance(model, RegressionModel)
    places = model.moments.feature_columns[columns]
    return model.moments.scatter[-1][np.ix_(places, places)] / model.moments.n_rows


def experiments(leading: Leading, names: tuple[str, ...]) -> tuple[Experiment, ...]:
    """Features by how much moving them tells the leading subsets apart, the best first; those that would not are left
    out."""
    if len(leading.subsets) < 2:
        return ()
    weights = leading.probabilities / leading.probabilities.sum()
    spread = np.sqrt(weights @ (leading.changes - weights @ leading.changes) ** 2)
    order = np.argsort(-spread, kind="stable")
    return tuple(
        _experiment(leading, names[j], int(j), float(spread[j])) for j in order if spread[j] > _VISIBLE * leading.noise
    )


def _experiment(leading: Leading, name: str, j: int, disagreement: float) -> Experiment:
    low, high = int(np.argmin(leading.changes[:, j])), int(np.argmax(leading.changes[:, j]))
    ends = [(leading.subsets[k], float(leading.changes[k, j])) for k in (low, high)]
    return Experiment(name, disagreement, ends[0], ends[1])
