"""Text that fits a width: names, subsets and paragraphs on a terminal, a page or a picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import count

COLUMNS = 80
UNKNOWN = "–"
_LONGEST_IN_SUBSET = 24


def printable(text: str) -> str:
    """The text with every character that would disturb a line (newline, tab, escape, ...) spelled
    out."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text
    )


def in_quotes(label: object) -> str:
    """A name or label as a sentence has it: a number without quotes would read as a count."""
    return repr(str(label))


def in_series(words: Iterable[str], joint: str = "and") -> str:
    """Return "a, b and c"."""
    *first, last = words
    return f"{', '.join(first)} {joint} {last}" if first else last


def display_width(text: str) -> int:
    """Terminal columns of printable text: two for wide characters, none for combining marks."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def _character_width(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def pad(text: str, width: int, left: bool = True) -> str:
    """The text with blanks after it, or before it, up to `width` columns."""
    blanks = " " * (width - display_width(text))
    return text + blanks if left else blanks + text


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
    """ "{a, b}", within `width` columns when given; "{a, b, … +3}" when three names had to be left
    out."""
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
    """A label for each of the distinct subsets of one table: within `width` columns, and no two
    alike. A subset that does not fit is told by its difference from the first, "the first + c −
    a"."""
    names = list(dict.fromkeys(name for subset in subsets for name in subset))
    short = dict(zip(names, name_labels(names, _LONGEST_IN_SUBSET), strict=True))
    first = subsets[0]
    labels = dict[str, None]()
    for number, subset in enumerate(subsets, 1):
        whole = _braces([printable(name) for name in subset], len(subset))
        changes = [f" + {short[name]}" for name in subset if name not in first]
        changes += [f" − {short[name]}" for name in first if name not in subset]
        cut = format_subset([short[name] for name in subset], width)
        forms = [whole, "".join(["the first", *changes]), cut] if changes else [whole, cut]
        labels[_first_free(forms, labels, number, width)] = None
    return list(labels)


def name_labels(names: Sequence[str], width: int) -> list[str]:
    """A label for each of the distinct names: within `width` columns, and no two alike.
    Where two names would be cut to the same text, the later one is shown from where it differs."""
    owners = dict[str, str]()
    labels = dict[str, None]()
    for number, name in enumerate(names, 1):
        text = printable(name)
        cut = shorten(name, width)
        owner = owners.setdefault(cut, text)
        rest = next((text[i:] for i in range(len(text)) if text[i] != owner[i : i + 1]), "")
        forms = [cut, f"…{rest[: _prefix(rest, width - 1)]}"] if rest else [cut]
        labels[_first_free([*forms, text], labels, number, width)] = None
    return list(labels)


def _first_free(forms: Sequence[str], taken: Collection[str], number: int, width: int) -> str:
    """The first of the forms that fits and that no other has taken, or else the last one beside a
    number."""
    for form in forms:
        if form not in taken and display_width(form) <= width:
            return form
    numbered = (f"no. {k}: {shorten(forms[-1], width - len(f'no. {k}: '))}" for k in count(number))
    return next(label for label in numbered if label not in taken)


def wrap(text: str, first: str = "", rest: str = "", width: int = COLUMNS) -> Iterator[str]:
    """Lines of at most `width` columns, the first after `first`, the others after `rest`; a longer
    word is broken after a comma if it has one."""
    line = first
    empty = True
    for word in text.split():
        word = printable(word)
        if not empty and display_width(line) + 1 + display_width(word) > width:
            yield line
            line = rest
            empty = True
        while display_width(line) + (not empty) + display_width(word) > width:
            cut = max(1, _prefix(word, width - display_width(line)))
            cut = word.rfind(",", 0, cut) + 1 or cut
            yield line + word[:cut]
            line = rest
            word = word[cut:]
        line = line + ("" if empty else " ") + word
        empty = False
    yield line.rstrip()


def format_count(n: int) -> str:
    """An integer with commas; from 10**12 on its order of magnitude, whatever its length."""
    if n < 10**12:
        return f"{n:,}"
    exponent = math.log10(n)
    return f"about {min(9.9, 10 ** (exponent % 1)):.1f}e{int(exponent)}"


def with_equal_decimals(
    values: Sequence[float], digits: int = 4, like: Sequence[float] | None = None
) -> list[str]:
    """Numbers that are read together, such as an estimate and its interval: the largest, or the
    largest of those `like` which they are written, has so many digits; each has where they are
    positive and differ tenfold."""
    known = [value for value in values if math.isfinite(value)]
    if like is None and known and min(known) > 0.0 and max(known) > 10.0 * min(known):
        return [
            _with_digits(value, digits) if math.isfinite(value) else UNKNOWN for value in values
        ]
    largest = max(
        (abs(value) for value in (values if like is None else like) if math.isfinite(value)),
        default=0.0,
    )
    plain = largest == 0.0 or 1e-4 <= largest < 1e7
    decimals = max(0, digits - 1 - math.floor(math.log10(largest))) if plain and largest else 0
    layout = f"z,.{decimals}f" if plain else f".{digits}g"
    return [format(value, layout) if math.isfinite(value) else UNKNOWN for value in values]


def _with_digits(value: float, digits: int) -> str:
    """Whole numbers in full, others with the zeros at their end."""
    return f"{value:,.0f}" if 10.0 ** (digits - 1) <= value < 1e7 else f"{value:#.{digits}g}"


_TIME_UNITS = (("year", 31_557_600.0), ("day", 86_400.0), ("hour", 3_600.0), ("minute", 60.0))


def duration(seconds: float) -> str:
    """ "3.2 hours", "8 seconds", "10^371 years"."""
    for unit, length in _TIME_UNITS:
        if seconds >= 1.5 * length:
            n = seconds / length
            many = f"10^{math.floor(math.log10(n))}" if n >= 1e6 else ""
            return f"{many or format(n, ',.0f' if n >= 10 else '.1f')} {unit}s"
    return f"{seconds:.0f} seconds" if seconds >= 10 else f"{seconds:.1f} seconds"
