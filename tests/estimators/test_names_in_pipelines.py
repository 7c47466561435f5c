"""Names of the columns that leave a pipeline whose table also holds columns that are no features."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from invariance import BIP, BIPSurvival, Columns

RNG = np.random.default_rng(3)
NAMES = ["a", "b", "c"]
SITE = np.repeat(["n", "s", "w"], 60)
TABLE = pd.DataFrame(RNG.normal(size=(180, 3)), columns=NAMES).assign(site=SITE, ended=RNG.random(180) < 0.7)
Y = TABLE["a"] + RNG.normal(size=180)


def passed_on(*others: str) -> ColumnTransformer:
    steps = [("numbers", StandardScaler(), NAMES), ("others", "passthrough", list(others))]
    return ColumnTransformer(steps, verbose_feature_names_out=False).set_output(transform="pandas")


def test_nor_is_what_comes_with_the_outcome() -> None:
    model = BIPSurvival(columns=Columns(environment="site"))
    pipeline = make_pipeline(passed_on("site", "ended"), model)
    pipeline.fit(TABLE, np.exp(Y), bipsurvival__event="ended")
    names = pipeline.get_feature_names_out().tolist()
    assert names == [name for name, chosen in zip(NAMES, model.support_, strict=True) if chosen]


def test_other_names_are_still_refused() -> None:
    model = BIP(columns=Columns(environment="site")).fit(TABLE[[*NAMES, "site"]], Y)
    with pytest.raises(ValueError, match="input_features is not equal"):
        model.get_feature_names_out(["a", "b", "d", "site"])
