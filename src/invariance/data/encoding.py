"""How a table became the columns of a model: learnt from the rows that are fitted, kept for those
to predict."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Names
from ..exceptions import DataError, Message, use
from .basis import Dummies, Numbers, SplineBasis, Term
from .checks import check_distinct_labels, quoted, warn
from .columns import (
    MISSING_LEVEL,
    Choices,
    Levels,
    Mending,
    RawTable,
    Refusal,
    column_of,
    doubtful,
    level_codes,
    recoded,
    refuse,
    series_values,
    text_as_numbers,
)
from .features import Features
from .labels import level_of, tell_alike


@dataclass(frozen=True)
class Encoding:
    """columns: r names of the table, in its order; members: the p features and what each is made
    of; read_as_numbers: columns whose text is read as numbers; mending: what is changed in
    cells."""

    columns: Names
    members: tuple[tuple[str, tuple[Term, ...]], ...]
    read_as_numbers: frozenset[str] = frozenset()
    mending: Mending = field(default_factory=Mending)

    @cached_property
    def features(self) -> Features:
        """The p features and their q columns."""
        names = tuple(name for name, _ in self.members)
        widths = [sum(len(term.names) for term in terms) for _, terms in self.members]
        return Features(
            names,
            tuple(name for term in self.terms for name in term.names),
            np.array(widths, np.int64),
        )

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return tuple(term for _, terms in self.members for term in terms)

    @cached_property
    def owners(self) -> dict[str, str]:
        """{column of the table: the feature it belongs to}"""
        return {term.column: name for name, terms in self.members for term in terms}

    @cached_property
    def of_levels(self) -> dict[str, Dummies]:
        """{column of the table: its levels}"""
        return {term.column: term for term in self.terms if isinstance(term, Dummies)}

    @property
    def with_missing(self) -> frozenset[str]:
        """Columns whose missing values have a level"""
        return frozenset(
            name for name, term in self.of_levels.items() if MISSING_LEVEL in term.occurring
        )

    @property
    def derived(self) -> frozenset[str]:
        """Columns that only follow another one, the curves of splines."""
        return frozenset(
            name for term in self.terms if isinstance(term, SplineBasis) for name in term.names[1:]
        )

    @property
    def choices(self) -> Choices:
        """What reads another table in the same way."""
        return Choices(frozenset(self.of_levels), self.read_as_numbers, mending=self.mending)

    @property
    def notes(self) -> Names:
        """What a reader of coefficients must know: reference levels and knots in one sentence, and
        changed cells."""
        said = [term.note for term in self.terms if not isinstance(term, Numbers) and term.note]
        return (*(("; ".join(said) + ".",) if said else ()), *self.mending.notes)

    def lacking(self, absent: Mapping[str, frozenset[str]]) -> Encoding:
        """With {column: the levels that no row has}."""
        return self._with_dummies(
            lambda term: replace(term, absent=absent.get(term.column, frozenset()))
        )

    def _with_dummies(self, change: Callable[[Dummies], Dummies]) -> Encoding:
        def changed(term: Term) -> Term:
            return change(term) if isinstance(term, Dummies) else term

        return replace(
            self, members=tuple((name, tuple(map(changed, terms))) for name, terms in self.members)
        )

    def occurring_in(self, means: Mapping[str, float], n_rows: int) -> Encoding:
        """Of n_rows rows, whose columns have these means, some of which may lack levels."""
        absent = {}
        for column, term in self.of_levels.items():
            shares = [means[name] for name in term.names]
            if len(shares) < len(term.levels):
                shares.insert(0, 1.0 - sum(shares))
            found = zip(term.levels, shares, strict=True)
            absent[column] = frozenset(
                level for level, share in found if round(share * n_rows) == 0
            )
        return self.lacking(absent)

    def joined(self, other: Encoding) -> Encoding | None:
        """That of the rows of both, of which each may lack some levels; None where the columns are
        not the same."""
        if self.lacking({}) != other.lacking({}):
            return None
        return self.lacking(
            {
                name: term.absent & other.of_levels[name].absent
                for name, term in self.of_levels.items()
            }
        )

    def all_levels(self, other: Encoding) -> dict[str, list[str]] | None:
        """{column: the levels of both} where other levels are all that keeps the columns from being
        the same"""
        same = [
            encoding._with_dummies(lambda term: Dummies(term.column, ()))
            for encoding in (self, other)
        ]
        if self == other or same[0] != same[1]:
            return None
        return {
            n: list(dict.fromkeys(term.levels + other.of_levels[n].levels))
            for n, term in self.of_levels.items()
        }

    def with_outcome(self, new: str, old: str) -> Encoding:
        """The old outcome is a feature in the place of the new one, which was a column of
        numbers."""
        members = tuple(
            (old, (Numbers(old),)) if name == new else (name, terms) for name, terms in self.members
        )
        return replace(
            self,
            columns=tuple(old if name == new else name for name in self.columns),
            members=members,
        )

    def encode(self, raw: RawTable, handle_unknown: str = "error") -> Floats:
        """(N, q) from a table that holds these columns; levels that were not learnt raise, or count
        as the reference with a warning where handle_unknown is "ignore"."""
        encoded: list[Floats] = []
        unknown: dict[str, str] = {}
        for term in self.terms:
            values = raw.column(term.column)
            if isinstance(term, Dummies):
                levels = raw.levels.get(term.column, Levels(())).texts
                values, strange = recoded(values, levels, term.levels, term.absent)
                if strange:
                    unknown[term.column] = strange
            encoded.append(term.encode(values))
        if unknown:
            found = "; ".join(f"column {name!r} has {levels}" for name, levels in unknown.items())
            counted = ", ".join(
                f"{self.of_levels[name].levels[0]!r} of {name!r}" for name in unknown
            )
            if handle_unknown != "ignore":
                counts_as = use(
                    f" (they count as the reference level, {counted})", handle_unknown="ignore"
                )
                raise DataError(
                    f"levels that the training data lack: {found}. Leave those rows out, or take "
                    "the reference level",
                    counts_as,
                )
            warn(
                f"levels that the training data lack count as the reference level, {counted}: "
                f"{found}"
            )
        return np.hstack(encoded)

    def read(self, frame: Any, ignored: Collection[str] = ()) -> RawTable:
        """These columns of a narwhals frame, by name; `ignored` ones are not looked at."""

        def read(series: Any, name: str) -> Any:
            if name in self.of_levels:
                return level_codes(series, name, name in self.with_missing)
            numbers = text_as_numbers if name in self.read_as_numbers else series_values
            return numbers(series, name)

        return RawTable.of_frame(frame, self.columns, self.choices, read, ignored)

    def decode(self, X: Floats, columns: Sequence[str]) -> Iterator[tuple[str, Floats, Names]]:
        """(column of the table, values or positions (N,), levels) from the columns of X (N, q) that
        are left."""
        at = {name: j for j, name in enumerate(columns)}
        decoded = {}
        for term in self.terms:
            if isinstance(term, Dummies):
                dummies = {name: X[:, at[name]] for name in term.names if name in at}
                if dummies:
                    decoded[term.column] = term.decode(dummies), term.levels
            elif term.column in at:
                decoded[term.column] = X[:, at[term.column]], ()
        return ((name, *decoded[name]) for name in self.columns if name in decoded)


class ColumnSummary(NamedTuple):
    """What all rows of a table show of its columns, before any row is left out.
    levels : {column of words: the levels that occur}; refused : {column: what is wrong with it};
        empty : columns
    with at most one value beside missing ones: rows dropped for them would be gone for nothing"""

    n_rows: int
    levels: Mapping[str, Levels]
    refused: Mapping[str, Refusal]
    empty: Collection[str]

    @classmethod
    def of(cls, raw: RawTable) -> ColumnSummary:
        levels = {}
        for name, known in raw.levels.items():
            codes = raw.column(name)
            found = np.unique(codes[~np.isnan(codes)]).astype(int)
            levels[name] = known._replace(texts=tuple(known.texts[k] for k in found))
        empty = {
            name
            for name, column in zip(raw.names, raw.values.T, strict=True)
            if np.isnan(column).any() and not np.fmin.reduce(column) < np.fmax.reduce(column)
        }
        return cls(len(raw.values), levels, raw.refused, empty)

    def refusals(self, choices: Choices) -> dict[str, Refusal]:
        """{column: why it cannot be used}"""
        found = dict(self.refused) | {
            n: Refusal("has at most one value beside missing ones") for n in self.empty
        }
        for name, levels in self.levels.items():
            doubt = None if name in choices.categorical else doubtful(name, levels, self.n_rows)
            if doubt is not None:
                found[name] = doubt
        return found

    def check(self, columns: Sequence[str], choices: Choices, streamed: bool = False) -> None:
        """Raise about all columns that cannot be used."""
        refused = self.refusals(choices)
        refuse(
            {name: refused[name] for name in columns if name in refused}, choices.excluded, streamed
        )
        for name in choices.splines:
            if name in self.levels:
                raise DataError(
                    f"spline({name!r}) needs numbers, but {name!r} holds levels: leave it out of "
                    "groups=."
                )
        for name, levels in self.levels.items():
            if choices.missing_level and MISSING_LEVEL in map(level_of, levels.written):
                raise DataError(
                    (
                        f"column {name!r} has a level {MISSING_LEVEL!r}, as missing values have "
                        "with missing='level'. Rename it, or make it missing values too"
                    ),
                    use(na={name: [MISSING_LEVEL]}),
                )
            listed = *choices.levels.get(name, levels.texts), MISSING_LEVEL
            strange = [text for text in levels.texts if text not in listed]
            if strange:
                raise DataError(
                    f"column {name!r} has levels that are not listed: {quoted(strange)}. "
                    "List them too, or leave those rows out."
                )


# {column: {level: the environments that have it}}
Learnt = Mapping[str, Mapping[str, Collection[Hashable]]]


def learnt_levels(raw: RawTable, codes: Integers, environments: Sequence[Hashable]) -> Learnt:
    """Of the rows that are fitted; codes (n,) : their environments"""
    learnt: dict[str, dict[str, set[Hashable]]] = {}
    for name, levels in raw.levels.items():
        places = raw.column(name).astype(np.intp)
        found = learnt.setdefault(name, {})
        for pair in np.unique(codes * len(levels.texts) + places):
            e, k = divmod(int(pair), len(levels.texts))
            found.setdefault(levels.texts[k], set()).add(environments[e])
    return learnt


def learn_encoding(
    columns: Sequence[str],
    choices: Choices,
    summary: ColumnSummary,
    learnt: Learnt,
    splines: Mapping[str, SplineBasis | Floats | None],
    taken: Sequence[str],
) -> Encoding | None:
    """The encoding of the rows that are fitted; None where every column is numbers and enters
    alone. splines: {column: its spline, or values (n,) for the knots of one}; taken: names of other
    columns"""
    # Among rows with the same level, environments could not differ.
    telling = [
        name
        for name, where in learnt.items()
        if len(set().union(*where.values())) > 1
        and all(len(labels) == 1 for labels in where.values())
    ]
    if telling:
        warn(
            Message(
                (
                    f"each level of {quoted(telling)} occurs in one environment only, so that "
                    "anything looks invariant"
                ),
                use(exclude=[*choices.excluded, *telling]),
            )
        )
    if not learnt and not choices.groups and not choices.mending:
        return None
    ordered = {
        name: tuple(text for text in summary.levels[name].texts if text in learnt[name])
        for name in learnt
    }
    for name, texts in ordered.items():
        check_distinct_labels(texts, f"column {name!r}", "levels")
        tell_alike(summary.levels[name].written, name, "level")

    def term(column: str) -> Term:
        if column in learnt:
            levels = tuple(dict.fromkeys((*choices.levels.get(column, ()), *ordered[column])))
            return Dummies(column, levels, frozenset(levels).difference(learnt[column]))
        known = splines.get(column)
        if isinstance(known, np.ndarray):
            return choices.splines[column].fitted(known)
        return known or Numbers(column)

    owner = {column_of(m): name for name, members in choices.groups.items() for m in members}
    members: dict[str, tuple[Term, ...]] = {}
    for column in columns:
        name = owner.get(column, column)
        if name not in members:
            members[name] = tuple(map(term, map(column_of, choices.groups.get(name, (column,)))))
    encoding = Encoding(
        tuple(columns), tuple(members.items()), choices.numeric, choices.mending.of(columns)
    )
    check_names(encoding, taken)
    return encoding


def check_names(encoding: Encoding, taken: Sequence[str]) -> None:
    """Raise when two columns of the model would have the same name."""
    makers: dict[str, str] = {name: name for name in taken}
    for term in encoding.terms:
        for name in term.names:
            if name in makers:
                raise DataError(
                    f"columns {makers[name]!r} and {term.column!r} both make a column "
                    f"{name!r}: rename one of them."
                )
            makers[name] = term.column
    clash = [name for name in encoding.features.names if name in taken]
    if clash:
        raise DataError(
            f"groups: {quoted(clash)} is the name of another column: choose another name for the "
            "group."
        )
