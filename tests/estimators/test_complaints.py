"""Whatever can be done wrong is answered with a complaint of this package, of the builtin kind that is customary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from invariance import BIP, Columns, Posterior, compare
from invariance.datasets import make_example
from invariance.exceptions import DataError, InvarianceError

DATA = make_example()
SITE = np.array(DATA.environments)[DATA.environment_index]
TABLE = pd.DataFrame(DATA.X[:, :2], columns=["u", "v"]).assign(site=SITE)
TEXT = TABLE[["u"]].assign(w=np.resize(["p", "q", "r"], 600))
TWICE = pd.concat([TABLE, TABLE[["u"]]], axis=1)
OBJECTS = TEXT.to_numpy()
WORDS = np.resize(["f", "m", "x"], 600)
BY_SITE = BIP(columns=Columns(environment="site"))


def fitted() -> Posterior:
    return BIP().fit(DATA).posterior_


@pytest.mark.parametrize(
    ("attempt", "kind", "phrase"),
    [
        (lambda: compare(TABLE), TypeError, "compare needs a MultiEnvironmentData, not DataFrame"),
        (lambda: compare(DATA, [3]), TypeError, "is int, which is not one of this package's methods"),
        (lambda: fitted().probability("age"), TypeError, "for example ['age'], not one string"),
        (lambda: fitted().probability(3), TypeError, "a collection of feature names or a boolean mask, not 3"),
        (lambda: fitted().probability([3]), TypeError, "it cannot hold 3"),
        (lambda: fitted().probability([True]), ValueError, "one True or False for each of the 8 features"),
        (lambda: fitted().subsets(0), ValueError, "top must be at least 1, not 0"),
        (lambda: fitted().summary(0), ValueError, "top must be at least 1, not 0"),
        (lambda: fitted().sample(0), ValueError, "n must be at least 1, not 0"),
        (lambda: fitted().credible_subsets(2), ValueError, "level must be above 0 and at most 1, not 2"),
        (lambda: Posterior.from_json("/nope"), OSError, "'/nope'"),
        (lambda: Posterior.from_json(Path()), OSError, "cannot be read: Is a directory"),
        (lambda: Posterior.from_json("{"), ValueError, "the text is not valid JSON"),
        (lambda: Posterior.from_json("{}"), ValueError, "the text is not a saved posterior"),
        (
            lambda: Posterior.from_json(fitted().to_json().replace('"n_subsets": 256', '"n_subsets": 1')),
            ValueError,
            "the text is damaged: n_subsets",
        ),
        (lambda: BIP().fit(TABLE[["u"]], WORDS, SITE), ValueError, "outcome 'y' has 3 classes, 'f', 'm', 'x'"),
        (
            lambda: BIP().fit(TEXT, pd.Series(WORDS, name="sex"), SITE),
            ValueError,
            "and a model needs two. Compare one of them with the rest: y = np.asarray(y) == 'f'",
        ),
        (lambda: BIP().fit(TEXT, DATA.y[:5], SITE), ValueError, "lengths differ: X has 600 rows, y has 5 rows"),
        (lambda: BIP().fit(TABLE[["u"]], DATA.y[:5], SITE), ValueError, "lengths differ: X has 600 rows, y has 5"),
        (lambda: BIP().fit(TABLE[["u"]], DATA.X, SITE), ValueError, "y has shape (600, 8), but one outcome per row"),
        (lambda: BIP().fit(OBJECTS, DATA.y, SITE), ValueError, "X is an object array (for example "),
        (lambda: BIP().fit(OBJECTS[:, 0], DATA.y, SITE), ValueError, "X is an object array"),
        (lambda: BIP().fit(DATA.X[:9, 0], DATA.y[:9]), ValueError, "Expected 2D array, got 1D array"),
        (lambda: BIP().fit([[{}]] * 600, DATA.y, SITE), TypeError, "X cannot be read as numbers: float() argument"),
        (lambda: BIP().fit(TEXT, None, SITE), ValueError, "requires y to be passed, but the target y is None: fit(X"),
        (lambda: BIP().fit(TABLE[["u"]], None, SITE), ValueError, "requires y to be passed, but the target y is None"),
        (lambda: BY_SITE.fit(TWICE, DATA.y), ValueError, "duplicate column names in the X: 'u'. Give every column"),
        (lambda: BY_SITE.fit(pl.LazyFrame(TABLE), DATA.y), ValueError, "X is a lazy frame: call .collect() on it"),
        (lambda: BIP().fit(pl.LazyFrame(TABLE), DATA.y), ValueError, "X is a lazy frame: call .collect() on it"),
        (
            lambda: BY_SITE.fit(pa.Table.from_pandas(TEXT), DATA.y),
            ValueError,
            "'site' names a column of X, which lacks it",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning")
def test_complaints_are_of_this_package(attempt: Callable[[], Any], kind: type[Exception], phrase: str) -> None:
    with pytest.raises(InvarianceError) as caught:
        attempt()
    assert isinstance(caught.value, kind)
    assert phrase in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.filterwarnings("ignore::invariance.exceptions.NotInvariantWarning")
@pytest.mark.parametrize(
    "convert", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas], ids=["pandas", "polars", "arrow"]
)
def test_the_environment_column_of_any_table(convert: Callable[[pd.DataFrame], Any]) -> None:
    wanted = BIP().fit(TABLE[["u", "v"]], DATA.y, environments=SITE)
    table = convert(TABLE)
    model = BIP(columns=Columns(environment="site")).fit(table, DATA.y)
    assert model.environments_ == wanted.environments_
    np.testing.assert_array_equal(model.inclusion_probabilities_, wanted.inclusion_probabilities_)
    np.testing.assert_array_equal(model.predict(table), wanted.predict(TABLE[["u", "v"]]))


def test_numbers_that_are_stored_as_objects_are_taken() -> None:
    as_objects = BIP().fit(DATA.X.astype(object), DATA.y.astype(object), SITE)
    np.testing.assert_array_equal(as_objects.coef_, BIP().fit(DATA.X, DATA.y, SITE).coef_)
    with pytest.raises(DataError, match="lengths differ"):
        BIP().fit(DATA.X.astype(object), DATA.y[:5], SITE)
