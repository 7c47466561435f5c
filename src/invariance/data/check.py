"""What a look at a table finds before it is fitted: each finding with the settings that mend it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.json import written
from .._tools.sections import Rendered, Section
from ..exceptions import DataError, InvarianceError, Message, Messages, Remedy, use
from .checks import NO_ROWS, SMALLEST_ENVIRONMENT, check_environments, listing
from .columns import Choices, as_frame, excluding, owners_of
from .gaps import MissingValues
from .labels import level_of
from .look import ColumnLook, Finding, Look, left_out_by, setting_of
from .multi_environment import MultiEnvironmentData
from .reading import PARQUET, TableFile, column_names, read_columns
from .settings import Columns, FileFormat

if TYPE_CHECKING:
    import pandas as pd

# What findings are about that are about no column
_WHOLE_TABLE = "the table"
# So many columns of which the same is said stand in one line.
MANY_COLUMNS = 4
# Refusals of the reader that are mended one after the other
MAX_ROUNDS = 6
# Settings of the reader that a remedy may change
_OF_READER = {
    *("exclude", "categorical", "numeric", "na", "missing", "below_limit", "decimal", "thousands"),
    *("drop_environments", "merge_environments", "min_rows"),
}
# Reads a table with these arguments of `MultiEnvironmentData.from_table`, and raises where that, or
# a fit, is refused
Attempt = Callable[[Mapping[str, Any]], object]


@dataclass(frozen=True, repr=False)
class DataCheck(Rendered):
    """Hold the findings of `check`.

    It prints as text and shows as HTML.

    Attributes
    ----------
    findings : tuple of Finding
        Problems with remedies.
    n_rows : int
        Rows of the table.
    columns : tuple of ColumnLook
        All columns of the table.
    name : str
        Name of the file, or "table".
    outcome, environment : str or None
        Names of these columns.
    settings : dict
        First remedies of all findings that are not questions, as arguments of
        `MultiEnvironmentData.from_table`.
    missing_values : MissingValues
        Missing values by column and environment.
    """

    findings: tuple[Finding, ...]
    n_rows: int
    columns: tuple[ColumnLook, ...] = ()
    name: str = "table"
    outcome: str | None = None
    environment: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    missing_values: MissingValues = field(default_factory=MissingValues)

    @property
    def is_refused(self) -> bool:
        """Whether a fit with the settings is refused all the same."""
        return bool(self.refusals)

    @property
    def refusals(self) -> list[Finding]:
        """What a fit with the settings is refused for."""
        return [finding for finding in self.findings if finding.code == "refused"]

    def missing_by_environment(self, percent: bool = False) -> pd.DataFrame:
        """Return missing values by column and environment.

        Values that the settings declare missing are counted as well.

        Parameters
        ----------
        percent : bool, default=False
            Whether to return percent of the rows of each environment in place of counts.

        Returns
        -------
        DataFrame of shape (n_columns, n_environments)
            The columns that have missing values.
        """
        return self.missing_values.to_frame(percent)

    def exclusions(self) -> pd.DataFrame:
        """Return the numbers of complete rows if features with missing values are excluded.

        Starting with the features without missing values, the feature that costs the fewest rows is
        added in each step.

        Returns
        -------
        DataFrame
            One row for each number of features: exclude, features, rows, lost (environments with
            fewer than three such rows) and values (rows × features).
        """
        return self.missing_values.exclusions_to_frame()

    @property
    def sections(self) -> list[Section]:
        title = (
            f"{self.name}: {self.n_rows:,} rows, {len(self.columns)} columns, "
            f"{len(self.findings)} finding{'s' * (len(self.findings) != 1)}"
        )
        facts = tuple((label, message) for label, message in _by_sentence(self.findings))
        first = Section(title, () if facts else ("Nothing speaks against fitting it.",), facts)
        return [first, *self.missing_values.sections(self.environment)]

    def to_frame(self) -> pd.DataFrame:
        """Return the findings as a data frame.

        Returns
        -------
        DataFrame
            One row for each finding.
        """
        import pandas as pd

        names = [each.name for each in fields(Finding)]
        return pd.DataFrame([finding.to_plain() for finding in self.findings], columns=names)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return strict JSON of the check, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or Path, default=None
            File to write.

        Returns
        -------
        str
            JSON text.
        """
        about = {
            name: getattr(self, name)
            for name in ("name", "n_rows", "outcome", "environment", "settings")
        }
        findings = [
            {**each.to_plain(), "environments": [*map(str, each.environments)]}
            for each in self.findings
        ]
        content = {"format": "invariance.check/2", **about, "findings": findings}
        return written(_for_json(content | {"missing": self.missing_values.to_plain()}), path)


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
    """Check a table before it is fitted.

    With the first remedy of each finding the table is read as a fit reads it. What is refused is
    corrected by its own remedies if it has some, and reported otherwise.

    Parameters
    ----------
    table : DataFrame or path
        A data frame of any library, or a file.
    outcome, environment : str, default=None
        Columns that are not features. Without an environment, environments are not compared.
    event, exposure : str, default=None
        Columns that belong to the outcome.
    columns : Columns, default=None
        Which columns are features, and how each is read.
    format : FileFormat, default=None
        How a file is written.

    Returns
    -------
    DataCheck
        Findings with remedies, `settings` for `MultiEnvironmentData.from_table`, and missing values
        by environment.

    Raises
    ------
    DataError
        If a named column is not in the table, or a file is missing.

    Examples
    --------
    >>> from invariance import check
    >>> from invariance.datasets import make_clinical_table
    >>> result = check(make_clinical_table(), "readmitted", "hospital")
    >>> sorted({finding.code for finding in result.findings})[:4]
    ['absent', 'codes', 'dates', 'detection_limit']
    """
    given = {"outcome": outcome, "environment": environment, "event": event, "exposure": exposure}
    return examine(table, given, columns, format)


def examine(
    table: Any,
    roles: Mapping[str, str | None],
    columns: Columns | None = None,
    format: FileFormat | None = None,
    attempt: Attempt | None = None,
) -> DataCheck:
    """As `check`. roles : outcome, environment, event, exposure; attempt : by default reads, and
    checks the size of environments"""
    columns = columns or Columns()
    file = None
    if isinstance(table, (str, os.PathLike)):
        file = TableFile.of(table)
        table = file if format is None else replace(file, form=format)
    names = as_frame(table).columns if file is None else column_names(table)
    where = "the table" if file is None else file.name
    if not names:
        raise DataError(
            f"{where} has no columns with a name. It needs an outcome, an environment and features."
        )
    if len(names) == 1:
        several = file is not None and " " in names[0].strip()
        raise DataError(
            f"{where} has a single column, {names[0]!r}: an outcome, an environment and features "
            f"are needed{'. If blanks separate its cells' if several else '.'}",
            *([use(sep=" ")] if several else []),
        )
    given = {**roles, "weights": columns.weights}
    stated = {role: name for role, name in given.items() if name is not None}
    owned = {role: name for name, role in owners_of(stated, names, where).items()}
    if not set(names) - set(owned.values()):
        raise DataError(f"{where} has no feature columns besides {', '.join(owned)}. Add features.")
    attempt = attempt or partial(_read_to_fit, table, owned)
    examined = _Examined(table, names, owned, columns, attempt)
    found = examined.look()
    ways = [way for f in found.findings for way in f.remedies if _is_form(way)]
    return examined.in_best_form(found, ways) if file is not None and ways else found


_FORMS = {"decimal", "thousands"}


def _is_form(way: Remedy) -> bool:
    """Whether it states how numbers are written"""
    return set(setting_of(way)) <= _FORMS


@dataclass(frozen=True)
class _Examined:
    """A table or a `TableFile`, its columns and the roles of some of them."""

    table: Any
    names: Sequence[str]
    roles: Mapping[str, str]
    columns: Columns
    attempt: Attempt

    def in_best_form(self, found: DataCheck, ways: Sequence[Remedy]) -> DataCheck:
        """What `check` finds, with the numbers of the file read in that of these ways which loses
        the fewest columns"""
        stated: FileFormat = self.table.form
        single = [setting_of(way) for way in dict.fromkeys(ways)]
        tried: list[tuple[dict[str, Any], DataCheck]] = [({}, self.look({}))]
        known = []
        for form in (*single, *({**one, **other} for one, other in combinations(single, 2))):
            beside = {name: None for name in _FORMS if getattr(stated, name) in form.values()}
            whole = {**beside, **form}
            with suppress(InvarianceError):
                file = replace(self.table, form=replace(stated, **whole))
                tried.append((whole, replace(self, table=file).look(whole)))
                known.append(form)
        form, best = min(
            tried, key=lambda one: (one[1].is_refused, len(one[1].settings.get("exclude", ())))
        )
        told = []
        for finding in found.findings if form else ():
            forms = [way for way in finding.remedies if setting_of(way) in known]
            if forms and finding.code not in ("refused", "stopped"):
                possible = (way for way in finding.remedies if not _is_form(way) or way in forms)
                told.append(replace(finding, remedies=tuple(possible)))
        return replace(best, findings=(*told, *best.findings))

    def look(self, form: Mapping[str, Any] | None = None) -> DataCheck:
        """form : how numbers of the file are read in place of what was stated; None: other forms
        are among the remedies"""
        table = self.table
        file = table if isinstance(table, TableFile) else None
        names = self.names
        outcome = self.roles.get("outcome")
        environment = self.roles.get("environment")
        possible = [name for name in names if name not in self.roles.values()]
        features = excluding(self.columns.exclude, self.columns.features or possible, possible)
        choices = Choices.of(self.columns, features)
        if file is not None:
            table = read_columns(file, names, environment, choices.categorical, other_forms=names)
        frame = as_frame(table)
        if len(frame) == 0:
            raise DataError(NO_ROWS if file is None else f"{file.name} has a header but no rows.")
        written = frame
        if file is not None and file.kind != PARQUET:
            written = as_frame(read_columns(file, names, as_text=names))
        look = Look(frame, written, names, features, choices, environment, file)
        used = [name for role, name in self.roles.items() if role not in ("environment", "weights")]
        of_outcome = [] if outcome is None else list(look.of_outcome(outcome, self.roles))
        of_features = (each if form is None else _as_it_is_read(each) for each in look.findings())
        found = [*of_outcome, *of_features]
        found += look.copies(left_out_by(found), outcome)
        gaps = look.gaps(found, used)
        findings = [*found, *look.missing(found, used, gaps)]
        settings = dict(form or {}) | _merged(findings, self.columns)
        if outcome is not None and environment is not None:
            settings, more = _tried(settings, self.attempt)
            findings += more
        return DataCheck(
            tuple(findings),
            len(frame),
            tuple(look.columns[name].described() for name in names),
            "the table" if file is None else file.name,
            outcome,
            environment,
            settings,
            gaps,
        )


def _as_it_is_read(finding: Finding) -> Finding:
    """Without other forms of numbers among the remedies, but first leave out the column"""
    others = [way for way in finding.remedies if not _is_form(way)]
    if len(others) == len(finding.remedies):
        return finding
    return replace(
        finding, remedies=tuple(sorted(others, key=lambda way: "exclude" not in setting_of(way)))
    )


# ---------------------------------------------------------------- the settings are tried


def read_with(
    table: Any, roles: Mapping[str, str], settings: Mapping[str, Any]
) -> MultiEnvironmentData:
    """Read a table or a file with the settings that `check` found. roles : outcome, environment,
    event, exposure"""
    settings = dict(settings)
    if isinstance(table, TableFile):
        form = {name: settings.pop(name) for name in _FORMS if name in settings}
        table = replace(table, form=replace(table.form, **form))
    besides: dict[str, Any] = {
        role: name for role, name in roles.items() if role in ("event", "exposure")
    }
    return MultiEnvironmentData.from_table(
        table, roles["outcome"], roles["environment"], **settings, **besides
    )


def _read_to_fit(table: Any, roles: Mapping[str, str], settings: Mapping[str, Any]) -> None:
    """Read a table as a fit does, and check its environments."""
    data = read_with(table, roles, settings)
    is_number = data.outcome_kind.kind == "number"
    judged = data.counts >= (
        SMALLEST_ENVIRONMENT if is_number else 0
    )  # small ones deviate at random
    low, high = data.outcome_range
    labels = [label for label, fits in zip(data.environments, judged, strict=True) if fits]
    check_environments(
        labels, data.counts[judged], low[judged], high[judged], data.outcome_name, not is_number
    )


def _tried(settings: dict[str, Any], attempt: Attempt) -> tuple[dict[str, Any], list[Finding]]:
    """The settings with remedies of whatever is refused, as long as there are some; and what was
    refused."""
    stopped: list[Finding] = []
    for n_rounds in range(MAX_ROUNDS + 1):
        refused = _refusals(settings, attempt)
        mended = settings
        applied = []
        for finding in refused if n_rounds < MAX_ROUNDS else ():
            ways = [way for way in finding.remedies if {*setting_of(way)} <= _OF_READER]
            first = next((way for way in ways if _with(mended, way) != mended), None)
            if first is not None:
                mended = _with(mended, first)
                others = (way for way in finding.remedies if way != first)
                applied.append(replace(finding, code="stopped", remedies=(first, *others)))
        if not applied:
            return settings, [*stopped, *refused]
        stopped += applied
        settings = mended
    return settings, stopped


def _refusals(settings: Mapping[str, Any], attempt: Attempt) -> list[Finding]:
    """What a fit with these settings is refused for"""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            attempt(settings)
    except InvarianceError as error:
        message = error.args[0]
        parts = message.parts if isinstance(message, Messages) else (message,)
        return [Finding("refused", None, _as_sentence(part), part.remedies) for part in parts]
    return []


def _as_sentence(message: Message) -> str:
    what = (
        message.what
        if message.what.endswith((".", "?")) or message.remedies
        else f"{message.what}."
    )
    begins_with_setting = "=" in what.split(" ")[0]
    return what if begins_with_setting else what[:1].upper() + what[1:]


def _by_sentence(findings: Sequence[Finding]) -> Iterator[tuple[str, Message]]:
    """(column, message), with findings that say the same of many columns in one line."""
    alike: dict[Any, list[Finding]] = {}
    for finding in findings:
        same: Any = finding.code
        if finding.column is None:
            same = id(finding)
        elif finding.code != "missing":
            same = finding.code, finding.what.replace(repr(finding.column), "…", 1)
        alike.setdefault(same, []).append(finding)
    for same, members in alike.items():
        if len(members) < MANY_COLUMNS:
            yield from ((finding.column or _WHOLE_TABLE, finding.message) for finding in members)
            continue
        names = listing((repr(finding.column) for finding in members), 12)
        label = f"{len(members)} columns"
        if same == "missing":
            yield label, Message(f"Values are missing in {names}, as the table shows.")
            continue
        merged: dict[str, Any] = {}
        for finding in members:
            merged = _with(merged, finding.remedies[0]) if finding.remedies else merged
        what = f"{names}: {members[0].what.replace(repr(members[0].column), 'each', 1)}"
        yield label, Message(what.removesuffix("."), *([use(**merged)] if merged else []))


def _for_json(value: Any) -> Any:
    """What JSON can hold: labels that are dates, and splines, as text"""
    if isinstance(value, Mapping):
        return {str(name): _for_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(each) for each in value]
    return (
        value if value is None or isinstance(value, str | int | float | np.number) else str(value)
    )


def _merged(findings: Sequence[Finding], columns: Columns) -> dict[str, Any]:
    """What was stated, and the first remedy of each finding; nothing else is said of a column that
    is left out."""
    unset = Columns()
    names = "features", "categorical", "numeric", "groups", "below_limit", "na", "weights"
    merged = {
        name: getattr(columns, name)
        for name in names
        if getattr(columns, name) != getattr(unset, name)
    }
    if columns.exclude:
        merged["exclude"] = [*columns.exclude]
    left_out = left_out_by(findings)
    for finding in findings:
        way = finding.mending
        if way is not None and (finding.column not in left_out or "exclude" in setting_of(way)):
            merged = _with(merged, way)
            if "na" in setting_of(way):
                merged = _with(merged, use(missing="drop"))
    return merged


def _with(settings: Mapping[str, Any], remedy: Remedy) -> dict[str, Any]:
    """The settings with what a remedy adds to them; nothing else is said of a column that is left
    out."""
    merged = dict(settings)
    for name, value in remedy.settings:
        known = merged.get(name)
        if name == "na":
            merged[name] = _joined_codes(known or {}, value)
        elif isinstance(value, dict):
            merged[name] = {**(known or {}), **value}
        elif isinstance(value, list):
            merged[name] = list(dict.fromkeys([*(known or ()), *value]))
        elif name != "missing" or known != "level":
            merged[name] = value
    gone = merged.get("exclude", ())
    for name in ("categorical", "numeric", "na"):
        if gone and not set(gone).isdisjoint(merged.get(name, ())):
            merged[name] = _without_columns(merged[name], gone)
            if not merged[name]:
                del merged[name]
    return merged


def _without_columns(listed: Any, names: Sequence[str]) -> Any:
    """A list of columns, or a mapping of columns, without some"""
    if isinstance(listed, Mapping):
        return {name: value for name, value in listed.items() if name not in names}
    return [name for name in listed if name not in names]


def _joined_codes(
    known: Mapping[str, Sequence[Any]], new: Mapping[str, Sequence[Any]]
) -> dict[str, Any]:
    """{column: codes of missing values} of both, each once"""
    joined = dict(known)
    for name, codes in new.items():
        before = joined.get(name, ())
        told = {level_of(code) for code in before}
        joined[name] = [*before, *(code for code in codes if level_of(code) not in told)]
    return joined
