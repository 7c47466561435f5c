"""Where the posterior goes when one of the theorem's assumptions fails (the paper's relaxations,
simulated)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from invariance._tools.arrays import Floats
from invariance._tools.plotting import BLACK, BLUE, GREEN, PURPLE, VERMILION
from invariance.data.multi_environment import MultiEnvironmentData
from invariance.models.gaussian import LinearGaussian
from invariance.moments.moments import Moments
from invariance.priors import UniformPrior
from invariance.simulation import StructuralModel

from .heterogeneity import all_subsets, discrepancy, population
from .runs import (
    Cell,
    Picture,
    Row,
    Study,
    Table,
    banded_line,
    grid,
    mean_band,
    numbered_axis,
    panels,
    shared_legend,
)
from .simulators import example_1, theory

CASES = {
    "none": "every assumption holds",
    "invariance": "each environment multiplies the outcome's coefficients by its own Normal(1, "
    "0.5²)",
    "uniqueness": "two subsets are invariant (the paper's example 1 with two environments)",
    "prior": "the prior holds only subsets smaller than the truth",
    "model": "the outcome also holds 0.5 times the square of a cause, and the model is linear",
}
_COLORS = (BLACK, BLUE, GREEN, VERMILION, PURPLE)
TIE = 1e-9  # subsets whose μ̄ is this close to the smallest are all minimisers
JITTER = 0.5
CURVE = 0.5


@dataclass(frozen=True, kw_only=True)
class Assumptions(Study):
    """Posterior at the truth, and of the minimisers of μ̄ within the prior's support, against n.

    p = 3, E = 5, all features intervened on, two or three of them before the outcome.

    The theorem for general conditions says that the latter goes to 1.
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"cases"}
    per_task: ClassVar[int] = 20

    cases: tuple[str, ...] = tuple(CASES)
    sizes: tuple[int, ...] = (10, 50, 200, 1000)

    @property
    def name(self) -> str:
        return "assumptions"

    @property
    def title(self) -> str:
        return "Where the posterior goes when an assumption fails, p = 3 features"

    def cells(self) -> tuple[Cell, ...]:
        return grid(case=self.cases)

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row per n: n; truth and nearest (posterior of z* and of all minimisers of μ̄);
        mu_truth; mu_nearest; gap (to the next larger μ̄)."""
        case = cell["case"]
        rng = self.rng(cell, number)
        model = example_1(2) if case == "uniqueness" else theory(5, 1.0, rng, true_features=(2, 3))
        if case == "invariance":
            coefficients = model.coefficients.copy()
            coefficients[:, -1] *= rng.normal(1.0, JITTER, (model.n_environments, 1))
            model = replace(model, coefficients=coefficients)
        curve = CURVE if case == "model" else 0.0
        cause = int(np.flatnonzero(model.truth)[0])
        masks = all_subsets(model.n_features)
        most = int(model.truth.sum()) - 1 if case == "prior" else None
        allowed = UniformPrior(max_size=most).bind(model.n_features).log_prob(masks) > -np.inf
        values = np.where(allowed, discrepancy(*curved(model, cause, curve), masks), np.inf)
        nearest = values < values.min() + TIE
        at_truth = (masks == model.truth).all(axis=1)
        rows = []
        for n in self.sizes:
            data = model.sample(n, self.rng(cell, number, n))
            data.y[:] += curve * data.X[:, cause] ** 2
            weights = posterior(data, allowed)
            rows.append(
                {
                    "n": n,
                    "truth": float(weights[at_truth].sum()),
                    "nearest": float(weights[nearest].sum()),
                    "mu_truth": float(values[at_truth][0])
                    if allowed[at_truth].all()
                    else float("nan"),
                    "mu_nearest": float(values.min()),
                    "gap": float(values[~nearest].min() - values.min()),
                }
            )
        return rows

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per case and n: data sets; mean posterior of z* and of the minimisers, with its
        interval; share of models whose minimiser is z* alone or with others; median μ̄ at the
        minimisers."""
        lines = []
        for case in self.cases:
            for n, rows in results[results["case"] == case].groupby("n"):
                mean, low, high = mean_band(rows["nearest"], high=1.0)
                at_truth = (rows["mu_truth"] < rows["mu_nearest"] + TIE).mean()
                lines.append(
                    {
                        "case": case,
                        "n": n,
                        "data_sets": len(rows),
                        "truth": rows["truth"].mean(),
                        "nearest": mean,
                        "low": low,
                        "high": high,
                        "nearest_is_truth": at_truth,
                        "mu_nearest": rows["mu_nearest"].median(),
                    }
                )
        return pd.DataFrame(lines)

    def tables(self, results: pd.DataFrame) -> list[Table]:
        title = "Means over data sets; nearest: the minimisers of μ̄ that the prior allows"
        return [Table(title, self.table(results).round(4))]

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        figure, axes = panels(1, 2, 8.0, 3.8, sharey=True)
        for ax, column, label in zip(
            axes[0], ("truth", "nearest"), ("truth z*", "minimisers of μ̄"), strict=True
        ):
            for color, case in zip(_COLORS, self.cases, strict=False):
                rows = results[results["case"] == case]
                bands = [mean_band(rows.loc[rows["n"] == n, column], high=1.0) for n in self.sizes]
                banded_line(ax, self.sizes, bands, color, case)
            ax.set_title(f"posterior of the {label}", fontsize="medium")
            numbered_axis(ax, self.sizes, "rows per environment, n")
            ax.set_ylim(0.0, 1.02)
        shared_legend(figure, axes[0, 0], len(self.cases), "assumption that fails")
        caption = "Mean posterior of the truth and of the most nearly invariant subsets; 95% bands."
        return [Picture("posterior", caption, figure)]

    def reading(self, results: pd.DataFrame) -> list[str]:
        table = self.table(results)
        large = max(self.sizes)
        said = []
        for case in self.cases:
            line = table[(table["case"] == case) & (table["n"] == large)].iloc[0]
            said.append(
                f"{case} ({CASES[case]}): with n={large} the mean posterior of z* is "
                f"{line['truth']:.3f}, that of the "
                f"minimisers of μ̄ {line['nearest']:.3f}; z* is one of them in "
                f"{line['nearest_is_truth']:.0%} of "
                "the models."
            )
        return said


def curved(model: StructuralModel, cause: int, curve: float) -> tuple[Floats, Floats]:
    """Means (E, p+1) and factors of the covariances when curve · x² of one cause is added to y.

    x² less its mean is 2m (x − m), plus a part of variance 2 Var(x)² that is uncorrelated with
    every Gaussian.
    """
    means, factors = population(model)
    variance = (factors[:, cause] ** 2).sum(axis=1)
    extra = np.zeros((*factors.shape[:2], 1))
    extra[:, -1, 0] = curve * np.sqrt(2.0) * variance
    factors[:, -1] += 2.0 * curve * means[:, [cause]] * factors[:, cause]
    means[:, -1] += curve * (means[:, cause] ** 2 + variance)
    return means, np.concatenate([factors, extra], axis=2)


def posterior(data: MultiEnvironmentData, allowed: Any) -> Floats:
    """(2**p,) under a prior that is uniform over the allowed subsets"""
    ratios = (
        LinearGaussian().bind(Moments.from_data(data)).log_ratio_many(all_subsets(data.X.shape[1]))
    )
    weights = np.where(allowed, np.exp(ratios - ratios[allowed].max()), 0.0)
    return np.asarray(weights / weights.sum())


def at_scale(name: str, scale: str, **changes: Any) -> Assumptions:
    return Assumptions(
        **({"scale": scale, "replicates": 400 if scale == "paper" else 40} | changes)
    )
