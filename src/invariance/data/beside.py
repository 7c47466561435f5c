"""What comes with an outcome: whether a time ended with the event, and the exposure of a count."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Mask
from ..exceptions import DataError, SettingError
from .checks import quoted, rows_text, with_counts
from .columns import present_values, series_values
from .outcomes import as_one_series, comparison, in_order, one_series

ROLES = ("event", "exposure")


def stated(event: Any, exposure: Any, entry: Any, outcome: str) -> dict[str, Any]:
    """{role: what was given for it}; raises about what no model knows."""
    if entry is not None:
        late = repr(entry) if isinstance(entry, str) else "'entry'"
        raise SettingError(
            "entry= is not known: every row counts as watched from time 0 on, and delayed entry has no model here. "
            "Leave out rows that enter later; or count time from the entry of each row, "
            f"table[{outcome!r}] = table[{outcome!r}] - table[{late}], with the entry as a feature."
        )
    if event is not None and exposure is not None:
        raise SettingError(
            "event= and exposure= were both given: one is for times, which are their own exposure, the other for "
            "counts. Leave one of them out."
        )
    return {role: given for role, given in zip(ROLES, (event, exposure), strict=True) if given is not None}


def refuse(what: str, **given: Any) -> None:
    """Raise where events or exposures are given to `what`, which needs second moments only."""
    said = [name for name, value in given.items() if value is not None]
    if said:
        raise SettingError(
            f"{said[0]}= needs the rows, and {what} keeps their second moments only: read the whole table with "
            f"MultiEnvironmentData.from_table(table, outcome, environment, {said[0]}={given[said[0]]!r}), and fit that."
        )


def left_out(role: str, name: str) -> str:
    """What to type so that a column beside the outcome is not used: by itself it would become a feature."""
    return f"leave {role}= out; exclude=[{name!r}] keeps the column from becoming a feature"


def read_beside(series: Any, name: str, role: str, in_table: bool = True) -> Floats:
    """(N,) of a narwhals series: events as 0 and 1, or exposures; NaN where missing"""
    import narwhals as nw

    present = present_values(series)
    truths = series.dtype == nw.Boolean or all(isinstance(value, (bool, np.bool_)) for value in present)
    if series.dtype.is_numeric() or truths:
        values = series_values(series, name)
        if role == "exposure" or np.isin(values[~np.isnan(values)], (0.0, 1.0)).all():
            return values
    if role == "exposure":
        raise DataError(
            f"exposure {name!r} holds {present[0]!r}: it must be numbers, how long or how much of it was watched."
        )
    found = in_order(present)
    raise DataError(
        f"event {name!r} must be 1 where the event occurred and 0 where a row is censored, or True and False, but it "
        f"holds {quoted(found, 4)}. Say which of them is the event: "
        + comparison(series, name if in_table else None, role, found[-1])
    )


def beside_of(values: Any, role: str) -> tuple[str, Floats]:
    """The name of a series, or the role, and (N,) as `read_beside`, of an array, a list or a series"""
    if isinstance(values, (str, bytes)):
        raise DataError(
            f"{role}={values!r} is a single string: pass one value per row, for example {role}=table[{values!r}]."
        )
    series, name = one_series(values, role)
    series = as_one_series(values, role, role) if series is None else series
    return name, read_beside(series, name, role, in_table=False)


def check_beside(
    y: Floats,
    values: Mapping[str, Floats],
    names: Mapping[str, str],
    environments: Sequence[Hashable],
    codes: NDArray[np.intp],
) -> None:
    """Raise where times or exposures are not positive, what has an exposure is no count, or no event occurs.

    values: {role: (N,)}; names: {role: column}, of the outcome too; codes (N,) into environments
    """

    def rows_where(bad: Mask) -> str:
        per_environment = np.bincount(codes[bad], minlength=len(environments))
        return f"{rows_text(int(bad.sum()))}; in environment {with_counts(environments, per_environment)}"

    if "event" in values:
        if (y <= 0.0).any():
            raise DataError(
                f"outcome {names['outcome']!r} is a time to event, which must be above 0, and is not in "
                f"{rows_where(y <= 0.0)}. Leave those rows out, or begin to count earlier."
            )
        if not values["event"].any():
            raise DataError(
                f"event {names['event']!r} is 0 in every row, as if all were censored: it must be 1 where the event "
                "occurred."
            )
    if "exposure" in values:
        too_low, no_count = values["exposure"] <= 0.0, (y < 0.0) | (y != np.rint(y))
        if too_low.any():
            raise DataError(
                f"exposure {names['exposure']!r} must be above 0, and is not in {rows_where(too_low)}. Leave those "
                "rows out."
            )
        if no_count.any():
            raise DataError(
                f"exposure= is for outcomes that are counts, and {names['outcome']!r} is not in "
                f"{rows_where(no_count)}, for example {y[no_count][0]:g}. Give the count itself, not a rate, or "
                f"{left_out('exposure', names['exposure'])}."
            )
