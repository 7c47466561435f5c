"""What each environment does to the result: the fit without it."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressBar, ProgressMode
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError
from ..moments.moments import Moments
from ..posterior.judge import Judge
from ..posterior.posterior import Posterior
from .base import Findings
from .environments import Compared
from .search import Search


@dataclass(frozen=True, eq=False)
class Refit:
    """The fit without one environment.

    inclusion, predictive_inclusion : (p,) of the posterior and of the predictive posterior; NaN for features that are
        constant without the environment, and of the latter where no subset is compatible
    selected : the features that the rule of the fit selects; None where no subset is compatible with invariance
    best : the best compatible one, if there is one; best_r2, best_p_invariant: of it, without the environment
    p_against_best : p-value of the environment against the others, in the fit of `best`
    """

    inclusion: Floats
    predictive_inclusion: Floats
    selected: tuple[str, ...] | None = None
    best: tuple[str, ...] | None = None
    best_r2: float = float("nan")
    best_p_invariant: float = float("nan")
    p_against_best: float = float("nan")


@dataclass(frozen=True, eq=False)
class LeftOut:
    """p_invariant, r2 : of the diagnosed subset in all other environments, NaN where these alone cannot be fitted;
    refit : None where none was made"""

    environment: Hashable
    p_invariant: float
    r2: float
    refit: Refit | None


class LeavingOut:
    """Fits without one environment each; of a subset (p,), its evidence."""

    def __init__(self, search: Search, findings: Findings, compared: Compared, mask: Mask) -> None:
        self._search, self._findings, self._mask, self._compared = search, findings, mask, compared
        self._names = np.array(compared.model.feature_names, dtype=object)

    def each(self, refit: bool, progress: ProgressMode) -> tuple[LeftOut, ...]:
        return tuple(self._each(refit, progress))

    def _each(self, refit: bool, progress: ProgressMode) -> Iterator[LeftOut]:
        labels = self._compared.moments.environments
        with ProgressBar("without each environment", len(labels), progress) as bar, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for e, label in enumerate(labels):
                bar.advance(0, str(label))
                try:
                    left = self._without(e, refit)
                except (DataError, EngineError):
                    left = LeftOut(label, np.nan, np.nan, None)
                yield left
                bar.advance()

    def _without(self, e: int, refit: bool) -> LeftOut:
        labels = self._compared.moments.environments
        source = self._source if refit else self._narrow_source
        data = source.choosing([label for other, label in enumerate(labels) if other != e])
        findings = self._search.findings(data, False) if refit else None
        model = self._search.conditional.bind(data) if findings is None else findings.target.model
        evidence = Judge(model, self._search.tolerance).evidence(self._over(model.feature_names)[None]).one()
        return LeftOut(
            labels[e],
            evidence.p_invariant,
            evidence.r2,
            None if findings is None else self._described(e, findings),
        )

    @cached_property
    def _source(self) -> MultiEnvironmentData | Moments:
        return self._compared.moments if self._compared.rows is None else self._compared.rows

    @cached_property
    def _narrow_source(self) -> MultiEnvironmentData | Moments:
        """With the features of the subset alone, and one that varies in most environments, so that one is left."""
        moments = self._compared.moments
        kept = self._mask.copy()
        kept[np.argmax((moments.varying_widths[:-1] > 0).sum(axis=0))] = True
        if self._compared.rows is not None:
            return self._compared.rows.narrowed(kept)
        return moments.of_columns((*moments.features.chosen(kept).columns, moments.outcome_name))

    def _described(self, e: int, findings: Findings) -> Refit:
        predictive = findings.predictive
        inclusion = self._inclusion(findings.posterior), self._inclusion(predictive)
        if predictive is None:
            return Refit(*inclusion)
        evidence = findings.judge.evidence(predictive.mode_mask[None]).one()
        selected = np.array(predictive.feature_names, dtype=object)[self._search.rule.select(findings)]
        tested = self._compared.tests(np.isin(self._names, predictive.mode)).against_the_rest(e).deviation
        p_against = np.nan if tested is None else tested.p_value
        figures = evidence.r2, evidence.p_invariant, p_against
        return Refit(*inclusion, tuple(selected), predictive.mode, *figures)

    def _inclusion(self, posterior: Posterior | None) -> Floats:
        """(p,) over the features of the whole data"""
        values = np.full(len(self._names), np.nan)
        if posterior is not None:
            values[np.isin(self._names, posterior.feature_names)] = posterior.inclusion
        return values

    def _over(self, names: tuple[str, ...]) -> Mask:
        """The subset among the features that are left"""
        return np.isin(np.array(names, dtype=object), self._names[self._mask])
