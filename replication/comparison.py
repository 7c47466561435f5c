"""All methods on the same simulated data, with 10 and with 450 features (the paper's comparison
figures)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import pandas as pd

from invariance.exceptions import SettingError
from invariance.simulation import p10

from .heterogeneity import mu_min
from .methods import (
    METHODS,
    PENALTIES,
    RAW,
    SCREENED,
    SCREENS,
    TimedScreening,
    fit_and_score,
    rate,
    two_starts,
    variational_rows,
)
from .runs import (
    Cell,
    Picture,
    Row,
    Study,
    Table,
    check_methods,
    grid,
    mean_band,
    numbered_axis,
    panels,
    shades,
    shared_legend,
    whiskered_lines,
)
from .simulators import p450

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_KINDS = (("exact", "exact discovery rate"), ("covered", "coverage"))


def rates_figure(
    table: pd.DataFrame, methods: Sequence[str], environments: Sequence[int]
) -> Figure:
    """Two panels, exact discovery and coverage against E; table has one line per method and E."""
    figure, axes = panels(1, 2, 9.0, 4.2, sharey=True)
    for ax, (kind, label) in zip(axes[0], _KINDS, strict=True):
        _rates(ax, table, kind, methods, environments)
        ax.set_title(label, fontsize="medium")
        ax.set_ylabel("share of data sets" if kind == "exact" else "")
    shared_legend(figure, axes[0, 0], (len(methods) + 1) // 2)
    return figure


Column = tuple[str, pd.DataFrame, Sequence[str]]  # title, table and methods of a column of panels


def rates_in_columns(
    columns: Sequence[Column], environments: Sequence[int], dashed: bool = True
) -> Figure:
    """Exact discovery above coverage in each column; the legend is that of the last one."""
    figure, axes = panels(2, len(columns), 3.2 * len(columns) + 0.4, 6.0, sharex=True, sharey=True)
    for column, (title, table, methods) in enumerate(columns):
        for row, (kind, label) in enumerate(_KINDS):
            ax = axes[row, column]
            _rates(ax, table, kind, methods, environments, dashed)
            if row == 0:
                ax.set_title(title, fontsize="medium")
                ax.set_xlabel("")
            if column == 0:
                ax.set_ylabel(label)
    shared_legend(figure, axes[0, -1], (len(columns[-1][2]) + 1) // 2)
    return figure


def _rates(
    ax: Axes,
    table: pd.DataFrame,
    kind: str,
    methods: Sequence[str],
    environments: Sequence[int],
    dashed: bool = True,
) -> None:
    lines = []
    for name in methods:
        rows = table[table["method"] == name].set_index("E").loc[list(environments)]
        bands = list(zip(rows[kind], rows[f"{kind}_low"], rows[f"{kind}_high"], strict=True))
        dashes = METHODS[name].dashes if dashed or name == "Oracle" else "-"
        lines.append((name, METHODS[name].color, dashes, bands))
    whiskered_lines(ax, environments, lines)
    numbered_axis(ax, environments, "environments, E")
    ax.set_ylim(-0.03, 1.04)


def posterior_figure(
    results: pd.DataFrame,
    engines: Sequence[str],
    environments: Sequence[int],
    strengths: Sequence[float],
) -> Figure:
    """One panel per method that has a posterior: its mean value at the truth against E, a line per
    strength."""
    figure, axes = panels(1, len(engines), 3.8 * len(engines) + 0.6, 3.9, sharey=True)
    for ax, name in zip(axes[0], engines, strict=True):
        chosen = results[results["method"] == name].dropna(subset=["posterior"])
        lines = []
        for color, strength in zip(shades(len(strengths)), strengths, strict=True):
            rows = chosen[chosen["strength"] == strength]
            bands = [
                mean_band(rows.loc[rows["E"] == e, "posterior"], high=1.0) for e in environments
            ]
            lines.append((f"{strength:.2g}", color, "-", bands))
        whiskered_lines(ax, environments, lines)
        ax.set_title(name, fontsize="medium")
        numbered_axis(ax, environments, "environments, E")
        ax.set_ylim(-0.03, 1.04)
    axes[0, 0].set_ylabel("posterior at the true subset")
    shared_legend(figure, axes[0, 0], len(strengths), "intervention strength")
    return figure


_PRESETS = {"p10": p10, "p450": p450}
_METHODS = {
    "p10": (
        *("Oracle", "BIP", "BIP-predictive", "BIP-tempering", "BIP-VI", "BIP-VI-two-starts"),
        *("ICP", "EILLS", "Hidden-ICP", "Hidden-ICP (intercept)", "Regression"),
    ),
    "p450": ("Oracle", "BIP-tempering", "BIP-tempering-predictive", "BIP-VI", "Regression"),
}
# Probability that a coefficient of an intervened feature is drawn anew. The supplement's list calls
# p_change, which is from 0.1 to 0.3, this probability; its prose says that such a coefficient is
# kept with probability p_change.
REDRAWN = {"list": (0.1, 0.3), "prose": (0.7, 0.9)}
# Subsets of up to 450 features are too many for μ_min.
_WITH_MU_MIN = ("p10",)
# With ten features all subsets are in a table, and a start costs next to nothing.
_SHARING_STARTS = ("p450",)


@dataclass(frozen=True, kw_only=True)
class Comparison(Study):
    """Exact discovery, coverage and posterior at z* for every method, against n, E and strength.

    strengths : fraction of features that every environment after the first intervenes on;
        `replicates` data sets each
    methods : names out of replication.methods.METHODS
    p_change : of REDRAWN, the reading of this parameter of the simulator
    """

    choice: ClassVar[frozenset[str]] = Study.choice | {"sizes", "environments", "strengths"}
    options: ClassVar[tuple[str, ...]] = (*Study.options, "p_change", "methods")

    preset: str
    sizes: tuple[int, ...]
    environments: tuple[int, ...]
    methods: tuple[str, ...]
    strengths: tuple[float, ...] = (1 / 2, 2 / 3, 5 / 6, 1.0)
    p_change: str = "list"

    @property
    def name(self) -> str:
        return f"comparison-{self.preset}"

    @property
    def title(self) -> str:
        return f"Comparison of methods with p = {self.preset[1:]} features"

    def cells(self) -> tuple[Cell, ...]:
        return grid(n=self.sizes, E=self.environments, strength=self.strengths)

    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """One row per method (see fit_and_score), with true_size, mu_min and screened_true (nan if
        not known)."""
        rng = self.rng(cell, number)
        changes = {"strength": cell["strength"], "p_change": REDRAWN[self.p_change]}
        model = _PRESETS[self.preset](cell["E"], rng, **changes)
        data = model.sample(cell["n"], rng)
        shared = {screen: TimedScreening.of(data, self.methods, screen) for screen in SCREENS}
        screens = {screen: one for screen, one in shared.items() if one is not None}
        about = {
            "true_size": int(model.truth.sum()),
            "mu_min": mu_min(model) if self.preset in _WITH_MU_MIN else float("nan"),
        }
        together = [
            name
            for name in self.methods
            if name.startswith("BIP-VI") and self.preset in _SHARING_STARTS
        ]
        done = (
            variational_rows(data, together, self.seed_of(cell, number, "BIP-VI"), screens)
            if together
            else {}
        )
        rows = []
        for name in self.methods:
            one = screens.get(METHODS[name].screen or "standardised")
            row = done.get(name) or fit_and_score(name, data, self.seed_of(cell, number, name), one)
            kept = float("nan") if one is None else float((one.screening.kept & model.truth).sum())
            rows.append(row | about | {"screened_true": kept})
        return rows

    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """One line per method, n and E, and n = "all": rates with Wilson intervals, outcomes, size,
        seconds."""
        lines = []
        for name in self.methods:
            chosen = results[results["method"] == name]
            for n_environments, by_environments in chosen.groupby("E"):
                parts: list[tuple[object, pd.DataFrame]] = [
                    ("all", by_environments),
                    *by_environments.groupby("n"),
                ]
                lines += [
                    {"method": name, "E": n_environments, "n": str(n), **_line(rows)}
                    for n, rows in parts
                ]
        return pd.DataFrame(lines)

    def tables(self, results: pd.DataFrame) -> list[Table]:
        over = f"over n = {', '.join(map(str, self.sizes))} and all strengths"
        kinds = [
            (f"Exact discovery rate, {over}", "exact"),
            (f"Coverage, {over} (no accepted subset and no result count 0)", "covered"),
        ]
        found = [
            Table(title, _pivot(results, results[column].astype(float), self.methods))
            for title, column in kinds
        ]
        for outcome, text in (
            ("empty", "Share of empty selections"),
            ("rejected", "Share of data sets for which ICP accepted no subset"),
            ("failed", "Share of data sets on which a method gave no result"),
        ):
            hit = (results["outcome"] == outcome).astype(float)
            some = tuple(name for name in self.methods if hit[results["method"] == name].any())
            if some:
                found.append(Table(text, _pivot(results, hit, some)))
        for name in _with_posterior(results, self.methods):
            rows = results[results["method"] == name]
            frame = rows.pivot_table(index="strength", columns="E", values="posterior")
            found.append(Table(f"Mean posterior at z*, {name}", _labelled(frame.round(3))))
        seconds = results.pivot_table(
            index="method", columns="E", values="seconds", aggfunc="median"
        )
        found.append(Table("Median seconds per fit", _labelled(seconds.loc[list(self.methods)])))
        return found

    def pictures(self, results: pd.DataFrame) -> list[Picture]:
        table = self.table(results)
        over_all = table[table["n"] == "all"]
        raw = [name for name in self.methods if _reads_raw(name)]
        others = [
            name for name in self.methods if name not in raw and METHODS[name].penalty is None
        ]
        caption = (
            "Exact discovery rate and coverage, over all n and strengths; whiskers are 95% "
            "Wilson intervals."
        )
        if raw and self.preset == "p450":
            caption += (
                " Left: Lasso on features as they are, BIP-VI from two starts. Right: "
                "Lasso on standardised"
            )
            caption += (
                " features, BIP-VI with a searched start. Colours are those of the methods "
                "on the right."
            )
            beside = [name for name in ("Oracle", "Regression") if name in self.methods]
            readings = [
                ("features as they are", over_all, [*beside, *raw]),
                ("standardised", over_all, others),
            ]
            drawn = [
                Picture(
                    "rates", caption, rates_in_columns(readings, self.environments, dashed=False)
                )
            ]
        else:
            others = list(self.methods)
            drawn = [Picture("rates", caption, rates_figure(over_all, others, self.environments))]
        if len(self.sizes) > 1:
            caption = "The same for each number n of rows per environment."
            by_size = [(f"n = {n}", table[table["n"] == str(n)], others) for n in self.sizes]
            drawn.append(
                Picture("rates-by-n", caption, rates_in_columns(by_size, self.environments))
            )
        known = _with_posterior(results, self.methods)
        engines = [name for name in known if name not in SCREENED + RAW] or known
        if engines:
            caption = (
                "Mean posterior probability of the true subset by strength, over all n; "
                "whiskers are 95% intervals."
            )
            drawn.append(
                Picture(
                    "posterior",
                    caption,
                    posterior_figure(results, engines, self.environments, self.strengths),
                )
            )
        return drawn

    def reading(self, results: pd.DataFrame) -> list[str]:
        said = [*self._rates_in_words(results), *self._posteriors_in_words(results)]
        failed = results[results["outcome"] == "failed"].groupby("method").size()
        for name, count in failed.items():
            of = int((results["method"] == name).sum())
            said.append(
                f"{name} gave no result on {count} of {of} data sets; they count as missed and "
                "not covered."
            )
        return said

    def _rates_in_words(self, results: pd.DataFrame) -> list[str]:
        few = min(self.environments)
        many = max(self.environments)
        exact = results.groupby(["method", "E"])["exact"].mean()
        covered = results.groupby(["method", "E"])["covered"].mean()
        listed = sorted(self.methods, key=lambda name: -exact[name, many])
        said = [
            f"Exact discovery at E={many}: "
            + ", ".join(f"{name} {exact[name, many]:.2f}" for name in listed)
            + ".",
            f"Exact discovery at E={few}: "
            + ", ".join(f"{name} {exact[name, few]:.2f}" for name in listed)
            + ".",
            "Lowest coverage over E: "
            + ", ".join(f"{name} {covered[name].min():.2f}" for name in self.methods)
            + ".",
        ]
        for name in (name for name in self.methods if name.startswith("ICP")):
            rows = results[results["method"] == name]
            shares = [
                f"{(rows['outcome'] == outcome)[rows['E'] == e].mean():.2f} at E={e}"
                for outcome in ("empty", "rejected")
                for e in (few, many)
            ]
            said.append(
                f"{name} returns the empty subset in a share of {shares[0]} and {shares[1]}, and "
                "accepts no subset in "
                f"{shares[2]} and {shares[3]}."
            )
        once = results[results["method"] == self.methods[0]]
        if once["mu_min"].notna().any():
            shared = (once["mu_min"] < 1e-9).groupby(once["E"]).mean()
            known = ", ".join(f"{share:.2f} at E={e}" for e, share in shared.items())
            said.append(
                "The truth is not the only invariant subset (μ_min = 0) in a share of the "
                f"models: {known}. No data "
                "can tell the subsets apart there."
            )
        for screen in SCREENS:
            behind = [name for name in self.methods if METHODS[name].screen == screen]
            rows = results[results["method"].isin(behind[:1])]
            if rows["screened_true"].notna().any():
                kept = (rows["screened_true"] == rows["true_size"]).groupby(rows["E"]).mean()
                known = ", ".join(f"{share:.2f} at E={e}" for e, share in kept.items())
                said.append(
                    f"The {screen} screen keeps all true features in a share of the data sets: "
                    f"{known}."
                )
        return said

    def _posteriors_in_words(self, results: pd.DataFrame) -> list[str]:
        few = min(self.environments)
        many = max(self.environments)
        said = []
        for name in _with_posterior(results, self.methods):
            means = (
                results[results["method"] == name].groupby(["strength", "E"])["posterior"].mean()
            )
            weak = min(self.strengths)
            strong = max(self.strengths)
            said.append(
                f"{name}'s posterior at z* goes from {means[weak, few]:.3f} (E={few}) to "
                f"{means[weak, many]:.3f} "
                f"(E={many}) at strength {weak:.2g}, and from {means[strong, few]:.3f} to "
                f"{means[strong, many]:.3f} at "
                f"strength {strong:.2g}."
            )
        return said


def _line(rows: pd.DataFrame) -> Row:
    exact = rate(rows["exact"].to_numpy())
    covered = rate(rows["covered"].to_numpy())
    return {
        "data_sets": len(rows),
        "exact": exact.mean,
        "exact_low": exact.low,
        "exact_high": exact.high,
        "covered": covered.mean,
        "covered_low": covered.low,
        "covered_high": covered.high,
        **{
            outcome: float((rows["outcome"] == outcome).mean())
            for outcome in ("empty", "rejected", "failed")
        },
        "size": rows["size"].mean(),
        "posterior": rows["posterior"].mean(),
        "seconds": rows["seconds"].median(),
    }


def _pivot(results: pd.DataFrame, values: pd.Series, methods: Iterable[str]) -> pd.DataFrame:
    frame = (
        results[["method", "E"]]
        .assign(value=values)
        .pivot_table(index="method", columns="E", values="value")
    )
    return _labelled(frame.loc[list(methods)].round(3))


def _labelled(frame: pd.DataFrame) -> pd.DataFrame:
    """A table over E with "E=2" and so on at the top of its columns."""
    return frame.rename(columns=lambda n_environments: f"E={n_environments}").reset_index()


def _with_posterior(results: pd.DataFrame, methods: Iterable[str]) -> list[str]:
    known = results.groupby("method")["posterior"].count()
    return [name for name in methods if known[name] > 0]


def at_scale(name: str, scale: str, **changes: Any) -> Comparison:
    preset = name.removeprefix("comparison-")
    methods = _METHODS[preset]
    if preset == "p450":
        readings = (
            changes.pop("screens", ("standardised", "raw")),
            changes.pop("penalties", ("below-worst",)),
        )
        methods = (*methods[:-1], *_of_readings(*readings), methods[-1])
    settings: dict[str, Any] = {"preset": preset, "scale": scale, "methods": methods}
    paper = scale == "paper"
    if preset == "p10":
        settings |= {
            "sizes": (50, 200, 500),
            "environments": (2, 3, 5, 10, 20),
            "replicates": 100 if paper else 12,
        }
    else:
        settings |= {
            "sizes": (50, 200, 500) if paper else (200,),
            "environments": (2, 5, 10, 20, 40),
        }
        settings |= {"replicates": 100 if paper else 3}
    if paper:  # without the sampler, which the paper does not have and which takes half of the time
        settings["methods"] = tuple(name for name in methods if "tempering" not in name)
    settings |= changes
    check_methods(settings["methods"], METHODS)
    if settings.get("p_change", "list") not in REDRAWN:
        raise SettingError(
            f"p_change={settings['p_change']!r} is not known: use {' or '.join(REDRAWN)}."
        )
    return Comparison(**settings)


def _of_readings(screens: Sequence[str], penalties: Sequence[str]) -> tuple[str, ...]:
    """BIP-VI from two starts with each penalty and screen, and the screened methods with each
    screen."""
    for given, known in ((screens, SCREENS), (penalties, PENALTIES)):
        for name in given:
            if name not in known:
                raise SettingError(f"no reading is named {name!r}: use some of {', '.join(known)}.")
    climbing = [two_starts(screen, penalty).name for penalty in penalties for screen in screens]
    behind = [
        name for screen in screens for name in (SCREENED if screen == "standardised" else RAW)
    ]
    return (*climbing, *behind)


def _reads_raw(name: str) -> bool:
    """Whether a method belongs to the reading that gives the pattern of the paper's figure."""
    return METHODS[name].screen == "raw" and METHODS[name].penalty in (None, "below-worst")
