"""What prose says about the code is still there."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import invariance

SOURCE = Path(invariance.__file__).parent
PROSE = [
    *SOURCE.rglob("*.py"),
    *(path for pages in ("*.md", "docs/*.md", "docs/*/*.md") for path in SOURCE.parents[1].glob(pages)),
]
DOTTED = re.compile(r"\binvariance(?:\.\w+)+(?![\w/])")


def resolves(name: str) -> bool:
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_names_of_the_package_that_prose_mentions() -> None:
    named = {name: path.name for path in PROSE for name in DOTTED.findall(path.read_text(encoding="utf-8"))}
    assert named
    assert not resolves("invariance.nowhere")
    assert {name: where for name, where in named.items() if not resolves(name)} == {}
