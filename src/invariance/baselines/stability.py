"""Stability selection (Meinshausen & Bühlmann 2010) of invariant causal prediction."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._tools.arrays import Mask
from .._tools.parallel import ordered_map
from .._tools.progress import ProgressBar, ProgressMode
from ..data.checks import check_whole_number
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import SettingError
from .base import Baseline
from .icp import ResidualTests
from .subsets import check_columns, checked_subsets


@dataclass(eq=False, repr=False)
class StabilityICP(Baseline):
    """The features that ICP selects in most bootstrap samples, rows drawn with replacement in each environment.

    The defaults of level and number are those of Meinshausen, Hauser, Mooij, Peters, Versteeg & Bühlmann (2016), which
    used it behind a Lasso screen ("Stability-screen").

    Parameters
    ----------
    alpha : level of ICP in each sample
    n_samples : how many samples
    threshold : share of the samples in which a selected feature is selected at least
    max_size : most features of a tested subset; None tests all 2**p
    random_state : seed of the samples
    columns : how a data frame X is read, Columns(environment="site")
    n_jobs : threads; None is one, -1 all cores
    progress : a bar: "auto", True, False; or a function of a fraction and a message, as of `BIP`

    Attributes
    ----------
    frequencies_ : (n_features_in_,) share of the samples in which a feature is selected; 0 for a constant feature
    support_, coef_, intercept_ : as for every selector

    Examples
    --------
    >>> from invariance.baselines import StabilityICP
    >>> from invariance.datasets import make_example
    >>> StabilityICP().fit(make_example()).frequencies_.round(2).tolist()
    [0.92, 0.06, 0.84, 0.96, 0.0, 0.0, 0.0, 0.0]
    """

    alpha: float = 0.01
    n_samples: int = 50
    threshold: float = 0.75
    max_size: int | None = None
    random_state: int = 0
    columns: Columns | None = None
    n_jobs: int | None = None
    progress: ProgressMode = "auto"

    def _check_settings(self) -> None:
        super()._check_settings()
        check_whole_number("n_samples", self.n_samples, 1)
        if not 0.5 < self.threshold <= 1.0:
            raise SettingError(f"threshold={self.threshold!r} is no majority: use a share above 0.5, such as 0.75.")

    def _select(self, data: MultiEnvironmentData) -> Mask:
        space = checked_subsets("StabilityICP", data.n_features, self.max_size)
        check_columns("StabilityICP", data, data.n_rows - 2, space.max_size)
        generators, times = np.random.default_rng(self.random_state).spawn(self.n_samples), np.zeros(data.n_features)
        with ProgressBar("selecting in samples", self.n_samples, self.progress) as bar:
            for selected in ordered_map(lambda rng: self._selected_in(_sample(data, rng)), generators, self.n_jobs):
                times += selected
                bar.advance()
        frequencies = times / self.n_samples
        self.frequencies_ = self._expand(frequencies, 0.0)
        return frequencies >= self.threshold

    def _selected_in(self, data: MultiEnvironmentData) -> Mask:
        """(p,) what all subsets that ICP accepts have in common; nothing where it accepts none, and of features that do
        not vary in these rows"""
        varies = np.logical_and.reduceat(np.ptp(data.X, axis=0) > 0.0, data.features.starts[:-1])
        common, tests = varies.copy(), ResidualTests(data.narrowed(varies))
        space = checked_subsets("StabilityICP", int(varies.sum()), self.max_size)
        accepted = 0
        for _, masks, (p_values, _) in space.blocks(tests.test, "testing subsets", None, False):
            kept = masks[p_values > self.alpha]
            accepted += len(kept)
            common[varies] &= kept.all(axis=0)
            if not common.any():
                break
        return common & (accepted > 0)


def _sample(data: MultiEnvironmentData, rng: np.random.Generator) -> MultiEnvironmentData:
    """As many rows of each environment, drawn with replacement"""
    rows = np.concatenate([rng.choice(data.rows(e), n) for e, n in enumerate(data.counts)])
    chosen = {"X": data.X[rows], "y": data.y[rows], "environment_index": data.environment_index[rows]}
    return replace(data, **chosen)
