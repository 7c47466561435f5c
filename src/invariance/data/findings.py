"""What a look at a table finds before it is fitted: each finding with the settings that mend it."""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .._tools.json import written
from .._tools.sections import Rendered, Section
from ..exceptions import DataError, InvarianceError, Message, Remedy, use
from .checks import NO_ROWS, SMALLEST_ENVIRONMENT, alike, check_environments, in_print, listing, quoted, rows_text
from .columns import MISSING_LEVEL, Choices, RawTable, as_frame, excluding, owners_of
from .copies import equal_columns
from .encoding import ColumnSummary
from .labels import encode_labels, label_of
from .multi_environment import MultiEnvironmentData
from .outcomes import OutcomeKind, outcome_kind
from .reading import PARQUET, TableFile, column_names, read_columns
from .settings import Columns, FileFormat

if TYPE_CHECKING:
    import pandas as pd

CODES = {
    "identifier": "a number or name of its own in each row",
    "dates": "dates or times",
    "text": "sentences, not levels",
    "detection_limit": "values such as '<0.5' among numbers",
    "words": "some words among numbers",
    "numbers_as_text": "numbers stored or written as text",
    "with_unit": "numbers with a sign or unit after them, such as '45%'",
    "objects": "values that are neither numbers nor text",
    "unit": "an environment whose values are more than ten times larger or smaller, with the same relative spread",
    "far_values": "values far from all others, such as 999",
    "codes": "whole numbers that are called codes",
    "absent": "no values in an environment",
    "labels_alike": "labels or levels that print alike, or differ in capitals or leading zeros only",
    "copies": "the same as another column, perhaps in other units",
    "missing": "missing values",
    "constant": "one value only, or none",
    "refused": "what a fit refuses all the same: too few rows, infinite values, an outcome of three classes ...",
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
# An environment is in another unit where its median is so many times that of the others, spreads of logarithms differ
# by no more than the second factor, and medians by more than so many spreads.
_OTHER_UNIT, _SAME_SPREAD, _APART = 10.0, 2.0, 2.0
_FEWEST_IN_UNIT = 5
# Values are far that are beyond all others by so many times the range of these, and that are rare.
_FAR, _RARE, _MOST_FAR = 3.0, 0.02, 3


@dataclass(frozen=True)
class Finding:
    """code : one of `CODES`; column : None: of the whole table; what : a sentence without settings; remedies : any one
    of them mends it, the first is in `DataCheck.settings`; rows : how many it is about; environments : where it is, if
    known"""

    code: str
    column: str | None
    what: str
    remedies: tuple[Remedy, ...] = ()
    rows: int = 0
    environments: tuple[Hashable, ...] = ()

    @property
    def message(self) -> Message:
        """The sentence with its remedies."""
        return Message(self.what.removesuffix(".") if self.remedies else self.what, *self.remedies)

    def to_plain(self) -> dict[str, Any]:
        remedies = [{"settings": dict(remedy.settings), "note": remedy.note} for remedy in self.remedies]
        return {**vars(self), "environments": list(self.environments), "remedies": remedies}


@dataclass(frozen=True)
class ColumnLook:
    """One column, for people to see. kind : "numbers", "whole numbers", "0 and 1", "text", "dates" or "empty";
    missing : rows; groups : (label, rows) if there are not too many; as_outcome : the kind it would be, or None"""

    name: str
    kind: str
    n_values: int
    missing: int
    examples: tuple[str, ...]
    groups: tuple[tuple[Hashable, int], ...]
    as_outcome: OutcomeKind | None


@dataclass(frozen=True, repr=False)
class DataCheck(Rendered):
    """What `check` found. columns : all of the table; name : of the file; settings : the first remedies of all findings
    as arguments of `MultiEnvironmentData.from_table`"""

    findings: tuple[Finding, ...]
    n_rows: int
    columns: tuple[ColumnLook, ...] = ()
    name: str = "table"
    outcome: str | None = None
    environment: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether a fit with the settings is refused all the same."""
        return any(finding.code == "refused" for finding in self.findings)

    @property
    def sections(self) -> list[Section]:
        found = f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        title = f"{self.name}: {self.n_rows:,} rows, {len(self.columns)} columns, {found}"
        facts = tuple((finding.column or "", finding.message) for finding in self.findings)
        return [Section(title, () if facts else ("Nothing speaks against fitting it.",), facts)]

    def to_frame(self) -> pd.DataFrame:
        """One row for each finding."""
        import pandas as pd

        names = [each.name for each in fields(Finding)]
        return pd.DataFrame([finding.to_plain() for finding in self.findings], columns=names)

    def to_json(self, path: str | Path | None = None) -> str:
        """Strict JSON, also written to `path`."""
        about = {name: getattr(self, name) for name in ("name", "n_rows", "outcome", "environment", "settings")}
        findings = [{**each.to_plain(), "environments": [*map(str, each.environments)]} for each in self.findings]
        return written(_plain({"format": "invariance.check/1", **about, "findings": findings}), path)


def check(
    table: Any,
    outcome: str | None = None,
    environment: str | None = None,
    *,
    event: str | None = None,
    exposure: str | None = None,
    columns: Columns | None = None,
    format: FileFormat | None = None,
) -> DataCheck:
    """Look at a table before it is fitted.

    table : a data frame or a file; outcome, environment, event, exposure : columns that are no features; without an
    environment nothing is compared between environments
    columns : which columns are features, and what is known of them; format : how a file is written

    >>> from invariance import check
    >>> from invariance.datasets import make_clinical_table
    >>> found = check(make_clinical_table(), "readmitted", "hospital")
    >>> sorted({finding.code for finding in found.findings})[:4]
    ['absent', 'codes', 'dates', 'detection_limit']
    """
    columns = columns or Columns()
    is_file = isinstance(table, (str, os.PathLike))
    file = TableFile.of(table) if is_file else None
    if file is not None and format is not None:
        file = replace(file, form=format)
    names = column_names(file) if file is not None else as_frame(table).columns
    where = "the table" if file is None else file.name
    if not names:
        raise DataError(f"{where} has no columns with a name. It needs an outcome, an environment and features.")
    given = {"outcome": outcome, "environment": environment, "event": event, "exposure": exposure}
    given = {role: name for role, name in (given | {"weights": columns.weights}).items() if name is not None}
    roles = {role: name for name, role in owners_of(given, names, where).items()}
    if not set(names) - set(roles.values()):
        raise DataError(f"{where} has no feature columns besides {', '.join(roles)}. Add features.")
    found = _looked(table if file is None else file, names, roles, columns)
    ways = [way for f in found.findings for way in f.remedies if file is not None and set(_setting(way)) <= _FORMS]
    return found if file is None or not ways else _in_best_form(found, file, names, roles, columns, ways)


_FORMS = {"decimal", "thousands"}


def _setting(remedy: Remedy) -> dict[str, Any]:
    return dict(remedy.settings)


def _in_best_form(
    found: DataCheck, file: TableFile, names: Sequence[str], roles: dict[str, str], columns: Columns, ways: list[Remedy]
) -> DataCheck:
    """What `check` finds, with the numbers of the file read in that of these ways which loses the fewest columns"""
    stated = {name: getattr(file.form, name) for name in _FORMS}
    single = [_setting(way) for way in dict.fromkeys(ways)]
    tried: list[tuple[dict[str, str | None], DataCheck]] = [({}, _looked(file, names, roles, columns, False))]
    known: list[dict[str, Any]] = []
    for form in (*single, *({**one, **other} for one, other in combinations(single, 2))):
        beside = {name: None for name, sign in stated.items() if sign in form.values()}
        with suppress(InvarianceError):
            read = replace(file, form=replace(file.form, **{**beside, **form}))
            tried.append(({**beside, **form}, _looked(read, names, roles, columns, False)))
            known.append(form)
    form, best = min(tried, key=lambda one: (one[1].is_refused, len(one[1].settings.get("exclude", ()))))
    told = []
    for finding in (each for each in found.findings if form and each.code != "refused"):
        possible = tuple(way for way in finding.remedies if not set(_setting(way)) <= _FORMS or _setting(way) in known)
        if any(_setting(way) in known for way in possible):
            told.append(replace(finding, remedies=possible))
    return replace(best, findings=(*told, *best.findings), settings={**form, **best.settings})


def _looked(
    table: Any, names: Sequence[str], roles: Mapping[str, str], columns: Columns, may_read_again: bool = True
) -> DataCheck:
    """may_read_again : whether another form of numbers is among the remedies"""
    file = table if isinstance(table, TableFile) else None
    outcome, environment = roles.get("outcome"), roles.get("environment")
    possible = [name for name in names if name not in roles.values()]
    features = excluding(columns.exclude, columns.features or possible, possible)
    choices = Choices.of(columns, features)
    frame = as_frame(table if file is None else read_columns(file, names, environment, choices.categorical))
    if len(frame) == 0:
        raise DataError(NO_ROWS if file is None else f"{file.name} has a header but no rows.")
    written = frame
    if file is not None and file.kind != PARQUET:
        written = as_frame(read_columns(file, names, as_text=names))
    look = _Look(frame, written, names, features, choices, environment)
    used = [name for role, name in roles.items() if role not in ("environment", "weights")]
    found = list(look.findings())
    found = found if may_read_again else [*map(_as_it_is_read, found)]
    found += look.copies(_left_out(found), outcome)
    findings = [*found, *look.missing(found, used)]
    described = tuple(map(look.described, names))
    settings = _merged(findings, columns)
    if outcome is not None and environment is not None:
        besides = {role: name for role, name in roles.items() if role in ("event", "exposure")}
        findings += _refused(frame.to_native(), outcome, environment, {**settings, **besides})
    name = "the table" if file is None else file.name
    return DataCheck(tuple(findings), len(frame), described, name, outcome, environment, settings)


def _as_it_is_read(finding: Finding) -> Finding:
    """Without other forms of numbers among the remedies, but first leave out the column"""
    others = [way for way in finding.remedies if not set(_setting(way)) <= _FORMS]
    if len(others) == len(finding.remedies):
        return finding
    return replace(finding, remedies=tuple(sorted(others, key=lambda way: "exclude" not in _setting(way))))


def _refused(frame: Any, outcome: str, environment: str, settings: Mapping[str, Any]) -> Iterator[Finding]:
    """What speaks against a fit with these settings all the same"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = MultiEnvironmentData.from_table(frame, outcome, environment, **settings)
        large, (low, high) = data.counts >= SMALLEST_ENVIRONMENT, data.outcome_range  # small ones deviate at random
        flat = low[large], high[large]
        labels = [label for label, fits in zip(data.environments, large, strict=True) if fits]
        check_environments(labels, data.counts[large], *flat, outcome, data.outcome_kind.kind != "number")
    except InvarianceError as error:
        message = error.args[0]
        what = message.what if message.what.endswith((".", "?")) or message.remedies else f"{message.what}."
        begins_with_setting = "=" in what.split(" ")[0]
        yield Finding("refused", None, what if begins_with_setting else what[0].upper() + what[1:], message.remedies)


def _plain(value: Any) -> Any:
    """What JSON can hold: labels that are dates, and splines, as text"""
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | np.number) else str(value)


def _left_out(findings: Sequence[Finding]) -> list[str | None]:
    """Columns that the first remedy leaves out"""
    return [f.column for f in findings if f.remedies and f.remedies[0].settings[0][0] == "exclude"]


def _merged(findings: Sequence[Finding], columns: Columns) -> dict[str, Any]:
    """What was stated, and the first remedy of each finding; nothing else is said of a column that is left out."""
    left_out, unset = _left_out(findings), Columns()
    names = "features", "categorical", "numeric", "groups", "below_limit", "na", "weights"
    merged = {name: getattr(columns, name) for name in names if getattr(columns, name) != getattr(unset, name)}
    if columns.exclude or left_out:
        merged["exclude"] = [*columns.exclude, *dict.fromkeys(left_out)]
    codes = any(f.remedies[0].settings[0][0] == "na" for f in findings if f.remedies and f.column not in left_out)
    for finding in findings:
        if finding.remedies and finding.column not in left_out:
            for name, value in finding.remedies[0].settings:
                known = merged.get(name)
                if isinstance(value, dict):
                    merged[name] = {**(known or {}), **value}
                elif isinstance(value, list):
                    merged[name] = list(dict.fromkeys([*(known or ()), *value]))
                else:
                    merged[name] = value
    return {**merged, "missing": "drop"} if codes else merged


class _Look:
    """A table with what all findings need. labels : of environments, E of them; codes : (N,), -1 where missing"""

    def __init__(
        self,
        frame: Any,
        written: Any,
        names: Sequence[str],
        features: Sequence[str],
        choices: Choices,
        environment: str | None,
    ) -> None:
        self.written, self.features = written, features
        self.n_rows, self.environment = len(frame), environment
        self.raw = RawTable.of_frame(frame, names, choices)
        self.values = dict(zip(names, self.raw.values.T, strict=True))
        self.labels: tuple[Hashable, ...] = ()
        self.codes: Integers = np.zeros(self.n_rows, np.int64)
        if environment is not None:
            codes, self.labels = encode_labels(frame[environment].to_list())
            self.codes = codes.astype(np.int64)
        self.doubts = ColumnSummary.of(self.raw).refusals(choices)
        self.present: dict[str, Mask] = {}
        self.far: dict[str, Mask] = {}
        for name in names:
            nulls = frame[name].is_null().to_numpy() if name in self.raw.refused else np.isnan(self.values[name])
            self.present[name] = ~np.asarray(nulls, dtype=bool)

    # ---- columns as people see them

    def described(self, name: str) -> ColumnLook:
        values = [value for value in self.written[name].drop_nulls().to_list() if value == value]
        counts = Counter(values if all(isinstance(value, str) for value in values) else map(str, values))
        groups: dict[Hashable, int] = {}
        for text, n in counts.items() if len(counts) <= MOST_GROUPS else ():
            label = label_of(text)
            groups[label] = groups.get(label, 0) + n
        n_missing = self.n_rows - len(values)
        examples = tuple(list(counts)[:_EXAMPLES])
        kind = self._kind(name, len(counts))
        return ColumnLook(name, kind, len(counts), n_missing, examples, tuple(groups.items()), self._as_outcome(name))

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
        present = self.values[name][self.present[name]]
        classes = self.raw.levels[name].texts if name in self.raw.levels else None
        if name in self.raw.refused or len(present) == 0 or (classes is not None and len(classes) != 2):
            return None
        return outcome_kind(present, name, classes=None if classes is None else (classes[0], classes[1]))

    # ---- findings

    def findings(self) -> Iterator[Finding]:
        """Of all but missing values."""
        if self.environment is not None:
            yield from self._labels_alike(self.environment, self.labels)
        for name in self.features:
            yield from self._of_column(name)

    def _labels_alike(self, column: str, labels: Sequence[Hashable]) -> Iterator[Finding]:
        """Of environments or levels. Capitals may mean something, and leading zeros of levels: these are questions."""
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
            (differing(_without_zeros), "differ in leading zeros only", True, ()),
        ):
            if groups:
                found = tuple(label for group in groups for label in group) if of_environments else ()
                merge = use(merge_environments={group[0]: list(group) for group in groups})
                told = listing((" and ".join(map(ascii, group)) for group in groups), 4)
                asks = "" if how == "print alike" else " Are they the same?"
                mending = (merge,) if of_environments and merges else remedies
                what = f"{column!r} has {kind} that {how}, {told}.{asks}"
                yield Finding("labels_alike", column, what, mending, self._rows(found), found)

    def _rows(self, labels: Sequence[Hashable]) -> int:
        """How many these environments have"""
        return int(np.isin(self.codes, [e for e, label in enumerate(self.labels) if label in labels]).sum())

    def _of_column(self, name: str) -> Iterator[Finding]:
        leave_out, n_rows = use(exclude=[name]), self.n_rows
        there = self.present[name]
        values = self.values[name][there]
        one = len(values) == 0 or (name not in self.raw.refused and values.min() == values.max())
        doubt = self.doubts.get(name)
        if one:
            held = "no values" if len(values) == 0 else "one value only"
            yield Finding("constant", name, f"{name!r} has {held}.", (leave_out,), n_rows)
            return
        if doubt is not None:
            first = leave_out if doubt.code in ("identifier", "dates", "text", "with_unit", "objects") else None
            remedies = (leave_out, *doubt.remedies) if first else (*doubt.remedies, leave_out)
            yield Finding(doubt.code, name, f"{name!r} {doubt.reason}.", remedies, int(there.sum()))
            if first:
                return
        elif name in self.raw.levels:
            found = list(self._labels_alike(name, self.raw.levels[name].texts))
            yield from found
            pairs = {pair for pair in zip(self.codes.tolist(), self.values[name].tolist(), strict=True) if pair[0] >= 0}
            if not found and len(self.labels) > 1 and len(pairs) == len({level for _, level in pairs}):
                what = f"Each level of {name!r} occurs in one environment only, so that anything looks invariant."
                yield Finding("copies", name, what, (leave_out,), n_rows)
                return
        elif _are_ids(name, self.values[name]):
            what = f"{name!r} has another whole number in each row, like an ID or a row number."
            yield Finding("identifier", name, what, (leave_out,), n_rows)
            return
        else:
            yield from self._of_numbers(name, values)
        absent = [label for e, label in enumerate(self.labels) if not there[self.codes == e].any()]
        if absent:
            what = f"{name!r} has no values in {quoted(absent)}."
            remedies = leave_out, use(drop_environments=absent)
            yield Finding("absent", name, what, remedies, self._rows(absent), tuple(absent))

    def _of_numbers(self, name: str, values: Floats) -> Iterator[Finding]:
        leave_out, different = use(exclude=[name]), len(np.unique(values))
        whole = bool((values == np.rint(values)).all())
        if whole and 2 < different <= _MOST_CODES and different * 10 <= self.n_rows and _CODES.search(name):
            found = quoted([f"{value:g}" for value in np.unique(values)], 6)
            what = f"{name!r} looks like codes of {different} levels, {found}."
            yield Finding("codes", name, what, (use(categorical=[name]), leave_out), len(values))
            return
        far = far_values(values)
        if far:
            told = quoted([f"{value:g}" for value in far])
            self.far[name] = np.isin(self.values[name], far)
            rows = int(self.far[name].sum())
            rest = values[~np.isin(values, far)]
            what = f"{name!r} has {told} in {rows_text(rows)}; all others are from {rest.min():g} to {rest.max():g}."
            yield Finding("far_values", name, what, (use(na={name: far}), leave_out), rows)
        clean = np.where(self.far[name], np.nan, self.values[name]) if far else self.values[name]
        units = _other_units(clean, self.codes, len(self.labels))
        if units:
            labels = tuple(self.labels[e] for e in units)
            factor = next(iter(units.values()))
            times = f"{factor:.2g} times" if factor > 1 else f"1/{1 / factor:.2g} of"
            what = f"The median of {name!r} in {quoted(labels)} is {times} that of the others, its relative spread"
            remedies = leave_out, use(drop_environments=list(labels))
            yield Finding("unit", name, f"{what} alike. Another unit?", remedies, self._rows(labels), labels)

    def copies(self, left_out: Sequence[str | None], outcome: str | None) -> Iterator[Finding]:
        """Columns of numbers that are equal to another one or to the outcome, in rows where all of them are there"""
        apart = {None, *left_out, *self.raw.levels, *self.raw.refused}
        names = [name for name in (outcome, *self.features) if name is not None and name not in apart]
        X = np.array([np.where(np.isfinite(self.values[name]), self.values[name], np.nan) for name in names]).T
        X = X[~np.isnan(X).any(axis=1)] if names else np.empty((0, 0))
        varying = [j for j in range(len(names)) if len(X) >= _FEWEST_IDS and np.ptp(X[:, j]) > 0]
        kept = [names[j] for j in varying]
        for i, j, how in equal_columns(kept, kept, X[:, varying]) if kept else ():
            first = f"the outcome {kept[i]!r}" if kept[i] == outcome else repr(kept[i])
            remedies = (use(exclude=[name]) for name in (kept[j], kept[i]) if name != outcome)
            yield Finding("copies", kept[j], f"{kept[j]!r} and {first} {how}.", tuple(remedies), self.n_rows)

    def missing(self, found: Sequence[Finding], outcomes: Sequence[str]) -> Iterator[Finding]:
        """With what each remedy costs in rows. found : what else is; outcomes : columns that are no features"""
        left_out = _left_out(found)
        there = {name: self.present[name] for name in (*self.features, *outcomes) if name not in left_out}
        for finding in found:
            if finding.code == "far_values" and finding.column in there:
                there[finding.column] = there[finding.column] & ~self.far[finding.column]
        gaps = [name for name in there if not self.present[name].all()]
        levels = [name for name in self.features if name in self.raw.levels and name not in self.doubts]

        def keeps(*without: str) -> str:
            """What is left where rows are dropped, and columns left out"""
            complete = [values for name, values in there.items() if name not in without]
            n = int(np.logical_and.reduce([self.codes >= 0, *complete]).sum())
            return f" (keeps {n} of {rows_text(self.n_rows)})"

        ways = [use(keeps(), missing="drop")]
        taken = any(MISSING_LEVEL in self.raw.levels[name].texts for name in levels)
        if any(name in levels for name in gaps) and not taken:
            ways.append(use(f"{keeps(*levels)[:-1]}, with a level for categories)", missing="level"))
        unlabelled = int((self.codes < 0).sum())
        if unlabelled:
            what = f"{self.environment!r} has no label in {rows_text(unlabelled)}."
            yield Finding("missing", self.environment, what, tuple(ways), unlabelled)
        for name in gaps:
            gone = ~self.present[name]
            remedies = [*ways, *([use(keeps(name), exclude=[name])] if name in self.features else [])]
            where = tuple(label for e, label in enumerate(self.labels) if gone[self.codes == e].any())
            n = int(gone.sum())
            yield Finding("missing", name, f"{name!r} is missing in {rows_text(n)}.", tuple(remedies), n, where)


def _are_ids(name: str, numbers: Floats) -> bool:
    """Whole numbers, all different, that are called so or count the rows."""
    different = len(np.unique(numbers)) == len(numbers) >= _FEWEST_IDS and not np.isnan(numbers).any()
    counted = np.min(numbers) in (0, 1) and np.ptp(numbers) == len(numbers) - 1
    named = _ID.search(name) is not None or counted
    return different and named and bool((numbers == np.rint(numbers)).all())


def _without_zeros(text: str) -> str:
    """Whole numbers in a text without the zeros before them, which spreadsheets drop."""
    return re.sub(r"(?<![\d.,])0+(?=\d)", "", text)


def _is_code(value: float) -> bool:
    """9, 99, 999.9, −88: what people write for missing values"""
    digits = f"{abs(value):g}".replace(".", "")
    return len(set(digits)) == 1 and digits[0] in "789" and (len(digits) > 1 or digits == "9")


def far_values(values: Floats) -> list[float]:
    """Values of a column (n,) that are far beyond all others, on the scale as it is and on that of logarithms; codes
    such as 999 where they are beyond the range of the others once more, and are no tail of single rows."""
    far: list[float] = []
    for sign in (1.0, -1.0):
        different, counts = np.unique(sign * values, return_counts=True)
        for k in range(1, min(_MOST_FAR, len(different) - 2) + 1):
            rest, beyond, n = different[:-k], different[-k:], int(counts[-k:].sum())
            with np.errstate(invalid="ignore"):  # of infinite values
                span, gap = rest[-1] - rest[0], beyond[0] - rest[-1]
            codes = all(map(_is_code, beyond))
            if codes and 2 * n < len(values):
                below_zero = sign < 0 and rest[-1] <= 0 < beyond[0]
                repeated = n > 1 and (below_zero or (gap >= span and n > counts[-k - 1]))
                found = gap >= _FAR * span or repeated
            else:
                positive = sign > 0 and rest[0] > 0
                ratio = np.log(beyond[0] / rest[-1]) - np.log(rest[-1] / rest[0]) if positive else gap - 10 * span
                found = n <= _RARE * len(values) and gap > _FAR * span and ratio > 0
            if found:
                far += (sign * beyond).tolist()
                break
    return far


def _other_units(values: Floats, codes: Integers, n_environments: int) -> dict[int, float]:
    """{environment: its median, relative to that of most} where values (N,) look as if in another unit"""
    quartiles = {}
    for e in range(n_environments):
        inside = values[(codes == e) & np.isfinite(values)]
        if len(inside) >= _FEWEST_IN_UNIT:
            quartiles[e] = np.quantile(inside, [0.25, 0.5, 0.75])
    if len(quartiles) < 2 or any(low <= 0 for low, *_ in quartiles.values()):
        return {}
    low, middle, high = np.log(np.array(list(quartiles.values()))).T
    spread, largest = high - low, np.argmax([(codes == e).sum() for e in quartiles])
    off = middle - (np.median(middle) if len(middle) > 2 else middle[largest])
    other = np.abs(off) > np.log(_OTHER_UNIT)
    if not other.any() or 2 * other.sum() > len(other):
        return {}
    usual = np.median(spread[~other])
    alike = (spread[other] <= _SAME_SPREAD * usual) & (usual <= _SAME_SPREAD * spread[other])
    apart = np.abs(off[other]) > _APART * np.maximum(usual, spread[other])
    if not (alike & apart).all() or np.ptp(off[~other]) > np.log(_OTHER_UNIT):
        return {}
    return {e: float(np.exp(off[k])) for k, e in enumerate(quartiles) if other[k]}
