"""Unusable tables: what is wrong, the text of a csv file, arguments of ``from_table``, and what the
error names."""

from __future__ import annotations

from typing import Any

COLUMNS: dict[str, Any] = {"outcome": "y", "environment": "site", "features": None}


def table(**replaced: list[object]) -> str:
    """A sound csv table of six rows, with columns replaced or added; () removes one."""
    columns: dict[str, list[object]] = {
        "a": [0.5, 1.5, -1, 2, 0.25, 3],
        "b": [1, 0, 2, 5, 4, 3],
        "y": [1, 3, 2, 5, 4, 7],
        "site": ["north", "north", "north", "south", "south", "south"],
    }
    columns.update(replaced)
    columns = {name: values for name, values in columns.items() if values}
    lines = [",".join(columns)]
    lines += [",".join(map(str, row)) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


GOOD = table()
_GAPS = {"a": [0.5, "", -1, "", 0.25, 3], "b": [1, 0, 2, "NA", 4, 3]}
_SMALL = ["north", "north", "south", "south", "south", "east"]

_TABLES: list[tuple[str, str, dict[str, Any], tuple[str, ...]]] = [
    (
        "missing values",
        table(**_GAPS),
        {},
        ("'a' (2 rows)", "'b' (1 row)", "'north' (1 row)", "missing='drop'"),
    ),
    (
        "missing outcome",
        table(y=[1, 3, 2, 5, 4, ""]),
        {},
        ("'y' (1 row)", "'south' (1 row)", "missing='drop'"),
    ),
    (
        "missing label",
        table(site=["n", "", "n", "s", "", "s"]),
        {},
        ("'site'", "2 rows", "missing='drop'"),
    ),
    (
        "infinite values",
        table(a=[0.5, "inf", -1, 2, 0.25, "-inf"]),
        {},
        ("'a' (2 rows)", "'north' (1 row)"),
    ),
    (
        "free text",
        table(b=["red", "blue", "green", "grey", "blue", "red"]),
        {},
        ("'b'", "exclude=['b']"),
    ),
    (
        "one cell is no number",
        table(b=[1, 0, 2, "?", 4, 3]),
        {},
        ("exclude=['b']", "['?']", "categorical=['b']"),
    ),
    ("text outcome", table(y=[1, 0, 2, "?", 4, 3]), {}, ("'y'",)),
    ("constant outcome", table(y=[2] * 6), {}, ("'y'", "2")),
    ("constant features", table(a=[1] * 6, b=[0] * 6), {}, ("'a'", "'b'")),
    ("duplicate names", GOOD.replace("a,b,y", "b,b,y"), {}, ("'b'",)),
    ("one label", table(site=["north"] * 6), {}, ("'site'", "6 rows", "'north'")),
    (
        "misspelt outcome",
        GOOD.replace("y,site", "yield,site"),
        {"outcome": "yeild"},
        ("'yeild'", "mean 'yield'?"),
    ),
    ("misspelt environment", GOOD, {"environment": "Site"}, ("'Site'", "mean 'site'?", "'a', 'b'")),
    (
        "unknown feature",
        GOOD,
        {"features": ["a", "temperature"]},
        ("'temperature'", "'a', 'b', 'y', 'site'"),
    ),
    ("outcome is the environment", GOOD, {"outcome": "site"}, ("'site'", "outcome", "environment")),
    ("outcome as feature", GOOD, {"features": ["a", "y"]}, ("'y'", "outcome")),
    ("environment as feature", GOOD, {"features": ["site", "a"]}, ("'site'", "environment")),
    ("feature named twice", GOOD, {"features": ["a", "b", "a"]}, ("features", "'a'")),
    ("no features", table(a=[], b=[]), {}, ("feature",)),
    ("empty file", "", {}, ("table.csv", "empty")),
    ("header only", GOOD.splitlines()[0] + "\n", {}, ("no rows",)),
    (
        "semicolons, a long line",
        GOOD.replace(",", ";") + "1;2;3;south;5\n",
        {},
        ("table.csv", "'a;b;y;site'", "sep=';'"),
    ),
    ("a row with too many cells", GOOD + "1,2,3,south,5\n", {}, ("table.csv", "line 8")),
    (
        "rows longer than the header",
        GOOD.replace("\n", ",9\n").replace("site,9", "site"),
        {},
        ("table.csv", "line 2"),
    ),
    ("too large to square", table(a=[0.5, 1.5, -3e120, 2, 0.25, 3]), {}, ("'a'", "3e+120")),
    ("too small to square", table(b=["1e-130", 0, "2e-130", 0, 0, 0]), {}, ("'b'", "2e-130")),
]
BAD_TABLES = [(name, text, {**COLUMNS, **changed}, named) for name, text, changed, named in _TABLES]
# Environments that can have no fit of their own: refused by models that need one.
NO_OWN_FIT = [
    ("flat outcome", table(y=[1, 3, 2, 5, 5, 5]), {}, ("'y'", "'south' (3 rows)")),
    (
        "small environments",
        table(site=_SMALL),
        {},
        ("'north' (2 rows)", "'east' (1 row)", "merge them"),
    ),
]
