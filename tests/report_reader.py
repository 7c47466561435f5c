"""A page as a browser would take it apart, without a browser."""

from __future__ import annotations

from collections import defaultdict
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "hr", "img", "input", "source"}
Row = list[tuple[str, str | None]]


class Page(HTMLParser):
    """counts : {tag: number}; headings : (level, text); ids, references; addresses : of whatever
    would be loaded;
    caveats : the points of the list under this title; tables : {caption: rows}, a row being (text,
        value to sort by)
    of its cells, the head first; text : all that is read"""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.counts: dict[str, int] = defaultdict(int)
        self.headings: list[tuple[int, str]] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.addresses: list[str] = []
        self.caveats: list[str] = []
        self.tables: dict[str, list[Row]] = {}
        self._open: list[str] = []
        self._caption = ""
        self._rows = [[]]
        self._read = [""]
        self.feed(source)
        self.close()
        assert not self._open, self._open
        self.text = " ".join("".join(self._read).split())

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.counts[tag] += 1
        if tag not in VOID:
            self._open.append(tag)
        self.ids += [str(given["id"])] if "id" in given else []
        for address in (str(given[name]) for name in ("href", "src") if given.get(name)):
            (self.references if address.startswith("#") else self.addresses).append(address)
        if tag == "li" and self.headings and self.headings[-1][1] == "Caveats":
            self.caveats.append("")
        if tag == "table":
            self._caption = ""
            self._rows = []
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append(("", given.get("data-v")))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, tag
        if tag == "table":
            self.tables[self._caption] = self._rows
        self._read.append(" ")

    def handle_data(self, data: str) -> None:
        if "style" in self._open or "script" in self._open:
            return
        self._read.append(data)
        if "td" in self._open or "th" in self._open:
            text, value = self._rows[-1][-1]
            self._rows[-1][-1] = text + data, value
        elif "li" in self._open and self.caveats and self.headings[-1][1] == "Caveats":
            self.caveats[-1] += data
        elif "caption" in self._open:
            self._caption += data
        elif self._open and self._open[-1] in ("h1", "h2", "h3"):
            self.headings.append((int(self._open[-1][1]), data))

    def column(self, caption: str, title: str) -> dict[str, tuple[str, str | None]]:
        """{first cell of a row: its cell under a title}"""
        head, *rows = self.tables[caption]
        place = [text for text, _ in head].index(title)
        return {row[0][0]: row[place] for row in rows}
