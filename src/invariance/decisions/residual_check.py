"""Whether environments differ given a subset, without a model of how its features act: residuals of random forests."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

from .._tools.arrays import Floats
from .._tools.parallel import n_workers
from .._tools.sections import Rendered, Section, by_environment
from .._tools.text import format_subset, in_quotes
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData, require_data
from ..exceptions import SettingError
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from ..posterior.summary import format_small_p_value as format_p
from .environments import ALARM
from .pipeline import generator

# Share of the environments' scatter that the features may leave before the check is said to have seen little.
_LITTLE_LEFT = 0.1
_TREES, _FEWEST_IN_LEAF = 100, 5


@dataclass(frozen=True, eq=False, repr=False)
class ResidualCheck(Rendered):
    """A diagnosis of one subset, not a posterior; `print` it, or see `to_dict`.

    subset : names; environments : E labels; rows (E,)
    mean, spread (E,) : p-values that, given the features, the outcome's mean, and how far it scatters, is another one
        in an environment than in the others
    p_value : the smallest of them, corrected by Bonferroni's rule
    r2 : share of the outcome's variance that forests explain in rows that they were not grown on
    untold : share of the environments' scatter that cannot be told from the features; near 0 nothing could be found
    of_rows : how many there are where those looked at are a sample, else 0
    """

    subset: tuple[str, ...]
    outcome_name: str
    environments: tuple[Hashable, ...]
    rows: tuple[int, ...]
    mean: Floats
    spread: Floats
    p_value: float
    r2: float
    untold: float
    of_rows: int = 0

    @property
    def alarm(self) -> bool:
        """Whether p_value is below 0.05."""
        return self.p_value < ALARM

    @property
    def worst(self) -> tuple[Hashable, str]:
        """The environment with the smallest p-value, and what is different there: "mean" or "spread"."""
        part, place = np.unravel_index(np.argmin([self.mean, self.spread]), (2, len(self.rows)))
        return self.environments[place], ("mean", "spread")[part]

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        names = ("environment", "rows", "p_mean", "p_spread")
        each = zip(map(str, self.environments), self.rows, self.mean.tolist(), self.spread.tolist(), strict=True)
        return {
            "outcome": self.outcome_name,
            "subset": list(self.subset),
            "alarm": self.alarm,
            **{name: getattr(self, name) for name in ("p_value", "r2", "untold")},
            "environments": [dict(zip(names, row, strict=True)) for row in each],
        }

    @property
    def sections(self) -> tuple[Section]:
        figures = zip(self.rows, self.mean, self.spread, strict=True)
        rows = [(f"{rows:,}", format_p(mean), format_p(spread)) for rows, mean, spread in figures]
        table = by_environment(("rows", "mean", "spread"), self.environments, rows)
        found = f"nothing shows that {self.outcome_name} differs between environments"
        if self.alarm:
            label, part = self.worst
            found = f"the {part} of {self.outcome_name} differs between environments, most in {in_quotes(label)}"
        given = format_subset(self.subset)
        sentences = [
            f"Given {given}, {found} (p-value {format_p(self.p_value)}, corrected).",
            f"Forests explain {max(self.r2, 0.0):.0%} of {self.outcome_name} in rows they did not see.",
        ]
        if self.untold < _LITTLE_LEFT:
            sentences.append("The features nearly always tell which environment a row is from: little could be found.")
        if self.of_rows > sum(self.rows):
            sentences.append(f"Of {self.of_rows:,} rows a sample of {sum(self.rows):,} was tested.")
        title = f"Residuals of {self.outcome_name} given {given}, by random forests"
        return (Section(title, tuple(sentences), table=table),)


def residual_check(
    data: MultiEnvironmentData | Moments, subset: Subset, random_state: Any = 0, n_jobs: int | None = None
) -> ResidualCheck:
    """Check a subset, given by names or as a mask, for differences between environments of whatever form.

    Random forests predict the outcome and the environment of a row from the features, each row by trees that were not
    grown on it. Where environments are alike given the features, the residuals of the two are uncorrelated: that is
    tested for each environment (the generalised covariance measure of Shah and Peters, 2020), and again with squared
    residuals of the outcome.

    The result depends on random_state and not on n_jobs.
    """
    of_rows = 0
    if isinstance(data, Moments):
        chosen, of_rows = data.features.chosen(as_mask(subset, data.feature_names)), data.n_rows
        sampled, subset = sampled_data(data, chosen.columns), chosen.names
        if sampled is None:
            raise SettingError("residual_check needs rows, and moments hold none: fit with the rows, too.")
        data = sampled
    require_data(data, "residual_check")
    for role in data.outcome_columns:
        raise SettingError(
            f"residual_check knows nothing of the {role} {getattr(data, f'{role}_name')!r} of {data.outcome_name!r}: "
            "use diagnose of the fitted model."
        )
    if data.n_environments < 2:
        raise SettingError("there is one environment: add rows of another one to compare it with.")
    mask = as_mask(subset, data.feature_names)
    derived = frozenset() if data.encoding is None else data.encoding.derived
    kept = np.array([name not in derived for name in data.features.columns], dtype=bool)
    X = data.X[:, data.features.expand(mask) & kept]
    labels = (data.environment_index[:, None] == np.arange(data.n_environments)).astype(float)
    rng, n_jobs = generator(random_state), n_workers(n_jobs)
    left = data.y - _predicted(X, data.y, rng, n_jobs)
    untold = labels - _predicted(X, labels, rng, n_jobs)
    squares = left**2
    mean, spread = _p_values(left, untold), _p_values(squares - _predicted(X, squares, rng, n_jobs), untold)
    # Of two environments each is the other's rest.
    tests = 2 * (data.n_environments if data.n_environments > 2 else 1)
    return ResidualCheck(
        data.features.chosen(mask).names,
        data.outcome_name,
        data.environments,
        tuple(data.counts.tolist()),
        mean,
        spread,
        p_value=float(min(1.0, tests * min(mean.min(), spread.min()))),
        r2=float(1.0 - squares.mean() / data.y.var()),
        untold=float((untold**2).sum() / ((labels - labels.mean(axis=0)) ** 2).sum()),
        of_rows=of_rows,
    )


def _predicted(X: Floats, target: Floats, rng: np.random.Generator, n_jobs: int) -> Floats:
    """Target (N,) or (N, m) given X (N, k), by trees not grown on the row; without columns, the mean of all others."""
    seed = int(rng.integers(2**31))
    if not X.shape[1]:
        return (target.sum(axis=0) - target) / (len(target) - 1)
    from sklearn.ensemble import RandomForestRegressor

    forest = RandomForestRegressor(
        _TREES, min_samples_leaf=_FEWEST_IN_LEAF, oob_score=True, n_jobs=n_jobs, random_state=seed
    )
    return np.asarray(forest.fit(X, target).oob_prediction_)


def _p_values(left: Floats, untold: Floats) -> Floats:
    """(E,) that what is left of the outcome (N,) goes with what is left of each environment (N, E)"""
    products = left[:, None] * untold
    spread = products.std(axis=0)
    statistic = np.sqrt(len(left)) * products.mean(axis=0) / np.where(spread > 0.0, spread, 1.0)
    return np.asarray(2.0 * norm.sf(np.abs(statistic)))
