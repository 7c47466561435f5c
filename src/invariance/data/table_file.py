"""A file that holds a table: what it is called, what it is, and how its text is written."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import BinaryIO, cast

from ..exceptions import DataError, SettingError
from .checks import warn
from .decimal_signs import DecimalSigns, Shown, TellingLines, Tells, decimals_in, numbers_in
from .missing_words import MISSING
from .number_text import THOUSANDS, NumberForm, decimal_beside
from .text_form import SEPARATOR_NAMES, TextForm, recognised_separator, records, stated_separator

PathLike = str | os.PathLike[str]
SEPARATORS = {".csv": ",", ".csv.gz": ",", ".tsv": "\t", ".tsv.gz": "\t"}
TEXT, PARQUET, EXCEL = "text", ".parquet", ".xlsx"
_SUFFIXES = (*SEPARATORS, PARQUET, EXCEL)
_FIRST_BYTES = {b"PAR1": PARQUET, b"PK\x03\x04": EXCEL}
_GZIP = b"\x1f\x8b"
_SAMPLE = 1 << 18  # bytes
# A mark of UTF-32 begins as one of UTF-16 does.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_TAB = {"tab": "\t", r"\t": "\t"}


@dataclass(frozen=True)
class TableFile(os.PathLike[str]):
    """sep, decimal, encoding, sheet : as the user states them; None: as the file shows them
    na : further words that stand for missing values
    thousands : the sign between groups of three digits, where the user says that there are such
    content : of standard input, which has no path
    """

    path: Path
    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    na: tuple[str, ...] = ()
    content: bytes | None = None
    thousands: str | None = None

    @classmethod
    def of(
        cls,
        path: PathLike,
        sep: str | None = None,
        decimal: str | None = None,
        encoding: str | None = None,
        sheet: str | None = None,
        na: Sequence[str] = (),
        content: bytes | None = None,
        thousands: str | None = None,
    ) -> TableFile:
        if isinstance(path, TableFile):
            return path
        sep = None if sep is None else _TAB.get(sep, sep)
        if sep is not None and len(sep) != 1:
            raise SettingError(f"sep={sep!r} is not one sign: write one, such as ';', or tab.")
        if decimal not in (None, ".", ","):
            raise SettingError(f"decimal={decimal!r} is neither '.' nor ',': write one of these.")
        if thousands is not None and thousands not in THOUSANDS:
            raise SettingError(
                f"thousands={thousands!r} is none of {', '.join(map(repr, THOUSANDS))}: write one of these."
            )
        if thousands is not None and thousands == decimal:
            raise SettingError(
                f"decimal and thousands are both {decimal!r}: leave decimal out, or name the other sign there."
            )
        decimal = decimal or decimal_beside(thousands)
        if sep is not None and sep == decimal:
            raise SettingError(f"sep and decimal are both {sep!r}: cells and decimals need different signs.")
        if encoding is not None:
            _check_encoding(encoding)
        words = tuple(str(word).strip() for word in na)
        return cls(Path(path).expanduser(), sep, decimal, encoding, sheet, words, content, thousands)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name if self.content is None else "standard input"

    @cached_property
    def kind(self) -> str:
        """TEXT, PARQUET or EXCEL"""
        kind = self._kind()
        for option in ("sep", "encoding") if kind != TEXT else ("sheet",):
            value = getattr(self, option)
            if value is not None:
                raise SettingError(
                    f"{option}={value!r} is for {'text' if kind != TEXT else 'Excel'} files, which {self.name} is not: "
                    "leave it out."
                )
        return kind

    def _kind(self) -> str:
        if self.content is None:
            self._check_path()
        suffix = self._suffix
        if self.content is None and suffix is None and self.sep is None:
            raise DataError(
                f"cannot tell the format of {self.name!r} from its suffix: save it as {', '.join(_SUFFIXES[:-1])} or "
                f"{_SUFFIXES[-1]}; a text file may also be read with read_table(path, sep=',')."
            )
        if suffix in (PARQUET, EXCEL):
            return suffix
        with self.open() as stream:
            found = _FIRST_BYTES.get(stream.read(4))
        if found is None or self.content is not None:
            return found or TEXT
        raise DataError(f"{self.name} is no text, but a file of another kind: rename it to end in {found}.")

    def _check_path(self) -> None:
        if not self.path.exists():
            raise DataError(f"file not found: {str(self.path)!r}. Check the path and the working directory.")
        if self.path.is_dir():
            raise DataError(
                f"{str(self.path)!r} is a directory: pass the path of one table file, or "
                f"read all files in it with Moments.from_rows({str(self.path)!r}, outcome, environment)."
            )

    @property
    def _suffix(self) -> str | None:
        return next((suffix for suffix in _SUFFIXES if self.path.name.lower().endswith(suffix)), None)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes of the file, unpacked."""
        with self.path.open("rb") if self.content is None else io.BytesIO(self.content) as raw:
            packed = raw.read(2) == _GZIP or (self.content is None and self.path.name.lower().endswith(".gz"))
            raw.seek(0)
            yield cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw

    @property
    def numbers(self) -> NumberForm:
        """How numbers are written where they are text."""
        return NumberForm(self.text.decimal if self.kind == TEXT else self.decimal or ".", self.thousands)

    @property
    def text(self) -> TextForm:
        """How the text of the file is written; decimal commas that nobody stated are told of."""
        return self._read_form[0]

    @property
    def signs(self) -> Shown:
        """What the numbers of the file show of its decimals; nothing where these are stated."""
        return self._read_form[1]

    @cached_property
    def _read_form(self) -> tuple[TextForm, Shown]:
        sample, encoding = self._sample()
        named, sample = stated_separator(sample)
        usual = SEPARATORS.get(self._suffix or "", ",")
        sep = self.sep or named or recognised_separator(sample, usual, self.name)
        form = TextForm(sep, self.decimal or ".", encoding, skiprows=int(named is not None))
        if self.decimal is not None:
            return form, DecimalSigns((), ()).shown
        signs = self._decimal_signs(form)
        return form._replace(decimal=self._decimal(signs, sep)), signs.shown

    def _decimal(self, signs: DecimalSigns, sep: str) -> str:
        found = signs.comma(self.name, sep)
        if found is None:
            return "."
        warn(
            f"{self.name} is read with {SEPARATOR_NAMES.get(sep, repr(sep))} between cells and with decimal "
            f"commas: {found.text!r} in {found.column!r} is {float(found.text.replace(',', '.')):g}; if it is not, say "
            "read_table(path, decimal='.')"
        )
        return ","

    def _decimal_signs(self, form: TextForm) -> DecimalSigns:
        """Of the first lines or, where these have no decimal that is clear, of all that tell, up to the first one."""
        signs, all_given = self._signs_in(form, decimals_in(form.sep))
        if signs.are_doubtful and not all_given:
            signs, _ = self._signs_in(form, numbers_in(form.sep))
        return signs

    def _signs_in(self, form: TextForm, telling: Tells) -> tuple[DecimalSigns, bool]:
        """And whether no line was left out."""
        # Cells in which thousands stand apart are found by no pattern.
        whole = _SAMPLE if self.thousands is None else math.inf
        with self.open() as stream, io.TextIOWrapper(stream, _with_mark(form.encoding), newline="") as text:
            lines = TellingLines(text, whole, telling)
            cells = records(lines, form.sep)
            signs = DecimalSigns((), ())
            with suppress(csv.Error):
                header = next(islice(cells, form.skiprows, None), [])
                signs, new = DecimalSigns(header, MISSING.union(self.na)), True
                for record in cells:
                    new |= signs.look(lines.number, self._ungrouped(record))
                    if new and lines.is_past:
                        if signs.are_clear:
                            break
                        new = False
        return signs, lines.all_given

    def _ungrouped(self, record: Sequence[str]) -> Sequence[str]:
        """Without the sign between thousands that was stated."""
        if self.thousands is None:
            return record
        return [re.sub(rf"(?<=\d){THOUSANDS[self.thousands]}(?=\d)", "", cell) for cell in record]

    def _sample(self) -> tuple[str, str]:
        """The first lines, whole, and the encoding."""
        with self.open() as stream:
            start = stream.read(_SAMPLE)
            whole = not stream.read(1)
        encoding = self.encoding or next((name for mark, name in _MARKS.items() if start.startswith(mark)), "utf-8")
        decoder = codecs.getincrementaldecoder(_with_mark(encoding))()
        sample = decoder.decode(start, final=whole)
        if "\0" in sample:
            raise DataError(
                f"{self.name} is no {encoding.upper()} text: it holds NUL characters, as UTF-16 without a mark does. "
                "Save it as UTF-8, or name its encoding, for example read_table(path, encoding='utf-16-le')."
            )
        return sample if whole else sample[: sample.rfind("\n") + 1], encoding


def _with_mark(encoding: str) -> str:
    """That also reads the mark with which UTF-8 may begin."""
    return "utf-8-sig" if encoding == "utf-8" else encoding


def _check_encoding(encoding: str) -> None:
    try:
        "".encode(encoding)  # raises where it is a codec, but not of text
        codecs.getincrementaldecoder(encoding)
    except (LookupError, UnicodeError):
        raise SettingError(f"encoding={encoding!r} is not known: try 'utf-8', 'latin-1' or 'utf-16'.") from None
