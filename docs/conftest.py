"""The pages' code runs in an empty folder, the tutorial's where the light tunnel's rows are at hand."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest

TUNNEL = Path(__file__).resolve().parents[2] / "shared" / "data" / "light_tunnel" / "light_tunnel.csv.gz"
WITH_TUNNEL = "tutorial.md"
WITH_DUCKDB = "database.md"


class Dataset:
    """What the tutorial uses of the package causalchamber, without its download."""

    def __init__(self, name: str, root: str, download: bool) -> None:
        assert (name, download) == ("lt_interventions_standard_v1", True)
        self.rows = pd.read_csv(TUNNEL)

    def get_experiment(self, name: str) -> Dataset:
        kind, _, self.environment = name.partition("_")
        assert kind == "uniform"
        assert self.environment in set(self.rows["environment"])
        return self

    def as_pandas_dataframe(self) -> pd.DataFrame:
        return self.rows[self.rows["environment"] == self.environment].drop(columns="environment")


def stand_in() -> dict[str, ModuleType]:
    package, datasets = ModuleType("causalchamber"), ModuleType("causalchamber.datasets")
    datasets.Dataset = Dataset  # type: ignore[attr-defined]
    return {"causalchamber": package, "causalchamber.datasets": datasets}


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if item.path.name == WITH_TUNNEL and not TUNNEL.is_file():
            item.add_marker(pytest.mark.skip(reason="the light tunnel's data are not at hand"))
        if item.path.name == WITH_DUCKDB and find_spec("duckdb") is None:
            item.add_marker(pytest.mark.skip(reason="needs duckdb"))


@pytest.fixture(autouse=True)
def in_an_empty_folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    if request.node.path.name == WITH_TUNNEL:
        for name, module in stand_in().items():
            monkeypatch.setitem(sys.modules, name, module)
