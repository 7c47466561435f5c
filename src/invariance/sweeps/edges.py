"""Edges of a sweep: p-values, and control of the share of outcomes with a false edge.

The p-value of a feature is the largest p-value for invariance of a subset without it (Peters,
Bühlmann and Meinshausen 2016, arXiv:1501.01332).
"""

from __future__ import annotations

from numbers import Real

import numpy as np
import pandas as pd

from .._tools.arrays import Floats, Names, subsets_at
from .._tools.sections import Section
from .._tools.text import name_labels
from ..data.checks import warn
from ..decisions.pipeline import Findings
from ..exceptions import DataError, SettingError
from ..models.base import of_all_features
from ..models.invariance_test import EACH

# Features of which all subsets are tested for `p_edge`, the leading ones.
MOST_TESTED = 12
_MAX_EDGES_SHOWN = 20
NAME_WIDTH = 26  # of columns in tables
CONDITIONS = (
    "- outcomes are linear in their direct causes, with Gaussian noise, alike in all environments;",
    f"- these are measured and, of more than {MOST_TESTED} features, among the {MOST_TESTED} of "
    "largest inclusion;",
    "- nothing acts on an outcome itself, but in rows that are named as perturbed.",
    "Inclusion alone controls nothing: it is a share among compatible subsets.",
)


def edge_p_values(findings: Findings, inclusion: Floats) -> Floats:
    """Return p-values (p,) of the hypotheses that features are not direct causes.

    By invariant causal prediction: the largest p-value of a subset without the feature, among
    subsets of the MOST_TESTED leading features; NaN if no such subset is compatible with
    invariance. The level is that of the paper's posterior, because the lower level that is tried
    next depends on these p-values. inclusion : (p,) of the posterior by which the rule selects.
    """
    p = findings.target.n_features
    prior = findings.target.prior
    tolerance = findings.tolerance
    order = np.lexsort((-findings.posterior.inclusion, -inclusion))
    leading = order[~prior.forced_out[order]][:MOST_TESTED]
    draws = subsets_at(np.arange(1 << len(leading)), len(leading))
    draws = draws[draws.sum(axis=1) <= prior.max_size]
    judge = findings.posterior.judge
    model = findings.target.model if judge is None else judge.model
    joint = model.invariance_test(of_all_features(draws, leading, (), p), tolerance).joint
    # The smaller of a p-value and of 1/EACH times another is below α in at most (1 + EACH) α.
    p_values = np.minimum((1.0 + EACH) * joint, 1.0)
    if joint.max() < tolerance.level:
        return np.full(p, np.nan)
    found = np.full(p, p_values.max())
    found[leading] = np.where(draws, 0.0, p_values[:, None]).max(axis=0)
    return found


def edges(sweep: pd.DataFrame, fdr: float = 0.1) -> pd.DataFrame:
    """List the features that are in every invariant subset of an outcome.

    The expected share of outcomes with a false edge is controlled.

    Parameters
    ----------
    sweep : DataFrame
        Table of `invariance.sweep` or `read_sweep`.
    fdr : float, default=0.1
        Largest expected share of outcomes with a false edge among those with edges, between 0 and
        1.

    Returns
    -------
    DataFrame
        One row for each edge, the smallest p_edge first: outcome, feature, p_edge, inclusion,
        selected, verdict.

    Raises
    ------
    DataError
        If the table is not that of a sweep.
    SettingError
        If fdr is not between 0 and 1.

    Notes
    -----
    The p-value `p_edge` is that of invariant causal prediction: the largest p-value for invariance
    of a subset without the feature. If the direct causes of an outcome are invariant, its edges are
    all right unless these are rejected: one test for each outcome. Outcomes are dependent, so that
    the procedure is that of Benjamini and Yekutieli. Edges in both directions between two columns
    are excluded, with a warning.

    References
    ----------
    Peters, J., Bühlmann, P. and Meinshausen, N. (2016), Causal inference by using invariant
    prediction: identification and confidence intervals, Journal of the Royal Statistical Society B
    78, 947-1012, arXiv:1501.01332.

    Benjamini, Y. and Yekutieli, D. (2001), The control of the false discovery rate in multiple
    testing under dependency, Annals of Statistics 29, 1165-1188, doi:10.1214/aos/1013699998.

    Examples
    --------
    >>> from invariance import edges, sweep
    >>> from invariance.datasets import make_example
    >>> table = edges(sweep(make_example(), outcomes=["blood_pressure"]), fdr=0.1)
    >>> sorted(table.feature)
    ['age', 'exercise', 'smoking']
    """
    if not isinstance(fdr, Real) or not 0.0 < fdr < 1.0:
        raise SettingError(f"fdr={fdr!r} is no rate: use a number between 0 and 1, such as 0.1.")
    columns = ["outcome", "feature", "p_edge", "inclusion", "selected", "verdict"]
    if not isinstance(sweep, pd.DataFrame) or not {*columns} <= {*sweep.columns}:
        raise DataError("this is no table of a sweep: pass what sweep() or read_sweep() returned.")
    fitted = sweep[sweep["feature"].notna()]
    smallest = np.sort(fitted.groupby("outcome")["p_edge"].min().fillna(1.0))
    ranks = np.arange(1, len(smallest) + 1)
    limits = fdr * ranks / (len(ranks) * (1.0 / ranks).sum())
    limit = limits[smallest <= limits].max(initial=-1.0)
    found = fitted.loc[fitted["p_edge"] <= limit, columns].sort_values(
        "p_edge", kind="stable", ignore_index=True
    )
    pairs = set(zip(found["outcome"], found["feature"], strict=True))
    turned = zip(found["feature"], found["outcome"], strict=True)
    both_ways = np.array([pair in pairs for pair in turned], dtype=bool)
    if both_ways.any():
        warn(
            f"{both_ways.sum():,} of {len(found):,} edges join two columns in both directions, "
            "and are left out: "
            "environments seem to act on outcomes themselves, and then errors are not controlled."
        )
    return found[~both_ways].reset_index(drop=True)


def pairs_table(pairs: pd.DataFrame, **formats: str) -> tuple[Names, ...]:
    """Return outcome, feature and the columns that have a format, under their names; nothing
    without pairs."""
    if pairs.empty:
        return ()
    names = list(dict.fromkeys([*pairs["outcome"], *pairs["feature"]]))
    label = dict(zip(names, name_labels(names, NAME_WIDTH), strict=True))
    columns = [pairs[name].map(label) for name in ("outcome", "feature")]
    columns += [pairs[name].map(f"{{:{form}}}".format) for name, form in formats.items()]
    return ("outcome", "feature", *formats), *zip(*columns, strict=True)


def edges_sections(sweep: pd.DataFrame, found: pd.DataFrame, fdr: float) -> list[Section]:
    """Return the sections of text on the edges and on what is controlled."""
    fitted = sweep[sweep["feature"].notna()]
    shown = found[:_MAX_EDGES_SHOWN]
    largest = fitted.groupby("outcome")["p_edge"].max()
    n = len(largest)
    unknown = int(largest.isna().sum())
    table = pairs_table(shown, p_edge=".2g", inclusion=".3f")
    more = (f"… {len(found) - len(shown):,} more",) if len(found) > len(shown) else ()
    outcomes = f"{n:,} outcome{'s' * (n != 1)}"
    counted = (
        f"{len(found):,} edge{'s' * (len(found) != 1)} into {found['outcome'].nunique():,} "
        f"of {outcomes}"
    )
    none = (
        f" {unknown:,} have no compatible subset, and nothing is said of them." if unknown else ""
    )
    control = (
        f"Of the outcomes with edges at most {100.0 * fdr:g}% have a false one, on average: from "
        "a feature that is no "
        f"direct cause (Benjamini and Yekutieli's rule over {outcomes}). That holds where"
    )
    return [
        Section(f"{counted}.{none}", table=table, notes=more, text_columns=(0, 1)),
        Section("What is controlled", (control,), notes=CONDITIONS),
    ]
