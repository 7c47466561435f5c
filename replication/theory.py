"""Posterior consistency and heterogeneity with three features (the paper's first synthetic
figure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from invariance.models.gaussian import LinearGaussian
from invariance.moments.moments import Moments
from invariance.priors import UniformPrior

from .contraction import epsilon, exact_pool, local_bias, log_prior_factor, rate_bound, v
from .heterogeneity import all_subsets, mu
from .illustration import draw_process
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
    shades,
    shared_legend,
)
from .simulators import theory

KAPPA = 0.5  # the theorem holds for any κ in (0, 1)
# models of a cell whose μ_min is also computed with the exact pooled conditional, and rows each
N_EXACT = 20
DRAWS = 500
IDENTIFIED = 1e-9  # a smaller μ_min is 0: the truth is not the only invariant subset
_STRENGTH_NAMES = {1 / 3: "1/3", 2 / 3: "2/3", 1.0: "1"}


@dataclass(frozen=True, kw_only=True)
class Theory(Study):
    """p̂(z*|D) against n, E and strength, and μ_min of the same models. The prior is uniform over
    all subsets.

    sizes : rows per environment; one model serves them all
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"environments", "strengths"}
    per_task: ClassVar[int] = 50

    sizes: tuple[int, ...] = (10, 20, 50, 100, 200)
    environments: tuple[int, ...] = (1, 2, 3, 4, 5)
    strengths: tuple[float, ...] = (1 / 3, 2 / 3, 1.0)

    @property
    def name(self) -> str:
        return "theory"

    @property
    def title(self) -> str:
        return "Posterior at the true subset, and heterogeneity, with p = 3 features"

    def cells(self) -> tuple[Cell, ...]:
        return grid(E=self.environments, strength=self.strengths)

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row per n: n; posterior (at z*); mu_min and v (of the subset that has it); bound (the
        proof's ε at κ); mu_n: by how much the smallest μ_n of another subset exceeds that of z*;
        mu_exact: μ_min with the exact pooled conditional, for the first models."""
        model = theory(cell["E"], cell["strength"], self.rng(cell, number))
        masks = all_subsets(model.n_features)
        # A subset's position is its bit pattern.
        position = int((1 << np.flatnonzero(model.truth)).sum())
        others = np.delete(np.arange(len(masks)), position)
        values = mu(model, masks)
        smallest = float(values[others].min())
        spread = float(v(model, masks[others[values[others].argmin()]])[0])
        exact = float("nan")
        if number < N_EXACT:
            rng = self.rng(cell, number, "exact")
            exact = max(min(exact_pool(model, masks[s], DRAWS, rng)[0] for s in others), 0.0)
        factor = log_prior_factor(UniformPrior().bind(model.n_features), model.truth)
        rows = []
        for n in self.sizes:
            data = model.sample(n, self.rng(cell, number, n))
            log_ratio = LinearGaussian().bind(Moments.from_data(data)).log_ratio_many(masks)
            weights = np.exp(log_ratio - log_ratio.max())
            finite = values + local_bias(n, masks.sum(axis=1))
            rows.append(
                {
                    "n": n,
                    "posterior": float(weights[position] / weights.sum()),
                    "mu_min": smallest,
                    "v": spread,
                    "bound": float(
                        epsilon(rate_bound(factor, smallest, n * model.n_environments, KAPPA))
                    ),
                    "mu_n": float(finite[others].min() - finite[position]),
                    "mu_exact": exact,
                }
            )
        return rows

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per E, strength and n: mean posterior at z* with its interval, mean μ_min with
        its interval."""
        lines = []
        for (n_environments, strength, n), rows in results.groupby(["E", "strength", "n"]):
            mean, low, high = mean_band(rows["posterior"], high=1.0)
            mu, mu_low, mu_high = mean_band(rows["mu_min"])
            lines.append(
                {
                    "E": n_environments,
                    "strength": strength,
                    "n": n,
                    "posterior": mean,
                    "low": low,
                    "high": high,
                    "mu_min": mu,
                    "mu_low": mu_low,
                    "mu_high": mu_high,
                }
            )
        return pd.DataFrame(lines)

    def tables(self, results: pd.DataFrame) -> list[Table]:
        table = self.table(results)
        found = []
        for strength in self.strengths:
            chosen = table[table["strength"] == strength].sort_values("E")
            frame = pd.DataFrame({"E": list(self.environments)})
            for n in self.sizes:
                rows = chosen[chosen["n"] == n]
                frame[f"n={n}"] = _with_half_widths(rows["posterior"], rows["high"])
            frame["μ_min"] = _with_half_widths(rows["mu_min"], rows["mu_high"])
            title = (
                f"Strength {strength_name(strength)}: mean posterior at z* by n, mean μ_min; "
                "± half a 95% interval"
            )
            found.append(Table(title, frame))
        title = (
            "Models with one invariant subset: 1 − posterior beside the rate bound ε (R = 8, "
            f"κ = {KAPPA:g})"
        )
        found.append(Table(title, self.rates(results)))
        return found

    def rates(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per strength, E > 1 and n, over the models whose μ_min is not 0.

        Their number; means of the posterior at z*, of TV = 1 − posterior and of ε; shares of data
        sets with TV > ε and of models whose smallest μ_n is not at z*; medians of μ_min and of v at
        its subset.
        """
        chosen = results[(results["mu_min"] > IDENTIFIED) & (results["E"] > 1)]
        return pd.DataFrame(
            [
                {
                    "strength": strength_name(float(str(strength))),
                    "E": n_environments,
                    "n": n,
                    "models": len(rows),
                    "posterior": round(rows["posterior"].mean(), 4),
                    "TV": round((1.0 - rows["posterior"]).mean(), 4),
                    "bound": round(rows["bound"].mean(), 4),
                    "TV > bound": round((1.0 - rows["posterior"] > rows["bound"]).mean(), 4),
                    "μ_n not at z*": round((rows["mu_n"] < 0.0).mean(), 4),
                    "μ_min": round(rows["mu_min"].median(), 4),
                    "v": round(rows["v"].median(), 4),
                }
                for (strength, n_environments, n), rows in chosen.groupby(["strength", "E", "n"])
            ]
        )

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        return [
            Picture(
                "posterior",
                "Mean posterior probability of the true subset z* against the rows per "
                "environment; 95% bands.",
                self._posterior(results),
            ),
            Picture(
                "heterogeneity",
                "Mean heterogeneity μ_min of the same models, in closed form; 95% bands.",
                self._heterogeneity(results),
            ),
            Picture(
                "bound",
                "Models with one invariant subset: means of 1 − posterior at z* (solid) and of "
                "the bound ε (dotted).",
                self._bound(results),
            ),
            Picture(
                "process",
                "How data are generated: features before y are invariant; a triangle marks a new "
                "conditional.",
                draw_process(),
            ),
        ]

    def _posterior(self, results: pd.DataFrame) -> Any:
        figure, axes = panels(
            1, len(self.strengths), 3.1 * len(self.strengths) + 0.6, 3.6, sharey=True
        )
        for ax, strength in zip(axes[0], self.strengths, strict=True):
            for color, n_environments in zip(
                shades(len(self.environments)), self.environments, strict=True
            ):
                chosen = results[
                    (results["E"] == n_environments) & (results["strength"] == strength)
                ]
                bands = [
                    mean_band(chosen.loc[chosen["n"] == n, "posterior"], high=1.0)
                    for n in self.sizes
                ]
                banded_line(ax, self.sizes, bands, color, str(n_environments))
            ax.set_title(f"strength {strength_name(strength)}", fontsize="medium")
            numbered_axis(ax, self.sizes, "rows per environment, n")
            ax.set_ylim(0.0, 1.02)
        axes[0, 0].set_ylabel("posterior at the true subset")
        shared_legend(figure, axes[0, 0], len(self.environments), "environments, E")
        return figure

    def _heterogeneity(self, results: pd.DataFrame) -> Any:
        figure, axes = panels(1, 1, 5.0, 3.8)
        ax = axes[0, 0]
        once = results[results["n"] == self.sizes[0]]
        for color, strength in zip(shades(len(self.strengths)), self.strengths, strict=True):
            chosen = once[once["strength"] == strength]
            bands = [mean_band(chosen.loc[chosen["E"] == e, "mu_min"]) for e in self.environments]
            banded_line(ax, self.environments, bands, color, strength_name(strength))
        ax.set_xticks(list(self.environments))
        ax.set_xlabel("environments, E")
        ax.set_ylabel("heterogeneity, mean of μ_min")
        ax.set_ylim(bottom=0.0)
        shared_legend(figure, ax, len(self.strengths), "intervention strength")
        return figure

    def _bound(self, results: pd.DataFrame) -> Any:
        table = self.rates(results)
        figure, axes = panels(
            1, len(self.strengths), 3.1 * len(self.strengths) + 0.6, 3.6, sharey=True
        )
        several = [e for e in self.environments if e > 1]
        for ax, strength in zip(axes[0], self.strengths, strict=True):
            for color, n_environments in zip(shades(len(several)), several, strict=True):
                rows = table[
                    (table["strength"] == strength_name(strength)) & (table["E"] == n_environments)
                ]
                ax.plot(
                    rows["n"],
                    rows["TV"],
                    color=color,
                    marker="o",
                    markersize=4,
                    label=str(n_environments),
                )
                ax.plot(rows["n"], rows["bound"], color=color, linestyle=":")
            ax.set_title(f"strength {strength_name(strength)}", fontsize="medium")
            numbered_axis(ax, self.sizes, "rows per environment, n")
            ax.set_ylim(0.0, 1.0)
        axes[0, 0].set_ylabel("1 − posterior, and bound ε")
        shared_legend(figure, axes[0, 0], len(several), "environments, E")
        return figure

    def reading(self, results: pd.DataFrame) -> list[str]:
        means = results.groupby(["strength", "E", "n"])["posterior"].mean()
        most = max(self.environments)
        least = min(e for e in self.environments if e > 1 or len(self.environments) == 1)
        large = max(self.sizes)
        small = min(self.sizes)
        said = []
        for strength in self.strengths:
            said.append(
                f"Strength {strength_name(strength)}: the posterior at z* goes from "
                f"{means[strength, least, small]:.2f} (E={least}, n={small}) to "
                f"{means[strength, least, large]:.2f} "
                f"(E={least}, n={large}) and {means[strength, most, large]:.2f} (E={most}, "
                f"n={large})."
            )
        once = results[results["n"] == small]
        mu = once.groupby(["strength", "E"])["mu_min"].mean()
        strongest = max(self.strengths)
        weakest = min(self.strengths)
        said.append(
            f"μ_min grows from {mu[weakest, least]:.3f} (E={least}) to {mu[weakest, most]:.3f} "
            f"(E={most}) at strength "
            f"{strength_name(weakest)}, and from {mu[strongest, least]:.3f} to "
            f"{mu[strongest, most]:.3f} at strength "
            f"{strength_name(strongest)}."
        )
        first = once[once["mu_exact"].notna() & (once["E"] > 1)]
        exact, linear = (
            first.loc[first["strength"] == strongest, name].mean()
            for name in ("mu_exact", "mu_min")
        )
        said.append(
            f"With the exact pooled conditional, a ratio of mixtures, μ_min is {exact:.4f} on "
            "average at strength "
            f"{strength_name(strongest)}, with the best linear Gaussian one {linear:.3f}: where "
            "features give the "
            "environment away, the exact one adapts to it. The posterior follows the linear one."
        )
        priors = (("10 features", 10, None), ("450", 450, None), ("at most 20 of 450", 450, 20))
        costs = [
            f"{log_prior_factor(UniformPrior(most).bind(p), np.arange(p) < 1):.1f} ({name})"
            for name, p, most in priors
        ]
        said.append(f"log R of the uniform prior in nats: {', '.join(costs)}.")
        table = self.rates(results)
        for n in (small, large):
            rows = table[table["n"] == n]
            above, elsewhere = (
                np.average(rows[of], weights=rows["models"])
                for of in ("TV > bound", "μ_n not at z*")
            )
            said.append(
                f"Models with one invariant subset, n={n}: 1 − posterior exceeds ε = b/(1+b), b = "
                "R exp(−κ nE μ_min), "
                f"in a share of {above:.4f} of the data sets (R = 8, κ = {KAPPA:g}); the smallest "
                "μ_n is not at z* in "
                f"{elsewhere:.3f} of the models."
            )
        shared = (once["mu_min"] < IDENTIFIED).groupby([once["strength"], once["E"]]).mean()
        said.append(
            "Where few features are intervened on, the truth is not always the only invariant "
            "subset: μ_min is 0 in "
            f"{shared[weakest, least]:.0%} of the models at strength {strength_name(weakest)} and "
            f"E={least}, and in "
            f"{shared[weakest, most]:.0%} at E={most}. There the posterior is divided, however "
            "large n is."
        )
        if 1 in self.environments:
            flat = results.loc[results["E"] == 1, "posterior"]
            said.append(
                f"With one environment the posterior is the prior: between {flat.min():.4f} and "
                f"{flat.max():.4f} in "
                "every replicate (1/8 is 0.125)."
            )
        return said


def _with_half_widths(means: pd.Series, high: pd.Series) -> list[str]:
    return [f"{mean:.3f} ± {top - mean:.3f}" for mean, top in zip(means, high, strict=True)]


def strength_name(strength: float) -> str:
    return _STRENGTH_NAMES.get(strength, f"{strength:.2g}")


def at_scale(name: str, scale: str, **changes: Any) -> Theory:
    return Theory(**({"scale": scale, "replicates": 1000 if scale == "paper" else 100} | changes))
