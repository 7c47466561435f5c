"""The size of a checkout: `python scripts/size.py [CHECKOUT]` prints syntax nodes, lines, files, modules and names.

Sizes of files need no installation; what comes after them imports the package."""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from pathlib import Path

_FIT = """
import sys
from pathlib import Path
import invariance
from invariance.datasets import make_example
data, model, files = make_example(), invariance.BIP(progress=False), set()
fit = getattr(model, "fit_data", model.fit)
sys.setprofile(lambda frame, event, argument: files.add(frame.f_code.co_filename))
fit(data)
sys.setprofile(None)
print(sum(file.startswith(str(Path(invariance.__file__).parent)) for file in files))
"""
_PRINTED = {
    "modules loaded by `from invariance import BIP`": (
        "import sys; from invariance import BIP; print(sum(m.split('.')[0] == 'invariance' for m in sys.modules))"
    ),
    "files that BIP().fit passes through": _FIT,
    "public names": "import invariance; print(len(set(invariance.__all__) - {'__version__'}))",
    "parameters of BIP": "from invariance import BIP; print(len(BIP().get_params(deep=False)))",
}


def main() -> None:
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    package, tests = (sorted((checkout / folder).rglob("*.py")) for folder in ("src", "tests"))
    rows = {
        "package, syntax nodes": sum(map(_nodes, package)),
        "tests, syntax nodes": sum(map(_nodes, tests)),
        "package, lines": _lines(package),
        "package, code lines": sum(map(_code_lines, package)),
        "package, files": len(package),
        "tests, lines": _lines(tests),
    }
    for name, value in rows.items():
        _show(name, value)
    for name, script in _PRINTED.items():
        _show(name, int(_run(checkout, "-c", script)))
    _show("lines of `invariance fit --help`", len(_run(checkout, "-m", "invariance", "fit", "--help").splitlines()))


def _show(name: str, value: int) -> None:
    print(f"{name:<50}{value:>10,}", flush=True)


def _nodes(file: Path) -> int:
    """Return what no formatting changes."""
    return sum(1 for _ in ast.walk(ast.parse(file.read_text(encoding="utf-8"))))


def _lines(files: list[Path]) -> int:
    return sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)


def _code_lines(file: Path) -> int:
    """Lines without blanks, comments and docstrings."""
    begins = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    lines: set[int] = set()
    before = tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(file.read_text(encoding="utf-8")).readline):
        if token.type in (tokenize.NL, tokenize.COMMENT):
            continue
        docstring = token.type == tokenize.STRING and before in begins
        if token.string.strip() and not docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        before = token.type
    return len(lines)


def _run(checkout: Path, *arguments: str) -> str:
    environment = {"PYTHONPATH": str(checkout / "src"), "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)
    if done.returncode:
        reason = done.stderr.strip().splitlines()[-1]
        sys.exit(f"{sys.executable} cannot run the package: {reason}\nUse the Python of .venv (make .venv/.run).")
    return done.stdout


if __name__ == "__main__":
    main()
