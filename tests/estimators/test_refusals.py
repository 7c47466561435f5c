"""What estimators refuse: an exception of this package, of the builtin kind that is customary, that
names the place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import Ridge

from invariance import (
    BIP,
    BIPClassifier,
    BIPSurvival,
    Columns,
    Enumeration,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    UniformPrior,
    compare,
    load,
)
from invariance.baselines import ICP
from invariance.datasets import make_example
from invariance.exceptions import DataError, InvarianceError
from twins import simulated

DATA = make_example()
MOMENTS = Moments.from_data(DATA)
SITE = np.array(DATA.environments)[DATA.environment_index]
TABLE = pd.DataFrame(DATA.X[:, :2], columns=["u", "v"]).assign(site=SITE)
ONE = TABLE[["u"]]
TEXT = ONE.assign(w=np.resize(["p", "q", "r"], len(DATA.y)))
TWICE = pd.concat([TABLE, ONE], axis=1)
OBJECTS = TEXT.to_numpy()
WORDS = np.resize(["f", "m", "x"], len(DATA.y))
CLASSES = np.where(DATA.y > DATA.y.mean(), "yes", "no")
LARGE = 2**60 + np.arange(len(DATA.y)) % 2
BY_SITE = BIP(columns=Columns(environment="site"))
TIMES = np.exp(-DATA.y / DATA.y.std())
GAPS = np.where(np.isin(np.arange(len(DATA.y)), [0, 1, len(DATA.y) - 1]), np.nan, DATA.y)
COUNTS = np.random.default_rng(0).poisson(2.0, len(DATA.y))
INFINITE = np.where(np.arange(len(DATA.y)) == 4, np.inf, DATA.y)


def classified(y: Any, **settings: Any) -> BIPClassifier:
    return BIPClassifier(**settings).fit(TABLE[["u", "v"]], y, environments=SITE)


def survival() -> BIPSurvival:
    return BIPSurvival().fit(TABLE[["u", "v"]], TIMES, environments=SITE, event=TIMES < 2)


SETTINGS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: BIP(select="best").fit(DATA), ValueError, "select='best'"),
    (lambda: BIP("linear_gausian").fit(DATA), ValueError, "'linear_gaussian'? Use family="),
    (lambda: BIP(LinearGaussian).fit(DATA), ValueError, "LinearGaussian"),
    (lambda: BIP(engine="magic").fit(DATA), ValueError, "engine='magic'"),
    (lambda: BIP(engine=Enumeration).fit(DATA), ValueError, "engine"),
    (lambda: BIP(progress="yes").fit(DATA), ValueError, "progress='yes'"),
    (lambda: BIP(prior=UniformPrior).fit(DATA), ValueError, "prior"),
    (lambda: BIP(prior="unifrom").fit(DATA), ValueError, "'unifrom'"),
    (lambda: BIP(random_state="a").fit(DATA), ValueError, "random_state='a'"),
    (lambda: BIP(tolerance=0.1).fit(DATA), ValueError, "tolerance=0.1"),
    (lambda: BIP(columns={"environment": "site"}).fit(ONE, DATA.y), ValueError, "columns="),
    (
        lambda: BIP(prior=UniformPrior(max_size=6)).fit(simulated(6, (6, 30), 30)),
        ValueError,
        "max_size=4",
    ),
    (lambda: classified(CLASSES, family="linear_gaussian"), ValueError, "family='logistic'"),
    (
        lambda: BIPSurvival("logistic").fit(ONE, CLASSES, SITE),
        ValueError,
        "family='piecewise_exponential'",
    ),
    (lambda: classified(CLASSES).predict_interval(TABLE[["u", "v"]]), ValueError, "intervals"),
    (
        lambda: classified(CLASSES).predict(TABLE[["u", "v"]], return_std=True),
        ValueError,
        "intervals",
    ),
    (lambda: survival().predict_interval(TABLE[["u", "v"]]), ValueError, "intervals"),
    (lambda: BIP("poisson").fit(ONE, COUNTS, SITE).predict_interval(ONE), ValueError, "intervals"),
    (lambda: survival().predict(TABLE[["u", "v"]], return_std=True), ValueError, "intervals"),
    *(
        (
            lambda wrong=wrong: survival().predict_survival(TABLE[["u", "v"]], wrong),
            ValueError,
            "use times from 0",
        )
        for wrong in ([-1.0], [[1.0]], ["a"])
    ),
    (lambda: compare(TABLE), TypeError, "DataFrame"),
    (lambda: compare(DATA, [3]), TypeError, "int"),
]
TABLES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: BIP().fit(DATA, DATA.y), ValueError, "y="),
    (lambda: BIP().fit(DATA, environments=SITE), ValueError, "environments="),
    (lambda: BIP().fit(MOMENTS, event=DATA.y), ValueError, "event="),
    (lambda: BIP(regressor=Ridge()).fit(MOMENTS), ValueError, "Ridge"),
    (lambda: BIP(regressor=Ridge(), predict_with="average").fit(DATA), ValueError, "average"),
    (lambda: ICP().fit(MOMENTS), TypeError, "ICP"),
    (lambda: BIPClassifier().fit(MOMENTS), ValueError, "rows"),
    (lambda: BY_SITE.fit(ONE, DATA.y), ValueError, "'site'"),
    (lambda: BY_SITE.fit(DATA.X, DATA.y), ValueError, "'site'"),
    (lambda: BY_SITE.fit(TABLE, DATA.y, environments=SITE), ValueError, "'site'"),
    (lambda: BIP().fit(TABLE, DATA.y, environments="sites"), ValueError, "'sites'"),
    (lambda: BIP(columns=Columns(exclude=["x"])).fit(DATA.X, DATA.y, SITE), ValueError, "exclude"),
    (lambda: BIP(columns=Columns(features=["z"])).fit(TABLE, DATA.y, SITE), ValueError, "'z'"),
    (lambda: BY_SITE.fit(TWICE, DATA.y), ValueError, "'u'"),
    (lambda: BIP().fit(pl.LazyFrame(TABLE), DATA.y), ValueError, ".collect()"),
    (lambda: BIP().fit(ONE, None, SITE), ValueError, "y"),
    (lambda: BIP().fit(ONE, DATA.y[:5], SITE), ValueError, "y has 5"),
    (lambda: BIP().fit(ONE, DATA.X, SITE), ValueError, "(900, 8)"),
    (lambda: BIP().fit(OBJECTS, DATA.y, SITE), ValueError, "X"),
    (lambda: BIP().fit(DATA.X[:9, 0], DATA.y[:9]), ValueError, "1D array"),
    (lambda: BIP().fit([[{}]] * len(DATA.y), DATA.y, SITE), TypeError, "X"),
    (lambda: BIP().fit(ONE, WORDS, SITE), ValueError, "'f', 'm', 'x'"),
    (lambda: BIP().fit(TEXT, pd.Series(WORDS, name="sex"), SITE), ValueError, "'sex'"),
    (lambda: BIP().fit(pd.DataFrame({"id": LARGE, "a": DATA.y}), DATA.y, SITE), ValueError, "'id'"),
    (
        lambda: BIP().fit(pl.DataFrame({"id": -LARGE, "a": DATA.y}), DATA.y, SITE),
        ValueError,
        "'id'",
    ),
    (lambda: BIP().fit(np.column_stack([LARGE, LARGE]), DATA.y, SITE), ValueError, "'X'"),
    (lambda: BIP().fit(ONE, LARGE, SITE), ValueError, "'y'"),
    (
        lambda: BIP().fit(ONE.assign(visit=pd.Timestamp("2020-01-01")), DATA.y, SITE),
        ValueError,
        "'visit'",
    ),
    (lambda: BIP().fit(ONE.assign(note=[{} for _ in DATA.y]), DATA.y, SITE), ValueError, "'note'"),
    *(
        (
            lambda made=made: BIP().fit(DATA.X, made(GAPS), DATA.environment_index),
            ValueError,
            "'0' (2 rows), '5' (1 row)",
        )
        for made in (np.array, list, pd.Series, pl.Series)
    ),
    (lambda: BIP().fit(DATA.X, INFINITE, SITE), ValueError, "'y' (1 row)"),
    (lambda: classified(WORDS), ValueError, "'f', 'm', 'x'"),
    (lambda: classified(np.full(len(DATA.y), "a")), ValueError, "'a'"),
    (lambda: classified(DATA.y), ValueError, "continuous"),
    (
        lambda: classified(np.array([1, "b"], dtype=object)[DATA.environment_index % 2]),
        ValueError,
        "'int', 'str'",
    ),
    (lambda: classified(np.column_stack([CLASSES, CLASSES])), ValueError, "1d array"),
    (lambda: classified(np.where(SITE[0] == SITE, None, CLASSES)), ValueError, "150 rows"),
    (lambda: BIPClassifier().fit(DATA), ValueError, "'blood_pressure'"),
    (lambda: BIPSurvival().fit(ONE, TIMES, SITE), ValueError, "event="),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("attempt", "kind", "named"), SETTINGS + TABLES)
def test_refusals_name_the_place(
    attempt: Callable[[], Any], kind: type[Exception], named: str
) -> None:
    with pytest.raises(InvarianceError) as caught:
        attempt()
    assert isinstance(caught.value, kind)
    assert named in str(caught.value)
    assert len(str(caught.value)) < 400


def test_numbers_that_are_stored_as_objects_are_taken() -> None:
    as_objects = BIP().fit(DATA.X.astype(object), DATA.y.astype(object), SITE)
    np.testing.assert_array_equal(as_objects.coef_, BIP().fit(DATA.X, DATA.y, SITE).coef_)


def test_what_a_table_to_predict_lacks(tmp_path: Path) -> None:
    """Columns that predict are found by name; one that is missing is named, with what may be
    done."""
    four = DATA.environment_index < 4  # where a second subset is compatible
    data = MultiEnvironmentData.from_table(DATA.to_frame()[four], "blood_pressure", "hospital")
    X = data.to_frame()[list(data.feature_names)]
    fitted = BIP(predict_with="selected").fit(X, data.y, environments=SITE[four])
    fitted.save(tmp_path / "model.json")
    used = list(fitted.selected_features_)
    wanted = fitted.predict_interval(X)
    for model in (BIP(predict_with="selected").fit(data), fitted, load(tmp_path / "model.json")):
        for table in (
            X[used[::-1]],
            X.assign(more="text")[["more", *X.columns[::-1]]],
            pl.from_pandas(X[used]),
        ):
            np.testing.assert_allclose(model.predict_interval(table), wanted, rtol=1e-12)
        with pytest.raises(DataError, match=f"X lacks '{used[0]}'.* exclude="):
            model.predict(X.drop(columns=used[0]))
        with pytest.raises(DataError, match="predict_with='selected'"):
            model.set_params(predict_with="average").predict(X[used])
