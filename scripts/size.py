"""The size of a checkout: `python scripts/size.py [CHECKOUT]` prints what the plan of the code has
goals for.

Counts of files, syntax nodes and names need no installation; what a fit and its printing do is
measured by running them.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

KINDS = {"number", "class", "count", "time"}
# Their objects, in `invariance.kinds`; `Predicts` had that place in earlier checkouts.
OBJECTS = {"NUMBER", "CLASS", "COUNT", "TIME"}
EXAMPLE = """
import sys
from pathlib import Path
import invariance
from invariance.datasets import make_example
data = make_example()
model = invariance.BIP(progress=False)
fit = getattr(model, "fit_data", model.fit)
package = str(Path(invariance.__file__).parent)
"""
FILES_OF_A_FIT = """
files = set()
sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
fit(data)
sys.setprofile(None)
print(sum(file.startswith(package) for file in files))
"""
# A call counts once, not again for the calls it makes itself.
# What a decision shows is computed when the model is asked for it, once.
FITS_WHILE_PRINTING = """
fit(data)
decision = model.decision_
calls = 0
inside = []
names = {"fit", "fit_data", "fit_many", "log_ratio_many", "gain_many", "run"}
def count(frame, event, argument):
    global calls
    code = frame.f_code
    if code.co_name not in names or not code.co_filename.startswith(package):
        return
    if event == "call":
        calls += not inside
        inside.append(code.co_name)
    elif event == "return" and inside:
        inside.pop()
sys.setprofile(count)
str(decision)
decision.to_plain()
str(model.summary())
model.methods_paragraph()
sys.setprofile(None)
print(calls)
"""
MEASURED = {
    "files that BIP().fit passes through": EXAMPLE + FILES_OF_A_FIT,
    "fits started by printing a decision": EXAMPLE + FITS_WHILE_PRINTING,
    "modules loaded by `from invariance import BIP`": """
import sys
from invariance import BIP
print(sum(module.split(".")[0] == "invariance" for module in sys.modules))
""",
    "public names": """
import invariance
print(len(set(invariance.__all__) - {"__version__"}))
""",
    "parameters of BIP": """
from invariance import BIP
print(len(BIP().get_params(deep=False)))
""",
}


def main() -> None:
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    package = sorted((checkout / "src").rglob("*.py"))
    tests = sorted((checkout / "tests").rglob("*.py"))
    trees = {file: ast.parse(file.read_text(encoding="utf-8")) for file in package}
    code = sum(map(code_lines, package))
    switches = {
        file: lines_that_switch(tree) for file, tree in trees.items() if file.parent.name != "kinds"
    }
    show("package, syntax nodes", sum(map(nodes, trees.values())))
    show("tests, syntax nodes", sum(nodes(ast.parse(file.read_text("utf-8"))) for file in tests))
    show("package, lines", lines(package))
    show("package, code lines", code)
    show("package, docstring lines a code line", sum(map(docstring_lines, trees.values())) / code)
    show("package, several values assigned at once", sum(map(packed, trees.values())))
    show("package, files", len(package))
    show("tests, lines", lines(tests))
    show("names defined in two or more modules", defined_twice(trees))
    show("lines that switch on the kind of outcome", sum(map(len, switches.values())))
    show("files that switch on the kind of outcome", sum(map(bool, switches.values())))
    for name, script in MEASURED.items():
        show(name, int(run(checkout, "-c", script)))
    help_lines = run(checkout, "-m", "invariance", "fit", "--help").splitlines()
    show("lines of `invariance fit --help`", len(help_lines))


def show(name: str, value: float) -> None:
    text = f"{value:,}" if isinstance(value, int) else f"{value:.2f}"
    print(f"{name:<50}{text:>10}", flush=True)


def nodes(tree: ast.AST) -> int:
    """Return the number of syntax nodes, which no formatting changes."""
    return sum(1 for _ in ast.walk(tree))


def packed(tree: ast.AST) -> int:
    """Count `a, b = x, y`: several values in one assignment, not from one call."""
    assignments = (node for node in ast.walk(tree) if isinstance(node, ast.Assign))
    return sum(
        isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple)
        for node in assignments
    )


def docstring_lines(tree: ast.AST) -> int:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    found = (node for node in ast.walk(tree) if isinstance(node, documented))
    texts = (ast.get_docstring(node, clean=False) for node in found)
    return sum(len(text.splitlines()) for text in texts if text)


def defined_twice(trees: dict[Path, ast.Module]) -> int:
    """Count public and private names that stand at the top level of several modules."""
    homes: dict[str, set[Path]] = {}
    for file, tree in trees.items():
        for name in top_level_names(tree):
            homes.setdefault(name, set()).add(file)
    return sum(len(files) > 1 for files in homes.values())


def top_level_names(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (
                target.id
                for target in node.targets
                if isinstance(target, ast.Name) and not target.id.startswith("__")
            )


def lines_that_switch(tree: ast.AST) -> set[int]:
    """Return lines that name one kind of outcome, or compare a kind or `event`."""
    found = set()
    for node in ast.walk(tree):
        named = isinstance(node, ast.Name) and node.id in OBJECTS
        member = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "Predicts"
        if named or member:
            found.add(node.lineno)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            called = {getattr(side, "attr", getattr(side, "id", "")) for side in sides}
            values = {side.value for side in sides if isinstance(side, ast.Constant)}
            if ("kind" in called and values & KINDS) or ("event" in called and None in values):
                found.add(node.lineno)
    return found


def lines(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def code_lines(file: Path) -> int:
    """Count lines without blanks, comments and docstrings."""
    begins = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    found: set[int] = set()
    before = tokenize.NEWLINE
    text = file.read_text(encoding="utf-8")
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        docstring = token.type == tokenize.STRING and before in begins
        if token.string.strip() and not docstring:
            found.update(range(token.start[0], token.end[0] + 1))
        before = token.type
    return len(found)


def run(checkout: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(checkout / "src"), "COLUMNS": "80", "NO_COLOR": "1"}
    command = [sys.executable, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        sys.exit(
            f"{sys.executable} cannot run the package: {reason}\nUse the Python of .venv (make "
            ".venv/.run)."
        )
    return done.stdout.strip().splitlines()[-1] if "-c" in arguments else done.stdout


if __name__ == "__main__":
    main()
