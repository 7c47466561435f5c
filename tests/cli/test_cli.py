"""The command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

from bad_tables import BAD_TABLES, table
from cli_runner import fails, run
from invariance import BIP, BetaBinomialPrior, MultiEnvironmentData, Posterior, Tolerance, __version__
from invariance.cli.advice import for_command_line
from invariance.datasets import make_example
from invariance.exceptions import EngineError, SettingError
from invariance.posterior.summary import display_width
from posteriors import JSON_ARRAYS

COLUMNS = ["--outcome", "y", "--environment", "site"]


def fit_example(*arguments: object, **env: str) -> Result:
    return run("fit", "example.csv", "--outcome", "blood_pressure", "--environment", "hospital", *arguments, **env)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(("text", "arguments", "phrase"), [pytest.param(*c[1:], id=c[0]) for c in BAD_TABLES])
def test_bad_table(workdir: Path, text: str, arguments: dict[str, Any], phrase: str) -> None:
    (workdir / "table.csv").write_text(text)
    columns = ["--outcome", arguments["outcome"], "--environment", arguments["environment"]]
    if arguments["features"] is not None:
        columns += ["--features", ",".join(arguments["features"])]
    assert for_command_line(phrase) in fails("fit", "table.csv", *columns)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        pytest.param(["nothing.csv"], "file not found: 'nothing.csv'. Check the path", id="no file"),
        pytest.param(["good.csv", "--features", " , "], "features is an empty list", id="no features"),
        pytest.param(["good.csv", "--prior", "flat"], "cannot read the prior 'flat'; the accepted forms", id="prior"),
        pytest.param(["good.csv", "--prior", "inclusion(2)"], "must be between 0 and 1, got 2", id="probability"),
        pytest.param(["good.csv", "--prior", "beta-binomial(0,1)"], "must be positive and finite", id="beta"),
        pytest.param(
            ["good.csv", "--prior", "inclusion(1)", "--max-size", "1"],
            "2 features have inclusion probability 1 but --max-size is 1",
            id="forced",
        ),
        pytest.param(
            ["good.csv", "--prior", "inclusion(1)"], "but the largest size the data allow is 1", id="forced by rows"
        ),
        pytest.param(
            ["good.csv", "--max-size", "2"],
            "--max-size 2 needs 4 rows in environment 'north', which has 3. Use --max-size 1,",
            id="max size",
        ),
        pytest.param(["good.csv", "--max-size", "-1"], "Invalid value for '--max-size'", id="negative size"),
        pytest.param(["good.csv", "--max-size", "two"], "Invalid value for '--max-size'", id="size in words"),
        pytest.param(["good.csv", "--top", "0"], "Invalid value for '--top'", id="top"),
        pytest.param(["good.csv", "--jobs", "0"], "Invalid value for '--jobs'", id="jobs"),
        pytest.param(["good.csv", "--seed", "-3"], "Invalid value for '--seed'", id="seed"),
        pytest.param(["good.csv", "--engine", "guess"], "'guess' is not one of 'auto', 'exact'", id="engine"),
        pytest.param(["good.csv", "--select", "best"], "select='best' is not known: use 'predictive' or", id="rule"),
        pytest.param(["good.csv", "--threshold", "2"], "Invalid value for '--threshold'", id="threshold"),
        pytest.param(["good.csv", "--delta", "-1"], "delta=-1.0 is no tolerance: use a number from 0 on", id="delta"),
        pytest.param(["good.csv", "--level", "1"], "level=1.0 is no level: use a number between 0 and 1", id="level"),
        pytest.param(["good.csv", "--strict", "--tau", "1"], "leave --delta and --tau out", id="strict and tolerant"),
        pytest.param(
            ["good.csv", "--threshold", "0.3"],
            "--threshold is for --select threshold: add that, or leave --threshold out.",
            id="threshold of another rule",
        ),
        pytest.param(
            ["good.csv", "--plot-kind", "subsets"],
            "--plot-kind subsets draws nothing without a file: add --plot subsets.png",
            id="kind of no picture",
        ),
        pytest.param(["good.csv", "--weak-level", "1"], "weak_level=1.0 is no level: use a number", id="weak level"),
        pytest.param(["good.csv", "--plot-kind", "pie"], "'pie' is not one of 'inclusion', 'coefficients'", id="pie"),
        pytest.param(["good.csv", "--missing", "skip"], "'skip' is not one of 'error', 'drop'", id="missing"),
        pytest.param(["good.csv", "--colour"], "No such option: --colour", id="unknown option"),
        pytest.param(["good.csv", "--json", "."], "cannot write '.': it is a folder", id="json is a folder"),
        pytest.param(["good.csv", "--json", "good.csv/a"], "is a file, not a folder", id="json below a file"),
        pytest.param(["good.csv", "--json", "good.csv"], "the same file is named twice", id="json over the table"),
        pytest.param(["good.csv", "--json", "a.png", "--plot", "a"], "the same file is named twice", id="twice"),
        pytest.param(["good.csv", "--json", "x" * 300], "File name too long", id="long name"),
        pytest.param(["good.csv", "--plot", "a.doc"], "cannot write a picture as '.doc': use .png", id="picture kind"),
    ],
)
def test_bad_request(workdir: Path, arguments: list[str], phrase: str) -> None:
    assert phrase in fails("fit", *arguments, *COLUMNS)
    assert [file.name for file in workdir.iterdir()] == ["good.csv"]


def test_bad_usage(workdir: Path) -> None:
    assert fails("fit").startswith("error: Missing ")
    assert "Missing option '--environment'. Try 'invariance fit --help'." in fails("fit", "good.csv", "--outcome", "y")
    assert "No such command 'fti'. Did you mean 'fit'? Try 'invariance --help'." in fails("fti")
    assert "cannot write a table as 'a.txt'" in fails("demo", "--csv", "a.txt")


@pytest.mark.parametrize("error", [EngineError("too many subsets"), SettingError("too many subsets")])
def test_refusals_of_the_engine(workdir: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(BIP, "fit_data", raising(error))
    assert fails("fit", "good.csv", *COLUMNS) == "error: too many subsets"


def raising(error: BaseException) -> Any:
    def fit(self: BIP, data: MultiEnvironmentData) -> None:
        raise error

    return fit_data


def test_outputs_are_checked_before_the_computation(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BIP, "fit_data", raising(AssertionError("computed")))
    monkeypatch.setattr(MultiEnvironmentData, "from_table", raising(AssertionError("read")))
    assert "it is a folder" in fails("fit", "good.csv", *COLUMNS, "--json", ".")
    assert "it is a folder" in fails("demo", "--json", ".")


@pytest.mark.parametrize("error", [RuntimeError("a bug"), ValueError("a bug"), np.linalg.LinAlgError("a bug")])
def test_bugs_keep_their_traceback(workdir: Path, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    monkeypatch.setattr(BIP, "fit_data", raising(error))
    assert run("fit", "good.csv", *COLUMNS).exception is error


def test_interrupt(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BIP, "fit_data", raising(KeyboardInterrupt()))
    result = run("fit", "good.csv", *COLUMNS, "--json", "out.json")
    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")
    assert not Path("out.json").exists()


def test_failed_save_still_shows_the_result(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Posterior, "to_json", full)
    result = run("fit", "good.csv", *COLUMNS, "--json", "out.json")
    assert result.exit_code == 2
    assert "Most probable subsets" in result.stdout
    assert result.stderr == "error: cannot write 'out.json': No space left on device\n"


# ---------------------------------------------------------------- warnings


def test_warnings_are_single_lines(workdir: Path) -> None:
    text = table(a=[0.5, 1.5, "", -1, 2, 0.25], k=[1] * 6)
    rows = text.splitlines()
    (workdir / "gaps.csv").write_text("\n".join([*rows, "0.1,2,6,north,1", "0.3,1,2,south,1"]) + "\n")
    result = run("fit", "gaps.csv", *COLUMNS, "--missing", "drop")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "warning: dropped 1 of 8 rows with missing values: 1 of environment 'north'",
        "warning: dropped features that are constant over all rows: 'k'",
    ]


# ---------------------------------------------------------------- good paths


def test_fit_prints_the_summary(example: Path) -> None:
    names = ["age", "smoking", "salt", "exercise"]
    arguments = (
        "--features",
        "age, smoking,salt,exercise",
        "--max-size",
        "3",
        "--prior",
        "beta-binomial(1,3)",
        "--top",
        "3",
    )
    result = fit_example(*arguments, "--engine", "exact", "--jobs", "1", "--seed", "5")
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital", names)
    model = BIP(prior=BetaBinomialPrior(1, 3, max_size=3)).fit(data)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout == f"{model.summary(3)}\n"
    assert result.stdout.startswith("Decision\n  verdict ")


def test_json_reloads_to_the_same_posterior(example: Path) -> None:
    result = fit_example("--json", "new/folder/posterior.json")
    assert result.stdout.endswith("\nSaved the posterior and the decision to new/folder/posterior.json\n")
    saved = Posterior.from_json(Path("new/folder/posterior.json"))
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    posterior = BIP().fit(data).posterior_
    for name in JSON_ARRAYS:
        np.testing.assert_array_equal(getattr(saved, name), getattr(posterior, name), err_msg=name)
    assert saved.mode == ("age", "exercise", "smoking")
    assert str(saved.summary(10)) in result.stdout
    assert [file.name for file in Path("new/folder").iterdir()] == ["posterior.json"]


def test_json_holds_the_decision_and_the_predictive_posterior(example: Path) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    fit_example("--json", "p.json")
    model = BIP().fit(MultiEnvironmentData.from_table(example, "blood_pressure", "hospital"))
    content = json.loads(Path("p.json").read_text(), parse_constant=refuse)
    assert content["decision"] == json.loads(json.dumps(model.decision_.to_plain()))
    predictive = Posterior.from_json(json.dumps(content["predictive"]))
    assert model.predictive_ is not None
    np.testing.assert_array_equal(predictive.log_probabilities, model.predictive_.log_probabilities)
    assert predictive.kind == "predictive"


def test_json_where_nothing_is_compatible(example: Path) -> None:
    result = fit_example("--strict", "--level", "0.999999", "--json", "p.json")
    assert "No subset of these features is invariant" in " ".join(result.stdout.split())
    content = json.loads(Path("p.json").read_text())
    assert content["predictive"] is None
    assert content["decision"]["invariant"] is False
    assert Posterior.from_json("p.json").kind == "invariant"


@pytest.mark.parametrize("kind", ["inclusion", "coefficients", "subsets", "frontier"])
def test_plot_kinds(example: Path, kind: str) -> None:
    assert fit_example("--plot", "a.png", "--plot-kind", kind).exit_code == 0
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    fit_example("--plot", "b.png")
    assert (Path("a.png").read_bytes() == Path("b.png").read_bytes()) == (kind == "inclusion")


def test_selection_and_tolerance_are_those_of_the_estimator(example: Path) -> None:
    data = MultiEnvironmentData.from_table(example, "blood_pressure", "hospital")
    for arguments, settings in (
        (("--select", "mode"), {"select": "mode"}),
        (("--select", "threshold", "--threshold", "0.005"), {"select": "threshold", "threshold": 0.005}),
        (("--delta", "0.01", "--tau", "0", "--level", "0.3"), {"tolerance": Tolerance(0.01, 0.0, 0.3)}),
        (("--strict",), {"tolerance": Tolerance.strict()}),
        (("--strict", "--level", "0.1"), {"tolerance": Tolerance.strict(0.1)}),
        (("--level", "0.99", "--weak-level", "0.5"), {"tolerance": Tolerance(level=0.99, weak_level=0.5)}),
        (("--strict", "--weak-level", "0.001"), {"tolerance": Tolerance(0.0, 0.0, 0.05, 0.001)}),
    ):
        assert fit_example(*arguments).stdout == f"{BIP(**settings).fit(data).summary()}\n", arguments


@pytest.mark.parametrize(("name", "written"), [("a.png", "a.png"), ("a", "a.png"), ("b.1.PNG", "b.1.PNG")])
def test_plot_is_a_png(example: Path, name: str, written: str) -> None:
    result = fit_example("--plot", name)
    assert f"Saved the picture to {written}\n" in result.stdout
    assert Path(written).read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_demo_finds_the_truth_and_saves(workdir: Path) -> None:
    result = run("demo", "--json", "demo/p.json", "--plot", "demo/p.png", "--csv", "demo/d.csv")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.index("Invented") < result.stdout.index("Posterior over") < result.stdout.index("Saved")
    assert "The true subset {age, exercise, smoking}\nwas found: it is the most probable (" in result.stdout
    assert sorted(file.name for file in Path("demo").iterdir()) == ["d.csv", "p.json", "p.png"]
    data, again = make_example(), MultiEnvironmentData.from_table("demo/d.csv", "blood_pressure", "hospital")
    np.testing.assert_array_equal(again.X, data.X)
    np.testing.assert_array_equal(again.y, data.y)
    np.testing.assert_array_equal(again.environment_index, data.environment_index)
    assert (again.feature_names, again.environments) == (data.feature_names, data.environments)
    hint = result.stdout.splitlines()[-1].split()
    assert run(*hint[1:]).exit_code == 0


def test_demo_draws_every_kind(workdir: Path) -> None:
    assert run("demo", "--plot", "a.png", "--plot-kind", "subsets").exit_code == 0
    assert run("demo", "--plot", "b.png").exit_code == 0
    assert Path("a.png").read_bytes() != Path("b.png").read_bytes()


def test_levels_are_explained(workdir: Path) -> None:
    for command in ("fit", "explain", "compare"):
        text = " ".join(run(command, "--help", COLUMNS="200").stdout.split())
        assert "Smallest p-value of a subset that counts as invariant, if some subset reaches it." in text
        assert "The same where no subset reaches --level" in text
        for option in ("--select", "--threshold", "--delta", "--tau", "--weak-level", "--strict"):
            assert option in text


def test_demo_says_when_the_truth_was_missed(workdir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    few = make_example(rows_per_environment=12, seed=1)
    assert (BIP().fit(few).posterior_.mode_mask != few.truth).any()
    monkeypatch.setattr("invariance.datasets.make_example", lambda: few)
    assert "was not found: it is not the most probable" in run("demo").stdout


def test_output_fits_80_columns(example: Path) -> None:
    outputs = [
        run(),
        run("--help"),
        run("fit", "--help"),
        run("compare", "--help"),
        run("demo", "--help"),
        run("simulate", "--help"),
        run("study", "--help"),
        run("demo"),
        run("demo", COLUMNS="200"),
    ]
    outputs += [fit_example("--json", "p.json", "--plot", "p.png")]
    for result in outputs:
        assert result.exit_code == 0
        assert max(display_width(line) for line in result.stdout.splitlines()) <= 80


def test_colour_changes_nothing_but_colour(example: Path) -> None:
    plain, coloured = fit_example(), fit_example(FORCE_COLOR="1", TERM="xterm-256color")
    assert "\x1b" not in plain.stdout
    assert "\x1b[36m█" in coloured.stdout
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured.stdout) == plain.stdout


# ---------------------------------------------------------------- help, version, start


@pytest.mark.parametrize("command", [(), ("fit",), ("compare",), ("demo",)])
def test_help_has_examples(command: tuple[str, ...]) -> None:
    text = run(*command, "--help").stdout
    assert "Examples:" in text
    assert f"invariance {' '.join(command or ('demo',))}" in text.split("Examples:")[1]
    assert run(*command, "-h").stdout == text


def test_alone_shows_help() -> None:
    assert run().stdout == run("--help").stdout
    assert run().exit_code == 0


def test_version() -> None:
    assert run("--version").stdout == f"invariance {__version__}\n"


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8")


def test_python_m_is_the_same(tmp_path: Path) -> None:
    version = python("-m", "invariance", "--version")
    assert (version.returncode, version.stdout) == (0, f"invariance {__version__}\n")
    path = str(tmp_path / "none.csv")
    missing = python("-m", "invariance", "fit", path, "--outcome", "y", "--environment", "e")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert missing.stderr == f"error: file not found: {path!r}. Check the path and the working directory.\n"


def test_poor_encodings_do_not_stop_the_result() -> None:
    code = "import sys; sys.stdout.reconfigure(encoding='ascii'); from invariance.__main__ import main; main()"
    result = python("-c", code, "demo")
    assert result.returncode == 0, result.stderr
    assert "was found" in result.stdout


def test_help_loads_no_heavy_library() -> None:
    code = """
import atexit, sys
heavy = {"numpy", "scipy", "sklearn", "pandas", "numba", "matplotlib", "narwhals", "rich"}
atexit.register(lambda: print("loaded:", sorted(heavy & set(sys.modules))))
from invariance.__main__ import main
main()
"""
    result = python("-c", code, "--help")
    assert result.returncode == 0, result.stderr
    assert "Usage: invariance" in result.stdout
    assert result.stdout.endswith("loaded: []\n")
