"""Words of files that stand for missing values, whatever blanks are around them."""

from __future__ import annotations

MISSING = frozenset(
    {
        *("", "NA", "N/A", "n/a", "<NA>", "#NA", "#N/A", "#N/A N/A", "NULL", "null", "None", "NaN", "nan", "-NaN"),
        *("-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"),
    }
)
