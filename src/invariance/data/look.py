"""A look at the columns of a table: findings of each, and missing values by environment."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

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
_EXAMPLES = 3
_ID = re.compile(
    r"(?i:(^|[\W_])(id|no|nr|number|index|key|code|row(.?names?)?|mrn|uid|pid|patient|subject|case|record))$|[IU]D$"
)
_CODES = re.compile(
    r"(?i)(^|[\W_])(codes?|wards?|types?|groups?|class|category|kind|status|region|department|dept|site|icd|zip)$"
)
_FEWEST_IDS = 10
_MOST_CODES = 20
# Levels that stand for a missing value
_SIGNS = "?", "."
# A word for missing values that is as often a level of its own: no pupil reacts, there is no
# basement.
_NONE = "None"


@dataclass(frozen=True)
class Finding:
    """code : one of `CODES`; column : None: of the whole table; what : a sentence without settings;
    remedies : any one of them mends it, the first is in `DataCheck.settings`; rows : how many it is
    about; environments : where it is, if known; asks : it is a question, and none of its remedies
    is in the settings"""

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
        """The sentence with its remedies."""
        return Message(self.what.removesuffix(".") if self.remedies else self.what, *self.remedies)

    def to_plain(self) -> dict[str, Any]:
        remedies = [
            {"settings": dict(remedy.settings), "note": remedy.note} for remedy in self.remedies
        ]
        return {**vars(self), "environments": list(self.environments), "remedies": remedies}


@dataclass(frozen=True)
class ColumnLook:
    """One column, for people to see. kind : "numbers", "whole numbers", "0 and 1", "text", "dates"
    or "empty";
    missing : rows; groups : (label, rows) if there are not too many; as_outcome : the kind it would
        be, or None"""

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


class Look:
    """A table with what all findings need.

    labels : of environments, E of them; codes (N,) : -1 where missing; values : {column: (N,)},
        numbers as the first
    remedy reads them; present : {column: (N,) whether there is a value}; declared : {column: (N,)
    values that first remedies declare missing}; within : features that are constant in every
    environment
    """

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
        self.written = written
        self.features = features
        self.choices = choices
        self.file = file
        self.n_rows = len(frame)
        self.environment = environment
        self.raw = RawTable.of_frame(frame, names, choices)
        self.values = dict(zip(names, self.raw.values.T, strict=True))
        self.labels: tuple[Hashable, ...] = ()
        self.codes: Integers = np.zeros(self.n_rows, np.int64)
        if environment is not None:
            codes, self.labels = encode_labels(frame[environment].to_list())
            self.codes = codes.astype(np.int64)
        self.doubts = ColumnSummary.of(self.raw).refusals(choices)
        points = {} if file is None else numbers_with_points(frame.to_native(), file)
        for name, (example, way) in points.items():
            if name in self.doubts:
                self.doubts[name] = Refusal(
                    f"holds {example!r}, and decimals are commas",
                    (way, use(categorical=[name])),
                    "numbers_as_text",
                )
        self.present: dict[str, Mask] = {}
        self.declared: dict[str, Mask] = {}
        self.mended: set[str] = set()
        for name in names:
            doubt = self.doubts.get(name)
            mended = (
                as_mended(frame[name], name, choices, doubt.remedies[0])
                if doubt and doubt.remedies
                else None
            )
            unread = name in self.raw.refused
            nulls = frame[name].is_null().to_numpy() if unread else np.isnan(self.values[name])
            self.present[name] = ~np.asarray(nulls, dtype=bool)
            if mended is not None:
                self.mended.add(name)
                self.values[name] = mended
                self.declared[name] = np.isnan(mended) & self.present[name]
        self.within = [name for name in features if self._is_constant_within(name)]

    # ---- columns as people see them

    def described(self, name: str) -> ColumnLook:
        series = self.choices.mending.of([name]).series(self.written[name], name)
        values = [value for value in series.drop_nulls().to_list() if value == value]
        counts = Counter(
            values if all(isinstance(value, str) for value in values) else map(str, values)
        )
        groups: dict[Hashable, int] = {}
        for text, n in counts.items() if len(counts) <= MOST_GROUPS else ():
            label = label_of(text)
            groups[label] = groups.get(label, 0) + n
        n_missing = self.n_rows - len(values)
        levels = list(dict.fromkeys(map(level_of, counts)))
        examples = tuple(levels[:_EXAMPLES])
        kind = self._kind(name, len(levels))
        return ColumnLook(
            name,
            kind,
            len(levels),
            n_missing,
            examples,
            tuple(groups.items()),
            self._as_outcome(name),
        )

    def _kind(self, name: str, n_values: int) -> str:
        if n_values == 0:
            return "empty"
        if name in self.doubts and self.doubts[name].code == "dates":
            return "dates"
        if name in self.raw.refused or name in self.raw.levels:
            return "text"
        present = self.values[name][self.present[name]]
        if n_values == 2 and set(present) == {0.0, 1.0}:
            return "0 and 1"
        return "whole numbers" if (present == np.rint(present)).all() else "numbers"

    def _as_outcome(self, name: str) -> OutcomeKind | None:
        present = self.values[name][self._complete(name)]
        classes = self.raw.levels[name].texts if name in self.raw.levels else None
        if (
            name in self.raw.refused
            or len(present) == 0
            or (classes is not None and len(classes) != 2)
        ):
            return None
        return outcome_kind(
            present, name, classes=None if classes is None else (classes[0], classes[1])
        )

    # ---- findings

    def findings(self) -> Iterator[Finding]:
        """Of all but missing values."""
        if self.environment is not None:
            yield from self._labels_alike(self.environment, self.labels)
        together = self._dummies_within()
        for name in self.features:
            yield from () if name in together else self._of_column(name)
        if together:
            yield Finding(
                "within",
                None,
                (
                    f"{quoted(together, 4)} are constant in every environment, "
                    f"{_NO_EFFECT.replace('has', 'have')}."
                ),
                (use(exclude=together),),
                self.n_rows,
            )

    def _is_constant_within(self, name: str) -> bool:
        doubt = self.doubts.get(name)
        read = name in self.mended or (
            name not in self.raw.refused and (doubt is None or name in self.raw.levels)
        )
        return (
            len(self.labels) > 1
            and read
            and is_constant_within(self.values[name], self.codes, len(self.labels))
        )

    def _dummies_within(self) -> list[str]:
        """Features of 0 and 1 that are constant in every environment, if there are several"""
        found = [
            name for name in self.within if name not in self.doubts and self._is_zero_or_one(name)
        ]
        return found if len(found) > 1 else []

    def _is_zero_or_one(self, name: str) -> bool:
        return name not in self.raw.levels and set(self.values[name][self._complete(name)]) == {
            0.0,
            1.0,
        }

    def _labels_alike(self, column: str, labels: Sequence[Hashable]) -> Iterator[Finding]:
        """Of environments or levels. Capitals may mean something, and leading zeros of levels:
        these are questions."""
        of_environments = column == self.environment
        kind = "environments" if of_environments else "levels"
        leave_out: tuple[Remedy, ...] = () if of_environments else (use(exclude=[column]),)

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
                found = (
                    tuple(label for group in groups for label in group) if of_environments else ()
                )
                merge = use(merge_environments={group[0]: list(group) for group in groups})
                told = listing((" and ".join(map(ascii, group)) for group in groups), 4)
                asks = "" if how == "print alike" else " Are they the same?"
                mending = (merge,) if of_environments and merges else remedies
                yield Finding(
                    "labels_alike",
                    column,
                    f"{column!r} has {kind} that {how}, {told}.{asks}",
                    mending,
                    self._rows(found),
                    found,
                )

    def _rows(self, labels: Sequence[Hashable]) -> int:
        """How many these environments have"""
        return int(
            np.isin(self.codes, [e for e, label in enumerate(self.labels) if label in labels]).sum()
        )

    def _of_column(self, name: str) -> Iterator[Finding]:
        leave_out = use(exclude=[name])
        n_rows = self.n_rows
        there = self._complete(name)
        values = self.values[name][there]
        doubt = self.doubts.get(name)
        # Of words that the first remedy declares missing, numbers remain.
        n_texts = (
            len(self.raw.levels[name].texts) if doubt is not None and name in self.raw.levels else 1
        )
        one = len(values) == 0 or (
            name not in self.raw.refused and n_texts == 1 and values.min() == values.max()
        )
        if one:
            held = "no values" if len(values) == 0 else "one value only"
            yield Finding("constant", name, f"{name!r} has {held}.", (leave_out,), n_rows)
            return
        if doubt is not None:
            unusable = doubt.code in ("identifier", "dates", "text", "with_unit", "objects")
            first = leave_out if unusable or self._may_be_numbers(name) else None
            remedies = (leave_out, *doubt.remedies) if first else (*doubt.remedies, leave_out)
            yield Finding(doubt.code, name, f"{name!r} {doubt.reason}.", remedies, int(there.sum()))
            if first:
                return
        is_level = doubt is None and name in self.raw.levels
        found = list(self._labels_alike(name, self.raw.levels[name].texts)) if is_level else []
        yield from found
        if name in self.within and not found:
            what = f"{name!r} is constant in every environment, {_NO_EFFECT}."
            yield Finding("within", name, what, (leave_out,), n_rows)
            return
        if doubt is not None:
            if name in self.mended:
                yield from self._of_numbers(name, values)
        elif is_level:
            yield from self._signs(name)
            yield from self._of_one_environment(
                name, np.where(self._complete(name), self.values[name], np.nan)
            )
            pairs = {
                pair
                for pair in zip(self.codes.tolist(), self.values[name].tolist(), strict=True)
                if pair[0] >= 0
            }
            if (
                not found
                and len(self.labels) > 1
                and len(pairs) == len({level for _, level in pairs})
            ):
                what = (
                    f"Each level of {name!r} occurs in one environment only, so that anything "
                    "looks invariant."
                )
                yield Finding("copies", name, what, (leave_out,), n_rows)
                return
        elif _are_ids(name, self.values[name]):
            what = f"{name!r} has another whole number in each row, like an ID or a row number."
            yield Finding("identifier", name, what, (leave_out,), n_rows)
            return
        else:
            yield from self._of_numbers(name, values)
        seen = self._labels_of(there)
        absent = [label for label in self.labels if label not in seen]
        if absent:
            what = f"{name!r} has no values in {quoted(absent)}."
            remedies = leave_out, use(drop_environments=absent)
            yield Finding("absent", name, what, remedies, self._rows(absent), tuple(absent))

    def _may_be_numbers(self, name: str) -> bool:
        """Whether the words among the numbers of a column have digits, and are too many to be
        levels: (2.50)"""
        doubt = self.doubts[name]
        is_level_first = "categorical" in setting_of(doubt.remedies[0]) if doubt.remedies else False
        return (
            doubt.code == "words"
            and is_level_first
            and len(self.raw.levels[name].texts) > MOST_RANGES
        )

    def _of_numbers(self, name: str, values: Floats) -> Iterator[Finding]:
        leave_out = use(exclude=[name])
        far = far_values(values)
        clean = self.values[name]
        if far:
            told = quoted([f"{value:g}" for value in far])
            clean = self._declare(name, far)
            rows = int(np.isin(values, far).sum())
            where = self._labels_of(np.isin(self.values[name], far))
            rest = values[~np.isin(values, far)]
            if max(far) < 0.0 <= rest.min():
                only = f" in {quoted(where)} only" if len(where) == 1 < len(self.labels) else ""
                what = f"{name!r} has {told}{only}, and no other value below 0."
            else:
                what = (
                    f"{name!r} has {told} in {rows_text(rows)}{self._single(where)}; all "
                    f"others are from {rest.min():g} to {rest.max():g}."
                )
            yield Finding("far_values", name, what, (use(na={name: far}), leave_out), rows, where)
            values = rest
        different = np.unique(values)
        whole = bool((values == np.rint(values)).all())
        few = 2 < len(different) <= _MOST_CODES and len(different) * 10 <= self.n_rows
        if whole and few and _CODES.search(name):
            shown = quoted([f"{value:g}" for value in different], 6)
            what = f"{name!r} looks like codes of {len(different)} levels, {shown}."
            yield Finding("codes", name, what, (use(categorical=[name]), leave_out), len(values))
            return
        yield from self._zeros(name, clean)
        clean = (
            self.values[name]
            if name not in self.declared
            else np.where(self.declared[name], np.nan, clean)
        )
        yield from self._of_one_environment(name, clean)
        yield from self._skipping(name, clean[~np.isnan(clean)])
        units = other_units(clean, self.codes, len(self.labels))
        if units:
            labels = tuple(self.labels[e] for e in units)
            factor = next(iter(units.values()))
            times = f"{factor:.2g} times" if factor > 1 else f"1/{1 / factor:.2g} of"
            what = (
                f"The median of {name!r} in {quoted(labels)} is {times} that of the others, "
                "its relative spread"
            )
            remedies = leave_out, use(drop_environments=list(labels))
            yield Finding(
                "unit", name, f"{what} alike. Another unit?", remedies, self._rows(labels), labels
            )

    def _declare(self, name: str, codes: Sequence[float]) -> Floats:
        """Count these values as missing; the column without them."""
        before = self.declared.get(name, np.zeros(self.n_rows, dtype=bool))
        self.declared[name] = before | np.isin(self.values[name], codes)
        return np.where(self.declared[name], np.nan, self.values[name])

    def _zeros(self, name: str, values: Floats) -> Iterator[Finding]:
        """Zeros far below all others: missing if an environment has nothing else, else a
        question."""
        finite = values[np.isfinite(values)]
        if not has_isolated_zeros(finite):
            return
        is_zero = values == 0.0
        n_zeros = int(is_zero.sum())
        positive = finite[finite > 0.0]
        remedies = use(na={name: [0.0]}), use(exclude=[name])
        others = f"others are from {positive.min():g} to {positive.max():g}."
        single = one_value(values, self.codes, len(self.labels)) if len(self.labels) > 1 else []
        whole = next((one for one in single if one.value == 0.0), None)
        if whole is None:
            where = self._labels_of(is_zero)
            what = (
                f"{name!r} is 0 in {rows_text(n_zeros)}{self._single(where)}; {others} Is 0 a "
                "missing value?"
            )
            yield Finding("zeros", name, what, remedies, n_zeros, where, asks=True)
            return
        labels = tuple(self.labels[e] for e in whole.environments)
        beside = f" and in {whole.elsewhere} elsewhere" if whole.elsewhere else ""
        what = (
            f"{name!r} is 0 in all {rows_text(n_zeros - whole.elsewhere)} of "
            f"{quoted(labels)}{beside}; {others}"
        )
        self._declare(name, [0.0])
        ways = *remedies, use(drop_environments=list(labels))
        yield Finding("one_value", name, what, ways, n_zeros, labels)

    def _single(self, labels: Sequence[Hashable]) -> str:
        """The environment, if it is the only one of several"""
        return f" of {quoted(labels)}" if len(labels) == 1 < len(self.labels) else ""

    def _labels_of(self, rows: Mask) -> tuple[Hashable, ...]:
        """The environments of some rows"""
        found = np.unique(self.codes[rows & (self.codes >= 0)]).tolist() if self.labels else []
        return tuple(self.labels[e] for e in found)

    def _of_one_environment(self, name: str, values: Floats) -> Iterator[Finding]:
        """One value in all rows of a single environment, which others have too rarely for chance: a
        question."""
        found = one_value(values, self.codes, len(self.labels)) if len(self.labels) > 1 else []
        labels = tuple(self.labels[e] for one in found for e in one.environments)
        if len(labels) == 1:
            texts = (
                self.raw.levels[name].texts
                if name in self.raw.levels and name not in self.mended
                else None
            )
            shown = f"{found[0].value:g}" if texts is None else repr(texts[int(found[0].value)])
            rows = rows_text(self._rows(labels))
            what = (
                f"{name!r} is {shown} in all {rows} of {quoted(labels)}, and varies elsewhere. "
                "Was it measured there?"
            )
            remedies = use(exclude=[name]), use(drop_environments=list(labels))
            yield Finding("one_value", name, what, remedies, self._rows(labels), labels, asks=True)

    def _skipping(self, name: str, values: Floats) -> Iterator[Finding]:
        """Few whole numbers with a gap between them: categories, or a code at their end. A
        question."""
        levels, codes = skipped_levels(values)
        if not levels or (not codes and outcome_kind(values, name).kind == "count"):
            return
        shown = listing([f"{value:g}" for value in levels])
        if codes:
            rows = int(np.isin(values, codes).sum())
            what = (
                f"{name!r} holds {shown}, with {codes[0]:g} in {rows_text(rows)}. Is "
                f"{codes[0]:g} a missing value?"
            )
            yield Finding(
                "skips",
                name,
                what,
                (use(na={name: codes}), use(categorical=[name])),
                rows,
                asks=True,
            )
        else:
            what = f"{name!r} holds whole numbers that skip some, {shown}. Are they categories?"
            ways = use(categorical=[name]), use(exclude=[name])
            yield Finding("skips", name, what, ways, len(values), asks=True)

    def _signs(self, name: str) -> Iterator[Finding]:
        """Levels such as '?', which stand for missing values."""
        texts = self.raw.levels[name].texts
        signs = [text for text in texts if text in _SIGNS]
        if signs and len(texts) > len(signs) + 1 and name not in self.choices.categorical:
            found = np.isin(self.values[name], [texts.index(text) for text in signs])
            self.declared[name] = found
            rows = int(found.sum())
            yield Finding(
                "signs",
                name,
                f"{name!r} has the level {quoted(signs)} in {rows_text(rows)}.",
                (use(na={name: signs}), use(categorical=[name])),
                rows,
            )

    def copies(self, left_out: Sequence[str | None], outcome: str | None) -> Iterator[Finding]:
        """Columns of numbers that are equal to another one or to the outcome, in rows where all of
        them are there"""
        apart = {None, *left_out, *self.raw.levels, *self.raw.refused}
        names = [
            name for name in (outcome, *self.features) if name is not None and name not in apart
        ]
        X = np.array(
            [np.where(np.isfinite(self.values[name]), self.values[name], np.nan) for name in names]
        ).T
        X = X[~np.isnan(X).any(axis=1)] if names else np.empty((0, 0))
        varying = [j for j in range(len(names)) if len(X) >= _FEWEST_IDS and np.ptp(X[:, j]) > 0]
        kept = [names[j] for j in varying]
        for i, j, how in equal_columns(kept, kept, X[:, varying]) if kept else ():
            first = f"the outcome {kept[i]!r}" if kept[i] == outcome else repr(kept[i])
            remedies = (use(exclude=[name]) for name in (kept[j], kept[i]) if name != outcome)
            yield Finding(
                "copies", kept[j], f"{kept[j]!r} and {first} {how}.", tuple(remedies), self.n_rows
            )

    def _complete(self, name: str) -> Mask:
        """(N,) rows that have a value which no first remedy declares missing"""
        present = self.present[name]
        return present & ~self.declared[name] if name in self.declared else present

    @cached_property
    def _written_none(self) -> list[str]:
        """Categories whose missing values are all written 'None'"""
        gaps = [
            name
            for name in self.features
            if name in self.raw.levels and not self.present[name].all()
        ]
        if self.file is None or self.file.kind != TEXT or not gaps:
            return []
        words = words_for_missing(self.file, gaps)
        return [name for name in gaps if words[name] == {_NONE} and _NONE not in self.file.form.na]

    def gaps(self, found: Sequence[Finding], outcomes: Sequence[str]) -> MissingValues:
        """Missing values by environment, and what excluding features keeps. found : other findings;
        outcomes : columns that are no features"""
        names = [name for name in (*self.features, *outcomes) if not self._complete(name).all()]
        labels = self.labels if self.environment is not None else ("all",)
        counts = [
            np.bincount(
                self.codes[~self._complete(name) & (self.codes >= 0)], minlength=len(labels)
            )
            for name in names
        ]
        usable = np.logical_and.reduce([self.codes >= 0, *map(self._complete, outcomes)])
        kept = [name for name in self.features if name not in left_out_by(found)]
        filled = self._filled
        gapped = {
            name: self._complete(name) for name in kept if name in names and name not in filled
        }
        ways = (
            exclusions(usable, gapped, len(kept) - len(gapped), self.codes, labels)
            if gapped
            else ()
        )
        n_rows = np.bincount(self.codes[self.codes >= 0], minlength=len(labels))
        shown = tuple(tuple(row.tolist()) for row in counts)
        return MissingValues(tuple(names), labels, tuple(n_rows.tolist()), shown, ways)

    def _levels_with_gaps(self) -> list[str]:
        """Categories that a level of missing values would fill"""
        levels = [
            name for name in self.features if name in self.raw.levels and name not in self.doubts
        ]
        taken = any(MISSING_LEVEL in self.raw.levels[name].texts for name in levels)
        return [] if taken else [name for name in levels if not self._complete(name).all()]

    @cached_property
    def _filled(self) -> list[str]:
        """Categories that get a level of missing values by the first remedies: all, if 'None' is
        one of them"""
        return self._levels_with_gaps() if self._written_none else []

    def missing(
        self, found: Sequence[Finding], outcomes: Sequence[str], gaps: MissingValues
    ) -> Iterator[Finding]:
        """With what each remedy costs in rows. found : what else is; outcomes : columns that are no
        features"""
        left_out = left_out_by(found)
        best = gaps.best
        filled = self._filled
        there = {
            name: self._complete(name)
            for name in (*self.features, *outcomes)
            if name not in left_out
        }
        excluded = () if best is None else best.exclude
        if best is not None:
            yield self._exclusion(best, gaps)

        def keeps(without: Sequence[str]) -> str:
            """What is left where rows are dropped, and columns left out"""
            complete = [values for name, values in there.items() if name not in without]
            n = int(np.logical_and.reduce([self.codes >= 0, *complete]).sum())
            return f"keeps {n} of {rows_text(self.n_rows)}"

        def ways(name: str | None) -> tuple[Remedy, ...]:
            """For a column with gaps, or rows without a label"""
            others = [other for other in excluded if other != name]
            levels = [other for other in self._levels_with_gaps() if other in there]
            drop = use(f" ({keeps([*others, *filled])})", missing="drop")
            found = [drop]
            if levels:
                found.append(
                    use(
                        f" ({keeps([*others, *levels])}, with a level for categories)",
                        missing="level",
                    )
                )
            if filled:
                found = [found[-1], use(f" ({keeps(others)})", missing="drop")]
            if name in self.features:
                leave_out = use(f" ({keeps([*others, *filled, str(name)])})", exclude=[name])
                found = [leave_out, *found] if name in excluded else [*found, leave_out]
            return tuple(found)

        unlabelled = int((self.codes < 0).sum())
        if unlabelled:
            yield Finding(
                "missing",
                self.environment,
                f"{self.environment!r} has no label in {rows_text(unlabelled)}.",
                ways(None),
                unlabelled,
            )
        none = self._written_none
        for name in (name for name in there if not self.present[name].all()):
            gone = ~self.present[name]
            n = int(gone.sum())
            how = f", written {_NONE!r}" if name in none else ""
            yield Finding(
                "missing",
                name,
                f"{name!r} is missing in {rows_text(n)}{how}.",
                ways(name),
                n,
                self._labels_of(gone),
            )

    def _exclusion(self, best: Exclusion, gaps: MissingValues) -> Finding:
        """The features without which most values are kept, and those without which every
        environment is."""
        now = gaps.exclusions[0]
        ways = dict.fromkeys([best, gaps.best_everywhere or best])
        remedies = [self._remedy_of(each, gaps) for each in ways]
        return Finding(
            "exclusion",
            None,
            (
                f"All {now.features} features are complete in {now.rows} of "
                f"{rows_text(self.n_rows)}."
            ),
            tuple(remedies),
            self.n_rows - now.rows,
            now.lost,
        )

    def _remedy_of(self, each: Exclusion, gaps: MissingValues) -> Remedy:
        """Environments that it loses are named, but for those that no exclusion keeps."""
        lost = [label for label in each.lost if label not in gaps.exclusions[-1].lost]
        n_kept = len(gaps.environments) - len(each.lost)
        where = (
            f" and {n_kept} of {len(gaps.environments)} environments"
            if self.environment is not None
            else ""
        )
        note = f" (keeps {each.rows} of {rows_text(self.n_rows)}{where})"
        way = "level" if self._filled else "drop"
        dropped = {"drop_environments": lost} if lost else {}
        return use(note, exclude=list(each.exclude), missing=way, **dropped)


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
