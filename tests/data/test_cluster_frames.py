"""Data frames of a cluster are read once, by the cluster; what looks at rows again says so."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from invariance import BIP, Moments
from invariance.exceptions import DataError

RNG = np.random.default_rng(3)
TABLE = pd.DataFrame({"x": RNG.normal(size=60), "y": RNG.normal(size=60), "site": np.repeat(["a", "b"], 30)})
ADVICE = r"data frame cannot be read again here: pass the files that it comes from.*or leave rows= out\."


def test_dask() -> None:
    dd = pytest.importorskip("dask.dataframe", reason="needs dask: pip install 'invariance[dask]'")
    frame = dd.from_pandas(TABLE, npartitions=2)
    moments = Moments.from_rows(frame, "y", "site")
    with pytest.raises(DataError, match=f"the rows of a Dask {ADVICE}"):
        BIP(environment="site").fit_moments(moments, rows=frame)
    BIP(environment="site").fit_moments(moments, rows=TABLE)


def test_spark_of_any_kind() -> None:
    for module in ("pyspark.sql.dataframe", "pyspark.sql.connect.dataframe", "pyspark.sql.classic.dataframe"):
        frame = type("DataFrame", (), {"__module__": module, "mapInArrow": None})()
        with pytest.raises(DataError, match=f"the rows of a Spark {ADVICE}"):
            BIP(environment="site").fit_moments(Moments.from_rows(TABLE, "y", "site"), rows=frame)
