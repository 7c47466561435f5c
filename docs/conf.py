"""The documentation site: `make docs` builds it, without a network, into docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_extensions"), str(HERE.parent / "src")]

from public_members import MEMBERS

from invariance import __version__

project = "invariance"
author = "The invariance developers"
project_copyright = author
version = release = __version__

extensions = [
    "myst_nb",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
]
exclude_patterns = ["_build", "_inventories"]
templates_path = ["_templates"]
nitpicky = True

myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "off"  # pytest runs the code of these pages and compares what it prints

default_role = "code"
smartquotes = False  # docstrings have code in their sentences
toc_object_entries_show_parents = "hide"
autosummary_generate = True
autosummary_context = {"public": MEMBERS}
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_validation_checks: set[str] = set()

mathjax_path = "mathjax/tex-svg.js"  # MathJax 3.2.2 of the npm registry, Apache 2.0
intersphinx_mapping = {
    name: (address, f"_inventories/{name}.inv")
    for name, address in {
        "python": "https://docs.python.org/3/",
        "numpy": "https://numpy.org/doc/stable/",
        "scipy": "https://docs.scipy.org/doc/scipy/",
        "sklearn": "https://scikit-learn.org/stable/",
        "pandas": "https://pandas.pydata.org/docs/",
        "matplotlib": "https://matplotlib.org/stable/",
    }.items()
}

html_theme = "pydata_sphinx_theme"
html_title = "invariance"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_context = {"default_mode": "auto"}
html_sidebars = {
    "**": ["sections"]
}  # all sections, that of the page open; the theme has them for some pages only
html_theme_options = {
    "show_prev_next": False,
    "navbar_center": [],
    "navbar_persistent": ["search-button"],
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "secondary_sidebar_items": ["page-toc"],
}


def _on_the_site(app: Any, page: str, source: list[str]) -> None:
    """A page as it is shown: no blank line ends a doctest."""
    source[0] = source[0].replace("\n\n```\n", "\n```\n")


def _skip(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Skip members that are inherited from scikit-learn, which documents them."""
    function = getattr(obj, "fget", None) or getattr(obj, "func", None) or obj
    home = getattr(function, "__module__", None) or ""
    foreign = home.startswith("sklearn") or (name.startswith("set_") and name.endswith("_request"))
    return True if foreign else None


def setup(app: Any) -> None:
    app.connect("source-read", _on_the_site)
    app.connect("autodoc-skip-member", _skip)
