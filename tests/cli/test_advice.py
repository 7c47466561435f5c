"""Every remedy that a message names works as typed where it is shown."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
import warnings
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline

import invariance
from advice_walks import EXTRAS, FROM_THE_SOURCE, IN_WORDS, PYTHON, SHELL, Walk
from cli_runner import run
from invariance.cli.advice import for_command_line
from invariance.data import MultiEnvironmentData
from invariance.exceptions import DataError
from invariance.inference.base import RunOptions, Target
from invariance.inference.tempering.posterior import DrawnSource

SOURCE = Path(invariance.__file__).parent


@cache
def tables() -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    site = np.repeat(["north", "south"], 15)
    table = pd.DataFrame({"a": rng.normal(size=30), "b": rng.normal(size=30)})
    table = table.assign(y=table["a"] + rng.normal(size=30) * np.where(site == "north", 1, 2), site=site)
    few = pd.DataFrame(rng.normal(size=(8, 9)), columns=[f"c{j}" for j in range(9)])
    many = pd.DataFrame(rng.normal(size=(40, 500)), columns=[f"c{j}" for j in range(500)])
    return {
        "table": table,
        "gaps": table.assign(a=table["a"].mask(table.index == 3)),
        "hollow": table.assign(c=np.sqrt(table.index).where(table.index % 3 == 0)),
        "words": table.assign(b=[f"name {i}" for i in range(30)]),
        "codes": table.assign(b=np.where(table["b"] > 0, "1.5", "2")),
        "tied": table.assign(a=np.repeat([1.0, 2.0, 3.0, 4.0], [3, 3, 21, 3])),
        "flat": many[:8].assign(y=rng.normal(size=8), site=np.repeat(["north", "south"], 4)),
        "short": few.assign(y=rng.normal(size=8), site=np.repeat(["north", "south"], 4)),
        "wide": many.assign(y=many["c0"] + rng.normal(size=40), site=np.repeat(["north", "south"], 20)),
    }


@cache
def prepared() -> dict[str, Any]:
    named: dict[str, Any] = dict(tables())
    table = named["table"]
    y, labels = table["y"].to_numpy(), table["site"].tolist()
    data = MultiEnvironmentData.from_table(table, "y", "site")
    for name in ("flat", "short", "wide"):
        named[name] = MultiEnvironmentData.from_table(named[name], "y", "site")

    def vi(**settings: Any) -> None:
        invariance.BIP(engine=invariance.Variational(iterations=5, **settings), random_state=0).fit(data)

    return {
        "__name__": "walk",
        **{name: getattr(invariance, name) for name in invariance.__all__},
        **named,
        "X": table[["a", "b"]].to_numpy(),
        "y": y,
        "labels": labels,
        "environments": labels,
        "holes": [None, *labels[1:]],
        "noise": np.random.default_rng(1).normal(size=(30, 2)),
        "data": data,
        "prior": invariance.UniformPrior().bind(data.feature_names, 2),
        "from_table": MultiEnvironmentData.from_table,
        "from_arrays": MultiEnvironmentData.from_arrays,
        "vi": vi,
        "np": np,
        "pl": pl,
        "scipy": scipy,
        "DrawnSource": DrawnSource,
        "Target": Target,
        "RunOptions": RunOptions,
        "make_pipeline": make_pipeline,
        "LinearRegression": LinearRegression,
    }


def namespace(setup: str = "") -> dict[str, Any]:
    names = dict(prepared())
    exec(setup, names)
    return names


def remedy_in(message: str, walk: Walk) -> str:
    found = re.search(walk.remedy, message)
    assert found, f"no {walk.remedy} in: {message}"
    remedy = found[0]
    for gap, filling in walk.fill.items():
        assert gap in remedy
        remedy = remedy.replace(gap, filling)
    return remedy


def followed(arguments: list[str], remedy: list[str]) -> list[str]:
    """The arguments with the remedy; an option that it names takes its new value."""
    kept = list(arguments)
    for option in remedy:
        if option.startswith("--") and option in kept:
            at = kept.index(option)
            del kept[at : at + 2]
    return kept + remedy


def all_said(code: str, names: dict[str, Any]) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            eval(code, names)
            error = ""
        except (ValueError, TypeError, RuntimeError) as raised:
            error = str(raised)
    return " ".join([error, *(str(warning.message) for warning in caught)])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("walk", PYTHON, ids=lambda walk: walk.name)
def test_remedies_in_python(walk: Walk) -> None:
    names = namespace(walk.setup)
    remedy = remedy_in(all_said(walk.provoke, names), walk)
    eval(walk.follow.replace("REMEDY", remedy), names)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("walk", SHELL, ids=lambda walk: walk.name)
def test_remedies_in_a_shell(walk: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, table in tables().items():
        table.to_csv(f"{name}.csv", index=False)
    arguments = walk.provoke.split()
    first = run(*arguments)
    said = " ".join(f"{first.stderr} {first.stdout}".split())
    assert first.exit_code == 2 or "warning: " in said or "failed" in said
    assert not re.search(
        r"Tempering\(|missing='|features=|Screened\(|LassoScreen\(|fit_data|max_size=\d+(?!\))", said
    ), said
    second = run(*followed(arguments, shlex.split(remedy_in(said, walk))))
    assert second.exit_code == 0, second.stderr
    assert "failed" not in second.stdout


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("walk", FROM_THE_SOURCE, ids=lambda walk: walk.name)
def test_remedies_in_the_source(walk: Walk) -> None:
    message = next(text for _, text in messages() if walk.provoke in text)
    eval(walk.follow.replace("REMEDY", remedy_in(message, walk)), namespace())


def test_extras_exist() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]
    named = {extra for _, text in messages() for extra in re.findall(EXTRAS, text)}
    assert named
    assert named <= set(project["optional-dependencies"])


@pytest.mark.parametrize(
    ("message", "spoken"),
    [
        ("Use engine=Tempering(chains=8, steps=20_000).", "Use --engine 'tempering(chains=8, steps=20000)'."),
        ("for example with Tempering(searches=20).", "for example with --engine 'tempering(searches=20)'."),
        ("Use Variational(screen='search').", "Use --engine 'vi(screen=search)'."),
        ("use engine='exact'", "use --engine exact"),
        ("for example UniformPrior(max_size=200).", "for example --max-size 200."),
        ("prior=UniformPrior(max_size=5)", "--max-size 5"),
        ("Lower max_size, or", "Lower --max-size, or"),
        ("with Screened(HiddenICP()).", "with --methods Hidden-ICP-screen."),
        ("Screened(ICP(), screen=LassoScreen(cv=9, k=3)).", "--methods 'ICP-screen(cv=9, k=3)'."),
        ("Name another folder, or", "Name another folder with --out, or"),
        ("run it again, with fewer jobs,", "run it again, with fewer --jobs,"),
        ("or run it without dask=.", "or run it without --dask."),
        ("column 'max_size' is not numeric", "column 'max_size' is not numeric"),
    ],
)
def test_words_of_the_command_line(message: str, spoken: str) -> None:
    assert for_command_line(message) == spoken


# ---------------------------------------------------------------- in words


@pytest.mark.parametrize(
    ("factor", "divisor"), [(1e200, lambda x: abs(x).max()), (1e-200, lambda x: x.max() - x.min())]
)
def test_rescaling_as_advised(factor: float, divisor: Any) -> None:
    """Standard deviations overflow, or underflow, at these sizes."""
    X, (y, labels) = namespace()["X"] * [factor, 1.0], (namespace()["y"], namespace()["labels"])
    with pytest.raises(DataError, match=r"divide it by its (largest absolute value|range)"):
        MultiEnvironmentData.from_arrays(X, y, labels)
    X[:, 0] /= divisor(X[:, 0])
    assert MultiEnvironmentData.from_arrays(X, y, labels).n_features == 2


def test_a_text_column_in_fit_is_named() -> None:
    words = tables()["words"]
    with pytest.raises(DataError, match=r"column 'b' is not numeric .*\. Leave it out of X, or take values as levels"):
        invariance.BIP().fit(words[["a", "b"]], words["y"], environments=words["site"])
    assert invariance.BIP().fit(words[["a"]], words["y"], environments=words["site"]).n_features_in_ == 1


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_no_renaming_is_needed(tmp_path: Path, suffix: str, separator: str) -> None:
    path = tmp_path / f"table{suffix}"
    tables()["table"].to_csv(path, sep=separator, index=False)
    assert MultiEnvironmentData.from_table(path, "y", "site").n_rows == 30


# ---------------------------------------------------------------- nothing escapes the walk

REPORTS = ("advice.py", "studies/runs.py", "studies/theory.py", "studies/baselines/comparison.py", "studies/cost.py")
TYPED = re.compile(
    r"\w=['\"\[{\d]|\w\([\w\[.]|[A-Z]\w+\(\)|\.\w+\(\)|--\w|pip install|(?:use|pass) '\w|`|\[\{|\[\.\.\."
)

ADVISES = re.compile(r"(?i)\b(?:use|pass|set|try|with|leaves?|selects?|drop|leave it)\b")


@cache
def messages() -> list[tuple[str, str]]:
    """Where, and what: every text of the package outside docstrings and options' help; {} for what is put in."""
    files = {path.relative_to(SOURCE).as_posix(): path for path in sorted(SOURCE.rglob("*.py"))}
    trees = {
        where: ast.parse(path.read_text(encoding="utf-8")) for where, path in files.items() if where not in REPORTS
    }
    return [(where, text) for where, tree in trees.items() for text in texts(tree)]


def texts(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("typer.Option", "typer.Argument"):
        return
    if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
        yield text_of(node)
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from texts(child)


def text_of(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else "{}"
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text_of, node.values))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return text_of(node.left) + text_of(node.right)
    return "{}"


def names_a_remedy(text: str) -> bool:
    """Whether it says in a sentence what can be typed: after what is wrong, or alone as what is put into another."""
    if "Examples:" in text or not re.search(r"\w+ \w+ \w+", text):
        return False
    _, *advice = re.split(r"[.:;,] ", text, maxsplit=1)
    return bool(TYPED.search(advice[0]) if advice else TYPED.search(text) and ADVISES.search(text))


def test_every_message_with_a_remedy_is_walked() -> None:
    """A new message that names something to type needs a walk in advice_walks.py, or a place in its IN_WORDS."""
    said = " ".join(all_said(walk.provoke, namespace(walk.setup)) for walk in PYTHON)
    known = [*IN_WORDS, *(walk.provoke for walk in FROM_THE_SOURCE)]
    escaped = [
        f"{where}: {text}"
        for where, text in dict.fromkeys(messages())
        if names_a_remedy(text)
        and not re.search(EXTRAS, text)
        and not any(part in text for part in known)
        and not re.search(".*?".join(re.escape(piece) for piece in text.split("{}")), said, re.DOTALL)
    ]
    assert not escaped, "\n".join(escaped)
