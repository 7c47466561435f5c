"""The paper's studies: one module for each figure or table. Nothing heavy is imported until one is
made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from invariance.exceptions import SettingError

if TYPE_CHECKING:
    from .runs import Study

# name: (module, what it shows)
STUDIES = {
    "theory": (
        "theory",
        "posterior at the true subset, and heterogeneity, by n, E and strength (p = 3)",
    ),
    "identifiability": (
        "identifiability",
        "two invariant subsets in two environments, one in three (p = 2)",
    ),
    "assumptions": ("assumptions", "where the posterior goes when an assumption fails (p = 3)"),
    "comparison-p10": ("comparison", "all methods against E with 10 features"),
    "comparison-p450": ("comparison", "all methods against E with 450 features"),
    "cost": ("cost", "seconds per fit by n, E and p"),
    "genes": ("genes", "genes whose deletion moves a target, predicted and held out (yeast)"),
    "genes-cost": (
        "genes_cost",
        "seconds per target gene, and how many subsets each method searches (yeast)",
    ),
}
SCALES = ("quick", "paper")
# Which predicted genes of the study "genes" are checked: those with a held-out deletion, as in the
# paper, or only those whose deletion succeeded.
COUNTS = ("published", "successful")


def make_study(name: str, scale: str = "quick", **changes: Any) -> Study:
    """The study of that name at one of its scales; `changes` are fields of it, such as
    replicates=50 or seed=1."""
    if name not in STUDIES:
        raise SettingError(f"no study is named {name!r}: use one of {', '.join(STUDIES)}.")
    if scale not in SCALES:
        raise SettingError(f"scale={scale!r} is not known: use one of {', '.join(SCALES)}.")
    study: Study = import_module(f".{STUDIES[name][0]}", __name__).at_scale(name, scale, **changes)
    return study
