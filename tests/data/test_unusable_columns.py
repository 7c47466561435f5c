"""Everything that cannot be used is said in one message."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariance.data import DataWarning, MultiEnvironmentData
from invariance.exceptions import DataError

N = 40
RNG = np.random.default_rng(3)
GOOD = pd.DataFrame({"a": RNG.normal(size=N), "y": RNG.normal(size=N), "site": ["n", "s"] * (N // 2)})
BAD = {
    "visit": [f"2021-03-{1 + i % 5:02d}" for i in range(N)],
    "hour": ["08:30", "9:15 PM"] * (N // 2),
    "born": [f"{1 + i % 9}.5.1970" for i in range(N)],
    "patient": [f"P{i}" for i in range(N)],
    "dose": ["1,5", "2,5"] * (N // 2),
    "number": list(range(1000, 1000 + N)),
}
REASONS = {
    "visit": "holds dates or times (for example '2021-03-01')",
    "hour": "holds dates or times (for example '08:30')",
    "born": "holds dates or times (for example '1.5.1970')",
    "patient": "is not numeric but has 40 different values in 40 rows",
    "dose": "holds numbers written as '1,5'",
    "number": "counts the rows from 1000 to 1039, as an identifier does",
}


def test_all_at_once() -> None:
    with pytest.raises(DataError) as refused:
        MultiEnvironmentData.from_table(GOOD.assign(**BAD), "y", "site")
    for name, reason in REASONS.items():
        assert f"column {name!r} {reason}" in str(refused.value)
    levels = ["visit", "hour", "born", "patient", "dose"]
    advised = [{"exclude": list(BAD)}, {"decimal": ","}, {"categorical": levels}]
    assert [dict(remedy.settings) for remedy in refused.value.args[0].remedies] == advised


@pytest.mark.parametrize("name", [name for name in BAD if name != "number"])
def test_each_alone(name: str) -> None:
    with pytest.raises(DataError) as refused:
        MultiEnvironmentData.from_table(GOOD.assign(**{name: BAD[name]}), "y", "site")
    assert f"column {name!r} {REASONS[name]}" in str(refused.value)
    assert "exclude=" in str(refused.value)


def test_dates_that_are_meant_as_levels() -> None:
    data = MultiEnvironmentData.from_table(GOOD.assign(visit=BAD["visit"]), "y", "site", categorical=["visit"])
    assert data.feature_names == ("a", "visit")


def test_row_numbers_alone_are_told_of() -> None:
    shuffled = GOOD.assign(number=BAD["number"]).sample(frac=1.0, random_state=0)
    with pytest.warns(DataWarning, match=r"'number' counts the rows from 1000 to 1039.*exclude=\['number'\]"):
        MultiEnvironmentData.from_table(shuffled, "y", "site")
    MultiEnvironmentData.from_table(GOOD.assign(number=[0, *BAD["number"][1:]]), "y", "site")
    MultiEnvironmentData.from_table(GOOD.assign(number=[1002.5, *BAD["number"][:2], *BAD["number"][3:]]), "y", "site")
