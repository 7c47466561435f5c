"""Messages and checks that need names, labels and counts only."""

from __future__ import annotations

import difflib
import inspect
import re
import sys
import unicodedata
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from numbers import Integral
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike

from .._tools.arrays import Floats
from .._tools.text import in_quotes
from ..exceptions import (
    DataError,
    DataWarning,
    NotInvariantWarning,
    SettingError,
    WrongTypeError,
    use,
)

LARGEST_VALUE = 1e100  # squares of anything larger overflow once multiplied by a row count
SMALLEST_SPREAD = 1e-100  # squares of anything smaller underflow
SMALLEST_ENVIRONMENT = 3
MISSING = "error", "drop", "level"  # "level": of categories; rows that lack numbers are dropped
NO_ROWS = "the table has no rows. Check the file, or what was filtered out before."


_HEARD: ContextVar[tuple[list[str], ...]] = ContextVar("heard", default=())


@contextmanager
def warnings_kept() -> Iterator[list[str]]:
    """Inside the block: what `warn` says is listed, too."""
    said: list[str] = []
    before = _HEARD.set((*_HEARD.get(), said))
    try:
        yield said
    finally:
        _HEARD.reset(before)


F = TypeVar("F", bound=Callable[..., Any])


def keeping_warnings(method: F) -> F:
    """The method, which also keeps what it warned of as `_warned`."""

    @wraps(method)
    def keeping(self: Any, *args: Any, **kwargs: Any) -> Any:
        with warnings_kept() as said:
            result = method(self, *args, **kwargs)
        self._warned = tuple(dict.fromkeys(said))
        return result

    return cast(F, keeping)


# What the fits of a search have warned of
_SAID: WeakKeyDictionary[Any, set[Hashable]] = WeakKeyDictionary()
_DETAILS = re.compile(r"\{[^}]*\}|'[^']*'|[\d.,%<]+")
_ONCE = "Other fits of this search may warn of the same: it is shown once."


def _search() -> Any:
    """scikit-learn's search or cross-validation in which a fit runs, or in a worker its function;
    None elsewhere."""
    outermost = None
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if str(frame.f_globals.get("__name__")).startswith("sklearn.model_selection."):
            outermost = frame
    if outermost is None:
        return None
    code = outermost.f_code
    held = outermost.f_locals
    return (
        code if code.co_name == "_fit_and_score" else held.get("self", held.get("estimator", code))
    )


def said_in_search(message: str, category: type[Warning]) -> bool:
    """Whether another fit of the same search has warned of the same, whatever the numbers and names
    in it."""
    search = _search()
    return search is not None and (category, _without_details(message, category)) in _SAID.get(
        search, ()
    )


def _without_details(message: str, category: type[Warning]) -> str:
    return "" if category is NotInvariantWarning else _DETAILS.sub("", message)


def warn(message: str, category: type[Warning] = DataWarning) -> None:
    """Issue a warning that points at the first caller outside this package; in a search one of each
    kind."""
    for said in _HEARD.get():
        said.append(message)
    if said_in_search(message, category):
        return
    search = _search()
    if search is not None:
        _SAID.setdefault(search, set()).add((category, _without_details(message, category)))
        message = f"{message} {_ONCE}"
    level = 1
    frame = sys._getframe()
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith(
        "invariance."
    ):
        level = level + 1
        frame = frame.f_back
    warnings.warn(message, category, stacklevel=level)


def listing(items: Iterable[str], limit: int = 8) -> str:
    """Join up to ``limit`` items with commas and count the rest."""
    words = list(items)
    if len(words) > limit + 1:
        words = [*words[:limit], f"... ({len(words) - limit} more)"]
    return ", ".join(words)


def quoted(names: Iterable[object], limit: int = 8) -> str:
    return listing(map(in_quotes, names), limit)


def rows_text(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"


def with_counts(names: Sequence[object], counts: ArrayLike) -> str:
    """``'a' (3 rows), 'b' (1 row)`` for the entries whose count is not zero."""
    pairs = zip(names, np.asarray(counts).tolist(), strict=True)
    return listing(f"{in_quotes(name)} ({rows_text(count)})" for name, count in pairs if count)


def most_first(counts: Mapping[str, int]) -> str:
    """As `with_counts`, those of most rows first."""
    names = sorted(counts, key=lambda name: -counts[name])
    return with_counts(names, [counts[name] for name in names])


def did_you_mean(name: str, available: Sequence[str]) -> str:
    """``; did you mean 'x'?`` to end a sentence with, or nothing; whatever the capitals."""
    folded = {other.casefold(): other for other in reversed(available)}
    close = difflib.get_close_matches(name.strip().casefold(), list(folded), n=1, cutoff=0.6)
    return f"; did you mean {folded[close[0]]!r}?" if close else ""


# The paper's words for settings of BIP and of priors, and what is typed here.
PAPERS_WORDS = {
    "p_max": "max_size= of a prior, prior=UniformPrior(max_size=20)",
    "max_size": "prior=UniformPrior(max_size=20)",
    "threshold": "select='threshold(0.9)'",
    "alpha": "ICP(alpha=0.05): BIP tests at no level. For inclusion probabilities, "
    "select='threshold(0.9)'",
    "gamma": "EILLS(gamma=36): BIP has no penalty",
}


def refuse_papers_words(where: str, given: Iterable[str]) -> None:
    """Raise about arguments that have another name here than in the paper."""
    for name in given:
        if name in PAPERS_WORDS:
            raise WrongTypeError(f"{where}() has no argument {name!r}: use {PAPERS_WORDS[name]}.")


ClassT = TypeVar("ClassT")


def answers_papers_words(kind: type[ClassT]) -> type[ClassT]:
    """Let the constructor of a class name what to type for a word of the paper."""
    init: Any = kind.__init__
    known = inspect.signature(init).parameters

    @wraps(init)
    def answering(self: Any, *settings: Any, **named: Any) -> None:
        refuse_papers_words(kind.__name__, named.keys() - known.keys())
        init(self, *settings, **named)

    setattr(kind, "__init__", answering)  # noqa: B010
    return kind


def nearest(name: str, available: Sequence[Hashable], what: str = "columns") -> str:
    """``did you mean ...?`` and what is available, shortened."""
    guess = did_you_mean(name, list(map(str, available))).removeprefix("; ")
    return f"{f'{guess} Available' if guess else 'available'} {what}: {quoted(available, 12)}."


def check_unique(names: Sequence[str], where: str) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise DataError(
            f"duplicate column names in {where}: {quoted(twice)}. Give every column its own name."
        )


def check_lengths(lengths: Mapping[str, int]) -> None:
    if len(set(lengths.values())) > 1:
        found = listing(f"{what} has {rows_text(length)}" for what, length in lengths.items())
        raise DataError(f"lengths differ: {found}. Pass one entry per row in each.")


def check_whole_number(setting: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise SettingError(
            f"{setting}={value!r} is not possible: use a whole number from {least} on."
        )


def check_known(setting: str, value: object, ways: Sequence[str | None]) -> None:
    """Raise where a setting is none of these."""
    if value not in ways:
        known = (use(**{setting: way}) for way in ways if way is not None)
        raise SettingError(f"{setting}={value!r} is not known", *known)


def labels_of(environment: str | None) -> str:
    return "environments" if environment is None else f"environment column {environment!r}"


def in_print(label: Hashable) -> str:
    """What people see of a label: without invisible signs, and one blank for each white space"""
    shown = "".join(char for char in str(label) if unicodedata.category(char) != "Cf")
    return " ".join(unicodedata.normalize("NFC", shown).split())


def alike(
    labels: Sequence[Hashable], seen: Callable[[Hashable], str] = in_print
) -> list[tuple[Hashable, ...]]:
    """Groups of labels that are seen as one, the plainest first; by default those that differ in
    white space or in how they are stored"""
    groups: dict[str, list[Hashable]] = {}
    for label in labels:
        groups.setdefault(seen(label), []).append(label)

    def plain(label: Hashable) -> tuple[bool, int, str]:
        return not str(label).isascii(), len(str(label)), str(label)

    return [tuple(sorted(group, key=plain)) for group in groups.values() if len(group) > 1]


def check_distinct_labels(
    labels: Sequence[Hashable], where: str, what: str = "environments"
) -> None:
    """Raise where labels look alike in print."""
    for group in alike(labels):
        found = (
            f"{where}: the labels {' and '.join(map(ascii, group))} look alike but are "
            f"{len(group)} {what}"
        )
        if what != "environments":
            raise DataError(f"{found}. Write them in the same way, or give them different names.")
        merge = use(merge_environments={group[0]: list(group)})
        raise DataError(f"{found}. Write them in the same way, or merge them", merge)


def check_scale(names: Sequence[str], minimum: Floats, maximum: Floats) -> None:
    """Raise for columns whose squares leave float64; ``minimum`` and ``maximum`` are per column."""
    large = np.maximum(-minimum, maximum)
    j = int(np.argmax(large))
    if large[j] > LARGEST_VALUE:
        raise DataError(
            f"column {names[j]!r} has values up to {large[j]:.3g}, whose squares overflow: divide "
            "it."
        )


def check_spread(names: Sequence[str], minimum: Floats, maximum: Floats) -> None:
    """Raise for columns that vary by less than squares in float64 can hold; needs the range over
    all rows."""
    spread = maximum - minimum
    j = int(np.argmin(np.where(spread > 0.0, spread, np.inf)))
    if 0.0 < spread[j] < SMALLEST_SPREAD:
        raise DataError(
            f"column {names[j]!r} varies by only {spread[j]:.3g}, whose square underflows: divide "
            "it."
        )


def check_whole(
    environments: Sequence[Hashable],
    counts: ArrayLike,
    outcome_minimum: ArrayLike,
    outcome_maximum: ArrayLike,
    outcome_name: str,
    environment_name: str | None,
    single_allowed: bool = False,
) -> None:
    """Checks that need all rows; ``counts`` and the outcome's range are (E,). single_allowed : one
    environment may be all"""
    n_rows = np.asarray(counts)
    if n_rows.sum() == 0:
        raise DataError(NO_ROWS)
    if n_rows.sum() < SMALLEST_ENVIRONMENT:
        raise DataError(
            f"{rows_text(int(n_rows.sum()))} are too few: at least {SMALLEST_ENVIRONMENT} rows "
            "are needed."
        )
    if len(environments) == 1 and not single_allowed:
        raise DataError(
            f"{labels_of(environment_name)}: all {rows_text(int(n_rows[0]))} have the same "
            f"label {in_quotes(environments[0])}. Choose a column with two environments or "
            "more."
        )
    check_distinct_labels(environments, labels_of(environment_name))
    low = np.asarray(outcome_minimum)
    high = np.asarray(outcome_maximum)
    if low.min() == high.max():
        raise DataError(
            f"outcome {outcome_name!r} is constant: every row is {low[0]:g}. Choose an "
            "outcome that varies."
        )


def check_environments(
    environments: Sequence[Hashable],
    counts: ArrayLike,
    minimum: ArrayLike,
    maximum: ArrayLike,
    name: str,
    flat_allowed: bool = False,
) -> None:
    """Raise where an environment cannot have a fit of its own: it has fewer than three rows, or its
    outcome is constant and not `flat_allowed`; counts and the outcome's range are (E,)."""
    n_rows = np.asarray(counts)
    flat = np.asarray(minimum) == np.asarray(maximum)
    small = n_rows < SMALLEST_ENVIRONMENT
    if small.any():
        found = (
            "environments too small: "
            f"{with_counts(environments, np.where(small, n_rows, 0))}. Each needs 3 rows"
        )
        if np.count_nonzero(~small) < 2:
            raise DataError(f"{found}: merge them, or choose another column of environments.")
        raise DataError(
            f"{found}: merge them with others, or leave them out",
            use(min_rows=SMALLEST_ENVIRONMENT),
        )
    if flat.any() and not flat_allowed:
        found = with_counts(environments, np.where(flat, n_rows, 0))
        what = f"outcome {name!r} is constant inside environment {found}"
        if np.count_nonzero(~flat) < 2:
            raise DataError(
                f"{what}: it varies in {np.count_nonzero(~flat)} environments, and two are "
                "needed. Choose another column of environments, or merge some."
            )
        gone = [environments[e] for e in np.flatnonzero(flat).tolist()]
        raise DataError(
            f"{what}. Merge it with another or leave it out", use(drop_environments=gone)
        )


def largest_size(counts: ArrayLike, widths: ArrayLike) -> int:
    """Largest max_size (at most p) for which every environment has rows enough.
    counts (E,): rows; widths (E, p): columns of each feature that vary in each environment. Of the
    features that vary the narrowest count."""
    p = int(np.shape(widths)[1])
    sizes = []
    for n_rows, row in zip(np.asarray(counts), np.asarray(widths, dtype=np.int64), strict=True):
        needed = np.cumsum(np.sort(row[row > 0]))
        size = int(np.searchsorted(needed, max(n_rows - 2, 0), side="right"))
        sizes.append(p if size == len(needed) else size)
    return min(sizes)
