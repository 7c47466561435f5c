"""The chance that the search among subsets selects a feature that is not invariant.

It is estimated from data sets simulated from one invariant subset.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .._tools.arrays import Floats, Mask, Names
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar
from .._tools.text import format_count, format_subset
from ..exceptions import SettingError
from ..inference.base import RunOptions
from ..inference.enumeration import Enumeration
from ..models.base import VARIANCE
from ..models.gaussian import GaussianModel
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.varying_coefficients import StructuredDeviations
from ..moments.moments import Moments, filled_pool
from .pipeline import Findings
from .rules import Rule, all_subsets

SIMULATED = 100
# The selection is repeated for each simulated data set: about ten seconds for so many subsets.
_MOST_SUBSETS = 1 << 14
_TESTED_AT_ONCE = 256


@dataclass(frozen=True)
class ChanceSelection:
    """Hold how often a feature that is not invariant is selected, if exactly one subset is
    invariant.

    invariant : the best predictor of the compatible subsets that lack a challenged feature of the
        selection;
        the selection itself if there is none
    unchallenged : selected features that no environment shifts given the others, which are not
        tested
    subsets : that the selection is made from; simulated : number of data sets
    share : of the simulated data sets in which a feature outside `invariant` is selected

    The share is an error rate, not the probability that this selection is wrong. It assumes that
    `invariant` is the true set, that the other features depend on it and on the outcome as they do
    in each environment, and that all variables are Gaussian.
    """

    selected: Names
    invariant: Names
    unchallenged: Names
    subsets: int
    simulated: int
    share: float

    def __str__(self) -> str:
        subset = format_subset(self.invariant)
        tried = f"the search among {format_count(self.subsets)} subsets"
        often = (
            f"in {round(self.share * self.simulated):,} of {self.simulated:,} simulated data "
            "sets like this one"
        )
        told = (
            f"If {subset} alone were invariant, {tried} would select a feature outside it {often}."
        )
        if self.invariant != self.selected:
            lacking = format_subset([name for name in self.selected if name not in self.invariant])
            told = f"{subset}, without {lacking}, is compatible, too. {told}"
        if self.unchallenged:
            told += (
                f" This says nothing of {format_subset(self.unchallenged)}, which no "
                "environment challenges."
            )
        return told


def chance_selection(
    findings: Findings, mask: Mask, rule: Rule, unchallenged: Mask
) -> ChanceSelection:
    """Return the chance of a wrong selection, for a compatible subset (p,) that a rule selected.

    unchallenged : (p,) features of it
    """
    model = _simulated_model(findings, rule)
    names_of = findings.posterior.names_of
    rival = _best_rival(findings, mask & ~unchallenged)
    null = InvariantNull(model, mask if rival is None else rival)

    def lets_in(rng: np.random.Generator) -> bool:
        simulated = model.of(null.moments(rng))
        simulated.n_jobs = 1
        target = replace(findings.target, model=simulated)
        again = Findings(target, findings.posterior, Enumeration(), RunOptions(1, rng, False))
        return again.predictive is not None and bool((rule.select(again) & ~null.mask).any())

    generators = copy.deepcopy(findings.options.rng).spawn(SIMULATED)
    n_let_in = 0
    with ProgressBar("simulating data sets", SIMULATED, findings.options.progress) as bar:
        for let_in in ordered_map(lets_in, generators, findings.options.n_jobs):
            n_let_in += let_in
            bar.advance()
    names = names_of(mask), names_of(null.mask), names_of(unchallenged)
    return ChanceSelection(*names, findings.posterior.n_subsets, SIMULATED, n_let_in / SIMULATED)


def _simulated_model(findings: Findings, rule: Rule) -> GaussianModel:
    """That of the findings; SettingError where luck cannot be simulated."""
    model = findings.target.model
    n = findings.posterior.n_subsets
    if (
        not getattr(rule, "by_prediction", False)
        or findings.predictive is None
        or model.n_environments < 2
    ):
        raise SettingError(
            "chance selections are estimated if the rule chooses among compatible subsets; here "
            "it did not."
        )
    unlike = GaussianRandomDeviations, StructuredDeviations
    if not isinstance(model, GaussianModel) or model.makes_curves or isinstance(model, unlike):
        raise SettingError(
            "chance selections are estimated for linear Gaussian models only, not for this one."
        )
    if n > _MOST_SUBSETS:
        raise SettingError(
            f"chance selections are estimated for at most {_MOST_SUBSETS:,} subsets, and there "
            f"are {format_count(n)}: "
            "fit fewer features, or limit the size of subsets."
        )
    return model


def _best_rival(findings: Findings, challenged: Mask) -> Mask | None:
    """Return the best predictor (p,) of the compatible subsets that lack one of these features, or
    None."""
    score = findings.score
    masks = all_subsets(findings.target)
    weights = score.log_weights(masks) + findings.target.prior.log_prob(masks)
    lacking = (weights > -np.inf) & (challenged & ~masks).any(axis=1)
    masks = masks[lacking][np.argsort(-weights[lacking], kind="stable")]
    for start in range(0, len(masks), _TESTED_AT_ONCE):
        part = masks[start : start + _TESTED_AT_ONCE]
        compatible = score.log_ratio_many(part) > -np.inf
        if compatible.any():
            return np.asarray(part[np.argmax(compatible)])
    return None


class InvariantNull:
    """Data sets in which a subset (p,) is invariant: its features are as observed, the outcome
    follows its pooled fit, and the other features their linear regressions on both in each
    environment, with Gaussian noise."""

    def __init__(self, model: GaussianModel, mask: Mask) -> None:
        self.mask, self._observed = (
            mask,
            model.with_moments(np.ones((1, len(mask)), dtype=bool))[0].moments,
        )
        observed = self._observed
        fit = model.fit(mask, local=False)
        if (observed.present != observed.varies).any():
            raise SettingError(
                "chance selections cannot be estimated if the columns of a feature add up to a "
                "constant."
            )
        chosen = observed.features.expand(mask)
        y = observed.outcome
        self._inside = observed.feature_columns[chosen]
        self._others = observed.feature_columns[~chosen]
        self._slopes = fit.coefficients
        pooled = observed.pooled_mean
        self._intercept = (
            0.0  # of rows that are centred within environments, which have baselines of their own
        )
        if not model.extra_intercepts:
            self._intercept = fit.intercept + pooled[self._inside] @ self._slopes - pooled[y]
        # Squares that the pooled fit leaves: the same in every environment but for models that
        # compare means only.
        weights = np.append(-self._slopes, 1.0)
        used = np.append(self._inside, y)
        within = np.einsum(
            "i,eij,j->e", weights, observed.scatter[:-1][:, used[:, None], used], weights
        )
        squares = (
            within + observed.counts * (observed.gaps[:, used] @ weights - self._intercept) ** 2
        )
        per_row = (
            squares.sum() / observed.n_rows
            if VARIANCE in model.compares
            else squares / observed.counts
        )
        freedom = observed.n_rows - len(used) - model.extra_intercepts
        self._noise = np.sqrt(
            np.broadcast_to(per_row * observed.n_rows / max(freedom, 1), observed.counts.shape)
        )

    @cached_property
    def _regressions(self) -> list[tuple[Floats, Floats, Floats]]:
        """Return the regressions of the other columns on the subset and the outcome, by
        environment.

        Each has slopes, intercepts, and a root of the residual covariance.
        """
        observed = self._observed
        given = np.append(self._inside, self._observed.outcome)
        found = []
        for n, mean, scatter in zip(
            observed.counts, observed.gaps, observed.scatter[:-1], strict=True
        ):
            between = scatter[np.ix_(given, self._others)]
            slopes = np.linalg.lstsq(scatter[np.ix_(given, given)], between)[0]
            left = scatter[np.ix_(self._others, self._others)] - between.T @ slopes
            intercepts = mean[self._others] - mean[given] @ slopes
            found.append((slopes, intercepts, _root(left / max(n - 1 - len(given), 1))))
        return found

    def moments(self, rng: np.random.Generator) -> Moments:
        """Return the moments of one simulated data set.

        In an orthogonal basis of its rows that begins with the constant, the columns of the subset
        and the outcome, all but as many rows as there are columns are 0.
        """
        observed = self._observed
        inside = self._inside
        others = self._others
        y = self._observed.outcome
        k = len(inside)
        given = np.append(inside, y)
        centre = np.empty(observed.centre.shape)
        local = np.empty(observed.scatter[:-1].shape)
        for e, (n, regression) in enumerate(zip(observed.counts, self._regressions, strict=True)):
            slopes, intercepts, root = regression
            rows = np.zeros((k + 2 + len(others), len(observed.columns)))
            constant = np.append(np.sqrt(n), np.zeros(len(rows) - 1))
            rows[0, inside] = np.sqrt(n) * observed.gaps[e, inside]
            rows[1 : k + 1, inside] = _root(observed.scatter[e][np.ix_(inside, inside)])
            noise = np.append(rng.normal(size=k + 1), np.sqrt(rng.chisquare(max(n - 1 - k, 1))))
            rows[:, y] = constant * self._intercept + rows[:, inside] @ self._slopes
            rows[: k + 2, y] += self._noise[e] * noise
            noises = np.vstack(
                [rng.normal(size=(k + 2, len(others))), _wishart_root(n - k - 2, len(others), rng)]
            )
            rows[:, others] = (
                np.outer(constant, intercepts) + rows[:, given] @ slopes + noises @ root
            )
            centre[e], local[e] = rows[0] / np.sqrt(n), rows[1:].T @ rows[1:]
        rest = np.zeros(centre.shape)
        scatter = filled_pool(observed.counts, centre, rest, local)
        return replace(
            observed, centre=centre, rest=rest, scatter=scatter, encoding=None, sample=None
        )


def _root(matrix: Floats) -> Floats:
    """Symmetric, of a symmetric matrix without negative eigenvalues but by rounding"""
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def _wishart_root(freedom: int, d: int, rng: np.random.Generator) -> Floats:
    """Return R (d, d) with R'R the products of `freedom` rows of d standard normal numbers.

    This is Bartlett's decomposition.
    """
    root = np.triu(rng.normal(size=(d, d)), 1)
    root[np.diag_indices(d)] = np.sqrt(rng.chisquare(np.maximum(freedom - np.arange(d), 1)))
    root[max(freedom, 0) :] = 0.0
    return root
