"""The report of a fit, and of every kind of outcome: what it says is what was found, and what
anyone computes."""

from __future__ import annotations

import re
import warnings
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import unescape
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariant-prediction[report]'")

from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from cli_runner import run
from decision_cases import Fixed, made
from invariance import (
    BIP,
    BIPSurvival,
    Columns,
    Enumeration,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Tempering,
    Tolerance,
    compare,
    spline,
)
from invariance._tools.text import printable
from invariance._version import __version__
from invariance.data.settings import FileFormat
from invariance.datasets import make_example
from invariance.decisions import Threshold
from invariance.decisions.decision import role_in_words
from invariance.decisions.levels import LEFT_FREE
from invariance.exceptions import FileError, SettingError
from invariance.moments import Moments
from invariance.posterior.summary import CAUSES
from invariance.priors import BetaBinomialPrior, InclusionPrior
from invariance.report import page as pages
from invariance.report.methods import Source, python_lines, typed
from invariance.report.page import numbers, with_equal_decimals
from invariance.report.sections import state
from report_reader import Page
from shifted_sites import own_baselines

DATA = make_example()
ALL = pd.DataFrame(DATA.X, columns=list(DATA.feature_names))
X = ALL[["age", "exercise", "smoking"]]
SITE = np.array(DATA.environments, dtype=object)[DATA.environment_index]
SCALED = (DATA.y - DATA.y.mean()) / DATA.y.std()
TIMES = np.exp(-SCALED)
END = np.quantile(TIMES, 0.8)
HOURS = np.random.default_rng(0).uniform(1.0, 9.0, len(X))
COUNTS = np.random.default_rng(0).poisson(HOURS * np.exp(SCALED))
COEFFICIENTS = "Coefficients of the selected features with 95% intervals by environment"
SUBSETS = "Compatible subsets, the best predictor first"
pytestmark = [pytest.mark.filterwarnings("ignore::UserWarning"), pytest.mark.usefixtures("brief")]
HOSTILE = [
    "<script>alert(1)</script>",
    "a\"b'c",
    "x" * 200,
    "$x_1$",
    "new\nline",
    "שלום",
    "-->]]>",
    "c&amp;",
]
Reader = Callable[[BIP], Page]


@pytest.fixture
def page(tmp_path: Path, without_pictures: None) -> Reader:
    """The report of a fitted model, read."""
    return lambda model: Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP(random_state=3).fit(DATA)


@pytest.fixture(scope="module")
def source(model: BIP, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert model.report(path) == path
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def read(source: str) -> Page:
    return Page(source)


def values(read: Page, caption: str, title: str) -> dict[str, float]:
    return {label: float(str(value)) for label, (_, value) in read.column(caption, title).items()}


def test_every_number_is_that_of_the_fit(model: BIP, read: Page, source: str) -> None:
    decision = model.decision_
    posterior = model.posterior_
    assert str(decision.verdict) in read.text
    assert str(decision.chance) in read.text
    roles = read.column("Every feature", "Role")
    assert {name: text for name, (text, _) in roles.items()} == {
        feature.name: role_in_words(feature) for feature in decision.features
    }
    for title, found in (("Inclusion", model.predictive_), ("Paper's inclusion", posterior)):
        expected = dict(zip(posterior.feature_names, found.inclusion, strict=True))
        assert values(read, "Every feature", title) == pytest.approx(expected, rel=1e-5)
    assert [name for level, name in read.headings if level == 2][:2] == [
        "The answer",
        "Environments left out",
    ]
    effects = decision.effects().query("environment == 'pooled'").set_index("feature")
    told = read.column("Difference in blood_pressure", "Difference (95% interval)")
    assert {name: float(str(value)) for name, (_, value) in told.items()} == pytest.approx(
        effects["estimate"].to_dict(), rel=1e-5
    )
    age = effects.loc["age"]
    assert told["age"][0] == f"{age['estimate']:.1f} ({age['lower']:.1f} to {age['upper']:.1f})"
    bold = re.findall(r'<th scope="row" class="strong[^"]*"[^>]*>(.*?)</th>', source)
    assert bold == ["{age, exercise, smoking}"] * 2  # in either posterior
    assert values(read, SUBSETS, "Probability")[bold[0]] == pytest.approx(
        model.predictive_.subsets(1)["probability"][0], rel=1e-5
    )
    found = decision.coefficients()
    west = found[(found["environment"] == "west") & (found["column"] == "age")].iloc[0]
    text, value = read.column(COEFFICIENTS, "age")["west"]
    assert float(str(value)) == pytest.approx(west["estimate"], rel=1e-5)
    assert text == f"{west['estimate']:.3f} ({west['lower']:.3f} to {west['upper']:.3f})"
    tested = list(read.column("T = −2 log Λ by environment", "p-value").values())[:-1]
    expected = [test.deviation.p_value for test in model.diagnose().tests]
    assert [float(text) for text, _ in tested] == pytest.approx(expected, abs=5e-4)
    assert "BIP(random_state=3)" in read.text


def test_what_predicts_and_what_invariance_costs(model: BIP, read: Page) -> None:
    choice = model.decision_.prediction
    price = model.decision_.cost
    assert (str(choice) in read.text, str(price) in read.text) == (True, True)
    labels = list(map(str, model.environments_))
    repeated = "RMSE in each environment, left out with the selection repeated"
    for title, errors in (
        ("Selected without it", price.selected),
        ("All features", price.everything),
        ("Constant", price.constant),
    ):
        assert values(read, repeated, title) == pytest.approx(
            dict(zip(labels, errors, strict=True)), rel=1e-5
        )
    left = model.new_environments().to_frame().set_index("environment")
    for title, figure in (("Intercept", "intercept"), ("Slope", "slope"), ("RMSE", "rmse")):
        assert values(read, "Environments left out", title) == pytest.approx(
            left[figure].to_dict(), rel=1e-5
        )
        text, _ = read.column("Environments left out", title)["west"]
        ends = [float(number) for number in re.findall(r"-?[\d.]+", text)]
        row = left.loc["west", [figure, f"{figure}_lower", f"{figure}_upper"]]
        assert ends == pytest.approx(row.tolist(), abs=0.0051)


def test_both_pages_and_the_table_have_one_estimate(page: Reader) -> None:
    y = (np.random.default_rng(1).random(len(X)) < 1.0 / (1.0 + np.exp(-SCALED))).astype(int)
    model = BIP(select=Fixed((True, True, True))).fit(X, y, environments=SITE)
    read = page(model)
    effects = model.decision_.effects().set_index("feature")
    for name, effect in effects.iterrows():
        first, value = read.column("Odds ratio of y = 1", "Odds ratio (95% interval)")[name]
        text, logarithm = read.column(COEFFICIENTS, name)["all together"]
        assert float(str(value)) == pytest.approx(effect["estimate"], rel=1e-5)
        assert float(str(logarithm)) * effect["size"] == pytest.approx(
            np.log(effect["estimate"]), rel=1e-5
        )
        assert float(first.partition(" ")[0]) == pytest.approx(effect["estimate"], abs=0.0051)
        assert float(text.partition(" ")[0]) * effect["size"] == pytest.approx(
            np.log(effect["estimate"]), rel=0.01
        )
        for title, figure in (("I²", "i2"), ("τ", "tau"), ("p", "p_interaction")):
            _, shown = read.column("Odds ratio of y = 1", title)[name]
            assert float(str(shown)) == pytest.approx(effect[figure], rel=1e-5)
        told, _ = read.column("Odds ratio of y = 1", "In a new environment")[name]
        assert [float(end) for end in told.split(" to ")] == pytest.approx(
            effect[["prediction_lower", "prediction_upper"]].tolist(), abs=0.0051
        )


def test_environments_without_a_finite_effect_are_named(page: Reader) -> None:
    y = (np.random.default_rng(1).random(len(X)) < 1.0 / (1.0 + np.exp(-SCALED))).astype(int)
    y[SITE == "coast"] = 0
    model = BIP(select=Fixed((True, True, True))).fit(X, y, environments=SITE)
    read = page(model)
    coefficients = model.decision_.coefficients().set_index(["environment", "column"])
    assert "'coast' (all)" in read.text
    assert coefficients.loc["coast", "infinite"].all()
    assert read.column(COEFFICIENTS, "age")["coast"][0].endswith(
        coefficients.loc[("coast", "age"), "note"]
    )


def test_what_is_asked_for_predicts(page: Reader) -> None:
    """All features, of which two are constant at every site, too many to predict with six of
    these."""
    code = DATA.environment_index.astype(float)
    table = X.assign(code=code, beds=code**2)
    read = page(BIP(predict_with="everything").fit(table, DATA.y, environments=SITE))
    assert (
        "Predictions are made with all 3 features that vary within environments, as asked"
        in read.text
    )
    assert "leaves out {code, beds}" in read.text
    assert "with a random intercept" in read.text
    assert "Each environment is predicted by all features, fitted without it." in read.text


def test_the_page_is_whole_and_in_order(read: Page, source: str) -> None:
    levels = [level for level, _ in read.headings]
    assert levels.count(1) == levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert len(read.ids) == len(set(read.ids))
    assert {f"#{name}" for name in read.ids} >= set(read.references)
    assert all(address.startswith("data:") for address in read.addresses)
    assert not re.search(r"https?://", source)
    assert read.counts["img"] == len(re.findall(r'<img alt="[^"]', source)) == 7
    assert read.counts["script"] == 1
    assert len(source) < 800_000
    unfolded = source.partition("<details")[0]
    assert 'id="left-out"' in unfolded
    assert unfolded.count("<section") == 2
    assert source.count("<details>") == source.count("</details>") == 8  # none is open


def test_the_same_input_gives_the_same_bytes_whatever_the_style(
    model: BIP, source: str, tmp_path: Path
) -> None:
    with plt.style.context("dark_background"):
        again = model.report(tmp_path / "again.html")
    assert again.read_text(encoding="utf-8") == source


def test_hostile_names_are_only_names(tmp_path: Path) -> None:
    X = pd.DataFrame(DATA.X, columns=HOSTILE)
    labels = np.array(["<b>n</b>", "$s$", '"q"', "e\nw", "c", "h"], dtype=object)[
        DATA.environment_index
    ]
    path = (
        BIP()
        .fit(X, pd.Series(DATA.y, name="</title><i>"), environments=labels)
        .report(tmp_path / "hostile.html")
    )
    source = path.read_text(encoding="utf-8")
    read = Page(source)
    assert (read.counts["script"], read.counts["b"], read.counts["i"]) == (1, 0, 0)
    assert {row[0][0] for row in read.tables["Every feature"][1:]} == {
        name.replace("\n", "\\n") for name in HOSTILE
    }
    assert {row[0][0] for row in read.tables["Environments"][1:]} == {
        "<b>n</b>",
        "$s$",
        '"q"',
        "e\\nw",
        "c",
        "h",
    }
    first = re.search(r"base64,([^\"]*)", source)
    assert first
    assert ">$x_1$</text>" in b64decode(first[1]).decode("utf-8")


def test_comparison_with_other_methods(
    model: BIP, read: Page, tmp_path: Path, without_pictures: None
) -> None:
    assert "Other methods" not in [text for _, text in read.headings]
    found = compare(DATA, "ICP,Lasso")
    compared = Page(model.report(tmp_path / "compared.html", found).read_text(encoding="utf-8"))
    marks = compared.column("Selected", "Lasso")
    assert {name for name, (text, _) in marks.items() if text.startswith("●")} == {
        *found.loc["Lasso", "selected"]
    }
    fewer = compare(DATA.narrowed(np.arange(8) < 4), "Lasso")
    for other in ("ICP", fewer):
        with pytest.raises(SettingError):
            model.report(tmp_path / "r.html", comparison=other)
    assert [file.name for file in tmp_path.iterdir()] == ["compared.html"]


def test_what_cannot_be_written_is_refused_before_anything_is_computed(
    model: BIP, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BIP, "diagnose", lambda *_: pytest.fail("too late"))
    (tmp_path / "folder.html").mkdir()
    for name in ("report.pdf", "folder.html"):
        with pytest.raises(FileError, match=name):
            model.report(tmp_path / name)
    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    with pytest.raises(FileError, match=re.escape("pip install 'invariant-prediction[report]'")):
        model.report(tmp_path / "report.html")


def test_numbers_have_four_digits_and_those_of_a_row_the_same_decimals() -> None:
    given = [12345.6, 0.0123456, -0.5, 0.0, -1e-9, 1e9, float("nan"), float("inf")]
    told = ["12,346", "0.01235", "-0.5000", "0", "-1e-09", "1e+09", "–", "–"]
    assert [cell.text for cell in numbers("", given).cells] == told
    assert with_equal_decimals([12.3456, 0.1, float("nan"), -3.0]) == [
        "12.35",
        "0.10",
        "–",
        "-3.00",
    ]
    assert with_equal_decimals([2.134, 0.0412, 1578.3], 3) == ["2.13", "0.0412", "1,578"]
    assert with_equal_decimals([0.314, 11.02], 3) == ["0.314", "11.0"]


# ---- kinds of outcomes


def fitted(family: Any = "auto", y: Any = DATA.y, X: pd.DataFrame = X, **settings: Any) -> BIP:
    return BIP(family, **settings).fit(X, y, environments=SITE)


def survival() -> BIP:
    return BIPSurvival().fit(X, np.minimum(TIMES, END), environments=SITE, event=TIMES <= END)


CLASSES = np.where(SCALED > 0.0, "high", "low")
SHIFTED = DATA.y + np.array([0.0, 30.0, -60.0, 100.0, 10.0, -20.0])[
    DATA.environment_index
] * np.sin(np.arange(len(X)))
WARDS = X.assign(ward=np.random.default_rng(0).choice(["a", "b", "c"], len(X)))
NOISE = np.random.default_rng(1).normal(size=len(X))
BY_CLASS = [
    "'high' counts 0 and 'low' counts 1",
    "log odds",
    "at the pooled mean, of weight 1",
    "coefficients may differ between environments by up to 10%",
]
# {what: (the fit, words of its page, words that are not on it)}
CASES: dict[str, tuple[Callable[[], BIP], list[str], list[str]]] = {
    "same mean, strictly": (
        partial(fitted, "linear_gaussian_mean", tolerance=Tolerance.strict(0.01)),
        ["the intercept and the coefficients are the same", "a variance of its own"],
        ["coefficients may differ"],
    ),
    "curves": (partial(fitted, "additive"), ["enter by smooth curves"], []),
    "bayesian": (
        partial(fitted, "bayesian_linear_gaussian"),
        ["Λ(z) is the Bayes factor", "This model gives no intervals"],
        ["T = −2 log Λ by environment"],
    ),
    "classes": (partial(fitted, y=CLASSES), BY_CLASS, ["residual variance"]),
    "no pseudo-data": (partial(fitted, Logistic(pseudo_rows=0.0), CLASSES), [], ["pseudo-data"]),
    "counts": (
        partial(fitted, y=COUNTS),
        ["logarithms of rate ratios", "the dispersion are the same"],
        [],
    ),
    "survival": (
        survival,
        ["720 of 900 ended with", "Hazard ratio of event", "at the pooled rate"],
        [],
    ),
    "moments": (
        lambda: BIP().fit(Moments.from_data(DATA)),
        ["Second moments alone were fitted", "fit(moments)"],
        [],
    ),
    "levels and splines": (
        partial(fitted, X=WARDS, columns=Columns(groups=[spline("age", knots=4)])),
        ["2 of them of several columns", "spline('age', knots=4)", "a curve, see the coefficients"],
        [],
    ),
    "never challenged": (lambda: BIP().fit(made()), ["{b}: never challenged"], []),
    "nothing compatible": (
        partial(fitted, y=SHIFTED, baseline="shared"),
        ["Differ", "No subset is compatible"],
        [],
    ),
    "nothing selected": (partial(fitted, y=NOISE, X=X[["age"]]), ["No feature is selected"], []),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_page_of_every_kind(kind: str, tmp_path: Path, without_pictures: None) -> None:
    fit, said, unsaid = CASES[kind]
    model = fit()
    source = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert f'<div class="callout {state(model.decision_)[0]}">' in source
    read = Page(source)
    assert " ".join(str(model.decision_.verdict).split()) in read.text
    assert [words for words in said if words not in read.text] == []
    assert [words for words in unsaid if words in read.text] == []
    assert {row[0][0] for row in read.tables["Environments"][1:]} == {
        str(label) for label in model.environments_
    }


def shifted_by_site(sd: float = 1.0, growing: float = 1.0, **settings: Any) -> BIP:
    """Baselines of hospitals differ by this standard deviation; the noise of the last is so many
    times the usual."""
    data = own_baselines(6, sd=sd)
    rng = np.random.default_rng(0)
    noise = (growing - 1.0) * (data.environment_index == 5) * rng.normal(size=data.n_rows)
    return BIP(**settings).fit(replace(data, y=data.y + noise))


LEVELS: dict[str, tuple[Callable[[], BIP], str]] = {
    "full": (partial(shifted_by_site, sd=0.0), "full"),
    "effects": (shifted_by_site, "effects"),
    "free": (partial(shifted_by_site, baseline="free"), "effects"),
    "noise free": (partial(shifted_by_site, growing=6.0), "effects, noise free"),
    "shared": (partial(shifted_by_site, baseline="shared"), "none"),
    "random": (lambda: BIP().fit(own_baselines(20, 8)), "effects"),
}


@pytest.mark.parametrize("case", LEVELS)
def test_a_report_claims_no_more_than_its_level(
    case: str, tmp_path: Path, without_pictures: None
) -> None:
    fit, level = LEVELS[case]
    model = fit()
    decision = model.decision_
    verdict = model.decision_.verdict
    assert decision.level == level
    source = model.report(tmp_path / "report.html").read_text(encoding="utf-8")
    read = Page(source)
    lower = level in LEFT_FREE
    tone, title = state(decision)
    assert (tone == "good") <= (level == "full")
    assert (tone == "partly") <= lower
    assert ("differ" in title and "effects" in title.lower()) == lower
    for line in filter(None, (verdict.effects, verdict.baseline, verdict.follows, verdict.context)):
        assert f"<p>{line}</p>" in unescape(source)
    paragraph = model.methods_paragraph()
    assert ("Each environment has its own baseline" in paragraph) == lower
    assert ("REML" in paragraph) == lower
    assert ("as was asked for" in paragraph) == (case == "free")
    assert ("variance of its noise" in paragraph) == (level == "effects, noise free")
    tests = {
        "effects": "F test",
        "free": "F test",
        "noise free": "likelihood ratio test",
        "random": "score test",
    }
    assert [
        name
        for name in ("F test", "likelihood ratio test", "score test")
        if f"Effects: {name}" in paragraph
    ] == ([tests[case]] if lower else [])
    assert ("given z, the intercept, the coefficients" in paragraph) == (not lower)
    assert ("it compares baselines, too" in paragraph) == (lower and case != "free")
    assert ("predict y alike everywhere" in read.text) == (not lower)
    assert ("deviate from the others in effects" in read.text) == lower
    assert ("In Python" in read.text, "baseline='free'" in read.text) == (True, case == "free")
    sentences = [*read.caveats, read.text.partition("By invariance")[2]]
    assert any(CAUSES in text for text in sentences) == (level == "none")


def test_a_verdict_within_the_tolerance_has_a_tone_of_its_level() -> None:
    tones = {}
    for sd in (0.0, 1.0):
        decision = BIP().fit(own_baselines(4, 1500, sd=sd)).decision_
        assert decision.verdict.grade == "alike"
        tones[decision.level] = state(decision)
    assert tones["full"] == ("good", "Alike")
    assert tones["effects"] == ("partly", "Effects are the same, baselines differ")


def test_one_environment_claims_nothing(page: Reader) -> None:
    read = page(BIP().fit(X, DATA.y))
    assert "Cannot be told" in read.text
    assert not [cell for rows in read.tables.values() for cell, _ in rows[0] if "p_inv" in cell]
    assert "Environments left out" not in read.tables
    assert "Subsets, the best predictor first" in read.tables
    assert "ompatible subsets" not in read.text
    assert "model = BIP().fit(X, y)" in read.text


def test_intervals_of_two_environments_cannot_be_trusted(page: Reader, read: Page) -> None:
    two = np.isin(SITE, ["north", "south"])
    doubt = "intervals and errors for a new environment cannot be trusted"
    two_sites = page(BIP().fit(X[two], DATA.y[two], environments=SITE[two]))
    assert any(doubt in caveat for caveat in two_sites.caveats)
    assert doubt not in read.text


def alarming(case: str) -> BIP:
    """A fit with something to warn of."""
    rng = np.random.default_rng(2)
    rows = X.copy()
    if case == "copies":
        return fitted(X=rows.assign(twin=rows["age"]))
    if case == "separated":
        return fitted(y=(rows["age"] > rows["age"].median()).astype(int))
    if case == "few events":
        return fitted(
            y=np.where(
                (SITE == "north") & (rng.random(len(rows)) < 0.99), 0, rng.random(len(rows)) < 0.4
            )
        )
    if case == "missing":
        table = rows.assign(y=DATA.y, site=SITE)
        table.loc[:9, "age"] = np.nan
        return BIP().fit(MultiEnvironmentData.from_table(table, "y", "site", missing="drop"))
    if case == "not invariant":
        return fitted(y=SHIFTED, baseline="shared")
    if case == "effects alone":
        return fitted(y=SHIFTED)
    if case == "unchallenged":
        return BIP().fit(made())
    return BIP(engine=Tempering(chains=2, steps=200), random_state=0).fit(DATA)


@pytest.mark.parametrize(
    "case",
    [
        "copies",
        "separated",
        "few events",
        "missing",
        "not invariant",
        "effects alone",
        "unchallenged",
        "short chains",
    ],
)
def test_every_alarm_is_among_the_caveats(case: str, page: Reader) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = alarming(case)
    decision = model.decision_
    read = page(model)
    alarms = [
        text for name, text in decision.sections[0].facts if name in ("caution", "noise", "limit")
    ]
    alarms += [note for note in model.posterior_.notes if note not in model._data.notes]
    verdict = str(decision.verdict)
    warned = [str(each.message) for each in caught]
    alarms += [
        text for text in warned if not text.startswith(verdict) and not verdict.startswith(text)
    ]
    told = " ".join(" ".join(read.caveats).casefold().split())
    missing = [
        alarm for alarm in alarms if " ".join(printable(alarm).casefold().split()) not in told
    ]
    # Of rows that were left out before the fit a warning and a note tell the same.
    assert [
        alarm for alarm in missing if not (case == "missing" and "10 of 900 rows" in alarm)
    ] == []
    assert (CAUSES in " ".join(read.caveats)) == decision.rejected
    if case == "unchallenged":
        assert any("never challenged" in caveat for caveat in read.caveats)


def test_warnings_of_reading_are_caveats_too(
    tmp_path: Path, model: BIP, without_pictures: None
) -> None:
    warned = "labels 'a' and 'a ' look alike", "labels 'a' and 'a ' look alike."
    path = model.report(tmp_path / "r.html", source=Source(warned=warned))
    read = Page(path.read_text(encoding="utf-8"))
    assert sum("look alike" in caveat for caveat in read.caveats) == 1


def test_the_paragraph_for_a_paper_has_what_a_reviewer_asks_for(model: BIP) -> None:
    told = model.methods_paragraph()
    for words in (
        "(Wu et al., 2025), as implemented in the Python package invariance, version "
        f"{__version__}",
        "8 features",
        "6 environments with 900 rows in all (150 in each)",
        "No row was left out for missing values.",
        "linear Gaussian",
        "uniform",
        "exact enumeration",
        "coefficients may differ between environments by up to 10%",
        f"at least {model.decision_.findings.score.price:.1f} for each of its columns",
        "predictive: selects the best predictor that is invariant",
        "No random numbers were used",
        "standard errors of least squares",
        "arXiv:2506.22675",
    ):
        assert words in told, words
    assert "\n" not in told


def test_the_paragraph_says_what_counted_as_missing_and_which_environments_are_left(
    workdir: Path, without_pictures: None
) -> None:
    table = DATA.to_frame()
    table["age"] = table["age"].astype(str).mask(np.arange(len(table)) % 50 == 0, "?")
    table.to_csv("t.csv", index=False)
    options = ["--na", "?,-9", "--missing", "drop", "--drop-environment", "west"]
    named = ["-o", DATA.outcome_name, "-e", "hospital", "--report", "r.html"]
    shown = run("fit", "t.csv", *named, *options)
    assert shown.exit_code == 0, shown.stderr
    told = unescape(Path("r.html").read_text(encoding="utf-8"))
    assert "'?' and '-9' count as missing in all columns." in told
    assert "Left out environments, as asked: 'west'" in told


def test_the_one_that_deviates_makes_no_others_deviate(page: Reader) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    site = np.tile(list("abcdef"), 500)
    shared = BIP(baseline="shared")
    model = shared.fit(
        pd.DataFrame({"x": x}), x + (site == "c") + rng.normal(size=3000), environments=site
    )
    assert model.decision_.verdict.environment == "c"
    told = (
        page(model)
        .text.partition("Deviating from the others")[2]
        .partition("In an environment left out")[0]
    )
    assert [label for label in "abcdef" if f"'{label}'" in told] == ["c"]
    n_others = len(model.diagnose().unlike) - 1
    assert n_others > 0
    assert f"Also below it: {n_others} more" in told


def test_an_average_tells_over_how_many_environments(page: Reader) -> None:
    y = np.where(DATA.y > np.median(DATA.y), "high", "low")
    y[SITE[0] == SITE] = "low"
    model = BIP().fit(X, y, environments=SITE)
    assert sum(np.isnan(left.figures["auc"]) for left in model.new_environments().left_out) == 1
    assert "on average over 5 of 6 environments" in page(model).text


def test_environments_of_which_no_difference_was_found_do_not_differ(page: Reader) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2))
    site = np.tile(list("abcd"), 60)
    y = x @ [1.0, 0.0] + 0.18 * np.tile([1.0, 1.0, -1.0, -1.0], 60) + rng.normal(size=240)
    model = BIP(select=Fixed((True, True))).fit(
        pd.DataFrame(x, columns=["u", "v"]), y, environments=site
    )
    assert not model.decision_.is_compatible
    assert model.decision_.verdict.grade == "no difference found"
    assert "As environments differ" not in page(model).text


def test_the_paragraph_tells_weights_regressors_and_what_moments_assume() -> None:
    weighted = BIP(regressor=Ridge(alpha=2.0)).fit(
        X, DATA.y, environments=SITE, sample_weight=np.tile([1, 2], len(X) // 2)
    )
    paragraph = weighted.methods_paragraph()
    assert f"{len(X):,} rows count as {len(X) * 3 // 2:,}" in paragraph
    assert "Ridge(alpha=2.0)" in paragraph
    assert "sandwich" in paragraph
    assert "normal noise" in BIP().fit(Moments.from_data(DATA)).methods_paragraph()


def test_rows_that_were_left_out_are_told(page: Reader) -> None:
    holed = X.assign(y=DATA.y, site=SITE, constant=1.0)
    holed.loc[[0, 1, 200], "age"] = np.nan
    read = page(BIP().fit(MultiEnvironmentData.from_table(holed, "y", "site", missing="drop")))
    assert (
        "Rows with missing values were left out: 3 of 900 (0.3%). Left out as constant: 1 column."
        in read.text
    )
    assert sum("3 of 900 rows" in caveat for caveat in read.caveats) == 1, read.caveats
    assert values(read, "Environments", "Left out") == {
        "north": 2,
        "south": 1,
        "east": 0,
        "west": 0,
        "coast": 0,
        "hill": 0,
    }


def test_cells_that_were_changed_are_told(page: Reader) -> None:
    limits = ["<140" if value < 140 else str(value) for value in DATA.y]
    ward = pd.Series(["a", "b", None] * 300, dtype=object)
    table = X.assign(y=DATA.y, site=SITE, crp=limits, ward=ward)
    read_as = {"below_limit": "half", "na": {"age": [998]}, "missing": "level"}
    said = (
        BIP()
        .fit(MultiEnvironmentData.from_table(table, "y", "site", **read_as))
        .methods_paragraph()
    )
    for words in (
        "count as half of the limit",
        "'998' counts as missing in age",
        "values of ward are a level of their own",
    ):
        assert words in said, said


def test_figures_are_those_that_anyone_computes(page: Reader) -> None:
    data = made()
    read = page(BIP().fit(data))
    assert {"R² elsewhere", "p_inv"} <= {text for text, _ in read.tables[SUBSETS][0]}
    design = np.column_stack([np.ones(data.n_rows), data.X[:, :2]])
    coefficients, (left,), *_ = np.linalg.lstsq(design, data.y, rcond=None)
    each = pd.Series(data.y).groupby([data.environments[e] for e in data.environment_index])
    assert values(read, "Environments", "SD") == pytest.approx(each.std().to_dict(), rel=1e-5)
    r2 = 1.0 - left / ((data.y - data.y.mean()) ** 2).sum()
    assert values(read, SUBSETS, "R²")["{a, b}"] == pytest.approx(r2, rel=1e-5)
    found = values(read, COEFFICIENTS, "a")
    assert found["all together"] == pytest.approx(coefficients[1], rel=1e-5)


def test_figures_of_moments_events_and_rates(page: Reader) -> None:
    by_site = {label: label == SITE for label in DATA.environments}
    read = page(BIP().fit(Moments.from_data(DATA)))
    for title, figure in (("Mean", np.mean), ("SD", partial(np.std, ddof=1))):
        told = values(read, "Environments", title)
        assert told == pytest.approx(
            {label: figure(DATA.y[rows]) for label, rows in by_site.items()}, rel=1e-5
        )
    read = page(survival())
    events = {label: (TIMES[rows] <= END).sum() for label, rows in by_site.items()}
    assert values(read, "Environments", "Events") == events
    assert values(read, "Environments left out", "Events") == events
    read = page(BIP().fit(X, COUNTS, environments=SITE, exposure=HOURS))
    rates = {label: COUNTS[rows].sum() / HOURS[rows].sum() for label, rows in by_site.items()}
    assert values(read, "Environments", "Rate") == pytest.approx(rates, rel=1e-5)


def with_three_rows_at_the_last_site(
    data: MultiEnvironmentData, X: np.ndarray
) -> MultiEnvironmentData:
    last = data.n_environments - 1
    kept = np.flatnonzero(
        (data.environment_index < last) | (np.arange(data.n_rows) >= data.n_rows - 3)
    )
    return replace(data, X=X[kept], y=data.y[kept], environment_index=data.environment_index[kept])


def test_what_cannot_be_judged_has_no_p_value(page: Reader) -> None:
    data = made(n_environments=3)
    model = BIP(deviations="free").fit(with_three_rows_at_the_last_site(data, data.X))
    read = page(model)
    roles, p_values = (read.column("Every feature", title) for title in ("Role", "p_inv then"))
    unjudged = {name for name, (text, _) in roles.items() if text.startswith("cannot be judged")}
    assert unjudged
    assert unjudged == {name for name, cell in p_values.items() if cell == ("–", None)}
    assert unjudged == {
        feature.name for feature in model.decision_.features if np.isnan(feature.p_invariant)
    }


def test_notes_stand_in_the_cells_of_coefficients(page: Reader) -> None:
    """b is 2a at site 1, noise0 is constant at site 2, and site 3 has three rows."""
    data = made()
    columns = data.X.copy()
    where = data.environment_index
    columns[where == 1, 1] = 2.0 * columns[where == 1, 0]
    columns[where == 2, 3] = 7.0
    fixed = Fixed((True, True, False, True))
    model = BIP(select=fixed, deviations="free").fit(
        with_three_rows_at_the_last_site(data, columns)
    )
    read = page(model)
    notes = model.decision_.coefficients().set_index(["environment", "column"])["note"]
    assert notes["site 1", "b"] == "not identified"
    for (site, column), note in notes.items():
        row = "all together" if site == "pooled" else site
        text, value = read.column(COEFFICIENTS, column)[row]
        assert text.endswith(note) if note else text.endswith(")")
        assert (value is None) == (text == note)


# ---- lines that fit again


def _again(lines: str, **known: Any) -> BIP:
    exec(lines, known)
    return known["model"]


SETTINGS: list[dict[str, Any]] = [
    {},
    {
        "family": LinearGaussian(invariance="mean"),
        "tolerance": Tolerance.strict(0.01),
        "select": Threshold(0.4),
    },
    {
        "prior": InclusionPrior({"age": 0.9}, max_size=3),
        "engine": Enumeration(keep=9),
        "random_state": np.int64(5),
    },
    {"prior": BetaBinomialPrior(1.0, 3.0), "columns": Columns(groups=[spline("age", knots=4)])},
    {"regressor": make_pipeline(StandardScaler(), GridSearchCV(Ridge(), {"alpha": [0.5, 2.0]}))},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=lambda given: "-".join(given) or "defaults")
def test_lines_make_the_same_fit(
    settings: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    model = BIP(**settings, progress=False).fit(ALL, DATA.y, environments=DATA.environment_index)
    again = _again(
        python_lines(model, Source()), X=ALL, y=DATA.y, environments=DATA.environment_index
    )
    assert again.posterior_.log_evidence == model.posterior_.log_evidence
    assert again.selected_features_ == model.selected_features_
    assert again.progress == BIP().progress
    assert {
        name: typed(value)
        for name, value in again.get_params(deep=False).items()
        if name != "progress"
    } == {name: typed(value) for name, value in model._settings.items() if name != "progress"}


def test_lines_of_what_was_fitted(tmp_path: Path) -> None:
    """One environment, labels in a column, a data set, moments, and rows that are read again."""
    labelled = Columns(environment="hospital")
    fits = {
        "BIP().fit(X, y)": BIP().fit(ALL, DATA.y),
        "BIP(columns=Columns(environment='hospital')).fit(X, y)": BIP(columns=labelled).fit(
            DATA.to_frame().drop(columns="blood_pressure"), DATA.y
        ),
        "BIP().fit(data)": BIP().fit(DATA),
        "BIP().fit(moments)": BIP().fit(Moments.from_data(DATA)),
    }
    for line, model in fits.items():
        assert python_lines(model, Source()).splitlines()[-2] == f"model = {line}"
    file = str(tmp_path / "table.csv")
    DATA.to_frame().to_csv(file, index=False, sep="|")
    table = {
        "rows": file,
        "outcome": "blood_pressure",
        "environment": "hospital",
        "form": FileFormat(sep="|"),
    }
    model = BIP().fit(Moments.from_rows(**table))
    again = _again(python_lines(model, Source(table)))
    assert again.posterior_.log_evidence == model.posterior_.log_evidence
    assert again._data.sample is not None


def test_settings_as_typed() -> None:
    assert typed([("a",), {"a": [np.float64(0.5)]}]) == "[('a',), {'a': [0.5]}]"
    assert typed([np.random.default_rng(0), object()]) == "[rng, <object object>]"


def test_random_deviations_are_explained(page: Reader) -> None:
    data = made()
    model = BIP(deviations="random").fit(data)
    text = " ".join(page(model).text.split())
    assert "coefficients deviate at random between them" in text
    assert "this was asked for" in text
    assert "by Levene's test" in text
    assert "from how all environments deviate" in text or not model.decision_.selected
    assert "Deviations explain" in text
