"""Unusable csv files: what is wrong, the columns asked for, and the phrase that helps the user.

Each entry is (id, text of the file, keyword arguments of ``from_table``, phrase of the message).
"""

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


def asking(**changed: object) -> dict[str, Any]:
    return {**COLUMNS, **changed}


GOOD = table()

BAD_TABLES: list[tuple[str, str, dict[str, Any], str]] = [
    (
        "missing feature value",
        table(a=[0.5, "", -1, "", 0.25, 3], b=[1, 0, 2, "NA", 4, 3]),
        COLUMNS,
        "missing values (NaN) in 'a' (2 rows), 'b' (1 row); in environment 'north' (1 row), 'south' (1 row)",
    ),
    (
        "missing outcome",
        table(y=[1, 3, 2, 5, 4, ""]),
        COLUMNS,
        "missing values (NaN) in 'y' (1 row); in environment 'south' (1 row)",
    ),
    (
        "missing environment label",
        table(site=["north", "", "north", "south", "", "south"]),
        COLUMNS,
        "environment column 'site' has no label in 2 rows",
    ),
    (
        "infinite feature value",
        table(a=[0.5, "inf", -1, 2, 0.25, "-inf"]),
        COLUMNS,
        "infinite values (inf) in 'a' (2 rows); in environment 'north' (1 row), 'south' (1 row)",
    ),
    (
        "free text",
        table(b=["red", "blue", "green", "grey", "blue", "red"]),
        COLUMNS,
        "column 'b' is not numeric but has 4 different values in 6 rows",
    ),
    (
        "one cell that is not a number",
        table(b=[1, 0, 2, "?", 4, 3]),
        COLUMNS,
        "exclude=['b'] or na=['?'] or categorical=['b']",
    ),
    (
        "text outcome",
        table(y=[1, 0, 2, "?", 4, 3]),
        COLUMNS,
        "column 'y' is not numeric",
    ),
    (
        "constant outcome",
        table(y=[2, 2, 2, 2, 2, 2]),
        COLUMNS,
        "outcome 'y' is constant: every row is 2",
    ),
    (
        "outcome constant inside an environment",
        table(y=[1, 3, 2, 5, 5, 5]),
        COLUMNS,
        "outcome 'y' is constant inside environment 'south' (3 rows)",
    ),
    (
        "all features constant",
        table(a=[1] * 6, b=[0] * 6),
        COLUMNS,
        "every feature is constant over all rows: 'a', 'b'",
    ),
    (
        "duplicate column names",
        GOOD.replace("a,b,y", "b,b,y"),
        COLUMNS,
        "duplicate column names in table.csv: 'b'. Give every column its own name.",
    ),
    (
        "one environment label",
        table(site=["north"] * 6),
        COLUMNS,
        "environment column 'site': all 6 rows have the same label 'north'",
    ),
    (
        "environments too small",
        table(site=["north", "north", "south", "south", "south", "east"]),
        COLUMNS,
        "environments too small: 'north' (2 rows), 'east' (1 row)",
    ),
    (
        "misspelt outcome",
        GOOD.replace("y,site", "yield,site"),
        asking(outcome="yeild"),
        "outcome column 'yeild' is not in the file; did you mean 'yield'? Available "
        "columns: 'a', 'b', 'yield', 'site'.",
    ),
    (
        "misspelt environment",
        GOOD,
        asking(environment="Site"),
        "environment column 'Site' is not in the file; did you mean 'site'? Available columns: 'a', 'b'",
    ),
    (
        "unknown feature",
        GOOD,
        asking(features=["a", "temperature"]),
        "feature column 'temperature' is not in the file; Available columns: 'a', 'b', 'y', 'site'.",
    ),
    (
        "outcome is the environment",
        GOOD,
        asking(outcome="site"),
        "column 'site' is both outcome and environment: name two different columns.",
    ),
    (
        "outcome among the features",
        GOOD,
        asking(features=["a", "y"]),
        "features contains the outcome column 'y': take it out of the list.",
    ),
    (
        "environment among the features",
        GOOD,
        asking(features=["site", "a"]),
        "features contains the environment column 'site': take it out of the list.",
    ),
    (
        "feature named twice",
        GOOD,
        asking(features=["a", "b", "a"]),
        "features=: 'a'",
    ),
    (
        "no feature columns",
        table(a=[], b=[]),
        COLUMNS,
        "no feature columns besides outcome and environment",
    ),
    ("empty file", "", COLUMNS, "table.csv is empty: it needs a header line and rows."),
    (
        "header only",
        GOOD.splitlines()[0] + "\n",
        COLUMNS,
        "no rows",
    ),
    (
        "semicolons, and a line that is too long",
        GOOD.replace(",", ";") + "1;2;3;south;5\n",
        COLUMNS,
        "table.csv has a single column 'a;b;y;site'",
    ),
    (
        "a row with too many cells",
        GOOD + "1,2,3,south,5\n",
        COLUMNS,
        "table.csv cannot be parsed: line 8",
    ),
    (
        "every row longer than the header",
        GOOD.replace("\n", ",9\n").replace("site,9", "site"),
        COLUMNS,
        "table.csv cannot be parsed: line 2",
    ),
    (
        "values too large to square",
        table(a=[0.5, 1.5, -3e120, 2, 0.25, 3]),
        COLUMNS,
        "column 'a' has values up to 3e+120",
    ),
    (
        "spread too small to square",
        table(b=["1e-130", 0, "2e-130", 0, 0, 0]),
        COLUMNS,
        "column 'b' varies by only 2e-130",
    ),
]
