"""What a look at a table finds, and that each remedy mends it."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from cli_runner import fails, run
from invariance import BIP, Columns, Environments, Moments, MultiEnvironmentData, check, load
from invariance.data.check import DataCheck
from invariance.data.columns import MISSING_LEVEL
from invariance.data.look import CODES
from invariance.data.odd_values import far_values
from invariance.datasets import make_clinical_table
from invariance.exceptions import DataError, DataWarning, SettingError, use

# What is planted in the clinical table: {column: code}
PLANTED = {
    "hospital": "labels_alike",
    "patient_id": "identifier",
    "admission_date": "dates",
    "ward": "codes",
    "bmi": "far_values",
    "creatinine": "unit",
    "lactate": "absent",
    "crp": "detection_limit",
    "note": "text",
    "smoker": "missing",
    "haemoglobin": "missing",
}


@pytest.fixture(scope="module")
def clinical() -> pd.DataFrame:
    return make_clinical_table()


@pytest.fixture(scope="module")
def found(clinical: pd.DataFrame) -> DataCheck:
    return check(clinical, "readmitted", "hospital")


def test_all_that_is_planted_is_found_and_nothing_else(
    found: DataCheck, clinical: pd.DataFrame
) -> None:
    assert {finding.column: finding.code for finding in found.findings} == PLANTED
    assert len(found.findings) == len(PLANTED)
    assert set(PLANTED.values()) <= set(CODES)
    by_code = {finding.code: finding for finding in found.findings}
    assert by_code["far_values"].rows == (clinical["bmi"] == 999).sum() > 0
    assert by_code["unit"].environments == ("Hill",)
    assert by_code["absent"].environments == ("Fenton",)
    assert by_code["labels_alike"].environments == ("St. Mary", "St.\N{NO-BREAK SPACE}Mary")


def test_the_table_is_the_same_each_time(clinical: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(clinical, make_clinical_table())
    assert clinical["hospital"].nunique() == 10


def test_it_prints_and_is_saved(found: DataCheck, tmp_path: Path) -> None:
    assert max(map(len, str(found).splitlines())) <= 80
    assert "creatinine" in found._repr_html_()
    assert found.to_frame()["code"].tolist() == [finding.code for finding in found.findings]
    saved = json.loads(found.to_json(tmp_path / "check.json"))
    assert saved == json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))
    assert saved["findings"][0]["remedies"][0]["settings"]["merge_environments"]
    assert saved["settings"]["na"] == {"bmi": [999.0]}


def test_values_that_are_far() -> None:
    rng = np.random.default_rng(0)
    bmi = rng.normal(27, 4, 500)
    for codes in ([999.0], [999.0, 999.0], [888.0, 999.0], [-9.0, -9.0, -9.0]):
        assert sorted(far_values(np.append(bmi, codes))) == sorted(set(codes))
    assert far_values(np.append(rng.normal(170, 9, 500), 1700.0)) == [1700.0]
    assert far_values(np.append(rng.integers(0, 2, 500), [9.0] * 5)) == [9.0]


@pytest.mark.parametrize("law", ["lognormal", "poisson", "pareto", "exponential", "cauchy-like"])
def test_tails_are_no_alarm(law: str) -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        draws = {
            "lognormal": rng.lognormal(0, 2, 400),
            "poisson": rng.poisson(0.7, 400).astype(float),
            "pareto": rng.pareto(1.5, 400),
            "exponential": rng.exponential(1, 400),
            "cauchy-like": rng.standard_t(2, 400),
        }
        assert far_values(draws[law]) == []


# ---------------------------------------------------------------- remedies

OUTCOMES = ["readmitted", "days", "died", "falls", "years"]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The clinical table with points, and with decimal commas."""
    folder = tmp_path_factory.mktemp("clinical")
    named = {"points": folder / "points.csv", "commas": folder / "commas.csv"}
    assert run("demo", "--clinical", named["points"]).exit_code == 0
    assert run("demo", "--clinical", named["commas"], "--decimal-comma").exit_code == 0
    return named


def walk(table: Any, **settings: Any) -> MultiEnvironmentData:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return MultiEnvironmentData.from_table(table, "walk", "hospital", **settings)


def settings_of(table: Any, **more: Any) -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {
            **check(table, "walk", "hospital", columns=Columns(exclude=OUTCOMES)).settings,
            **more,
        }


def test_the_settings_mend_everything_in_both_files(
    clinical: pd.DataFrame, files: dict[str, Path]
) -> None:
    data = walk(clinical, **settings_of(clinical))
    assert data.n_environments == 9
    assert {*PLANTED} & {*data.feature_names} == {"ward", "bmi", "crp", "smoker", "haemoglobin"}
    assert data.X[:, data.features.columns.index("bmi")].max() < 60
    assert data.X[:, data.features.columns.index("crp")].min() == 0.25
    complete = clinical[["smoker", "haemoglobin"]].notna().all(axis=1) & (clinical["bmi"] != 999)
    assert data.n_rows == complete.sum()
    for file in files.values():
        np.testing.assert_array_equal(walk(file, **settings_of(file)).X, data.X)


def test_each_remedy_is_enough(clinical: pd.DataFrame, found: DataCheck) -> None:
    """Whichever remedy is chosen of each finding, the table is read; without one of those that it
    needs it is not."""
    usual = settings_of(clinical)
    for finding in found.findings:
        assert finding.remedies
        for remedy in finding.remedies:
            settings = dict(usual)
            name, value = next(iter(remedy.settings))
            if finding.column in usual["exclude"]:
                settings["exclude"] = [
                    other for other in usual["exclude"] if other != finding.column
                ]
            if isinstance(value, list):
                value = list(dict.fromkeys([*settings.get(name, ()), *value]))
            settings[name] = value
            if (name, finding.column) == ("exclude", "ward"):
                settings["categorical"] = "auto"
            assert walk(clinical, **settings).n_rows > 1500
    for needed in ("merge_environments", "below_limit", "missing", "exclude"):
        with pytest.raises(DataError):
            walk(clinical, **{name: value for name, value in usual.items() if name != needed})


def test_one_error_names_all_that_is_wrong(clinical: pd.DataFrame, files: dict[str, Path]) -> None:
    with pytest.raises(DataError) as caught:
        walk(clinical)
    for name in (
        "admission_date",
        "crp",
        "note",
        "lactate",
        "smoker",
        "haemoglobin",
        r"St.\xa0Mary",
    ):
        assert name in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    message = fails("fit", files["points"], "-o", "walk", "-e", "hospital")
    assert "--below-limit half" in message
    assert "--missing drop" in message
    assert "invariance check" in message


@pytest.mark.parametrize("written", ["points", "commas"])
def test_the_command_that_check_prints_runs(
    written: str, files: dict[str, Path], tmp_path: Path
) -> None:
    asked = [files[written], "-o", "walk", "-e", "hospital", "--exclude", ",".join(OUTCOMES)]
    shown = run("check", *asked, "--json", tmp_path / "check.json")
    assert shown.exit_code == 0
    assert len(
        json.loads((tmp_path / "check.json").read_text(encoding="utf-8"))["findings"]
    ) == len(PLANTED)
    _, *command = shlex.split(shown.stdout.splitlines()[-1])
    fitted = run(*command, "--save", tmp_path / "model.json")
    assert fitted.exit_code == 0, fitted.stderr
    assert load(tmp_path / "model.json").selected_features_ == (
        "age",
        "smoker",
        "bmi",
        "haemoglobin",
    )
    predicted = run(
        "predict",
        tmp_path / "model.json",
        files[written],
        "--missing",
        "empty",
        "--out",
        tmp_path / "p.csv",
    )
    assert predicted.exit_code == 0, predicted.stderr


COMMAS = "--decimal=,"
POINTS = "--decimal=."
GROUPS = "--thousands=,"


@pytest.mark.parametrize(
    ("kind", "stated", "form"),
    [
        ("commas", [POINTS], {"decimal": ","}),
        ("commas", [GROUPS], {"decimal": ",", "thousands": None}),
        ("commas", [POINTS, GROUPS, "--sep=;"], {"decimal": ",", "thousands": None}),
        ("points", ["--exclude=z", "--na=?,x=9", "--weight=n"], {}),
        ("one comma", [POINTS], {}),
        ("one comma", [GROUPS], {}),
        ("three forms", [GROUPS], {}),
        ("three forms", [POINTS], {"thousands": ","}),
        ("events", ["--event=died", "--encoding=latin-1", POINTS], {}),
    ],
)
def test_the_command_is_not_refused_whatever_was_stated(
    kind: str, stated: list[str], form: dict[str, Any], workdir: Path
) -> None:
    rng = np.random.default_rng(0)
    x, z = rng.normal(size=(2, 60)).round(2)
    table = pd.DataFrame(
        {"site": ["a", "b"] * 30, "x": x, "z": z, "y": (x + rng.normal(size=60)).round(2)}
    )
    table = table.assign(n=rng.integers(1, 3, 60), died=rng.integers(0, 2, 60))
    commas = [f"{value:.1f}".replace(".", ",") for value in rng.uniform(1, 9, 60)]
    grouped = [f"{value:,.0f}" for value in rng.uniform(1e6, 9e6, 60)]
    more = {"one comma": {"w": commas}, "three forms": {"w": commas, "u": grouped}}.get(kind, {})
    table["y"] = table["y"].abs() if kind == "events" else table["y"]
    sep, decimal = (";", ",") if kind == "commas" else (",", ".")
    table.assign(**more).to_csv("t.csv", index=False, sep=sep, decimal=decimal)
    shown = run("check", "t.csv", "-o", "y", "-e", "site", *stated, "--json", "found.json")
    command = shlex.split(shown.stdout.splitlines()[-1])
    fitted = run(*command[1:])
    assert fitted.exit_code == 0, fitted.stderr
    settings = json.loads(Path("found.json").read_text(encoding="utf-8"))["settings"]
    assert {
        name: settings.get(name) for name in settings if name in ("decimal", "thousands")
    } == form


def _with_first_advice(text: str, options: dict[str, str]) -> dict[str, str]:
    """The options with the first of those that a text advises, as typed"""
    first = re.search(r": use ((?:no )?--.*)$", " ".join(text.split())).group(1).split(" or ")[0]
    for typed in first.rstrip(".").split(", "):
        name, *value = shlex.split(typed.removeprefix("no "))
        if typed.startswith("no "):
            options = {option: old for option, old in options.items() if option != name}
        else:
            options = {**options, name: value[0]}
    return options


@pytest.mark.parametrize(
    ("written", "options"),
    [
        ({"x": ".", "y": "."}, {"--thousands": "."}),
        ({"x": ".", "y": "."}, {"--thousands": ".", "--decimal": "."}),
        ({"x": ".", "y": "."}, {"--thousands": ".", "--decimal": ","}),
        ({"x": ".", "y": "."}, {"--thousands": " ", "--decimal": ","}),
        ({"x": ".", "y": ","}, {}),
        ({"x": ".", "y": ","}, {"--decimal": "."}),
        ({"x": ".", "y": ","}, {"--thousands": " "}),
        ({"x": ",", "y": "."}, {"--thousands": "."}),
        ({"x": ".", "z": "1.234,5", "y": ","}, {"--decimal": "."}),
        ({"x": ".", "z": "1'234.5", "y": ","}, {"--thousands": "'"}),
        ({"x": "1'234.5", "z": ".", "y": "1,234.5"}, {"--thousands": "'"}),
        ({"x": "1.234,5", "y": "1 234,5"}, {}),
        ({"x": ",", "y": ","}, {"--decimal": ",", "--sep": ","}),
        ({"x": ",", "y": "1,234.5"}, {"--decimal": ","}),
        ({"x": "1'234.5", "y": "1.234,5"}, {"--decimal": ".", "--thousands": "'"}),
        ({"x": "1'234.5", "y": "1 234,5"}, {"--decimal": ".", "--thousands": " "}),
    ],
)
def test_advice_comes_to_an_end(
    written: dict[str, str], options: dict[str, str], workdir: Path
) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"site": ["a", "b"] * 30, "n": rng.integers(0, 50, 60)})
    for name, form in written.items():
        decimal = form.removesuffix("5")[-1]
        sign = form[1] if len(form) > 1 else ""
        numbers = [f"{value:,.2f}" for value in rng.uniform(0.1, 9999.0, 60)]
        table[name] = [
            text.replace(".", "p").replace(",", sign).replace("p", decimal) for text in numbers
        ]
    table.to_csv("t.csv", index=False, sep="," if "--sep" in options else ";")
    for _ in range(4):
        shown = run(
            "check",
            "t.csv",
            "-o",
            "y",
            "-e",
            "site",
            *(part for pair in options.items() for part in pair),
        )
        command = shlex.split(shown.stdout.splitlines()[-1]) if shown.exit_code == 0 else []
        if command[:2] == ["invariance", "fit"]:
            break
        options = _with_first_advice(shown.stderr or shown.stdout, options)
    fitted = run(*command[1:])
    assert fitted.exit_code == 0, fitted.stderr


@pytest.mark.parametrize(
    ("columns", "advised"),
    [
        ({"x": "0.5 1.5 2.5", "w": "1,234 2,345 8,804"}, ["--decimal '.'", "--thousands ','"]),
        ({"x": "a b c", "w": "1,234 2,345 8,804"}, ["--decimal ','", "--thousands ','"]),
        (
            {"x": "0,5 1,5 2,5", "w": "1.234.567 2.345.678 8.804"},
            ["--thousands '.'", "--categorical w", "--exclude w"],
        ),
    ],
)
def test_only_forms_in_which_the_other_columns_are_numbers(
    columns: dict[str, str], advised: list[str], workdir: Path
) -> None:
    pd.DataFrame({name: texts.split() for name, texts in columns.items()}).to_csv(
        "t.csv", sep=";", index=False
    )
    shown = run("check", "t.csv")
    message = " ".join(shown.stdout.split("To fit it")[0].split()) or shown.stderr
    assert re.findall(r"--\w+ (?:'.'|\w+)", message.rsplit(": use", 1)[-1]) == advised


def test_negative_numbers_are_no_missing_values(workdir: Path) -> None:
    """Whatever sign they have: a minus is read, and what is in brackets is left out rather than
    called missing."""
    numbers = np.random.default_rng(0).normal(size=60).round(2)
    minus = [f"{value:.2f}".replace("-", "\N{MINUS SIGN}") for value in numbers]
    brackets = [f"({-value:.2f})" if value < 0.0 else f"{value:.2f}" for value in numbers]
    _table(minus=minus, brackets=brackets).to_csv("t.csv", index=False)
    found = check("t.csv", "y", "site")
    assert found.settings == {"exclude": ["brackets"]}
    data = MultiEnvironmentData.from_table("t.csv", "y", "site", **found.settings)
    np.testing.assert_array_equal(data.X[:, data.feature_names.index("minus")], numbers)


def test_an_outcome_in_another_form_says_so() -> None:
    table = _table(y=[f"{n},5" for n in range(60)])
    with pytest.raises(DataError) as caught:
        MultiEnvironmentData.from_table(table, "y", "site")
    assert caught.value.args[0].remedies == (use(decimal=","),)


# ---------------------------------------------------------------- settings that remedies name


def small(n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    x = rng.normal(size=n)
    z = rng.normal(10, 1, n)
    kind = rng.choice(np.array(["a", "b", None], dtype=object), n)
    lab = np.where(z < 9, "<9", np.where(z > 12, ">12", [f"{value:.2f}" for value in z]))
    y = x + (kind == "b") + 3.0 * pd.isna(kind) + rng.normal(0, 0.1, n)
    return pd.DataFrame(
        {"site": ["u", "v"] * (n // 2), "x": x, "kind": kind, "lab": lab, "z": z, "y": y}
    )


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.from_pandas, pa.Table.from_pandas])
def test_limits_of_detection(frame: Any) -> None:
    table = small().drop(columns="kind")
    below = table["lab"] == "<9"
    above = table["lab"] == ">12"
    assert below.sum() > 3 < above.sum() + 3
    for way, low in {"half": 4.5, "limit": 9.0}.items():
        data = MultiEnvironmentData.from_table(frame(table), "y", "site", below_limit=way)
        lab = data.X[:, data.features.columns.index("lab")]
        assert set(lab[below]) == {low}
        assert set(lab[above]) <= {12.0}
        np.testing.assert_array_equal(
            lab[~below & ~above], table["lab"][~below & ~above].astype(float)
        )
    with pytest.warns(DataWarning, match="dropped"):
        data = MultiEnvironmentData.from_table(
            frame(table), "y", "site", below_limit="missing", missing="drop"
        )
    assert data.n_rows == (~below & ~above).sum()
    with pytest.raises(SettingError, match="half"):
        Columns(below_limit="quarter")


def test_missing_values_have_a_level_in_fit_and_prediction(tmp_path: Path) -> None:
    table = small().drop(columns="lab")
    data = MultiEnvironmentData.from_table(table, "y", "site", missing="level")
    assert data.n_rows == len(table)
    assert f"kind={MISSING_LEVEL}" in data.features.columns
    model = BIP(progress=False).fit(data)
    model.save(tmp_path / "model.json")
    saved = load(tmp_path / "model.json")
    rows = table.head(20)
    assert rows["kind"].isna().any()
    np.testing.assert_allclose(saved.predict(rows), model.predict(rows), rtol=1e-12)
    spelled = rows.assign(kind=rows["kind"].fillna(MISSING_LEVEL))
    np.testing.assert_array_equal(model.predict(rows), model.predict(spelled))
    table.head(20).to_csv(tmp_path / "new.csv", index=False)
    assert (
        run(
            "predict", tmp_path / "model.json", tmp_path / "new.csv", "--out", tmp_path / "p.csv"
        ).exit_code
        == 0
    )
    assert pd.read_csv(tmp_path / "p.csv")["prediction"].notna().all()
    with pytest.raises(DataError, match="missing='level'"):
        MultiEnvironmentData.from_table(table, "y", "site")


def test_a_level_of_the_name_of_missing_values_is_refused() -> None:
    table = small().drop(columns="lab")
    table["kind"] = table["kind"].replace("a", f" {MISSING_LEVEL}")
    with pytest.raises(
        DataError, match="'kind' has a level '\\(missing\\)', as missing values have"
    ):
        MultiEnvironmentData.from_table(table, "y", "site", missing="level")
    (finding,) = (
        finding for finding in check(table, "y", "site").findings if finding.code == "missing"
    )
    assert [dict(remedy.settings) for remedy in finding.remedies] == [
        {"missing": "drop"},
        {"exclude": ["kind"]},
    ]
    settings = {"missing": "level", "na": {"kind": [MISSING_LEVEL]}}
    data = MultiEnvironmentData.from_table(table, "y", "site", **settings)
    without = small().drop(columns="lab").replace({"kind": {"a": None}})
    same = MultiEnvironmentData.from_table(without, "y", "site", missing="level")
    np.testing.assert_array_equal(data.X, same.X)


def test_a_level_for_categories_and_rows_that_lack_numbers_are_dropped(tmp_path: Path) -> None:
    table = small().drop(columns="lab")
    table = table.assign(z=table["z"].mask(table["z"] < 9))
    settings = {"missing": "level", "categorical": {"kind": ["b", "a"]}}
    with pytest.warns(DataWarning, match=f"dropped {table['z'].isna().sum()} of"):
        data = MultiEnvironmentData.from_table(table, "y", "site", **settings)
    assert data.n_rows == table["z"].notna().sum()
    assert data.encoding.of_levels["kind"].levels == ("b", "a", MISSING_LEVEL)
    kind, z = (
        finding for finding in check(table, "y", "site").findings if finding.code == "missing"
    )
    assert [dict(remedy.settings) for remedy in z.remedies[:2]] == [
        {"missing": "drop"},
        {"missing": "level"},
    ]
    assert z.remedies[:2] == kind.remedies[:2]
    assert f"keeps {data.n_rows} of" in z.remedies[1].note
    table.to_csv(tmp_path / "t.csv", index=False)
    fitted = run(
        "fit",
        tmp_path / "t.csv",
        "-o",
        "y",
        "-e",
        "site",
        "--missing",
        "level",
        "--save",
        tmp_path / "m.json",
    )
    assert fitted.exit_code == 0, fitted.stderr
    ways = "--missing", "empty", "--out", tmp_path / "p.csv"
    assert run("predict", tmp_path / "m.json", tmp_path / "t.csv", *ways).exit_code == 0
    predicted = pd.read_csv(tmp_path / "p.csv")["prediction"]
    needs_z = "z" in load(tmp_path / "m.json").columns_to_predict
    np.testing.assert_array_equal(predicted.notna(), table["z"].notna() | (not needs_z))


def test_codes_stand_for_missing_values_in_one_column_only(tmp_path: Path) -> None:
    table = small().drop(columns=["lab", "kind"]).assign(w=np.arange(120.0) + 900)
    table.loc[:4, "x"] = 999
    with pytest.warns(DataWarning, match="dropped"):
        data = MultiEnvironmentData.from_table(table, "y", "site", na={"x": [999]}, missing="drop")
    assert data.n_rows == 115
    assert 999.0 in data.X[:, data.features.columns.index("w")]
    model = BIP(progress=False).fit(data)
    model.save(tmp_path / "model.json")
    for each in (model, load(tmp_path / "model.json")):
        with pytest.raises(DataError, match="missing values"):
            each.predict(table)
        assert np.isfinite(each.predict(table[5:])).all()
    arrays = MultiEnvironmentData.from_arrays
    with pytest.warns(DataWarning, match="dropped"):
        same = arrays(
            table[["x", "z", "w"]].to_numpy(),
            table["y"],
            table["site"],
            missing="drop",
            columns=Columns(na={"x0": [999]}),
        )
    assert same.n_rows == 115
    with pytest.raises(SettingError, match="list"):
        Columns(na={"x": 999})
    with pytest.raises(DataError, match="'xx'"):
        MultiEnvironmentData.from_table(table, "y", "site", na={"xx": [999]})


def test_words_among_numbers_are_missing() -> None:
    table = small().drop(columns=["lab", "kind"])
    table["x"] = [f"{value:.3f}" if k % 10 else "n.d." for k, value in enumerate(table["x"])]
    (words,) = check(table, "y", "site").findings
    assert words.code == "words"
    settings = check(table, "y", "site").settings
    assert settings == {"na": {"x": ["n.d."]}, "missing": "drop"}
    with pytest.raises(DataError) as refused:
        MultiEnvironmentData.from_table(table, "y", "site")
    (remedies,) = refused.value.args
    assert use(na={"x": ["n.d."]}) in remedies.remedies
    with pytest.warns(DataWarning, match="dropped"):
        assert MultiEnvironmentData.from_table(table, "y", "site", **settings).n_rows == 108


@pytest.mark.parametrize(
    "setting", [{"missing": "level"}, {"columns": Columns(below_limit="half")}]
)
def test_what_needs_the_whole_table_is_refused_in_pieces(setting: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="in pieces"):
        Moments.from_rows(small()[["x", "z", "y", "site"]], "y", "site", **setting)


def test_units_and_absent_columns_need_environments() -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(list("abcd"), 50)
    table = pd.DataFrame(
        {"site": site, "mass": rng.lognormal(0, 0.3, 200), "size": rng.lognormal(0, 2, 200)}
    )
    table = table.assign(
        y=rng.normal(size=200), gone=np.where(site == "b", np.nan, rng.normal(size=200))
    )
    table.loc[site == "c", "mass"] *= 1000
    table.loc[site == "c", "size"] *= 12  # inside the spread of its kind
    found = {finding.code: finding for finding in check(table, "y", "site").findings}
    assert (found["unit"].column, found["unit"].environments) == ("mass", ("c",))
    assert (found["absent"].column, found["absent"].environments) == ("gone", ("b",))
    assert not {"unit", "absent"} & {finding.code for finding in check(table, "y").findings}


def test_labels_that_differ_in_leading_zeros_are_found() -> None:
    table = small().drop(columns=["lab", "kind"])
    table["site"] = np.resize(["1", "01", "2", "10", "1.05", "1.5", "A01-2", "A1-2"], len(table))
    table["code"] = np.resize(["a7", "b", "a07"], len(table))
    sites, codes = check(table, "y", "site").findings
    assert (sites.code, sites.environments) == ("labels_alike", ("1", "01", "A1-2", "A01-2"))
    assert dict(sites.remedies[0].settings) == {
        "merge_environments": {"1": ["1", "01"], "A1-2": ["A1-2", "A01-2"]}
    }
    assert sites.rows == table["site"].isin(sites.environments).sum()
    assert (codes.code, codes.column, codes.remedies) == ("labels_alike", "code", ())
    merged = MultiEnvironmentData.from_table(
        table, "y", "site", **check(table, "y", "site").settings
    )
    assert set(merged.environments) == {"1", "2", "10", "1.05", "1.5", "A1-2"}


def test_words_among_one_number_are_no_constant() -> None:
    """The first remedy makes the words missing, which leaves "1" and "01": one number."""
    table = small().drop(columns=["lab", "kind"])
    table["code"] = np.resize(["1", "A", "01", "B"], len(table))
    codes = {
        finding.code for finding in check(table, "y", "site").findings if finding.column == "code"
    }
    assert "words" in codes
    assert "constant" not in codes
    table["code"] = np.resize(["1", ""], len(table))
    codes = {finding.code for finding in check(table.replace("", None), "y", "site").findings}
    assert "constant" in codes


def test_capitals_are_a_question_and_levels_that_print_alike_are_left_out() -> None:
    sites = ["gal4", "GAL4", "wild"] * 30
    kinds = ["a b", "a\N{NO-BREAK SPACE}b", "c"] * 30
    table = pd.DataFrame(
        {
            "site": sites,
            "kind": np.roll(kinds, 1)[::-1],
            "sex": ["m", "M"] * 45,
            "y": np.arange(90) % 7,
        }
    )
    found = check(table, "y", "site")
    assert [(finding.column, finding.code) for finding in found.findings] == [
        ("site", "labels_alike"),
        ("kind", "labels_alike"),
        ("sex", "labels_alike"),
    ]
    assert found.settings == {"exclude": ["kind"]}


def test_frames_of_any_kind_say_the_same(clinical: pd.DataFrame, found: DataCheck) -> None:
    for frame in (pl.from_pandas, pa.Table.from_pandas):
        assert str(check(frame(clinical), "readmitted", "hospital")) == str(found)


def test_copies() -> None:
    table = small()[["site", "x", "z", "y"]].assign(
        celsius=lambda t: t["x"], fahrenheit=lambda t: 32 + 1.8 * t["x"]
    )
    found = check(
        table.assign(z=table["z"].mask(table["z"] < 9)), "y", "site", columns=Columns(exclude=["z"])
    )
    assert [(finding.code, finding.column) for finding in found.findings] == [
        ("copies", "celsius"),
        ("copies", "fahrenheit"),
    ]
    assert found.settings == {"exclude": ["z", "celsius", "fahrenheit"]}


def test_infinite_values_are_far() -> None:
    table = small()[["site", "x", "z", "y"]]
    table.loc[3, "x"] = np.inf
    (far,) = check(table, "y", "site").findings
    assert (far.code, far.column, far.rows) == ("far_values", "x", 1)


@pytest.mark.parametrize("kind", [("days", "--event", "died"), ("falls", "--exposure", "years")])
def test_times_and_counts_go_the_same_way(kind: tuple[str, ...], files: dict[str, Path]) -> None:
    others = {"readmitted", "days", "died", "falls", "years", "walk"} - set(kind)
    asked = [files["points"], "-o", *kind, "-e", "hospital", "--exclude", ",".join(sorted(others))]
    _, *command = shlex.split(run("check", *asked).stdout.splitlines()[-1])
    assert kind[1] in command
    fitted = run(*command, "--max-size", "4", "--features", "age,smoker,bmi,haemoglobin,crp,ward")
    assert fitted.exit_code == 0, fitted.stderr
    assert "selected       {age, smoker, bmi, haemoglobin}" in fitted.stdout


def test_codes_in_sequence_are_asked_about() -> None:
    """Types of pain 1 to 4, and four scales in one line with the option for all of them; counts are
    not asked about."""
    rng = np.random.default_rng(0)
    scales = {f"scale{k}": rng.permutation(np.arange(60) % 5 + 1) for k in range(4)}
    table = _table(cp=rng.permutation(np.arange(60) % 4 + 1), falls=rng.poisson(1.0, 60), **scales)
    found = check(table, "y", "site")
    asked = {finding.column: finding for finding in found.findings}
    assert asked.keys() == {"cp", *scales}
    assert {finding.code for finding in asked.values()} == {"sequence"}
    assert all(finding.asks for finding in asked.values())
    assert "categorical=['cp']" in str(asked["cp"].message)
    assert "categorical" not in found.settings
    shown = " ".join(str(found).split())
    assert "categorical=['scale0', 'scale1', 'scale2', 'scale3']" in shown


def test_an_outcome_of_grades_is_asked_about(workdir: Path) -> None:
    rng = np.random.default_rng(0)
    grades = rng.permutation(np.repeat([0, 1, 2, 3, 4], [400, 260, 110, 105, 25]))
    table = pd.DataFrame({"num": grades, "site": np.arange(900) % 3, "x": rng.normal(size=900)})
    (finding,) = check(table, "num", "site").findings
    assert (finding.code, finding.column, finding.asks) == ("grades", "num", True)
    table.to_csv("t.csv", index=False)
    shown = run("check", "t.csv", "-o", "num", "-e", "site").stdout
    assert "use --family negative_binomial" in " ".join(shown.split())
    assert "questions above are left open" in shown
    command = shlex.split(shown.splitlines()[-1])
    assert "negative_binomial" not in command
    assert run(*command[1:]).exit_code == 0


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("9", "0 1"), ("-9", "0 1 2 3"), ("999", "0.5 1.5 2.5"), ("?", "0.5 1.5 2.5 3.5")],
)
def test_codes_of_missing_outcomes_are_found(code: str, outcome: str, workdir: Path) -> None:
    """Of features they were; an outcome of 0, 1 and 9 was fitted as numbers."""
    rng = np.random.default_rng(0)
    y = rng.choice(outcome.split(), 240).astype(object)
    if "." in outcome:
        y = (rng.normal(size=240).round(2) + 3.0).astype(str).astype(object)
    y[::40] = code
    table = pd.DataFrame({"y": y, "site": np.arange(240) % 3, "x": rng.normal(size=240)})
    table.to_csv("t.csv", index=False)
    found = check("t.csv", "y", "site")
    assert list(map(str, found.settings["na"]["y"])) in ([code], [f"{code}.0"])
    assert found.settings["missing"] == "drop"
    assert found.missing_by_environment().loc["y"].sum() == 6
    shown = run("check", "t.csv", "-o", "y", "-e", "site").stdout
    command = shlex.split(shown.splitlines()[-1])
    assert f"y={code}" in command
    assert run(*command[1:]).exit_code == 0


def test_grades_that_are_fitted_as_numbers_are_asked_about() -> None:
    rng = np.random.default_rng(0)
    table = _table(y=rng.permutation(np.arange(60) % 4 + 1))
    (finding,) = check(table, "y", "site").findings
    assert (finding.code, finding.asks) == ("grades", True)
    assert "y > 1" in finding.what
    assert finding.remedies == (use(family="gaussian"),)


def test_one_column_is_no_table(workdir: Path) -> None:
    Path("t.csv").write_text("a b c\n1 2 3\n4 5 6\n", encoding="utf-8")
    assert "use --sep ' '" in fails("check", "t.csv")
    with pytest.raises(DataError, match="single column"):
        check(pd.DataFrame({"y": [1.0, 2.0]}))


def test_every_code_is_documented() -> None:
    page = Path(__file__).parents[2] / "docs" / "how-to" / "missing-values.md"
    listed = dict(
        re.findall(r"^\| `(\w+)` \| (.+) \|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {code: listed.get(code) for code in CODES} == CODES


def _table(**columns: Any) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"y": rng.normal(size=60), "site": ["a", "b", "c"] * 20, "x": rng.normal(size=60)} | columns
    )


@pytest.mark.parametrize(
    "columns",
    [
        {"y": 1.0},
        {"y": ["a", "b", "c"] * 20},
        {"y": pd.date_range("2020", periods=60)},
        {"x": [np.inf] * 20 + [*range(40)]},
        {"site": "a"},
    ],
    ids=["constant", "three classes", "dates", "infinite", "one environment"],
)
def test_what_a_fit_refuses_all_the_same_is_said(columns: dict[str, Any]) -> None:
    table = _table(**columns)
    found = check(table, "y", "site")
    assert [finding.code for finding in found.findings] == ["refused"]
    with pytest.raises(DataError):
        BIP().fit(MultiEnvironmentData.from_table(table, "y", "site", **found.settings))


def test_columns_of_all_types_are_looked_at() -> None:
    numbers = np.arange(60)
    table = _table(
        empty=pd.array([None] * 60, dtype="Int64"),
        hash=2**62 + numbers,
        pid=numbers + 1001,
        rownames=3 * numbers + 17,
        share=[f"{n}%" for n in numbers],
        comma=[f"{n},5" for n in numbers],
        town=["Ayr", "Bath", "Cork"] * 20,
    ).assign(twin=lambda frame: 1 - 2 * frame["y"])
    found = check(table, "y", "site")
    codes = {"empty": "constant", "share": "with_unit", "twin": "copies"}
    codes |= dict.fromkeys(("hash", "pid", "rownames"), "identifier")
    codes["town"] = "within"
    assert {finding.column: finding.code for finding in found.findings} == codes | {
        "comma": "numbers_as_text"
    }
    assert found.settings["decimal"] == ","
    table = table.assign(money=["567", *(f"{n},234" for n in numbers[1:])])
    found = check(table, "y", "site")
    *_, money, _, both, comma = found.findings
    assert dict(money.remedies[0].settings) == {"thousands": ","}
    assert (both.code, comma.code) == ("stopped", "stopped")  # commas cannot be both
    assert found.settings["decimal"] == "."
    data = MultiEnvironmentData.from_table(table, "y", "site", **found.settings)
    assert data.feature_names == ("x", "money")


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_numbers_written_as_text_are_read_with_the_remedy(kind: Any) -> None:
    frame = _table(comma=[f"{n},5" for n in range(60)], site=["1", "01", "2"] * 20)
    table = kind({name: values.tolist() for name, values in frame.items()})
    settings = dict(check(table, "y", "site").settings)
    assert settings.pop("merge_environments") == {"1": ["1", "01"]}
    data = MultiEnvironmentData.from_table(table, "y", "site", **settings)
    assert data.environments == ("1", "01", "2")
    assert data.X[:, data.feature_names.index("comma")].tolist() == [n + 0.5 for n in range(60)]


def test_what_was_stated_of_columns_stays_in_the_settings(workdir: Path) -> None:
    table = _table(w=[1, 2, 0] * 20, ward=[1, 2, 3, 4] * 15)
    found = check(table, "y", "site", columns=Columns(weights="w", categorical=["ward"]))
    assert found.settings == {"weights": "w", "categorical": ("ward",)}
    asked = "check", "t.csv", "-o", "y", "-e", "site", "--weight", "w"
    Path("t.csv").write_text(table.to_csv(index=False))
    assert " --weight w " in run(*asked).stdout.splitlines()[-1]
    assert "invariance fit" not in run(*asked[:-1], "x").stdout  # which are no counts
    with pytest.raises(DataError, match="has no feature columns"):
        check(table[["y", "site"]], "y", "site")


def test_names_that_are_no_text() -> None:
    table = _table().set_axis([0, 1, 2], axis=1)
    number: Any = 0
    assert check(table, number, "1").outcome == "0"
    pair: Any = ("a", "y")
    with pytest.raises(DataError, match="is not a column name"):
        check(table, pair, "1")


def test_settings_beside_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="did you mean 'weights'"):
        Moments.from_rows(_table(), "y", "site", weight="x")
    with pytest.raises(SettingError, match=r"columns=Columns\(exclude="):
        MultiEnvironmentData.from_table(_table(), "y", "site", exclude=["x"], columns=Columns())
    with pytest.raises(SettingError, match=r"select=Environments\(min_rows="):
        MultiEnvironmentData.from_table(_table(), "y", "site", min_rows=3, select=Environments())


def test_labels_that_are_dates_are_written() -> None:
    site = pd.to_datetime(["2020", "2021", "2022"] * 20)
    found = check(
        _table(site=site, z=np.where(site.year == 2020, np.nan, np.arange(60))), "y", "site"
    )
    (absent,) = json.loads(found.to_json())["findings"]
    assert absent["environments"] == ["2020-01-01 00:00:00"]
