"""Compare two folders of results: python tests/golden/compare.py A B [--exact]."""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from adapter import GONE

RESULTS = Path(__file__).parent / "results"

RELATIVE = 1e-10
OF_LOGS = 1e-9
SMALLEST = 1e-15
# Processors round differently, which nearly dependent columns and iterated fits of counts enlarge.
# Of dependent columns several subsets are equally probable, in any order.
ENLARGED = 1e4
DEPENDENT = ("situation/copy", "situation/sum", "/nearer")
ITERATED = ("negative_binomial/", "auto/rate")
SMALL = 1e-6  # probabilities below are compared by their logarithms
_NOT_FINITE = ("inf", "-inf", "nan")


def across_machines(case: str, a: Any, b: Any) -> list[str]:
    """What is different between results of a case that different machines computed."""
    tied = any(name in case for name in DEPENDENT)
    slack = ENLARGED if tied or case.startswith(ITERATED) else 1.0
    found = differences(a, b, slack=slack)
    return [line for line in found if not (tied and re.match(r"\w+\.subsets\[", line))]


def differences(
    a: Any, b: Any, exact: bool = False, field: str = "", slack: float = 1.0
) -> Iterator[str]:
    """What is different between two results, one line for each field; slack : how many times the
    usual tolerance"""
    if _is_number(a) and _is_number(b):
        yield from _unequal([a], [b], exact, field, slack)
    elif isinstance(a, dict) and isinstance(b, dict):
        for key in dict.fromkeys((*a, *b)):
            inside = f"{field}.{key}" if field else key
            if re.sub(r"\[\d+\]", "", inside).endswith(GONE):
                continue
            if key not in a or key not in b:
                yield f"{inside}: only in the {'second' if key in b else 'first'}"
            else:
                yield from differences(a[key], b[key], exact, inside, slack)
    elif isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b):
            yield f"{field}: {len(a)} and {len(b)} values"
        elif all(map(_is_number, a)) and all(map(_is_number, b)):
            yield from _unequal(a, b, exact, field, slack)
        else:
            for place, (one, other) in enumerate(zip(a, b, strict=True)):
                yield from differences(one, other, exact, f"{field}[{place}]", slack)
    elif type(a) is not type(b) or a != b:
        yield f"{field}: {a!r} and {b!r}"


def _unequal(a: list[Any], b: list[Any], exact: bool, field: str, slack: float) -> Iterator[str]:
    """Numbers of one field; a small one counts by the largest beside it."""
    scale = max((abs(x) for x in map(float, (*a, *b)) if math.isfinite(x)), default=0.0)
    for place, (one, other) in enumerate(zip(a, b, strict=True)):
        if not (
            _same(one, other) if exact else _close(float(one), float(other), scale, field, slack)
        ):
            where = f"{field}[{place}]" if len(a) > 1 else field
            yield f"{where}: {one!r} and {other!r}, {abs(float(one) - float(other)):.2g} apart"


def _same(a: Any, b: Any) -> bool:
    return (
        type(a) is type(b)
        and a == b
        and math.copysign(1.0, float(a)) == math.copysign(1.0, float(b))
    )


def _close(a: float, b: float, scale: float, field: str, slack: float) -> bool:
    if a == b or (math.isnan(a) and math.isnan(b)):
        return True
    if not math.isfinite(a) or not math.isfinite(b):
        return False
    apart = abs(a - b)
    if "log_" in field or "deviance" in field or "entropy" in field:
        return apart <= slack * OF_LOGS * max(1.0, abs(a))
    if (
        0.0 < a < SMALL
        and 0.0 < b < SMALL
        and abs(math.log(a) - math.log(b)) <= slack * OF_LOGS * abs(math.log(a))
    ):
        return True
    return apart <= slack * RELATIVE * scale or (0.0 in (a, b) and apart <= SMALLEST)


def _is_number(value: Any) -> bool:
    return (isinstance(value, int | float) and not isinstance(value, bool)) or value in _NOT_FINITE


def read(folder: Path) -> dict[str, Any]:
    """{name of a case: its result}"""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=Path)
    parser.add_argument("second", type=Path)
    parser.add_argument("--exact", action="store_true", help="every bit counts")
    options = parser.parse_args()
    first = read(options.first)
    second = read(options.second)
    found = list(differences(first, second, options.exact))
    print("\n".join(found))
    print(f"{len({*first, *second})} cases compared, {len(found)} differences")
    sys.exit(int(bool(found) or not first))


if __name__ == "__main__":
    main()
