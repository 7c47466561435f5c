"""The pages' code runs in an empty folder, without extras that they do not name; the tutorial's where the light
tunnel's rows are at hand."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
import pytest

TUNNEL = Path(__file__).resolve().parents[2] / "shared" / "data" / "light_tunnel" / "light_tunnel.csv.gz"
WITH_TUNNEL = "tutorial.md"
WITH_DUCKDB = "database.md"
ASKED = re.compile(r"pip install ['\"](?:invariance|\.)\[([\w,]+)\]")
# {a package: extras that bring it}
BROUGHT_BY = {
    "pyarrow": ("parquet", "spark"),
    "jinja2": ("report", "app", "dask"),
    "distributed": ("dask",),
    "starlette": ("app",),
    "openpyxl": ("excel",),
    "polars": ("polars",),
    "xarray": ("xarray",),
    "skops": ("skops",),
    "rdata": ("genes",),
    "pyspark": ("spark",),
    "torch": ("gpu",),
}


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


def hide_what_is_not_asked_for(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page and this package import no extra but those that the page tells its reader to install."""
    asked = {extra for names in ASKED.findall(page.read_text(encoding="utf-8")) for extra in names.split(",")}
    hidden = {package for package, extras in BROUGHT_BY.items() if asked.isdisjoint(extras)}
    usual = builtins.__import__

    def checked(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> ModuleType:
        if level == 0 and name.partition(".")[0] in hidden and _ours((globals or {}).get("__name__", page.stem), page):
            raise ImportError(f"{page.name} uses {name}, and names no extra that brings it")
        return usual(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", checked)


def _ours(importer: str, page: Path) -> bool:
    return importer.partition(".")[0] in ("invariance", "__main__", page.stem)


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    for item in items:
        if item.path.name == WITH_TUNNEL and not TUNNEL.is_file():
            item.add_marker(pytest.mark.skip(reason="the light tunnel's data are not at hand"))
        if item.path.name == WITH_DUCKDB and find_spec("duckdb") is None:
            item.add_marker(pytest.mark.skip(reason="needs duckdb"))


@pytest.fixture(autouse=True)
def in_an_empty_folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    hide_what_is_not_asked_for(request.node.path, monkeypatch)
    if request.node.path.name == WITH_TUNNEL:
        for name, module in stand_in().items():
            monkeypatch.setitem(sys.modules, name, module)
