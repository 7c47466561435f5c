"""Text that fits a width: names, subsets and paragraphs on a terminal, a page or a picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count

COLUMNS = 80
_LONGEST_IN_SUBSET = 24


def printable(text: str) -> str:
    """The text with every character that would disturb a line (newline, tab, escape, ...) spelled out."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def display_width(text: str) -> int:
    """Terminal columns of printable text: two for wide characters, none for combining marks."""
    if text.isascii():
        return len(text)
    return sum(_character_width(c) for c in text)


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _prefix(text: str, width: int) -> int:
    """Number of leading characters of `text` that fit into `width` columns."""
    used = 0
    for i, character in enumerate(text):
        used += _character_width(character)
        if used > width:
            return i
    return len(text)


def shorten(text: str, width: int) -> str:
    """Printable text of at most `width` columns; what does not fit goes from the middle."""
    text = printable(text)
    if display_width(text) <= width:
        return text
    tail = (width - 1) // 2
    kept = _prefix(text[::-1], tail)
    return text[: _prefix(text, width - 1 - tail)] + "…" + (text[-kept:] if kept else "")


def format_subset(names: Sequence[str], width: int | None = None, limit: int = 10) -> str:
    """ "{a, b}", within `width` columns when given; "{a, b, … +3}" when three names had to be left out."""
    shown = [printable(name) for name in names]
    if width is None:
        return _braces(shown, min(limit, len(shown)))
    if display_width(_braces(shown, len(shown))) <= width:
        return _braces(shown, len(shown))
    shown = [shorten(name, _LONGEST_IN_SUBSET) for name in names]
    for kept in range(min(len(shown), width), 0, -1):
        if display_width(_braces(shown, kept)) <= width:
            return _braces(shown, kept)
    others = display_width(_braces(["", *shown[1:]], 1))
    return _braces([shorten(shown[0], max(1, width - others)), *shown[1:]], 1)


def _braces(names: Sequence[str], count: int) -> str:
    more = [f"… +{len(names) - count}"] if count < len(names) else []
    return "{" + ", ".join([*names[:count], *more]) + "}"


def subset_labels(subsets: Sequence[Sequence[str]], width: int) -> list[str]:
    """A label for each of the distinct subsets of one table: within `width` columns, and no two alike.

    A subset that does not fit is told by its difference from the first, "the first + c − a".
    """
    names = list(dict.fromkeys(name for subset in subsets for name in subset))
    short = dict(zip(names, name_labels(names, _LONGEST_IN_SUBSET), strict=True))
    return _distinct(
        _subset_forms(subsets[0], subset, short, position, width) for position, subset in enumerate(subsets)
    )


def _subset_forms(
    first: Sequence[str], subset: Sequence[str], short: dict[str, str], position: int, width: int
) -> Iterator[str]:
    """Ways to write a subset, best first: whole; by what differs from the first; cut; numbered."""
    added = [f" + {short[name]}" for name in subset if name not in first]
    removed = [f" − {short[name]}" for name in first if name not in subset]
    changes = added + removed
    members = [short[name] for name in subset]
    whole = _braces([printable(name) for name in subset], len(subset))
    if display_width(whole) <= width:
        yield whole
    if len(changes) > len(members):
        yield format_subset(members, width)
    for shown in range(len(changes), 0, -1):
        more = f", … {len(changes) - shown} more" if shown < len(changes) else ""
        difference = "".join(["the first", *changes[:shown], more])
        if display_width(difference) <= width:
            yield difference
            break
    yield format_subset(members, width)
    yield from _numbered(lambda columns: format_subset(members, columns), position, width)


def name_labels(names: Sequence[str], width: int) -> list[str]:
    """A label for each of the distinct names: within `width` columns, and no two alike.

    Where two names would be cut to the same text, the later one is shown from where it differs.
    """
    owners: dict[str, str] = {}
    for name in names:
        owners.setdefault(shorten(name, width), printable(name))
    return _distinct(_name_forms(owners, name, position, width) for position, name in enumerate(names))


def _name_forms(owners: dict[str, str], name: str, position: int, width: int) -> Iterator[str]:
    yield shorten(name, width)
    text, namesake = printable(name), owners[shorten(name, width)]
    rest = next((text[i:] for i in range(len(text)) if text[i] != namesake[i : i + 1]), "")
    if rest:
        yield f"…{rest[: _prefix(rest, width - 1)]}"
    yield from _numbered(lambda columns: shorten(name, columns), position, width)


def _numbered(cut: Callable[[int], str], position: int, width: int) -> Iterator[str]:
    """What `cut` leaves beside the position in the table, and beside later numbers should a name look like that."""
    for number in count(position + 1):
        mark = f"no. {number}: "
        yield mark + cut(width - len(mark))


def _distinct(forms: Iterable[Iterator[str]]) -> list[str]:
    """Of each, the first form that no earlier one has taken."""
    taken: dict[str, None] = {}
    for texts in forms:
        taken[next(text for text in texts if text not in taken)] = None
    return list(taken)


def wrap(text: str, first: str = "", rest: str = "", width: int = COLUMNS) -> Iterator[str]:
    """Lines of at most `width` columns, the first after `first`, the others after `rest`."""
    line, empty = first, True
    for word in text.split():
        word = printable(word)
        if not empty and display_width(line) + 1 + display_width(word) > width:
            yield line
            line, empty = rest, True
        while display_width(line) + (not empty) + display_width(word) > width:
            cut = max(1, _prefix(word, width - display_width(line)))
            yield line + word[:cut]
            line, word = rest, word[cut:]
        line, empty = line + ("" if empty else " ") + word, False
    yield line.rstrip()


_UNITS = (("year", 31_557_600.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))


def duration(seconds: float) -> str:
    """ "3.2 hours", "8 seconds", "10^371 years"."""
    for unit, length in _UNITS:
        if seconds >= 1.5 * length:
            return f"{_amount(seconds / length)} {unit}s"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"


def approximate_count(count: int) -> str:
    """ "1,024", "about 10^382"."""
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def _amount(value: float) -> str:
    if value >= 1e6:
        return f"10^{math.floor(math.log10(value))}"
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"
