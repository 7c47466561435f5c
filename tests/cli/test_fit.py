"""The command `fit`: refusals, results, files, notes and the report."""

from __future__ import annotations

import html
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from bad_tables import BAD_TABLES, table
from cli_runner import fails, run
from invariance import BIP, BetaBinomialPrior, MultiEnvironmentData, Posterior, load
from invariance._tools.time_limit import limited
from invariance.cli.console import said_by
from invariance.datasets import make_example
from invariance.decisions.decision import FitSummary
from invariance.exceptions import EngineError, InvarianceError
from invariance.posterior.summary import display_width
from posteriors import JSON_ARRAYS
from report_reader import Page

pytestmark = pytest.mark.usefixtures("brief")
COLUMNS = ["--outcome", "y", "--environment", "site"]
EXAMPLE = ["--outcome", "blood_pressure", "--environment", "hospital"]


def fit_example(*arguments: object, **env: str) -> Result:
    result = run("fit", "example.csv", *EXAMPLE, *arguments, **env)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("text", "arguments"), [pytest.param(*c[1:3], id=c[0]) for c in BAD_TABLES[::6]]
)
def test_bad_tables_are_refused_as_in_python(
    workdir: Path, text: str, arguments: dict[str, Any]
) -> None:
    (workdir / "table.csv").write_text(text)
    columns = ["--outcome", arguments["outcome"], "--environment", arguments["environment"]]
    if arguments["features"] is not None:
        columns += ["--features", ",".join(arguments["features"])]
    with pytest.raises(InvarianceError) as caught:
        BIP().fit(MultiEnvironmentData.from_table("table.csv", **arguments))
    result = run("fit", "table.csv", *columns)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == f"error: {' '.join(said_by(caught.value).split())}"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["nothing.csv"], "nothing.csv"),
        (["good.csv", "--features", " , "], "features"),
        (["good.csv", "--prior", "flat"], "flat"),
        (["good.csv", "--prior", "inclusion(1)", "--max-size", "1"], "inclusion probability 1"),
        (["good.csv", "--max-size", "2"], "north"),
        (["good.csv", "--max-size", "-1"], "'--max-size'"),
        (["good.csv", "--engine", "guess"], "guess"),
        (["good.csv", "--family", "poison"], "poisson"),
        (["good.csv", "--level", "1"], "level"),
        (["good.csv", "--plot-kind", "subsets"], "--plot subsets.png"),
        (["good.csv", "--colour"], "--colour"),
        (["good.csv", "--sheet", "first"], "first"),
        (["good.csv", "--json", "."], "it is a folder"),
        (["good.csv", "--json", "good.csv/a"], "is a file, not a folder"),
        (["good.csv", "--json", "good.csv"], "named twice"),
        (["good.csv", "--json", "a.png", "--plot", "a"], "named twice"),
        (["good.csv", "--json", "x" * 300], "File name too long"),
        (["good.csv", "--plot", "a.doc"], ".doc"),
        (["good.csv", "--table", "a.xlsx"], "a name that ends in .csv"),
        (["good.csv", "--table", "a.csv", "--json", "a.csv"], "named twice"),
        (["good.csv", "--report", "a.pdf"], "a.pdf"),
        (["good.csv", "--compare", "ICP"], "--report"),
        (["good.csv", "--report", "a.html", "--compare", "Laso"], "Lasso"),
    ],
)
def test_bad_request(workdir: Path, arguments: list[str], named: str) -> None:
    assert named in fails("fit", *arguments, *COLUMNS)
    assert [file.name for file in workdir.iterdir()] == ["good.csv"]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (EngineError("too many subsets"), 2),
        (KeyboardInterrupt(), 130),
        (np.linalg.LinAlgError("a bug"), 1),
    ],
)
def test_errors_of_the_fit(
    workdir: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int
) -> None:
    def raising(self: BIP, *data: Any, **more: Any) -> None:
        raise error

    monkeypatch.setattr(BIP, "fit", raising)
    result = run("fit", "good.csv", *COLUMNS, "--json", "out.json")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == {2: "error: too many subsets\n", 130: "interrupted\n", 1: ""}[code]
    assert result.exception is error if code == 1 else isinstance(result.exception, SystemExit)
    assert not Path("out.json").exists()


def test_failed_save_still_shows_the_result(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Posterior, "to_json", full)
    result = run("fit", "good.csv", *COLUMNS, "--json", "out.json")
    assert (result.exit_code, "Most probable subsets" in result.stdout) == (2, True)
    assert result.stderr == "error: cannot write 'out.json': No space left on device\n"


def test_warnings_are_single_lines(workdir: Path) -> None:
    rows = table(a=[0.5, 1.5, "", -1, 2, 0.25], k=[1] * 6).splitlines()
    (workdir / "gaps.csv").write_text(
        "\n".join([*rows, "0.1,2,6,north,1", "0.3,1,2,south,1"]) + "\n"
    )
    result = run("fit", "gaps.csv", *COLUMNS, "--missing", "drop")
    dropped, constant = result.stderr.splitlines()
    assert dropped.startswith("warning: dropped 1 of 8 rows")
    assert re.match("warning: .*'k'", constant)


def test_prints_the_summary_and_saves_the_posterior(example: Path) -> None:
    names = ["age", "smoking", "salt", "exercise"]
    options = [
        "--features",
        "age, smoking,salt,exercise",
        "--max-size",
        "3",
        "--prior",
        "beta-binomial(1,3)",
    ]
    result = fit_example(
        *options, "--top", "3", "--engine", "exact", "--jobs", "1", "--json", "new/p.json"
    )
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital", names)
    model = BIP(prior=BetaBinomialPrior(1, 3, max_size=3)).fit(data)
    assert result.stderr == ""
    assert result.stdout == f"{model.summary(3)}\n\nSaved new/p.json\n"
    assert max(map(display_width, result.stdout.splitlines())) <= 80
    assert [file.name for file in Path("new").iterdir()] == ["p.json"]

    saved = Posterior.from_json(Path("new/p.json"))
    for name in JSON_ARRAYS:
        np.testing.assert_array_equal(
            getattr(saved, name), getattr(model.posterior_, name), err_msg=name
        )
    content = json.loads(Path("new/p.json").read_text(), parse_constant=pytest.fail)
    assert content["decision"] == json.loads(json.dumps(model.decision_.to_plain()))
    assert content["decision"]["price"] is None
    assert content["new_environments"] == {"trusted": True, "why_not": None}
    predictive = Posterior.from_json(json.dumps(content["predictive"]))
    assert model.predictive_ is not None
    np.testing.assert_array_equal(predictive.log_probabilities, model.predictive_.log_probabilities)
    assert (saved.kind, predictive.kind) == ("invariant", "predictive")


def test_the_table_of_effects_is_written(example: Path) -> None:
    result = fit_example("--table", "effects.csv", "--json", "p.json")
    assert "Saved effects.csv" in result.stdout
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    expected = BIP().fit(data).decision_.effects(by_environment=True)
    written = pd.read_csv("effects.csv", keep_default_na=False, na_values=[""])
    assert written.columns.tolist() == expected.columns.tolist()
    assert written["environment"].tolist() == expected["environment"].tolist()
    told = pd.DataFrame(json.loads(Path("p.json").read_text())["decision"]["effects"])
    for name in expected.select_dtypes("number"):
        np.testing.assert_allclose(written[name], expected[name], rtol=1e-12)
        np.testing.assert_allclose(told[name].astype(float), expected[name], rtol=1e-12)


def test_what_else_is_written(example: Path) -> None:
    strict = fit_example(
        "--strict",
        "--level",
        "0.999999",
        "--json",
        "p.json",
        "--plot",
        "a",
        "--plot-kind",
        "subsets",
    )
    content = json.loads(Path("p.json").read_text())
    assert content["predictive"] is None
    assert content["decision"]["invariant"] is False
    assert "Saved a.png\n" in strict.stdout
    plain = fit_example("--plot", "usual.svg")
    assert Path("a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "inclusion" in Path("usual.svg").read_text()
    coloured = fit_example("--plot", "usual.svg", FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in plain.stdout
    assert "\x1b[36m█" in coloured.stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.stdout) == plain.stdout


def test_demo_finds_the_truth_and_its_commands_work(workdir: Path) -> None:
    result = run(
        "demo",
        "--json",
        "p.json",
        "--plot",
        "p.png",
        "--csv",
        "my rows.csv",
        "--new-csv",
        "new.csv",
    )
    assert (result.exit_code, result.stderr) == (0, "")
    assert "The true subset {age, exercise, smoking} has probability >0.999." in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    pd.testing.assert_frame_equal(pd.read_csv("my rows.csv"), make_example().to_frame(), rtol=1e-15)
    fit, predict = result.stdout.split("Now try\n")[1].replace("\\\n", " ").splitlines()
    assert run(*shlex.split(fit)[1:]).exit_code == 0
    assert "150 rows" in run(*shlex.split(predict)[1:]).stdout
    assert "a.txt" in fails("demo", "--csv", "a.txt")


@pytest.mark.parametrize("file", ["report.html", "model.json"])
def test_the_price_is_told_where_environments_are_left_out(
    example: Path, file: str, without_pictures: None
) -> None:
    """By the summary and in the JSON, and the same in either way."""
    option = "--save" if file == "model.json" else "--report"
    said = fit_example("--features", "age,exercise,salt", option, file, "--json", "p.json").stdout
    price = json.loads(Path("p.json").read_text())["decision"]["price"]
    data = MultiEnvironmentData.from_table(
        example, "blood_pressure", "hospital", ["age", "exercise", "salt"]
    )
    found = BIP().fit(data).cost_of_invariance()
    assert price["selected"] == found.selected.tolist()
    assert str(found) in " ".join(said.split())


def test_the_report_says_how_to_make_it_again(example: Path, without_pictures: None) -> None:
    page = Path("new folder", "report.html")
    options = ["--exclude", "salt,pulse", "--report", str(page), "--compare", "Lasso"]
    assert fit_example(*options).stdout.endswith(f"Saved {page}\n")
    source = page.read_text(encoding="utf-8")
    shell, python = map(
        html.unescape, re.findall(r"<pre[^>]*><code>(.*?)</code>", source, re.DOTALL)
    )
    assert shell == shlex.join(["invariance", "fit", "example.csv", *EXAMPLE, *options])
    known: dict[str, BIP] = {}
    exec(python, known)
    read = Page(source)
    assert set(known["model"].posterior_.feature_names) == {
        row[0][0] for row in read.tables["Every feature"][1:]
    }
    assert [row[0][0] for row in read.tables["Methods"][1:]] == ["Lasso"]


def test_the_verdict_comes_before_anything_fits_again(
    example: Path, monkeypatch: pytest.MonkeyPatch, without_pictures: None
) -> None:
    """Also where that ends in an error."""

    def refuse(*arguments: Any, **more: Any) -> Any:
        raise EngineError("a fit that nobody waits for")

    for again in ("prediction.predictions.cross_validate", "decisions.decision.chance_selection"):
        with monkeypatch.context() as changed:
            changed.setattr(f"invariance.{again}", refuse)
            result = run("fit", "example.csv", *EXAMPLE, "--report", "report.html")
        assert (
            result.exit_code,
            "effects of 3 features on blood_pressure are the same" in result.stdout,
        ) == (2, True)
        assert "a fit that nobody waits for" in result.stderr


def test_other_tolerances_come_last_and_only_where_they_are_cheap(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = "invariance.decisions.pipeline.Findings.at"
    monkeypatch.setattr(tried, lambda *arguments: pytest.fail("another search"))
    monkeypatch.setattr("invariance.decisions.pipeline._CHEAP_STEPS", 7 * 256 - 1)
    result = fit_example("--json", "fit.json")
    assert "Other tolerances were not tried" in result.stdout
    assert json.loads(Path("fit.json").read_text())["decision"]["by_tolerance"] is None
    monkeypatch.setattr("invariance.decisions.pipeline._CHEAP_STEPS", 7 * 256)
    asked = list[str]()
    monkeypatch.setattr(tried, lambda *arguments: asked.append("again") or arguments[0])
    decision = BIP().fit(make_example())._decision
    sections = FitSummary(decision, decision.posterior.summary()).found()
    assert "are the same in all 6 environments to within 10%" in str(next(sections))
    assert asked == []
    assert len(list(sections)) > 4
    assert len(asked) == 3


def test_what_a_time_limit_left_out_is_named(example: Path) -> None:
    """The selection stays; without a limit nothing is left out."""
    sampled = "--engine", "tempering"
    whole = fit_example(*sampled)
    limited = fit_example(*sampled, "--time-limit", "0")
    assert whole.stdout.splitlines()[:7] == limited.stdout.splitlines()[:7]
    note = " ".join(limited.stderr.split())
    assert "--time-limit 0 passed" in note
    for what in (
        "sampling of the paper's posterior",
        "search for compatible subsets",
        "other tolerances",
    ):
        assert what in note
        assert what not in whole.stderr
    sweeps = [
        int(re.search(r"after\s+(\d+)\s+sweeps", each.stdout)[1]) for each in (whole, limited)
    ]
    assert sweeps[1] == 50 < sweeps[0]
    assert "passed" not in fit_example("--time-limit", "1e9").stderr


def test_what_a_time_limit_ended_early_is_told_before_the_verdict_and_in_every_file(
    example: Path,
) -> None:
    result = fit_example(
        "--engine",
        "tempering",
        "--time-limit",
        "0",
        "--json",
        "fit.json",
        "--report",
        "report.html",
    )
    warning = next(
        line for line in result.stderr.splitlines() if line.startswith("warning: ended early")
    )
    for what in ("sampling of the paper's posterior", "search for compatible subsets"):
        assert what in warning
    content = json.loads(Path("fit.json").read_text())
    for notes in (content["notes"], content["predictive"]["notes"]):
        assert any(note.startswith("ended early by the limit on the time") for note in notes)
    assert "Ended early by the limit on the time" in Path("report.html").read_text()
    assert "by the limit" not in fit_example("--engine", "tempering", "--select", "mode").stderr
    assert "other tolerances" not in fit_example("--select", "mode", "--time-limit", "0").stderr


def test_after_a_time_limit_no_selection_is_repeated_to_save_a_model(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Searches would be cut short there too, so that errors without each environment would be
    wrong."""
    again = "invariance.prediction.new_environments._without"
    monkeypatch.setattr(again, lambda *arguments: pytest.fail("repeated"))
    result = fit_example("--time-limit", "0", "--save", "model.json", "--report", "report.html")
    assert "No environment was left out, because the limit on the time" in " ".join(
        result.stdout.split()
    )
    assert "errors without each environment" in result.stderr
    assert "others alone cannot be fitted" not in Path("report.html").read_text()
    predicted = run("predict", "model.json", "example.csv", "--out", "predicted.csv")
    assert "warning: no environment was left out" in predicted.stderr
    model = load("model.json")
    assert model.price_ is None
    assert model.new_environments().not_left_out == 6


def test_a_time_limit_that_passes_on_the_way_leaves_out_no_environment() -> None:
    model = BIP().fit(make_example())
    asked = list[str]()
    with limited(1e6):
        assert len(model.new_environments().left_out) == 6
    with pytest.MonkeyPatch.context() as changed:
        late = "invariance.prediction.new_environments.out_of_time"
        changed.setattr(late, lambda what: asked.append(what) or len(asked) > 2)
        found = BIP().fit(make_example()).new_environments()
    assert (found.left_out, found.impossible, found.not_left_out) == ((), (), 6)


def test_saving_a_model_states_what_invariance_costs(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As saving estimates it, however long that takes."""
    monkeypatch.setattr("invariance.decisions.pipeline._CHEAP_STEPS", 1)
    assert "was not estimated" in fit_example("--report", "report.html").stdout
    saved = fit_example("--save", "model.json").stdout
    assert "was not estimated" not in saved
    assert "In an environment left out the RMSE is, on average" in " ".join(saved.split())
