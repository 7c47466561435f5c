"""The posterior over feature selectors z, as every engine returns it.

Its probabilities are, with the likelihood ratio Λ(z) = Π_e Π_i g(y_ei | x_ei^z) / p_e(y_ei |
x_ei^z),

    p(z | D) = p(z) Λ(z) / Σ_z' p(z') Λ(z')

(equation 7 and Algorithm 1 of the paper, Wu et al. 2025, arXiv:2506.22675).
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._tools.arrays import Fields, Floats, Integers, Labels, Mask, Names, Rng
from .._tools.files import write_text
from .._tools.json import from_json, parse, read_object, to_json
from .._tools.names import PlotKind
from .._tools.text import format_subset, shorten
from ..data.features import as_mask, as_masks
from ..exceptions import DataError, SettingError, WrongTypeError, use
from ..models.invariance_test import Tolerance
from .summary import Summary, format_probability, reading

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from ..models.base import BoundModel

POSTERIOR_FORMAT = "invariance.posterior/1"
# a posterior, with the decision and others, as `invariance fit --json` writes it
FIT = "invariance.fit/2"
_WITH_EVIDENCE = 100  # subsets of the table that are saved with their evidence
SubsetTable = tuple[Mask, Floats, Floats]
FloatOrFloats = TypeVar("FloatOrFloats", Floats, float)


class SubsetSource(Protocol):
    """Compute probabilities of subsets that are not in the table; an engine may supply it."""

    def log_probability(self, masks: Mask) -> Floats:
        """Return the log posterior probability (S,) of masks (S, p), -inf outside the support."""
        ...

    def sample(self, n: int, rng: Rng) -> Mask:
        """Return n draws (n, p)."""
        ...

    def leading(self, mass: float) -> SubsetTable | None:
        """Return the most probable subsets with a total probability of at least `mass`.

        They are masks (k, p), log ratios (k,) and log probabilities (k,); None if the engine does
        not know.
        """
        return None


@dataclass(frozen=True, eq=False)
class Evidence(Generic[FloatOrFloats]):
    """Hold the evidence on one subset, or on k of them.

    Attributes
    ----------
    deviance : float or ndarray of shape (k,)
        −2 log Λ of the subset.
    expected_deviance, deviance_sd : float or ndarray of shape (k,)
        Mean and standard deviation of the deviance if the subset is invariant.
    p_exact : float or ndarray of shape (k,)
        P-value of exact invariance.
    p_mean, p_spread, p_each, p_invariant : float or ndarray of shape (k,)
        P-values of approximate invariance: of the coefficients, of the scale of the noise, of the
        environment that deviates most, and of all of these. NaN if a model does not separate them
        or the deviance is infinite.
    difference, difference_low, difference_high : float or ndarray of shape (k,)
        Relative difference of the coefficients between environments, with a 90% interval. NaN for
        the empty subset, and if only the scale of the noise contradicts invariance.
    r2 : float or ndarray of shape (k,)
        Share of the variance of the outcome that the pooled fit explains.
    r2_new : float or ndarray of shape (k,)
        The same in each environment by the fit to all others; NaN if it was not computed.
    """

    deviance: FloatOrFloats
    expected_deviance: FloatOrFloats
    deviance_sd: FloatOrFloats
    p_exact: FloatOrFloats
    p_mean: FloatOrFloats
    p_spread: FloatOrFloats
    p_each: FloatOrFloats
    p_invariant: FloatOrFloats
    difference: FloatOrFloats
    difference_low: FloatOrFloats
    difference_high: FloatOrFloats
    r2: FloatOrFloats
    r2_new: FloatOrFloats

    @classmethod
    def unknown(cls, k: int) -> Evidence[Floats]:
        return Evidence(*np.full((len(fields(cls)), k), np.nan))

    def columns(self) -> dict[str, FloatOrFloats]:
        return {column.name: getattr(self, column.name) for column in fields(self)}

    def one(self: Evidence[Floats], row: int = 0) -> SubsetEvidence:
        return Evidence(**{name: float(values[row]) for name, values in self.columns().items()})


SubsetEvidence = Evidence[float]


@dataclass(frozen=True, eq=False)
class Judge:
    """Compute the evidence on any subset."""

    model: BoundModel
    tolerance: Tolerance = field(default_factory=Tolerance)

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", self.model.untilted)

    def evidence(
        self, masks: ArrayLike, log_ratios: Floats | None = None, elsewhere: bool = True
    ) -> Evidence[Floats]:
        """Return the evidence on subsets (S, p), whose log Λ (S,) may be given.

        P-values are NaN outside the support; r2_new is NaN unless `elsewhere`, because it takes a
        fit for each environment.
        """
        model = self.model
        chosen = as_masks(masks, model.n_features)
        if log_ratios is None:
            log_ratios = model.log_ratio_many(chosen)
        null = model.null_many(chosen)
        test = model.invariance_test(chosen, self.tolerance)
        exact = model.invariance_test(chosen, replace(self.tolerance, rho=0.0, tau=0.0))
        known = null.variance > 0.0
        scored = log_ratios > -np.inf
        lowest = self.tolerance.lowest_level
        compared = scored & (~(test.spread < lowest) | (test.mean < lowest))
        tests = exact.joint, test.mean, test.spread, test.each, test.joint
        new = model.left_out_r2_many(chosen) if elsewhere else np.nan
        in_order = [
            -2.0 * log_ratios,
            np.where(known, -2.0 * np.where(known, null.expected, 0.0), np.nan),
            np.where(known, 2.0 * np.sqrt(null.variance), np.nan),
            *(np.where(scored, p_values, np.nan) for p_values in tests),
            *(np.where(compared, part, np.nan) for part in model.difference(chosen)),
            model.r2_many(chosen),
            np.where(scored, new, np.nan),
        ]
        return Evidence(*in_order)

    def compatible(self, masks: Mask) -> Mask:
        """Return whether subsets are compatible with invariance up to the tolerance, (S,)."""
        return self.model.compatible(masks, self.tolerance)

    def rejected(self, masks: Mask) -> Mask:
        """Return whether invariance of the subsets is rejected at the lower level, (S,)."""
        return ~self.model.compatible(masks, self.tolerance.weak)


# A collection reaches a level, or a table holds all mass, up to rounding; re-scored subsets may
# move a sum past one.
LEVEL_TOLERANCE = 1e-12
MASS_TOLERANCE = 1e-9
EXCESS_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Posterior:
    """Hold a posterior over subsets z of p features, whichever engine computed it.

    Arrays are copied, checked and made read-only. The table lists the most probable subsets first,
    ties by size, then by the positions of their features.

    Parameters
    ----------
    feature_names : tuple of str
        Names of the p features.
    inclusion : array-like of shape (p,)
        Posterior probability that each feature is in the subset.
    pairwise : array-like of shape (p, p), default=None
        Probability that two features are both in the subset; the diagonal is `inclusion`.
    masks : array-like of shape (k, p), bool
        The leading subsets.
    log_ratios : array-like of shape (k,)
        The log likelihood ratio log Λ of each of them.
    log_probabilities : array-like of shape (k,)
        Log posterior probability of each of them.
    log_evidence : float
        Value of log Σ_z p(z) Λ(z).
    entropy : float
        Entropy of the posterior in nats.
    n_subsets : int
        Exact number of subsets in the support of the prior.
    engine : str
        Name of the engine.
    prior : str
        Description of the prior.
    outcome_name : str
        Name of the outcome.
    environments : tuple
        Labels of the E environments.
    counts : array-like of shape (E,)
        Rows of each environment.
    notes : tuple of str, default=()
        Sentences about data, model and computation.
    diagnostics : dict, default={}
        Diagnostics of the engine, as values that JSON can hold.
    model : str, default="linear Gaussian"
        Description of the model.
    model_reason : str, default=""
        Why this model was used, if the outcome selected it.
    kind : {"invariant", "predictive"}, default="invariant"
        "invariant" is the paper's posterior; "predictive" is over the subsets compatible with
        invariance, by how well they predict.
    table_evidence : Evidence, default=None
        Evidence on the first subsets of the table, if `judge` is None.
    lowest_level : float, default=None
        P-values below it reject invariance. That of `judge` is used if there is one.
    judge : Judge, default=None
        Computes the evidence on any subset. Kept by pickle, not in JSON.
    source : SubsetSource, default=None
        Computes probabilities of subsets outside the table. Kept by pickle, not in JSON.

    Raises
    ------
    ValueError
        If shapes do not match, names occur twice, or probabilities sum to more than 1.

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> posterior = BIP().fit(make_example()).posterior_
    >>> posterior.mode
    ('age', 'exercise', 'smoking')
    >>> posterior.inclusion_probabilities.round(1)["age"].item()
    1.0
    """

    feature_names: Names
    inclusion: Floats
    pairwise: Floats | None = None
    masks: Mask
    log_ratios: Floats
    log_probabilities: Floats
    log_evidence: float
    entropy: float
    n_subsets: int
    engine: str
    prior: str
    outcome_name: str
    environments: Labels
    counts: Integers
    notes: Names = ()
    diagnostics: Fields = field(default_factory=dict)
    model: str = "linear Gaussian"
    model_reason: str = ""
    kind: Literal["invariant", "predictive"] = "invariant"
    table_evidence: Evidence[Floats] | None = None
    lowest_level: float | None = None
    judge: Judge | None = None
    source: SubsetSource | None = None

    def __post_init__(self) -> None:
        names = tuple(self.feature_names)
        environments = tuple(self.environments)
        p = len(names)
        k = len(self.masks)
        if p == 0 or len(set(names)) != p:
            raise ValueError(
                "feature_names: at least one name is needed, and no name may occur twice"
            )
        masks = _checked_array("masks", self.masks, (k, p), bool)
        log_probabilities = _checked_array("log_probabilities", self.log_probabilities, (k,))
        total = float(np.exp(log_probabilities).sum())
        if not 0.0 < total <= 1.0 + EXCESS_TOLERANCE:
            raise ValueError(
                f"log_probabilities: the probabilities of the subsets sum to {total:.6g}"
            )
        # The arrays of another posterior, which cannot be written to, are in order.
        given = self.masks, self.log_probabilities
        in_order = all(
            isinstance(values, np.ndarray) and not values.flags.writeable for values in given
        )
        order = slice(None) if in_order else table_order(masks, log_probabilities)
        self.__dict__.update(
            feature_names=names,
            inclusion=np.clip(_checked_array("inclusion", self.inclusion, (p,)), 0.0, 1.0),
            pairwise=None
            if self.pairwise is None
            else _checked_array("pairwise", self.pairwise, (p, p)),
            masks=masks[order],
            log_ratios=_checked_array("log_ratios", self.log_ratios, (k,))[order],
            log_probabilities=log_probabilities[order],
            log_evidence=float(_checked_array("log_evidence", self.log_evidence, ())),
            entropy=float(_checked_array("entropy", self.entropy, ())),
            n_subsets=int(self.n_subsets),
            environments=environments,
            counts=_checked_array("counts", self.counts, (len(environments),), np.int64),
            notes=tuple(self.notes),
            diagnostics=dict(self.diagnostics),
            lowest_level=self.lowest_level
            if self.judge is None
            else self.judge.tolerance.lowest_level,
        )
        for value in self.__dict__.values():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)

    def stating(self, **said: Any) -> Posterior:
        """Return a copy with other notes or descriptions, which are not checked again."""
        other = copy(self)
        other.__dict__.update(said)
        return other

    @property
    def n_features(self) -> int:
        return len(self.feature_names)

    @property
    def n_environments(self) -> int:
        return len(self.environments)

    @property
    def table_mass(self) -> float:
        """Return the posterior probability of all subsets in the table.

        Returns
        -------
        float
            At most 1.
        """
        return min(1.0, float(np.exp(self.log_probabilities).sum()))

    @property
    def mode(self) -> Names:
        """Return the features of the most probable subset.

        Returns
        -------
        tuple of str
            Names.
        """
        return self.names_of(self.masks[0])

    @property
    def mode_mask(self) -> Mask:
        """Return the most probable subset as a mask.

        Returns
        -------
        ndarray of shape (p,), bool
            Mask.
        """
        return self.masks[0]

    @property
    def mode_probability(self) -> float:
        return math.exp(self.log_probabilities[0])

    @property
    def is_spread(self) -> bool:
        """Return whether the posterior is spread over several subsets.

        The mode then has a probability below 0.5, or the second subset more than half of the
        mode's.
        """
        first, *others = self.log_probabilities[:2]
        half = math.log(0.5)
        return bool(first < half or any(other - first > half for other in others))

    @property
    def inclusion_probabilities(self) -> pd.Series:
        """Return the posterior inclusion probability of each feature.

        Returns
        -------
        Series of shape (p,)
            By name, in the order of the features.
        """
        import pandas as pd

        return pd.Series(
            self.inclusion.copy(), list(self.feature_names), name="inclusion_probability"
        )

    @property
    def pairwise_inclusion(self) -> pd.DataFrame:
        """Return the posterior probability that two features are both in the subset.

        Returns
        -------
        DataFrame of shape (p, p)
            By name.

        Raises
        ------
        SettingError
            If the engine did not estimate it.
        """
        import pandas as pd

        if self.pairwise is None:
            raise SettingError(
                f"pairwise inclusion was not estimated ({self.engine})", use(engine="exact")
            )
        return pd.DataFrame(
            self.pairwise.copy(), list(self.feature_names), list(self.feature_names)
        )

    def subsets(self, top: int | None = 20) -> pd.DataFrame:
        """Return the most probable subsets with their evidence.

        Parameters
        ----------
        top : int, default=20
            Number of subsets, limited by the table. None is the whole table.

        Returns
        -------
        DataFrame
            Columns subset (tuple of names), size, log_ratio, probability and cumulative, and the
            fields of `Evidence`: deviance, expected_deviance, deviance_sd, p_exact, p_mean,
            p_spread, p_each, p_invariant, difference, difference_low, difference_high, r2, r2_new.
        """
        if top is not None:
            check_at_least_one("top", top)
        table = self._frame(self.masks[:top], self.log_ratios[:top], self.log_probabilities[:top])
        return table.assign(**self.leading_evidence(len(table)).columns())

    def leading_evidence(self, k: int, elsewhere: bool = True) -> Evidence[Floats]:
        """Return the evidence on the first k subsets of the table.

        NaN if it is not known, as after `from_json`; r2_new only if `elsewhere`.
        """
        k = min(k, len(self.masks))
        known = self.table_evidence or Evidence.unknown(0)
        if len(known.deviance) < k and self.judge is not None:
            found = self._computed.get((k, elsewhere))
            if found is None:
                found = self.judge.evidence(self.masks[:k], self.log_ratios[:k], elsewhere)
                self._computed[k, elsewhere] = found
            return found
        unknown = np.full(max(k - len(known.deviance), 0), np.nan)
        return Evidence(*(np.append(values[:k], unknown) for values in known.columns().values()))

    @cached_property
    def _computed(self) -> dict[tuple[int, bool], Evidence[Floats]]:
        """Evidence that `leading_evidence` found"""
        return {}

    def evidence(self, subset: Iterable[str] | ArrayLike) -> SubsetEvidence:
        """Return the evidence on one subset.

        Parameters
        ----------
        subset : iterable of str or array of shape (p,)
            Names of features, or a mask.

        Returns
        -------
        Evidence
            Its fields are numbers.

        Raises
        ------
        SettingError
            If the posterior was read from JSON and the evidence on this subset was not saved.
        """
        mask = as_mask(subset, self.feature_names)
        if self.judge is not None:
            return self.judge.evidence(mask[None]).one()
        known = 0 if self.table_evidence is None else len(self.table_evidence.deviance)
        found = np.flatnonzero((self.masks[:known] == mask).all(axis=1))
        if not len(found):
            subset = format_subset(self.names_of(mask))
            saved = f"the {known:,} subsets whose evidence was saved"
            raise SettingError(f"{subset} is not among {saved}: fit again, or save with pickle.")
        return self.leading_evidence(known).one(int(found[0]))

    def credible_subsets(self, level: float = 0.95) -> pd.DataFrame:
        """Return the smallest collection of subsets with at least a given posterior probability.

        Parameters
        ----------
        level : float, default=0.95
            Posterior probability, above 0 and at most 1; it is reached within 1e-12.

        Returns
        -------
        DataFrame
            Columns subset, size, log_ratio, probability and cumulative. If the level cannot be
            reached, all available subsets, with a warning.

        Raises
        ------
        SettingError
            If the level is not above 0 and at most 1.
        """
        if not 0 < level <= 1:
            raise SettingError(f"level must be above 0 and at most 1, not {level}")
        table: SubsetTable = self.masks, self.log_ratios, self.log_probabilities
        if self.table_mass < level - LEVEL_TOLERANCE and self.source is not None:
            more = self.source.leading(level)
            if more is not None and np.exp(more[2]).sum() > self.table_mass:
                order = table_order(more[0], more[2])
                table = more[0][order], more[1][order], more[2][order]
        cumulative = np.cumsum(np.exp(table[2]))
        needed = int(np.searchsorted(cumulative, level - LEVEL_TOLERANCE)) + 1
        if needed > len(cumulative):
            held = (
                f"the {len(cumulative):,} subsets at hand hold {cumulative[-1]:.3g} of the "
                "probability"
            )
            warnings.warn(
                f"{held}, below the level {level:g}: ask for a lower one, or keep more.",
                stacklevel=2,
            )
        return self._frame(table[0][:needed], table[1][:needed], table[2][:needed])

    def probability(self, subset: Iterable[str] | ArrayLike) -> float:
        """Return the posterior probability of one subset.

        Parameters
        ----------
        subset : iterable of str or array of shape (p,)
            Names of features, or a mask.

        Returns
        -------
        float
            Probability, 0 outside the support.

        Raises
        ------
        SettingError
            If the subset is outside the table of a posterior that was read from JSON.
        """
        mask = as_mask(subset, self.feature_names)
        found = np.flatnonzero((self.masks == mask).all(axis=1))
        if len(found):
            return math.exp(self.log_probabilities[found[0]])
        if self.source is not None:
            return math.exp(float(self.source.log_probability(mask[None, :])[0]))
        if len(self.masks) == self.n_subsets:
            return 0.0
        raise SettingError(f"{format_subset(self.names_of(mask))} is not in {self._without_source}")

    def sample(self, n: int, random_state: int | Rng | None = None) -> pd.DataFrame:
        """Draw independent subsets from the posterior.

        Parameters
        ----------
        n : int
            Number of draws.
        random_state : int or numpy.random.Generator, default=None
            Seed.

        Returns
        -------
        DataFrame of shape (n, p), bool
            One row for each draw, one column for each feature.

        Raises
        ------
        SettingError
            If the posterior was read from JSON and its table does not contain all probability.
        """
        import pandas as pd

        check_at_least_one("n", n)
        rng = np.random.default_rng(random_state)
        if self.source is not None:
            draws = np.asarray(self.source.sample(n, rng), dtype=bool)
        elif 1 - self.table_mass < MASS_TOLERANCE:
            weights = np.exp(self.log_probabilities)
            draws = self.masks[rng.choice(len(weights), size=n, p=weights / weights.sum())]
        else:
            raise SettingError(f"cannot draw from {self._without_source}")
        return pd.DataFrame(draws, columns=list(self.feature_names))

    @property
    def _without_source(self) -> str:
        held = (
            f"the table of {len(self.masks):,} subsets, which holds {self.table_mass:.6g} of "
            "the probability"
        )
        return f"{held}, and the rest was not saved: fit again, or save with pickle."

    def summary(self, top: int = 10) -> Summary:
        """Summarise the posterior.

        Parameters
        ----------
        top : int, default=10
            Number of subsets that are listed.

        Returns
        -------
        Summary
            Prints as text of at most 80 columns, and shows as HTML in notebooks.
        """
        check_at_least_one("top", top)
        return Summary(self, top)

    def reading(self) -> str:
        """Describe the posterior in words.

        Returns
        -------
        str
            Sentences on the most probable subset, or on several subsets if the posterior is spread
            out.
        """
        return reading(self)

    def plot(
        self, kind: PlotKind = "inclusion", ax: Axes | None = None, top: int | None = None
    ) -> Any:
        """Draw inclusion probabilities, or the trace of variational inference.

        Parameters
        ----------
        kind : {"inclusion", "trace"}, default="inclusion"
            "trace" is the ELBO of `engine="vi"`. `BIP.plot` draws further kinds.
        ax : Axes, default=None
            Axes to draw on. None makes a new figure.
        top : int, default=None
            Largest number of features drawn.

        Returns
        -------
        Axes
            The axes.

        Raises
        ------
        SettingError
            If the kind needs the fitted model.
        """
        from .plots import MOST_BARS, check_kind, plot_inclusion, plot_trace

        if check_kind(kind) == "inclusion":
            return plot_inclusion(self, ax, MOST_BARS if top is None else top)
        if kind == "trace":
            return plot_trace(self, ax, top)
        raise SettingError(f"a posterior has no plot {kind!r}: the fitted model draws it.")

    def to_plain(self) -> Fields:
        """Return all fields except judge and source as values that JSON can hold.

        Masks become `subsets`, lists of positions; n_subsets is hexadecimal from 2**53 on; numbers
        that are not finite are "nan", "inf" and "-inf"; labels that JSON cannot hold, such as
        dates, are text.
        """
        labels = [
            label.item() if isinstance(label, np.generic) else label for label in self.environments
        ]
        known = self.judge is not None or self.table_evidence is not None
        own = {
            "n_subsets": _count_in_json(self.n_subsets),
            "environments": [
                one if isinstance(one, str | int | float | None) else str(one) for one in labels
            ],
            "table_evidence": self.leading_evidence(_WITH_EVIDENCE).columns() if known else None,
        }
        content: Fields = {"format": POSTERIOR_FORMAT}
        for one in fields(Posterior):
            if one.name == "masks":
                content["subsets"] = [np.flatnonzero(mask).tolist() for mask in self.masks]
            elif one.name not in ("judge", "source"):
                content[one.name] = to_json(own.get(one.name, getattr(self, one.name)))
        return content

    def to_json(self, path: str | Path | None = None, more: Mapping[str, Any] | None = None) -> str:
        """Return strict JSON of the posterior, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or Path, default=None
            File to write.
        more : mapping, default=None
            Further keys, which `from_json` ignores.

        Returns
        -------
        str
            JSON text.
        """
        content = self.to_plain() | dict(more or {})
        lines = (
            f" {json.dumps(key)}: {json.dumps(value, allow_nan=False)}"
            for key, value in content.items()
        )
        text = "{\n" + ",\n".join(lines) + "\n}"
        if path is not None:
            write_text(path, text + "\n")
        return text

    @classmethod
    def from_json(cls, path_or_text: str | Path) -> Self:
        """Read what `to_json` wrote. Arrays have exactly the same values.

        Parameters
        ----------
        path_or_text : str or Path
            A file, or the JSON text itself.

        Returns
        -------
        Self
            The posterior, without `judge` and `source`.

        Raises
        ------
        DataError
            If the content has another format or is damaged.
        """
        content, origin = _read(path_or_text)
        if content.get("format") not in (POSTERIOR_FORMAT, FIT):
            raise DataError(
                f"{origin} has the format {content.get('format')!r}, and this version reads "
                f"{POSTERIOR_FORMAT!r}"
            )
        try:
            evidence = content.pop("table_evidence", None)
            n_subsets = content["n_subsets"]
            if isinstance(n_subsets, str):
                content["n_subsets"] = int(n_subsets, 16)
            masks = np.zeros((len(content["subsets"]), len(content["feature_names"])), dtype=bool)
            for mask, members in zip(masks, content["subsets"], strict=True):
                mask[np.array(members, dtype=np.uint32)] = True
            content |= {"masks": masks, "diagnostics": _numbers(content["diagnostics"])}
            if evidence is not None:
                evidence = Evidence(
                    **{name: np.array(values, dtype=float) for name, values in evidence.items()}
                )
            return cls(**vars(from_json(Posterior, content)) | {"table_evidence": evidence})
        except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
            what = f"it has no {error}" if isinstance(error, KeyError) else error
            raise DataError(f"{origin} is damaged: {what}") from error

    def to_datatree(self) -> Any:
        """Return the posterior as an `xarray.DataTree`.

        Returns
        -------
        DataTree
            Groups "posterior" (by feature) and "subsets" (by subset and feature).

        Raises
        ------
        ImportError
            If the extra `xarray` is not installed.
        """
        try:
            from xarray import Dataset, DataTree
        except ImportError as error:
            raise ImportError(
                "to_datatree() needs xarray: pip install 'invariant-prediction[xarray]'"
            ) from error
        names = list(self.feature_names)
        whole = Dataset({"inclusion": ("feature", self.inclusion.copy())}, {"feature": names})
        if self.pairwise is not None:
            pairs = ("feature", "other_feature"), self.pairwise.copy()
            whole = whole.assign_coords(other_feature=names).assign(pairwise=pairs)
        table = {
            "mask": (("subset", "feature"), self.masks.copy()),
            "log_ratio": ("subset", self.log_ratios.copy()),
            "probability": ("subset", np.exp(self.log_probabilities)),
        }
        subsets = Dataset(table, {"subset": np.arange(len(self.masks)), "feature": names})
        tree = DataTree.from_dict({"posterior": whole, "subsets": subsets})
        same = ("model", "model_reason", "engine", "prior", "log_evidence", "entropy")
        tree.attrs.update(
            {key: getattr(self, key) for key in same},
            outcome=self.outcome_name,
            n_subsets=_count_in_json(self.n_subsets),
            environments=[*map(str, self.environments)],
            counts=self.counts.tolist(),
            notes=list(self.notes),
        )
        return tree

    def __repr__(self) -> str:
        mode = (
            f"mode {format_subset(self.mode, 60)}, probability "
            f"{format_probability(self.mode_probability)}"
        )
        return (
            f"<Posterior of {self.n_features} features for {shorten(self.outcome_name, 24)}: "
            f"{mode}>"
        )

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()

    def names_of(self, mask: Mask) -> Names:
        return tuple(self.feature_names[j] for j in np.flatnonzero(mask))

    def _frame(self, masks: Mask, log_ratios: Floats, log_probabilities: Floats) -> pd.DataFrame:
        import pandas as pd

        probability = np.exp(log_probabilities)
        subset = [self.names_of(mask) for mask in masks]
        table = {
            "subset": pd.Series(subset, dtype=object),
            "size": masks.sum(axis=1),
            "log_ratio": log_ratios.copy(),
        }
        cumulative = np.minimum(np.cumsum(probability), 1.0)
        return pd.DataFrame(table | {"probability": probability, "cumulative": cumulative})


def _checked_array(
    name: str, values: ArrayLike, shape: tuple[int, ...], dtype: Any = np.float64
) -> NDArray[Any]:
    array = np.array(values, dtype=dtype)
    if array.shape != shape or np.isnan(array).any():
        raise ValueError(f"{name}: shape {shape} without NaN is needed, not {array.shape}")
    return array


def table_order(masks: Mask, log_probabilities: Floats) -> NDArray[np.intp]:
    """Return the order (k,) by probability (largest first), size and positions of the features."""
    # A zero bit marks a member: of two subsets of one size the one with the earlier feature sorts
    # first.
    packed = np.zeros((len(masks), -(-masks.shape[1] // 64) * 8), np.uint8)
    packed[:, : -(-masks.shape[1] // 8)] = np.packbits(~masks, axis=1)
    keys = (
        packed.view(">u8").astype(np.uint64)
        if packed.shape[1] == 8
        else packed.view(f"S{packed.shape[1]}")
    )
    keys = keys.ravel()
    order = np.argsort(-log_probabilities, kind="stable")
    ordered = log_probabilities[order]
    found = np.sort(keys)
    if (found[1:] == found[:-1]).any():
        raise ValueError("masks: the same subset occurs twice")
    if (ordered[1:] == ordered[:-1]).any():
        order = np.lexsort((keys, masks.sum(axis=1), -log_probabilities))
    return order


def _count_in_json(n_subsets: int) -> int | str:
    return n_subsets if n_subsets < 2**53 else hex(n_subsets)


def _numbers(value: Any) -> Any:
    """Numbers that are not finite in place of their names."""
    if isinstance(value, dict):
        return {key: _numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _read(path_or_text: str | Path) -> tuple[Fields, str]:
    """Return the object in a file or a text, and its origin for messages."""
    if not isinstance(path_or_text, str) or path_or_text.lstrip()[:1] not in ("", "{", "["):
        return read_object(Path(path_or_text), "a saved posterior"), str(path_or_text)
    try:
        return dict(parse(path_or_text)), "the text"
    except (TypeError, ValueError) as error:
        raise DataError(f"the text is not a saved posterior: {error}") from error


def check_at_least_one(name: str, value: int) -> None:
    if not isinstance(value, Integral):
        raise WrongTypeError(f"{name} must be a whole number of at least 1, not {value!r}")
    if value < 1:
        raise SettingError(f"{name} must be at least 1, not {value}")
