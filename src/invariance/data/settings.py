"""Settings shared by Python, command line and page: file format, columns, choice of environments."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..exceptions import SettingError, use
from .environments import Environments as Environments

THOUSANDS = ",", ".", "'", " "
_TAB = {"tab": "\t", r"\t": "\t"}
_OTHER_SIGN = {".": ",", ",": "."}


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """How a file is written; None: as the file shows.

    sep : between the cells of a text file, one sign or "tab"; decimal : "." or ","; thousands : between groups of three
    digits, never guessed; encoding : UTF-8 unless stated; sheet : of an Excel file; na : further words or numbers that
    stand for missing values
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
        if self.decimal not in (None, ".", ","):
            raise SettingError(f"decimal={self.decimal!r} is not known", use(decimal="."), use(decimal=","))
        if self.thousands is not None and self.thousands not in THOUSANDS:
            raise SettingError(
                f"thousands={self.thousands!r} is not known", *(use(thousands=sign) for sign in THOUSANDS)
            )
        if self.thousands is not None and self.thousands == self.decimal:
            other = _OTHER_SIGN[self.thousands]
            raise SettingError(f"decimal and thousands are both {self.decimal!r}", use(decimal=other))
        decimal = self.decimal or _OTHER_SIGN.get(self.thousands or "")
        if sep is not None and sep == decimal:
            raise SettingError(f"sep and decimal are both {sep!r}", use(sep=";"))
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
    """Which columns of a table are features, and how each is read.

    features : None: all but outcome, environment and `exclude`
    categorical : columns whose values are levels, {column: levels, the reference first}, or "auto": by their type
    numeric : columns of text to read as numbers
    groups : {feature: columns that enter together}, or splines, [spline("age", knots=4)]
    handle_unknown : "error", or "ignore": a level that the training rows lack counts as the reference
    environment : column of the environment labels
    """

    features: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    categorical: str | Sequence[str] | Mapping[str, Sequence[Any]] = "auto"
    numeric: Sequence[str] = ()
    groups: Any = None
    handle_unknown: str = "error"
    environment: str | None = None

    def __post_init__(self) -> None:
        for setting in ("features", "exclude", "numeric"):
            if getattr(self, setting) is not None:
                object.__setattr__(self, setting, tuple(listed_names(setting, getattr(self, setting))))
        if self.categorical != "auto" and not isinstance(self.categorical, Mapping):
            object.__setattr__(self, "categorical", tuple(listed_names("categorical", self.categorical)))
        if self.handle_unknown not in ("error", "ignore"):
            known = use(handle_unknown="error"), use(handle_unknown="ignore")
            raise SettingError(f"handle_unknown={self.handle_unknown!r} is not known", *known)


def listed_names(setting: str, names: Any) -> list[str]:
    """The names as text."""
    if isinstance(names, str):
        listed = [part.strip() for part in names.split(",")]
        raise SettingError(f"{setting}={names!r} is a single string", use(**{setting: listed}))
    if not isinstance(names, Iterable):
        raise SettingError(f"{setting}={names!r} is not a list of names", use(**{setting: [str(names)]}))
    return [str(name) for name in names]
