"""A look at the columns of a table: findings of each, and missing values by environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from ..exceptions import Message, Remedy, use
from .checks import alike, in_print, listing, quoted, rows_text
from .columns import MISSING_LEVEL, MOST_RANGES, Choices, RawTable, Refusal, as_mended
from .duplicates import equal_columns
from .encoding import ColumnSummary
from .gaps import Exclusion, MissingValues, exclusions
from .labels import encode_labels, label_of, level_of
from .odd_values import (
    OneValue,
    consecutive_levels,
    far_values,
    has_isolated_zeros,
    is_constant_within,
    one_value,
    other_units,
    skipped_levels,
)
from .outcomes import OutcomeKind, outcome_kind
from .reading import TEXT, TableFile, numbers_with_points, words_for_missing

CODES = {
    "identifier": "a number or name of its own in each row",
    "dates": "dates or times",
    "text": "sentences, not levels",
    "detection_limit": "values such as '<0.5' among numbers",
    "words": "some words among numbers",
    "numbers_as_text": "numbers stored or written as text",
    "with_unit": "numbers with a sign or unit after them, such as '45%'",
    "objects": "values that are neither numbers nor text",
    "unit": "an environment whose values are more than ten times larger or smaller, with the same "
    "relative spread",
    "far_values": "values far from all others, such as 999",
    "codes": "whole numbers that are called codes",
    "absent": "no values in an environment",
    "labels_alike": "labels or levels that print alike, or differ in capitals or zeros only",
    "copies": "the same as another column, perhaps in other units",
    "within": "constant in every environment, as a recoding of its label is",
    "one_value": "one value in all rows of an environment, such as 0 where nothing was measured",
    "zeros": "0 far below all other values",
    "skips": "whole numbers that skip some, such as 3, 6 and 7",
    "sequence": "few whole numbers without a gap, such as 1 to 4",
    "grades": "an outcome that may be grades, not a count or a number",
    "signs": "'?' or '.' among levels",
    "missing": "missing values",
    "exclusion": "features without which more values are kept, complete rows times features",
    "constant": "one value only, or none",
    "stopped": "what would stop the fit without the first remedy",
    "refused": "what a fit refuses all the same: too few rows, infinite values, an outcome of "
    "three classes ...",
}
# A column with more different values is not shown as environments.
MOST_GROUPS = 200
_EXAMPLES_SHOWN = 3
_ID = re.compile(
    r"(?i:(^|[\W_])(id|no|nr|number|index|key|code|row(.?names?)?|mrn|uid|pid|patient|subject|case|record))$|[IU]D$"
)
_CODES = re.compile(
    r"(?i)(^|[\W_])(codes?|wards?|types?|groups?|class|category|kind|status|region|department|dept|site|icd|zip)$"
)
_FEWEST_IDS = 10
_MAX_CODES = 20
# Levels that stand for a missing value
_MISSING_SIGNS = "?", "."
# Findings of columns that are first to be left out
_UNUSABLE = "identifier", "dates", "text", "with_unit", "objects"
# A word for missing values that is as often a level of its own: no pupil reacts, there is no
# basement.
_NONE_AS_WORD = "None"


@dataclass(frozen=True)
class Finding:
    """Describe one problem of a table, with remedies.

    Attributes
    ----------
    code : str
        One of `CODES`.
    column : str or None
        The column. None is the whole table.
    what : str
        The problem as a sentence.
    remedies : tuple of Remedy
        Settings, each of which corrects it. The first is in `DataCheck.settings`.
    rows : int
        Number of rows.
    environments : tuple
        Labels of the environments in which it occurs, if known.
    asks : bool
        Whether it is a question, whose remedies are not in the settings.
    """

    code: str
    column: str | None
    what: str
    remedies: tuple[Remedy, ...] = ()
    rows: int = 0
    environments: tuple[Hashable, ...] = ()
    asks: bool = False

    @property
    def mending(self) -> Remedy | None:
        """The remedy that is in the settings"""
        return self.remedies[0] if self.remedies and not self.asks else None

    @property
    def message(self) -> Message:
        """Return the sentence with its remedies.

        Returns
        -------
        Message
            Text.
        """
        return Message(self.what.removesuffix(".") if self.remedies else self.what, *self.remedies)

    def to_plain(self) -> dict[str, Any]:
        remedies = [
            {"settings": dict(remedy.settings), "note": remedy.note} for remedy in self.remedies
        ]
        return {**vars(self), "environments": list(self.environments), "remedies": remedies}


@dataclass(frozen=True)
class ColumnLook:
    """Describe one column of a table.

    Attributes
    ----------
    name : str
        Name.
    kind : {"numbers", "whole numbers", "0 and 1", "text", "dates", "empty"}
        Kind of its values.
    n_values : int
        Number of distinct values.
    missing : int
        Rows with missing values.
    examples : tuple of str
        Some values.
    groups : tuple of (label, int)
        Rows of each value, if there are not too many.
    as_outcome : OutcomeKind or None
        Kind of the outcome that it would be.
    """

    name: str
    kind: str
    n_values: int
    missing: int
    examples: tuple[str, ...]
    groups: tuple[tuple[Hashable, int], ...]
    as_outcome: OutcomeKind | None


def setting_of(remedy: Remedy) -> dict[str, Any]:
    return dict(remedy.settings)


def left_out_by(findings: Sequence[Finding]) -> list[str]:
    """Columns that the first remedies leave out"""
    mendings = [finding.mending for finding in findings]
    lists = [setting_of(way).get("exclude", ()) for way in mendings if way is not None]
    return list(dict.fromkeys(name for listed in lists for name in listed))


class RowLabels(NamedTuple):
    """Environments of rows. labels : E of them; codes (N,) : into the labels, -1 where missing"""

    labels: tuple[Hashable, ...]
    codes: Integers

    @property
    def several(self) -> bool:
        return len(self.labels) > 1

    def of(self, rows: Mask) -> tuple[Hashable, ...]:
        """The environments of some rows"""
        found = np.unique(self.codes[rows & (self.codes >= 0)]).tolist() if self.labels else []
        return self.named(found)

    def named(self, places: Iterable[int]) -> tuple[Hashable, ...]:
        return tuple(self.labels[e] for e in places)

    def n_rows(self, labels: Sequence[Hashable]) -> int:
        """How many these environments have"""
        places = [e for e, label in enumerate(self.labels) if label in labels]
        return int(np.isin(self.codes, places).sum())

    def single(self, labels: Sequence[Hashable]) -> str:
        """The environment in words, if it is the only one of several"""
        return f" of {quoted(labels)}" if len(labels) == 1 and self.several else ""

    def one_value(self, values: Floats) -> list[OneValue]:
        return one_value(values, self.codes, len(self.labels)) if self.several else []


@dataclass(eq=False)
class LookedColumn:
    """A column with what its findings need.

    written : a narwhals series for people to see; values (N,) : numbers as the first remedy reads
    them, or places in the levels; present, declared (N,) : whether there is a value, and whether
    first remedies declare it missing; is_read, is_mended : whether the values are those of the
    column, or of its first remedy; is_chosen : the user called it a category
    """

    name: str
    written: Any
    values: Floats
    levels: tuple[str, ...] | None
    doubt: Refusal | None
    present: Mask
    declared: Mask
    is_read: bool
    is_mended: bool
    is_chosen: bool
    sites: RowLabels

    @property
    def complete(self) -> Mask:
        """(N,) rows that have a value which no first remedy declares missing"""
        return self.present & ~self.declared

    @property
    def clean(self) -> Floats:
        """(N,) the values without those that are declared missing"""
        return np.where(self.declared, np.nan, self.values)

    @property
    def is_zero_or_one(self) -> bool:
        return self.levels is None and set(self.values[self.complete]) == {0.0, 1.0}

    @cached_property
    def is_constant_within(self) -> bool:
        """Whether it is constant in every environment"""
        certain = self.doubt is None or self.levels is not None
        return (
            self.sites.several
            and (self.is_mended or (self.is_read and certain))
            and is_constant_within(self.values, self.sites.codes, len(self.sites.labels))
        )

    # ---- as people see it

    def described(self) -> ColumnLook:
        values = [value for value in self.written.drop_nulls().to_list() if value == value]
        are_texts = all(isinstance(value, str) for value in values)
        counts = Counter(values if are_texts else map(str, values))
        groups: Counter[Hashable] = Counter()
        for text, n in counts.items() if len(counts) <= MOST_GROUPS else ():
            groups[label_of(text)] += n
        levels = list(dict.fromkeys(map(level_of, counts)))
        return ColumnLook(
            self.name,
            self._kind(len(levels)),
            len(levels),
            len(self.values) - len(values),
            tuple(levels[:_EXAMPLES_SHOWN]),
            tuple(groups.items()),
            self.as_outcome(),
        )

    def _kind(self, n_values: int) -> str:
        if n_values == 0:
            return "empty"
        if self.doubt is not None and self.doubt.code == "dates":
            return "dates"
        if not self.is_read or self.levels is not None:
            return "text"
        present = self.values[self.present]
        if n_values == 2 and set(present) == {0.0, 1.0}:
            return "0 and 1"
        return "whole numbers" if (present == np.rint(present)).all() else "numbers"

    def as_outcome(self) -> OutcomeKind | None:
        """Return the kind of outcome that it would be; None if it cannot be one."""
        present = self.values[self.complete]
        if not self.is_read or len(present) == 0:
            return None
        if self.levels is None:
            return outcome_kind(present, self.name)
        if len(self.levels) != 2:
            return None
        return outcome_kind(present, self.name, classes=(self.levels[0], self.levels[1]))

    # ---- findings

    def findings(self) -> Iterator[Finding]:
        """Of all but missing values."""
        name = self.name
        doubt = self.doubt
        leave_out = use(exclude=[name])
        n_rows = len(self.values)
        there = self.complete
        values = self.values[there]
        # Of words that the first remedy declares missing, numbers remain.
        several = doubt is not None and len(self.levels or (name,)) > 1
        if len(values) == 0 or (self.is_read and not several and values.min() == values.max()):
            held = "one value only" if len(values) else "no values"
            yield Finding("constant", name, f"{name!r} has {held}.", (leave_out,), n_rows)
            return
        if doubt is not None:
            unusable = doubt.code in _UNUSABLE or self._may_be_numbers
            remedies = (leave_out, *doubt.remedies) if unusable else (*doubt.remedies, leave_out)
            yield Finding(doubt.code, name, f"{name!r} {doubt.reason}.", remedies, len(values))
            if unusable:
                return
        levels = self.levels if doubt is None else None
        found = [] if levels is None else list(labels_alike(name, levels))
        yield from found
        if self.is_constant_within and not found:
            what = f"{name!r} is constant in every environment, {_NO_EFFECT}."
            yield Finding("within", name, what, (leave_out,), n_rows)
            return
        if levels is not None:
            yield from self._signs(levels)
            yield from self._in_one_environment(self.clean)
            pairs = {
                pair
                for pair in zip(self.sites.codes.tolist(), self.values.tolist(), strict=True)
                if pair[0] >= 0
            }
            apart = len(pairs) == len({level for _, level in pairs})
            if apart and self.sites.several and not found:
                what = (
                    f"Each level of {name!r} occurs in one environment only, so that anything "
                    "looks invariant."
                )
                yield Finding("copies", name, what, (leave_out,), n_rows)
                return
        elif doubt is None and _are_ids(name, self.values):
            what = f"{name!r} has another whole number in each row, like an ID or a row number."
            yield Finding("identifier", name, what, (leave_out,), n_rows)
            return
        elif doubt is None or self.is_mended:
            yield from self._of_numbers(values)
        seen = self.sites.of(there)
        absent = tuple(label for label in self.sites.labels if label not in seen)
        if absent:
            what = f"{name!r} has no values in {quoted(absent)}."
            remedies = leave_out, use(drop_environments=list(absent))
            yield Finding("absent", name, what, remedies, self.sites.n_rows(absent), absent)

    @property
    def _may_be_numbers(self) -> bool:
        """Whether the words among the numbers of a column have digits, and are too many to be
        levels: (2.50)"""
        return (
            self.doubt is not None
            and self.doubt.code == "words"
            and "categorical" in setting_of(self.doubt.remedies[0])
            and len(self.levels or ()) > MOST_RANGES
        )

    def _of_numbers(self, values: Floats) -> Iterator[Finding]:
        name = self.name
        leave_out = use(exclude=[name])
        far = far_values(values)
        if far:
            is_far = np.isin(values, far)
            rows = int(is_far.sum())
            where = self.sites.of(np.isin(self.values, far))
            self._declare(far)
            values = values[~is_far]
            told = quoted(f"{value:g}" for value in far)
            if max(far) < 0.0 <= values.min():
                only = f" in {quoted(where)} only" if self.sites.single(where) else ""
                what = f"{name!r} has {told}{only}, and no other value below 0."
            else:
                what = (
                    f"{name!r} has {told} in {rows_text(rows)}{self.sites.single(where)}; all "
                    f"others are from {values.min():g} to {values.max():g}."
                )
            yield Finding("far_values", name, what, (use(na={name: far}), leave_out), rows, where)
        different = np.unique(values)
        whole = bool((values == np.rint(values)).all())
        few = 2 < len(different) <= _MAX_CODES and len(different) * 10 <= len(self.values)
        if whole and few and _CODES.search(name):
            shown = quoted((f"{value:g}" for value in different), 6)
            what = f"{name!r} looks like codes of {len(different)} levels, {shown}."
            yield Finding("codes", name, what, (use(categorical=[name]), leave_out), len(values))
            return
        yield from self._zeros()
        clean = self.clean
        yield from self._in_one_environment(clean)
        yield from self._skipping(clean[~np.isnan(clean)])
        units = other_units(clean, self.sites.codes, len(self.sites.labels))
        if units:
            labels = self.sites.named(units)
            factor = next(iter(units.values()))
            times = f"{factor:.2g} times" if factor > 1 else f"1/{1 / factor:.2g} of"
            what = (
                f"The median of {name!r} in {quoted(labels)} is {times} that of the others, its "
                "relative spread alike. Another unit?"
            )
            remedies = leave_out, use(drop_environments=list(labels))
            yield Finding("unit", name, what, remedies, self.sites.n_rows(labels), labels)

    def _declare(self, codes: Sequence[float]) -> None:
        """Count these values as missing."""
        self.declared = self.declared | np.isin(self.values, codes)

    def _zeros(self) -> Iterator[Finding]:
        """Zeros far below all others: missing if an environment has nothing else, else a
        question."""
        name = self.name
        values = self.clean
        finite = values[np.isfinite(values)]
        if not has_isolated_zeros(finite):
            return
        is_zero = values == 0.0
        n_zeros = int(is_zero.sum())
        positive = finite[finite > 0.0]
        others = f"others are from {positive.min():g} to {positive.max():g}."
        remedies = use(na={name: [0.0]}), use(exclude=[name])
        whole = next((one for one in self.sites.one_value(values) if one.value == 0.0), None)
        if whole is None:
            labels = self.sites.of(is_zero)
            what = (
                f"{name!r} is 0 in {rows_text(n_zeros)}{self.sites.single(labels)}; {others} Is 0 "
                "a missing value?"
            )
            yield Finding("zeros", name, what, remedies, n_zeros, labels, asks=True)
            return
        labels = self.sites.named(whole.environments)
        beside = f" and in {whole.elsewhere} elsewhere" if whole.elsewhere else ""
        what = (
            f"{name!r} is 0 in all {rows_text(n_zeros - whole.elsewhere)} of "
            f"{quoted(labels)}{beside}; {others}"
        )
        self._declare([0.0])
        ways = *remedies, use(drop_environments=list(labels))
        yield Finding("one_value", name, what, ways, n_zeros, labels)

    def _in_one_environment(self, values: Floats) -> Iterator[Finding]:
        """One value in all rows of a single environment, which others have too rarely for chance: a
        question."""
        found = self.sites.one_value(values)
        labels = self.sites.named(e for one in found for e in one.environments)
        if len(labels) == 1:
            name = self.name
            value = found[0].value
            texts = None if self.is_mended else self.levels
            shown = f"{value:g}" if texts is None else repr(texts[int(value)])
            rows = self.sites.n_rows(labels)
            what = (
                f"{name!r} is {shown} in all {rows_text(rows)} of {quoted(labels)}, and varies "
                "elsewhere. Was it measured there?"
            )
            remedies = use(exclude=[name]), use(drop_environments=list(labels))
            yield Finding("one_value", name, what, remedies, rows, labels, asks=True)

    def _skipping(self, values: Floats) -> Iterator[Finding]:
        """Yield doubts about few whole numbers: categories or, beyond a gap, a code."""
        name = self.name
        levels, codes = skipped_levels(values)
        ways = use(categorical=[name]), use(exclude=[name])
        in_sequence = consecutive_levels(values)
        if in_sequence:
            ends = f"{in_sequence[0]:g} to {in_sequence[-1]:g}"
            what = f"{name!r} holds only the whole numbers {ends}. Are they categories?"
            yield Finding("sequence", name, what, ways, len(values), asks=True)
        if not levels or (not codes and outcome_kind(values, name).kind == "count"):
            return
        shown = listing(f"{value:g}" for value in levels)
        rows = len(values)
        what = f"{name!r} holds whole numbers that skip some, {shown}. Are they categories?"
        if codes:
            rows = int(np.isin(values, codes).sum())
            ways = use(na={name: codes}), use(categorical=[name])
            what = (
                f"{name!r} holds {shown}, with {codes[0]:g} in {rows_text(rows)}. Is "
                f"{codes[0]:g} a missing value?"
            )
        yield Finding("skips", name, what, ways, rows, asks=True)

    def _signs(self, levels: Sequence[str]) -> Iterator[Finding]:
        """Levels such as '?', which stand for missing values."""
        name = self.name
        signs = [text for text in levels if text in _MISSING_SIGNS]
        if signs and len(levels) > len(signs) + 1 and not self.is_chosen:
            self._declare([levels.index(text) for text in signs])
            rows = int(self.declared.sum())
            what = f"{name!r} has the level {quoted(signs)} in {rows_text(rows)}."
            remedies = use(na={name: signs}), use(categorical=[name])
            yield Finding("signs", name, what, remedies, rows)


class Look:
    """A table with what all findings need. file : where it comes from, if that is known"""

    def __init__(
        self,
        frame: Any,
        written: Any,
        names: Sequence[str],
        features: Sequence[str],
        choices: Choices,
        environment: str | None,
        file: TableFile | None = None,
    ) -> None:
        self.features = features
        self.file = file
        self.n_rows = len(frame)
        self.environment = environment
        raw = RawTable.of_frame(frame, names, choices)
        codes = np.zeros(self.n_rows, np.int64)
        labels: tuple[Hashable, ...] = ()
        if environment is not None:
            places, labels = encode_labels(frame[environment].to_list())
            codes = places.astype(np.int64)
        self.sites = RowLabels(labels, codes)
        doubts = ColumnSummary.of(raw).refusals(choices)
        points = {} if file is None else numbers_with_points(frame.to_native(), file)
        for name in points.keys() & doubts.keys():
            example, way = points[name]
            reason = f"holds {example!r}, and decimals are commas"
            doubts[name] = Refusal(reason, (way, use(categorical=[name])), "numbers_as_text")
        self.columns: dict[str, LookedColumn] = {}
        for name, values in zip(names, raw.values.T, strict=True):
            doubt = doubts.get(name)
            mended = None
            if doubt is not None and doubt.remedies:
                mended = as_mended(frame[name], name, choices, doubt.remedies[0])
            is_read = name not in raw.refused
            nulls = np.isnan(values) if is_read else frame[name].is_null().to_numpy()
            present = ~np.asarray(nulls, dtype=bool)
            values = values if mended is None else mended
            levels = raw.levels.get(name)
            self.columns[name] = LookedColumn(
                name,
                choices.mending.series(written[name], name),
                values,
                None if levels is None else levels.texts,
                doubt,
                present,
                np.isnan(values) & present,
                is_read,
                mended is not None,
                name in choices.categorical,
                self.sites,
            )

    def findings(self) -> Iterator[Finding]:
        """Of all but missing values."""
        if self.environment is not None:
            yield from labels_alike(self.environment, self.sites.labels, self.sites)
        columns = [self.columns[name] for name in self.features]
        together = [
            column.name
            for column in columns
            if column.is_constant_within and column.doubt is None and column.is_zero_or_one
        ]
        together = together if len(together) > 1 else []
        for column in columns:
            if column.name not in together:
                yield from column.findings()
        if together:
            what = (
                f"{quoted(together, 4)} are constant in every environment, "
                f"{_NO_EFFECT.replace('has', 'have')}."
            )
            yield Finding("within", None, what, (use(exclude=together),), self.n_rows)

    def of_outcome(self, outcome: str, roles: Collection[str]) -> Iterator[Finding]:
        """Yield values of the outcome that stand for missing ones, and doubts whether it is grades.
        roles : of columns; events and exposures answer that"""
        column = self.columns[outcome]
        for finding in column.findings():
            first = finding.remedies[:1]
            if first and "na" in setting_of(first[0]):
                yield replace(finding, remedies=first)
        kind = column.as_outcome()
        if kind is None or not {"event", "exposure"}.isdisjoint(roles):
            return
        doubt = kind.doubt
        levels = consecutive_levels(column.values[column.complete])
        if kind.kind == "number" and levels:
            doubt = Message(
                f"{outcome!r} takes only the values {levels[0]:g} to {levels[-1]:g}, as grades do: "
                f"make a column of {outcome} > {levels[0]:g} the outcome in its place, unless it "
                "is to be fitted as a number",
                use(family="gaussian"),
            )
        if doubt is not None:
            yield Finding("grades", outcome, doubt.what, doubt.remedies, self.n_rows, asks=True)

    def copies(self, left_out: Sequence[str | None], outcome: str | None) -> Iterator[Finding]:
        """Columns of numbers that are equal to another one or to the outcome, in rows where all of
        them are there"""
        names = [outcome, *self.features] if outcome is not None else self.features
        columns = [self.columns[name] for name in names if name not in left_out]
        columns = [column for column in columns if column.is_read and column.levels is None]
        if not columns:
            return
        X = np.column_stack([column.values for column in columns])
        X = X[np.isfinite(X).all(axis=1)]
        if len(X) < _FEWEST_IDS:
            return
        varying = np.ptp(X, axis=0) > 0
        kept = [column.name for column, varies in zip(columns, varying, strict=True) if varies]
        for i, j, how in equal_columns(kept, kept, X[:, varying]) if kept else ():
            first = f"the outcome {kept[i]!r}" if kept[i] == outcome else repr(kept[i])
            remedies = (use(exclude=[name]) for name in (kept[j], kept[i]) if name != outcome)
            yield Finding(
                "copies", kept[j], f"{kept[j]!r} and {first} {how}.", tuple(remedies), self.n_rows
            )

    # ---- missing values

    @cached_property
    def _written_none(self) -> list[str]:
        """Categories whose missing values are all written 'None'"""
        names = [
            name
            for name in self.features
            if self.columns[name].levels is not None and not self.columns[name].present.all()
        ]
        if self.file is None or self.file.kind != TEXT or not names:
            return []
        words = words_for_missing(self.file, names)
        return [
            name
            for name in names
            if words[name] == {_NONE_AS_WORD} and _NONE_AS_WORD not in self.file.form.na
        ]

    @cached_property
    def _fillable(self) -> list[str]:
        """Categories that a level of missing values would fill"""
        columns = {name: self.columns[name] for name in self.features}
        levels = {
            name: column.levels
            for name, column in columns.items()
            if column.levels is not None and column.doubt is None
        }
        if any(MISSING_LEVEL in texts for texts in levels.values()):
            return []
        return [name for name in levels if not columns[name].complete.all()]

    @property
    def _filled(self) -> list[str]:
        """Categories that get a level of missing values by the first remedies: all, if 'None' is
        one of them"""
        return self._fillable if self._written_none else []

    def gaps(self, found: Sequence[Finding], outcomes: Sequence[str]) -> MissingValues:
        """Missing values by environment, and what excluding features keeps. found : other findings;
        outcomes : columns that are no features"""
        complete = {name: self.columns[name].complete for name in (*self.features, *outcomes)}
        gapped = {name: rows for name, rows in complete.items() if not rows.all()}
        labels = self.sites.labels if self.environment is not None else ("all",)
        codes = self.sites.codes

        def counts(rows: Mask) -> tuple[int, ...]:
            return tuple(np.bincount(codes[rows & (codes >= 0)], minlength=len(labels)).tolist())

        kept = [name for name in self.features if name not in left_out_by(found)]
        costly = {n: gapped[n] for n in kept if n in gapped and n not in self._filled}
        usable = np.logical_and.reduce([codes >= 0, *(complete[name] for name in outcomes)])
        return MissingValues(
            tuple(gapped),
            labels,
            counts(codes >= 0),
            tuple(counts(~rows) for rows in gapped.values()),
            exclusions(usable, costly, len(kept) - len(costly), codes, labels) if costly else (),
        )

    def missing(
        self, found: Sequence[Finding], outcomes: Sequence[str], gaps: MissingValues
    ) -> Iterator[Finding]:
        """With what each remedy costs in rows. found : what else is; outcomes : columns that are no
        features"""
        left_out = left_out_by(found)
        there = [self.columns[name] for name in (*self.features, *outcomes) if name not in left_out]
        best = gaps.best
        excluded = () if best is None else best.exclude
        filled = self._filled
        if best is not None:
            yield self._exclusion(best, gaps)

        def keeps(*without: str) -> str:
            """What is left where rows are dropped, and columns left out"""
            complete = [column.complete for column in there if column.name not in without]
            n = int(np.logical_and.reduce([self.sites.codes >= 0, *complete]).sum())
            return f"keeps {n} of {rows_text(self.n_rows)}"

        def ways(name: str | None) -> tuple[Remedy, ...]:
            """For a column with gaps, or rows without a label"""
            others = [other for other in excluded if other != name]
            levels = [other for other in self._fillable if other not in left_out]
            found = [use(f" ({keeps(*others, *filled)})", missing="drop")]
            if levels:
                note = f" ({keeps(*others, *levels)}, with a level for categories)"
                found.append(use(note, missing="level"))
            if filled:
                found = [found[-1], use(f" ({keeps(*others)})", missing="drop")]
            if name in self.features:
                leave_out = use(f" ({keeps(*others, *filled, str(name))})", exclude=[name])
                found = [leave_out, *found] if name in excluded else [*found, leave_out]
            return tuple(found)

        unlabelled = int((self.sites.codes < 0).sum())
        if unlabelled:
            what = f"{self.environment!r} has no label in {rows_text(unlabelled)}."
            yield Finding("missing", self.environment, what, ways(None), unlabelled)
        for column in there:
            n = int((~column.present).sum())
            if n:
                name = column.name
                how = f", written {_NONE_AS_WORD!r}" if name in self._written_none else ""
                what = f"{name!r} is missing in {rows_text(n)}{how}."
                where = self.sites.of(~column.present)
                yield Finding("missing", name, what, ways(name), n, where)

    def _exclusion(self, best: Exclusion, gaps: MissingValues) -> Finding:
        """The features without which most values are kept, and those without which every
        environment is."""
        now = gaps.exclusions[0]
        remedies = []
        for each in dict.fromkeys([best, gaps.best_everywhere or best]):
            # Environments that no exclusion keeps are not named.
            lost = [label for label in each.lost if label not in gaps.exclusions[-1].lost]
            n_kept = len(gaps.environments) - len(each.lost)
            where = f" and {n_kept} of {len(gaps.environments)} environments"
            remedies.append(
                use(
                    f" (keeps {each.rows} of {rows_text(self.n_rows)}"
                    f"{'' if self.environment is None else where})",
                    exclude=list(each.exclude),
                    missing="level" if self._filled else "drop",
                    **({"drop_environments": lost} if lost else {}),
                )
            )
        what = (
            f"All {now.features} features are complete in {now.rows} of {rows_text(self.n_rows)}."
        )
        return Finding("exclusion", None, what, tuple(remedies), self.n_rows - now.rows, now.lost)


def labels_alike(
    column: str, labels: Sequence[Hashable], sites: RowLabels | None = None
) -> Iterator[Finding]:
    """Levels or, with their rows, environments that may be the same. Capitals may mean something,
    and leading zeros of levels: these are questions."""
    kind = "levels" if sites is None else "environments"
    leave_out = () if sites is not None else (use(exclude=[column]),)

    def differing(seen: Callable[[str], str]) -> list[tuple[Hashable, ...]]:
        """Groups that are seen as one and do not print alike"""
        folded = alike(labels, lambda label: seen(in_print(label)))
        return [group for group in folded if len(set(map(in_print, group))) > 1]

    for groups, how, merges, remedies in (
        (alike(labels), "print alike", True, leave_out),
        (differing(str.casefold), "differ in capitals only", False, ()),
        (differing(_without_zeros), "differ in zeros only", True, ()),
    ):
        if groups:
            told = listing((" and ".join(map(ascii, group)) for group in groups), 4)
            asks = "" if how == "print alike" else " Are they the same?"
            what = f"{column!r} has {kind} that {how}, {told}.{asks}"
            if sites is None:
                yield Finding("labels_alike", column, what, remedies)
                continue
            merge = use(merge_environments={group[0]: list(group) for group in groups})
            found = tuple(chain.from_iterable(groups))
            mending = (merge,) if merges else remedies
            yield Finding("labels_alike", column, what, mending, sites.n_rows(found), found)


_NO_EFFECT = "and has no effect that could be compared between environments"


def _are_ids(name: str, numbers: Floats) -> bool:
    """Whole numbers, all different, that are called so or count the rows."""
    different = (
        len(np.unique(numbers)) == len(numbers) >= _FEWEST_IDS and not np.isnan(numbers).any()
    )
    counted = np.min(numbers) in (0, 1) and np.ptp(numbers) == len(numbers) - 1
    named = _ID.search(name) is not None or counted
    return different and named and bool((numbers == np.rint(numbers)).all())


def _without_zeros(text: str) -> str:
    """A text without the zeros before its whole numbers, which spreadsheets drop; 3.0 is 3."""
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", level_of(text))
