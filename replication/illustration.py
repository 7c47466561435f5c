"""How the synthetic data are generated, drawn from a model (the paper's illustration)."""

from __future__ import annotations

from typing import Any

import numpy as np

from invariance._tools.plotting import BLACK, BLUE, new_figure
from invariance.simulation import StructuralModel

from .simulators import theory

_INVARIANT = "#c04828"
_OTHER = "#7d7c75"
_FILLS = {_INVARIANT: "#faece7", _OTHER: "#f1efe8", BLUE: "#e6f1fb"}
SEED = 97  # x2 and x4 come before y, as in the paper


def draw_process(model: StructuralModel | None = None) -> Any:
    """One line per environment, the variables in their ordering; a triangle marks each intervened
    feature.

    model : five features, two before the outcome, and three environments where None
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import FancyBboxPatch, Patch

    if model is None:
        model = theory(3, (0.4, 0.6), np.random.default_rng(SEED), p=5, true_features=(2, 2))
    names = (*model.feature_names, "y")
    true = int(model.truth.sum())
    d = len(names)
    figure = new_figure(1.15 * d + 1.6, 1.0 * model.n_environments + 1.9)
    ax = figure.subplots()
    ax.set_axis_off()
    for e in range(model.n_environments):
        height = -1.25 * e
        kind = "interventional" if e else "observational"
        ax.text(-0.75, height, f"e = {e + 1}\n{kind}", ha="right", va="center", fontsize="small")
        for place, column in enumerate(model.ordering):
            color = BLUE if column == d - 1 else _INVARIANT if model.truth[column] else _OTHER
            box = (place - 0.36, height - 0.3)
            ax.add_patch(
                FancyBboxPatch(
                    box, 0.72, 0.6, "round,pad=0,rounding_size=0.1", fc=_FILLS[color], ec=color
                )
            )
            ax.text(
                place, height, names[column], ha="center", va="center", color=color, style="italic"
            )
            if column < d - 1 and model.intervened[e, column]:
                ax.plot(
                    place + 0.36, height + 0.3, marker="v", color=BLACK, markersize=8, clip_on=False
                )
    for place in range(d):
        ax.text(
            place,
            0.62,
            f"$t^{{({place + 1})}}$",
            ha="center",
            va="center",
            fontsize="small",
            color=_OTHER,
        )
    ax.annotate("", (d - 0.5, 0.95), (-0.5, 0.95), arrowprops={"arrowstyle": "->", "color": _OTHER})
    ax.text((d - 1) / 2, 1.12, "order of generation", ha="center", color=_OTHER, fontsize="small")
    causes = ", ".join(names[column] for column in model.ordering[:true])
    foot = -1.25 * model.n_environments + 0.45
    ax.text(
        (d - 1) / 2,
        foot,
        f"y is never intervened on: p(y | {causes}) is the same everywhere",
        ha="center",
    )
    ax.set_xlim(-2.3, d - 0.4)
    ax.set_ylim(foot - 0.3, 1.45)
    entries: list[Any] = [Patch(fc=_FILLS[color], ec=color) for color in (_INVARIANT, BLUE, _OTHER)]
    entries.append(Line2D([], [], color=BLACK, marker="v", linestyle=""))
    labels = ("invariant feature", "outcome", "other feature", "intervened on")
    figure.legend(
        entries, labels, loc="outside lower center", ncols=4, frameon=False, fontsize="small"
    )
    return figure
