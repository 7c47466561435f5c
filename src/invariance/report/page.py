"""The page: sections in a template, one file without anything from elsewhere."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from .._tools.files import check_writable, write_text
from ..exceptions import OutputError
from .parts import Contents

_ENDINGS = (".html", ".htm")


def render(contents: Contents) -> str:
    """The page as text; the same contents give the same text."""
    check_extra()
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__ or "", ""),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("page.html.j2").render(page=contents)


def write_report(contents: Contents, path: str | os.PathLike[str]) -> Path:
    """Write the page in one step; returns the path that was written."""
    file = checked_path(path)
    try:
        write_text(file, render(contents))
    except OSError as error:
        raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error
    return file


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of a page; raises where it cannot be written, or nothing is there to write it with."""
    check_extra()
    file = Path(path).expanduser()
    if file.suffix.lower() not in _ENDINGS:
        raise OutputError(f"cannot write a report as {file.name!r}: use a name that ends in .html")
    check_writable(file)
    return file


def check_extra() -> None:
    if find_spec("jinja2") is None:
        raise OutputError("a report needs jinja2: pip install 'invariance[report]'.")
