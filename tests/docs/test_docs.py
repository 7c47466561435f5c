"""README and docs: what they print is run, in order, in an empty folder without extras that the
page does not name. What they link to or name is there."""

from __future__ import annotations

import builtins
import doctest
import importlib
import inspect
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import typer

import postgres_server
from cli_runner import run
from invariance.cli.main import app
from invariance.datasets import make_example
from replication.__main__ import study_parser

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(DOCS.glob("*.md")),
    *sorted(DOCS.glob("*/*.md")),
]
DATABASE = DOCS / "how-to" / "database.md"
CLUSTER = DOCS / "how-to" / "cluster-and-gpu.md"
SHARED = ROOT.parent / "shared" / "data"
# {page: real data that it reads, which are not in the repository}
DATA = {
    "light-tunnel.md": ("light_tunnel/light_tunnel.csv.gz",),
    "four-hospitals.md": tuple(
        f"heart/heart.{name}" for name in ("cleveland", "hungarian", "switzerland", "va")
    ),
    "fifteen-studies.md": ("impact/impact.csv.gz",),
}
EXTRAS = set(
    tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
)
FOR_DEVELOPERS = {"test", "docs", "lint", "bench", "peers", "browser"}
# A block, or a command inside a sentence; without an option it is the name of one.
TYPED = re.compile(
    r"^```(?P<language>[^\n]*)\n(?P<block>.*?)^```$|`(?P<inline>invariance\s+\w[^`]*--[^`]*)`",
    re.DOTALL | re.MULTILINE,
)
ASKED = re.compile(r"pip install ['\"](?:invariant-prediction|\.)\[([\w,]+)\]")
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
# Words of commands that are read and not run; the file of those that need a GPU or a cluster must
# be there.
NOT_RUN = ("…", "invariance app", "invariance warmup", "--device cuda", "--dask tcp:")


class Step(NamedTuple):
    """kind: "python" (a block with >>>), "plain" (one without), "command", "shown" (a line that it
    prints)"""

    kind: str
    text: str


def steps(page: Path) -> Iterator[Step]:
    for found in TYPED.finditer(page.read_text(encoding="utf-8")):
        if found["inline"] is not None:
            yield Step("command", " ".join(found["inline"].split()))
        elif found["language"] == "python":
            yield Step("python" if ">>>" in found["block"] else "plain", found["block"])
        elif found["language"] == "console":
            # With a prompt, what has none is shown; without any, every line is a command.
            prompt = "$ " if found["block"].startswith("$ ") else ""
            for line in found["block"].replace("\\\n", " ").splitlines():
                if line.startswith(prompt):
                    yield Step("command", line.removeprefix(prompt))
                elif line != "…":
                    yield Step("shown", line)


def commands(page: Path, program: str = "invariance") -> list[list[str]]:
    """What follows the program's name."""
    typed = [
        shlex.split(step.text, comments=True) for step in steps(page) if step.kind == "command"
    ]
    return [words[1:] for words in typed if words[0] == program]


def run_page(
    page: Path, monkeypatch: pytest.MonkeyPatch, here: tuple[str, str] | None = None
) -> dict[str, Any]:
    """Run a page, or up to a block with the second text of `here` in place of the first; gives the
    known names."""
    with_stand_ins(page, monkeypatch)
    names = {"__name__": page.stem}
    printed = ""
    for kind, text in steps(page):
        if "deletions.npz" in text and not Path("deletions.npz").exists():
            return names  # the rest of the page reads it
        if kind == "python":
            run_examples(text, page, names)
        elif kind == "plain" and here is not None:
            assert text.count(here[0]) == 1
            exec(compile(text.replace(*here), page.name, "exec"), names)
            return names
        elif kind == "shown":
            assert text in printed.splitlines()
        elif kind == "command" and text.startswith("invariance ") and here is None:
            arguments = shlex.split(text, comments=True)[1:]
            if not any(words in text for words in NOT_RUN):
                result = run(*arguments)
                assert result.exit_code == 0, f"{text}\n{result.output}"
                printed = result.stdout
            elif any(words in text for words in NOT_RUN[3:]):
                assert Path(arguments[1]).is_file(), text
    return names


def run_examples(block: str, page: Path, names: dict[str, Any]) -> None:
    examples = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
    examples.globs = names
    said = StringIO()
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(
        examples, out=said.write, clear_globs=False
    )
    assert said.getvalue() == "", said.getvalue()


def with_stand_ins(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real data are beside the page that reads them; extras that a page does not ask for are
    hidden; what needs absent ones is skipped."""
    if page.name == "database.md":
        pytest.importorskip("duckdb", reason="needs duckdb")
    for file in DATA.get(page.name, ()):
        if not (SHARED / file).is_file():
            pytest.skip(f"{file} is not at hand")
        shutil.copy(SHARED / file, ".")
    if page.name == "perturbations.md":  # which says what to do without them
        for file in (SHARED / "yeast_deletions").glob("*.npz"):
            Path(file.name).symlink_to(file)
    asked = {
        extra
        for names in ASKED.findall(page.read_text(encoding="utf-8"))
        for extra in names.split(",")
    }
    hidden = {package for package, extras in BROUGHT_BY.items() if asked.isdisjoint(extras)}
    usual = builtins.__import__

    def checked(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        importer = (globals or {}).get("__name__", page.stem).partition(".")[0]
        if (
            level == 0
            and name.partition(".")[0] in hidden
            and importer in ("invariance", "__main__", page.stem)
        ):
            raise ImportError(f"{page.name} uses {name}, and names no extra that brings it")
        return usual(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", checked)


@pytest.mark.integration
@pytest.mark.parametrize(
    "page", [page for page in PAGES if any(steps(page))], ids=lambda page: page.name
)
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "invariance.decisions.selection_error.SIMULATED", 10
    )  # no page shows what came of them
    run_page(page, monkeypatch)


def test_every_command_can_be_read() -> None:
    typed = [arguments for page in PAGES for arguments in commands(page)]
    for given in typed:
        arguments = list(given)
        group = typer.main.get_command(app)
        with group.make_context("invariance", list(arguments), resilient_parsing=True) as context:
            while hasattr(group, "resolve_command"):
                _, group, arguments = group.resolve_command(context, arguments)
            parser = group.make_parser(context)
        parser.parse_args(list(arguments))
    assert len(typed) > 25
    assert ["demo", "--csv", "patients.csv", "--new-csv", "new_patients.csv"] in typed
    assert any(
        "inclusion(0.2)" in arguments for arguments in typed
    )  # on the second line of a command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_programs_have_what_is_asked_of_them(page: Path) -> None:
    """pip finds its extras in pyproject.toml, make its targets in the Makefile; python runs
    studies. Nothing hides in a block of another language."""
    text = page.read_text(encoding="utf-8")
    programs = {step.text.split()[0] for step in steps(page) if step.kind == "command"}
    assert programs <= {"invariance", "pip", "make", "python"}
    for arguments in commands(page, "python"):
        assert arguments[:2] == ["-m", "replication"]
        study_parser().parse_args(arguments[2:])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(
        re.search(rf"^{target}:", makefile, re.MULTILINE) for target, *_ in commands(page, "make")
    )
    asked = re.findall(r"(?:invariant-prediction|\.)\[([\w,]+)\]", text)
    assert {extra for names in asked for extra in names.split(",")} <= EXTRAS
    assert (
        re.findall(
            r"^```(?:text|sh|bash|shell)?\n(?:\$ )?(?:invariance|pip|python) .*", text, re.MULTILINE
        )
        == []
    )
    for found in TYPED.finditer(text):
        if found["language"] in ("text", ""):
            assert not re.search(r" = |import ", found["block"])


def test_the_readme_lists_every_extra_for_users() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {extra for extra in EXTRAS - FOR_DEVELOPERS if f"`{extra}`" not in text} == set()


# ---- blocks that need a server, and are run where one can be started


def test_all_other_python_is_run() -> None:
    plain = [page for page in PAGES for step in steps(page) if step.kind == "plain"]
    assert sorted(plain) == sorted([DATABASE, CLUSTER])


@pytest.mark.integration
def test_a_query_of_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbapi = pytest.importorskip(
        "adbc_driver_postgresql.dbapi", reason="needs adbc-driver-postgresql"
    )
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("needs a PostgreSQL server that can be started")
    monkeypatch.chdir(tmp_path)
    pyarrow = pytest.importorskip("pyarrow")
    patients = make_example().to_frame().assign(year=[2010, 2020] * 450)
    with postgres_server.running(programs) as address:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest(
                "patients", pyarrow.Table.from_pandas(patients, preserve_index=False), mode="create"
            )
            connection.commit()
        names: dict[str, Any] = run_page(
            DATABASE, monkeypatch, ("postgresql://reader@db.example.org/study", address)
        )
    assert (names["moments"].n_rows, names["moments"].feature_names) == (450, ("age",))


@pytest.mark.slow
def test_a_data_frame_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="needs pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    monkeypatch.chdir(tmp_path)
    make_example().to_frame().to_parquet("rows.parquet", index=False)
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    )
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    names = run_page(CLUSTER, monkeypatch, ("s3://trials/rows", str(tmp_path / "rows.parquet")))
    names["spark"].stop()
    assert names["model"].selected_features_ == ("age", "exercise", "smoking")


# ---- what the site links to and names


def test_links_lead_somewhere_on_disk() -> None:
    link = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
    targets = [
        page.parent / name
        for page in PAGES
        for name in link.findall(page.read_text(encoding="utf-8"))
    ]
    assert [
        path for path in targets if not path.exists() and not path.with_suffix(".rst").exists()
    ] == []


def test_names_of_the_package_that_prose_mentions() -> None:
    def resolves(name: str) -> bool:
        try:
            return pkgutil.resolve_name(name) is not None
        except (ImportError, AttributeError):
            return False

    prose = [*PAGES, *(ROOT / "src").rglob("*.py"), *ROOT.glob("*.md")]
    dotted = re.compile(r"\binvariance(?:\.\w+)+(?![\w/])")
    named = {
        name: path.name
        for path in prose
        for name in dotted.findall(path.read_text(encoding="utf-8"))
    }
    assert named
    assert {name: where for name, where in named.items() if not resolves(name)} == {}


def test_every_public_name_is_in_the_reference() -> None:
    """Of modules that have no `__all__`, what users meet is listed by hand."""

    def named(name: str) -> Any:
        """By its module's attribute: a function may have the name of the module that it is from."""
        module, _, attribute = f"invariance.{name}".rpartition(".")
        return getattr(importlib.import_module(module), attribute)

    reference = (DOCS / "api" / "index.rst").read_text(encoding="utf-8")
    documented = [named(name) for name in re.findall(r"^   ([\w.]+)$", reference, re.MULTILINE)]
    assert len(documented) > 60
    for module in (
        "",
        ".baselines",
        ".datasets",
        ".decisions",
        ".estimators",
        ".moments",
        ".simulation",
    ):
        home = importlib.import_module(f"invariance{module}")
        missing = [
            name
            for name in home.__all__
            if not any(getattr(home, name) is known for known in documented)
        ]
        assert {name for name in missing if not isinstance(getattr(home, name), ModuleType)} <= {
            "__version__"
        }
    classes = {kind.__name__: kind for kind in documented if isinstance(kind, type)}
    members = runpy.run_path(str(DOCS / "_extensions" / "public_members.py"))["MEMBERS"]
    assert set(members) <= set(classes)
    for name, listed in members.items():
        found = {each: inspect.getattr_static(classes[name], each, None) for each in listed}
        assert {
            each for each, member in found.items() if member is None or not member.__doc__
        } == set(), name


def test_a_hidden_table_of_contents_hides_nothing() -> None:
    """What is beside the page in the menu is also a link in its text."""
    for page in (DOCS / "index.md", *DOCS.glob("*/index.md")):
        text = page.read_text(encoding="utf-8")
        (contents,) = re.findall(r"```{toctree}\n:hidden:\n(.*?)```", text, re.DOTALL)
        entries = [re.sub(r".*<(.*)>", r"\1", line) for line in contents.splitlines() if line]
        assert [
            entry for entry in entries if not re.search(rf"\]\({re.escape(entry)}(\.md)?\)", text)
        ] == []


def test_nothing_is_fetched_and_inventories_are_those_that_are_written_here(tmp_path: Path) -> None:
    conf = runpy.run_path(str(DOCS / "conf.py"))
    needed = [f"_static/{conf['mathjax_path']}", "_static/mathjax/LICENSE"]
    needed += [inventory for _, inventory in conf["intersphinx_mapping"].values()]
    assert [name for name in needed if not (DOCS / name).is_file()] == []
    script = runpy.run_path(str(DOCS / "_inventories" / "write.py"))
    for project, names in script["NAMES"].items():
        script["write"](project, names, tmp_path)
        assert (tmp_path / f"{project}.inv").read_bytes() == (
            DOCS / "_inventories" / f"{project}.inv"
        ).read_bytes()


def test_the_citation_names_the_paper() -> None:
    citation, page = (
        path.read_text(encoding="utf-8") for path in (ROOT / "CITATION.cff", DOCS / "cite.md")
    )
    names = re.findall(r"given-names: (.+)\n\s+family-names: (.+)", citation)
    assert len(names) == 5
    told = " ".join(page.replace(">", " ").split())
    assert all(f"{given} {family}" in told for given, family in names)
    assert re.findall(r'title: "(.+)"', citation)[1] in told
