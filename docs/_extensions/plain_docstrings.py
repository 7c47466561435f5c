"""Docstrings of the package as numpydoc wants them.

They are plain text with `code` in backticks. Parameters and attributes are lines "name : what it
is", with or without a heading; what numpydoc would take for a type is their description. Formulas
are indented.
"""

from __future__ import annotations

import re
from typing import Any

NAMES = r"\*{0,2}\w+(?:, \*{0,2}\w+)*"
FIELD = re.compile(rf"(?P<names>{NAMES}) : +(?P<text>.+)")
NEXT_FIELD = re.compile(rf";\s+(?={NAMES} : )")
HEADING = re.compile(r"(?P<title>\w[\w ]*)\n-{3,}\n")
# What stays as it is: a role, code in backticks, emphasis.
MARKED = re.compile(r"((?::[\w:]+:)?`[^`]+`|(?<!\w)\*\w[^*]*\w\*(?!\w))")
LITERAL = "    "
DOCTEST = ">>>"
MORE = " "


def escaped(text: str) -> str:
    """Plain text for reStructuredText, where |z|, predictive_ and p* would mean something."""
    parts = MARKED.split(text)
    parts[::2] = [
        re.sub(r"_(?=\W|$)", r"\\_", re.sub(r"[\\*|]", r"\\\g<0>", part)) for part in parts[::2]
    ]
    return "".join(parts)


def fields_of(paragraph: str) -> tuple[list[str], list[tuple[str, str]]]:
    """The lines of a paragraph before its first field, and names and descriptions of its fields."""
    before: list[str] = []
    fields: list[tuple[str, str]] = []
    for line in paragraph.split("\n"):
        found = [FIELD.fullmatch(part) for part in NEXT_FIELD.split(line)]
        if fields and line.startswith(MORE):
            names, text = fields[-1]
            fields[-1] = names, f"{text} {line.strip()}"
        elif all(found):
            fields += [(match["names"], match["text"]) for match in found if match]
        else:
            before.append(line)
    return before, fields


def prose_and_fields(text: str) -> tuple[str, list[tuple[str, str]]]:
    """Paragraphs ready for reStructuredText, and the fields that stood among them."""
    prose = []
    fields = []
    for paragraph in re.split(r"\n{2,}", text.strip("\n")):
        if paragraph.startswith(DOCTEST):
            prose.append(paragraph)
        elif paragraph.startswith(LITERAL):
            prose.append(f"::\n\n{paragraph}")
        else:
            before, found = fields_of(paragraph)
            fields += found
            if before and not (
                found and before[-1].endswith(":")
            ):  # a line that only announces the fields
                prose.append(escaped("\n".join(before)))
    return "\n\n".join(prose), fields


def section(title: str, body: str) -> str:
    return f"{title}\n{'-' * len(title)}\n{body}\n\n" if body else ""


def listed(title: str, fields: list[tuple[str, str]]) -> str:
    return section(title, "\n".join(f"{names}\n    {escaped(text)}" for names, text in fields))


def rewritten(docstring: str) -> str:
    """Prose, then Parameters, Attributes, Notes (what was said below a list) and Examples."""
    head, *rest = HEADING.split(docstring)
    sections = dict(zip(rest[::2], rest[1::2], strict=True))
    prose, parameters = prose_and_fields(head)
    said_below, more_parameters = prose_and_fields(sections.pop("Parameters", ""))
    said_after, attributes = prose_and_fields(sections.pop("Attributes", ""))
    notes = "\n\n".join(
        filter(None, [said_below, said_after, prose_and_fields(sections.pop("Notes", ""))[0]])
    )
    lists = listed("Parameters", parameters + more_parameters) + listed("Attributes", attributes)
    others = "".join(section(title, body.strip("\n")) for title, body in sections.items())
    return f"{prose}\n\n{lists}{section('Notes', notes)}{others}"


def _rewrite(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    if name.startswith("invariance"):
        lines[:] = rewritten("\n".join(lines)).split("\n")


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """What scikit-learn's classes bring along is documented there."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    home = getattr(function, "__module__", None) or ""
    foreign = home.startswith("sklearn") or (name.startswith("set_") and name.endswith("_request"))
    return True if foreign else None


def setup(app: Any) -> dict[str, bool]:
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("autodoc-process-docstring", _rewrite, priority=100)  # before numpydoc's own
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
