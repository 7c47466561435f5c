"""The documentation site: what it links to is there, and every public name has its place."""

from __future__ import annotations

import importlib
import re
import runpy
from pathlib import Path
from typing import Any

from doc_pages import DOCS, PAGES, ROOT

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
LISTED = re.compile(r"^   ([\w.]+)$", re.MULTILINE)
# Their `__all__` is public; of other modules, what users meet is listed by hand.
PUBLIC = ["", "baselines", "decisions", "estimators", "moments", "simulation"]


def test_links_lead_somewhere_on_disk() -> None:
    targets = [page.parent / name for page in PAGES for name in LINK.findall(page.read_text(encoding="utf-8"))]
    assert [path for path in targets if not path.exists() and not path.with_suffix(".rst").exists()] == []


def named(name: str) -> Any:
    """By its module's attribute: a function may have the name of the module that it is from."""
    module, _, attribute = f"invariance.{name}".rpartition(".")
    return getattr(importlib.import_module(module), attribute)


def test_every_public_name_is_in_the_reference() -> None:
    reference = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    documented = [named(name) for name in LISTED.findall(reference)]
    assert len(documented) > 60
    for module in PUBLIC:
        home = importlib.import_module(f"invariance.{module}".rstrip("."))
        missing = [name for name in home.__all__ if not any(getattr(home, name) is known for known in documented)]
        assert [name for name in missing if name != "__version__"] == []


def test_a_hidden_table_of_contents_hides_nothing() -> None:
    """What is beside the page in the menu is also a link in its text."""
    for page in (DOCS / "index.md", DOCS / "how-to/index.md", DOCS / "explanation/index.md"):
        text = page.read_text(encoding="utf-8")
        (contents,) = re.findall(r"```{toctree}\n:hidden:\n(.*?)```", text, re.DOTALL)
        entries = [re.sub(r".*<(.*)>", r"\1", line) for line in contents.splitlines() if line]
        assert [entry for entry in entries if not re.search(rf"\]\({re.escape(entry)}(\.md)?\)", text)] == []


def test_nothing_is_fetched() -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    needed = [f"_static/{conf['mathjax_path']}", "_static/mathjax/LICENSE"]
    needed += [inventory for _, inventory in conf["intersphinx_mapping"].values()]
    assert [name for name in needed if not (DOCS / name).is_file()] == []


def test_the_inventories_that_are_written_here(tmp_path: Path) -> None:
    script = runpy.run_path(str(DOCS / "_inventories" / "write.py"))
    for project, names in script["NAMES"].items():
        script["write"](project, names, tmp_path)
        assert (tmp_path / f"{project}.inv").read_bytes() == (DOCS / "_inventories" / f"{project}.inv").read_bytes()


def test_the_citation_names_the_paper() -> None:
    citation, page = (path.read_text(encoding="utf-8") for path in (ROOT / "CITATION.cff", DOCS / "cite.md"))
    names = re.findall(r"given-names: (.+)\n\s+family-names: (.+)", citation)
    assert len(names) == 5
    told = " ".join(page.replace(">", " ").split())
    assert all(f"{given} {family}" in told for given, family in names)
    title = re.findall(r'title: "(.+)"', citation)
    assert title[0].startswith("invariance")
    assert title[1] in told
