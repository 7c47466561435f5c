"""Settings shared by Python, command line and page: file format, columns, choice of
environments."""

from __future__ import annotations

import codecs
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

from .._tools.arrays import Integers, Names, Places
from .._tools.names import BelowLimit, Unknown
from .._tools.text import in_quotes, printable
from ..exceptions import DataError, SettingError, use
from .checks import check_known, nearest, quoted, with_counts
from .labels import label_of, level_of

THOUSANDS = ",", ".", "'", " "
_TAB = {"tab": "\t", r"\t": "\t"}
_OTHER_SIGN = {".": ",", ",": "."}
BELOW_LIMIT = "half", "limit", "missing"
# "auto", columns, or {column: its levels}
Categorical = str | Sequence[str] | Mapping[str, Sequence[Any]]
# {column: values}
ByColumn = Mapping[str, Sequence[Any]]
# {new label: labels that become one environment}
Merged = Mapping[Hashable, Sequence[Hashable]]


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """Describe how a file is written; settings that are None are detected.

    Parameters
    ----------
    sep : str, default=None
        Separator of the cells of a text file, one character or "tab".
    decimal : {".", ","}, default=None
        Decimal sign.
    thousands : str, default=None
        Sign between groups of three digits, which is never guessed.
    encoding : str, default=None
        Encoding. None is UTF-8.
    sheet : str, default=None
        Sheet of an Excel file.
    na : sequence of str, default=()
        Further words or numbers for missing values.

    Raises
    ------
    SettingError
        If a value is unknown, or two signs are the same.

    Examples
    --------
    >>> from invariance import FileFormat
    >>> FileFormat(sep=";", decimal=",").sep
    ';'
    """

    sep: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    na: Sequence[str] = ()

    def __post_init__(self) -> None:
        sep = None if self.sep is None else _TAB.get(self.sep, self.sep)
        if sep is not None and len(sep) != 1:
            raise SettingError(f"sep={sep!r} is not one sign", use(sep=";"), use(sep="tab"))
        check_known("decimal", self.decimal, (None, ".", ","))
        check_known("thousands", self.thousands, (None, *THOUSANDS))
        if self.thousands is not None and self.thousands == self.decimal:
            other = _OTHER_SIGN[self.thousands]
            raise SettingError(
                f"decimal and thousands are both {self.decimal!r}",
                use(decimal=other),
                use(thousands=None),
            )
        decimal = self.decimal or _OTHER_SIGN.get(self.thousands or "")
        if sep is not None and sep == decimal:
            raise SettingError(f"sep and decimal are both {sep!r}", use(sep=None), use(sep=";"))
        try:
            "".encode(self.encoding or "utf-8")  # raises where it is a codec, but not of text
            codecs.getincrementaldecoder(self.encoding or "utf-8")
        except (LookupError, UnicodeError):
            known = use(encoding="utf-8"), use(encoding="latin-1"), use(encoding="utf-16")
            raise SettingError(f"encoding={self.encoding!r} is not known", *known) from None
        object.__setattr__(self, "sep", sep)
        object.__setattr__(self, "decimal", decimal)
        object.__setattr__(self, "na", tuple(word.strip() for word in listed_names("na", self.na)))


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Set which columns of a table are features, and how each is read.

    Parameters
    ----------
    features : sequence of str, default=None
        Features. None is all columns except outcome, environment and `exclude`.
    exclude : sequence of str, default=()
        Columns that are not features.
    categorical : "auto", sequence of str or mapping, default="auto"
        Columns whose values are levels, or {column: levels, the reference first}. "auto" decides by
        their type.
    numeric : sequence of str, default=()
        Columns of text that are read as numbers.
    groups : mapping or list of spline, default=None
        Columns that enter and leave together, {feature: columns}, or splines,
        `[spline("age", knots=4)]`.
    handle_unknown : {"error", "ignore"}, default="error"
        Treatment of levels that the training rows do not have; "ignore" takes the reference.
    environment : str, Along or list of these, default=None
        Column of the environment labels, `along("year")`, or several factors.
    below_limit : {"half", "limit", "missing"}, default=None
        Value of entries below a limit of detection, such as '<0.5'.
    na : mapping of str to sequence, default={}
        Values that stand for missing ones by column, `{"bmi": [999]}`.
    weights : str, default=None
        Column of frequency weights; 0 drops a row.

    Raises
    ------
    SettingError
        If a value is unknown or has the wrong form.

    Examples
    --------
    >>> from invariance import BIP, Columns
    >>> from invariance.datasets import make_example
    >>> table = make_example().to_frame()
    >>> columns = Columns(exclude=["salt"], environment="hospital")
    >>> y = table.pop("blood_pressure")
    >>> BIP(columns=columns).fit(table, y).selected_features_
    ('age', 'exercise', 'smoking')
    """

    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    categorical: Categorical = "auto"
    numeric: Sequence[str] = ()
    groups: Any = None
    handle_unknown: Unknown = "error"
    environment: Any = None
    below_limit: BelowLimit | None = None
    na: ByColumn = field(default_factory=dict)
    weights: str | None = None

    def __post_init__(self) -> None:
        lists = ["features", "exclude", "numeric"]
        if self.categorical != "auto" and not isinstance(self.categorical, Mapping):
            lists.append("categorical")
        for setting in lists:
            names = getattr(self, setting)
            if names is not None:
                object.__setattr__(self, setting, tuple(listed_names(setting, names)))
        check_known("handle_unknown", self.handle_unknown, ("error", "ignore"))
        check_known("below_limit", self.below_limit, (None, *BELOW_LIMIT))
        if not isinstance(self.na, Mapping):
            raise SettingError(f"na={self.na!r} is not {{column: values}}", use(na={"bmi": [999]}))
        na = {}
        for name, values in self.na.items():
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise SettingError(
                    f"na: {values!r} of {name!r} is not a list", use(na={str(name): [values]})
                )
            na[str(name)] = tuple(map(level_of, values))
        object.__setattr__(self, "na", na)


def listed_names(setting: str, names: Any) -> list[str]:
    """The names as text."""
    if isinstance(names, str):
        listed = [part.strip() for part in names.split(",")]
        raise SettingError(f"{setting}={names!r} is a single string", use(**{setting: listed}))
    if not isinstance(names, Iterable):
        raise SettingError(
            f"{setting}={names!r} is not a list of names", use(**{setting: [str(names)]})
        )
    return [str(name) for name in names]


def places_of(labels: Iterable[Hashable], available: Sequence[Hashable]) -> Places:
    """Where each of the labels is among those available. One may be given as it is printed."""
    if isinstance(labels, str):
        raise DataError(f"{labels!r} is a single label: pass a list of labels, [{labels!r}].")
    positions: dict[Hashable, int] = {}
    for forms in ([printable(str(label)) for label in available], map(str, available), available):
        positions |= {form: place for place, form in enumerate(forms)}
    places = []
    for label in labels:
        label = label_of(label)
        place = positions.get(label, positions.get(str(label)))
        if place is None:
            others = nearest(str(label), available, "environments")
            raise DataError(f"there is no environment {in_quotes(label)}; {others}")
        places.append(place)
    if not places:
        raise DataError(f"no environment is named. The environments are {quoted(available, 12)}.")
    return np.array(places, dtype=np.intp)


@dataclass(frozen=True, kw_only=True)
class Environments:
    """Set which environments of a table are used.

    Parameters
    ----------
    drop : sequence of label, default=()
        Environments that are dropped.
    merge : mapping of label to sequence of label, default={}
        {new label: labels that become one environment}, of labels of the table.
    min_rows : int, default=0
        Environments with fewer rows, after merging, are dropped.

    Raises
    ------
    DataError
        If a value has the wrong form.

    Examples
    --------
    >>> from invariance import Environments
    >>> Environments(drop=["east"], min_rows=50).drop
    ('east',)
    """

    drop: Sequence[Hashable] = ()
    merge: Merged = field(default_factory=dict)
    min_rows: int = 0

    def __post_init__(self) -> None:
        drop = self.drop
        merge = self.merge
        min_rows = self.min_rows
        if isinstance(min_rows, bool) or not isinstance(min_rows, Integral) or min_rows < 0:
            raise DataError(f"min_rows={min_rows!r} is not a number of rows", use(min_rows=0))
        if isinstance(drop, str) or not isinstance(drop, Iterable):
            raise DataError(
                f"drop_environments={drop!r} is not a list", use(drop_environments=[drop])
            )
        if not isinstance(merge, Mapping):
            example = use(merge_environments={"new label": ["one label", "another label"]})
            raise DataError(f"merge_environments={merge!r} is not a mapping", example)
        for name, members in merge.items():
            if (
                isinstance(members, str)
                or not isinstance(members, Iterable)
                or len(set(members)) < 2
            ):
                raise DataError(
                    f"merge_environments: {name!r} needs a list of two labels or more, not "
                    f"{members!r}."
                )
        object.__setattr__(self, "drop", tuple(drop))
        object.__setattr__(
            self, "merge", {label_of(name): tuple(members) for name, members in merge.items()}
        )
        object.__setattr__(self, "min_rows", int(min_rows))

    @property
    def regroups(self) -> bool:
        return bool(self.drop or self.merge)

    def renamed(
        self, environments: Sequence[Hashable], counts: Integers
    ) -> tuple[dict[Hashable, Hashable], Names]:
        """{label: new label} of the environments that stay, of which each has so many rows; notes
        about the others"""
        n_rows = dict(zip(environments, counts.tolist(), strict=True))

        def named(labels: Sequence[Hashable]) -> list[Hashable]:
            return [environments[place] for place in np.unique(places_of(labels, environments))]

        gone = named(self.drop) if self.drop else []
        told = with_counts(gone, [n_rows[label] for label in gone])
        notes = [f"left out environments, as asked: {told}."] if gone else []
        new = {label: label for label in environments if label not in gone}
        claimed = set(gone)
        for name, members in self.merge.items():
            parts = named(members)
            twice = [label for label in parts if label in claimed]
            if twice:
                raise DataError(
                    f"environment {quoted(twice)} is to be left out or merged twice: name it once."
                )
            claimed.update(parts)
            if str(name) in {str(label) for label in new if label not in parts}:
                raise DataError(
                    f"cannot merge into {in_quotes(name)}, which is another environment: "
                    "choose another label."
                )
            new |= dict.fromkeys(parts, name)
            told = with_counts(parts, [n_rows[label] for label in parts])
            notes.append(f"merged {told} into one environment, {in_quotes(name)}.")
        if not new:
            raise DataError(f"no environment is left: all of {quoted(environments)} are dropped.")
        return new, tuple(notes)

    def too_small(
        self, environments: Sequence[Hashable], counts: Integers
    ) -> tuple[set[Hashable], Names]:
        """Labels of environments (E,) with fewer rows than `min_rows`, and a sentence about them"""
        small = counts < self.min_rows
        if not small.any():
            return set(), ()
        if small.all():
            second = use(min_rows=int(np.sort(counts)[-2:][0]))
            raise DataError(
                f"min_rows={self.min_rows} is more than the {int(counts.max())} of any environment",
                second,
            )
        labels = {label for label, few in zip(environments, small, strict=True) if few}
        gone = with_counts(environments, np.where(small, counts, 0))
        return labels, (f"left out environments with fewer than {self.min_rows} rows: {gone}.",)


def refuse_single(environments: Sequence[Hashable], notes: Sequence[str]) -> None:
    """Raise where one environment is left of several."""
    if len(environments) == 1 and notes:
        raise DataError(
            f"one environment is left, {in_quotes(environments[0])}: {' '.join(notes)} "
            "Leave out or merge fewer."
        )


ALL_ENVIRONMENTS = Environments()


_Settings = TypeVar("_Settings", "Columns", "Environments")


def stated_once(name: str, whole: _Settings | None, parts: _Settings) -> _Settings:
    """`whole`, or `parts` where it is None; raises where both state something"""
    unset = type(parts)()
    beside = [
        each.name
        for each in fields(parts)
        if getattr(parts, each.name) != getattr(unset, each.name)
    ]
    if whole is not None and beside:
        raise SettingError(
            f"{beside[0]!r} came beside {name}=, which would not hear of it: state it "
            f"there, {name}={type(parts).__name__}({beside[0]}=...)."
        )
    return parts if whole is None else whole
