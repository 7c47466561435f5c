"""Rows of a Spark data frame: the same numbers as here, also when a Python worker dies."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from invariance import Moments
from invariance.exceptions import DataError, DataWarning, SettingError

pytest.importorskip("pyspark")
pytest.importorskip("pyarrow")

# A session takes half a minute to begin, and seconds for each question.
pytestmark = [pytest.mark.integration, pytest.mark.slow]
SOURCE = Path(__file__).parents[2] / "src"
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java", allow_module_level=True)


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    """Two threads; a task that fails is tried again."""
    from pyspark.sql import SparkSession

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        builder = SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        session.sparkContext.setLogLevel("OFF")
        yield session
        session.stop()


def table(n: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    values = pd.DataFrame(rng.normal([1e6, 0.0, 0.0], size=(n, 3)), columns=["a", "b.c", "y"])
    sites = rng.choice(["north", "south", "west"], n).astype(object)
    return values.assign(kind=rng.choice(["u", "v", "x"], n), site=sites)


def on(spark: Any, frame: pd.DataFrame, folder: Path, partitions: int = 4) -> Any:
    frame.to_parquet(folder / "rows.parquet", index=False)
    return spark.read.parquet(str(folder / "rows.parquet")).repartition(partitions)


def assert_close(there: Moments, here: Moments) -> None:
    assert there.columns == here.columns
    assert set(there.environments) == set(here.environments)
    order = [there.environments.index(label) for label in here.environments]
    for name in ("counts", "minimum", "maximum"):
        np.testing.assert_array_equal(
            getattr(there, name)[order], getattr(here, name), err_msg=name
        )
    np.testing.assert_allclose(there.means[order], here.means, rtol=1e-13, atol=1e-15)
    scale = 1e-10 * np.abs(here.scatter).max()
    np.testing.assert_allclose(there.scatter[[*order, -1]], here.scatter, rtol=1e-10, atol=scale)


def test_the_same_numbers_and_complaints_as_here(spark: Any, tmp_path: Path) -> None:
    """Partitions come in an order of their own, and so do environments."""
    frame = table()
    frame.loc[::7, "a"] = np.nan
    frame.loc[::11, "kind"] = None
    frame.loc[:9, "site"] = None
    rows = on(spark, frame, tmp_path, partitions=7)
    with pytest.warns(DataWarning, match="rows"):
        here = Moments.from_rows(frame, "y", "site", missing="drop")
    with pytest.warns(DataWarning, match="rows") as told:
        there = Moments.from_rows(rows, "y", "site", missing="drop")
    assert_close(there, here)
    assert len([each for each in told if each.category is DataWarning]) == 1
    assert there.feature_names == ("a", "b.c", "kind")
    assert there.dropped_rows == here.dropped_rows


def kills_once(mark: Path) -> Any:
    def killing(batches: Iterator[Any]) -> Iterator[Any]:
        for n, batch in enumerate(batches):
            yield batch
            if n == 0 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

    return killing


def test_a_python_worker_dies(spark: Any, tmp_path: Path) -> None:
    frame = table()
    rows = on(spark, frame, tmp_path)
    mark = tmp_path / "killed"
    plain = rows.select(
        "a", "kind", "y", "site"
    )  # a dot in a name is too much for mapInArrow itself
    dying = plain.mapInArrow(kills_once(mark), plain.schema)
    there = Moments.from_rows(dying, "y", "site", features=["a", "kind"])
    assert mark.exists()
    assert_close(there, Moments.from_rows(frame, "y", "site", features=["a", "kind"]))


def test_what_is_wrong_with_rows_is_said_as_here(spark: Any, tmp_path: Path) -> None:
    frame = table().assign(kind=2**60 + np.arange(3000))
    with pytest.raises(DataError, match=r"column 'kind' holds whole numbers beyond 2\*\*53"):
        Moments.from_rows(on(spark, frame, tmp_path), "y", "site")


def test_what_does_not_go_together(spark: Any) -> None:
    rows = spark.createDataFrame([("north", 1.0, 2.0)], "site string, a double, y double")
    with pytest.raises(SettingError, match="dask= is not for the Spark data frame: leave it out"):
        Moments.from_rows(rows, "y", "site", dask="tcp://127.0.0.1:1")
    with pytest.raises(DataError, match="'z'"):
        Moments.from_rows(rows, "z", "site")
