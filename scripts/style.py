"""Count patterns of writing that readers stumble over: `python scripts/style.py [CHECKOUT]`.

Counted are words in docstrings, comments and messages of the package, in the documentation and in
the README, and names in the package's code. A pattern is not always wrong ("where" may mean a
place): `--check` fails only if there are more than in `scripts/style.toml`, and `--write` lowers
that file to the present counts.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = Path(__file__).with_name("style.toml")
PATTERNS = {
    "where, as a condition": r"\bwhere\b(?! \w+ (?:is|are) at hand)",
    "what, as a noun": r"(?:^|[.;:(] ?|\bof |\band )[Ww]hat \w+",
    "leave, left out": r"\bleft out\b|\bleav(?:e|es|ing) out\b",
    "that of, those of": r"\b(?:that|those) of\b",
    "is no, has no, none does": r"\b(?:is|are|has|have) no\b|\bnone (?:is|are|does|has)\b",
    "tell, say, know, ask (of data and code)": r"\b(?:tells?|says?|knows?|asks?|speaks?)\b",
    "so many, so few": r"\bso (?:many|few)\b",
    "too, at the end": r", too\b",
    "alike, luck, price, nobody": r"\b(?:alike|luck|price[ds]?|nobody)\b",
}
CONSTANTS = "constants named by a judgement"
PARTICIPLES = "variables named by a participle"
DOCSTRINGS = "docstrings that begin with a preposition or a shape"
JUDGEMENT = r"_?(?:MOST|FEW|ENOUGH|MANY|LEAST)(?:_|$)"
PARTICIPLE = r"(?:found|chosen|left|given|kept|known|own)$"
BEGINNINGS = r"(?:Of|For|In|By|At|As|With|To|From|On|Where|What|Which|Whether|How)\b|\("


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", nargs="?", type=Path, default=ROOT)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    counts = counted(options.checkout)
    for name, count in counts.items():
        print(f"{name:<55}{count:>7,}")
    if options.write:
        lines = [f'"{name}" = {count}' for name, count in counts.items()]
        CEILINGS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if options.check:
        ceilings = tomllib.loads(CEILINGS.read_text(encoding="utf-8"))
        worse = [name for name, count in counts.items() if count > ceilings[name]]
        if worse:
            raise SystemExit(f"more than in {CEILINGS.name}: {', '.join(worse)}")


def counted(checkout: Path) -> dict[str, int]:
    """Return the number of occurrences of each pattern."""
    modules = sorted((checkout / "src").rglob("*.py"))
    pages = [checkout / "README.md", *sorted((checkout / "docs").rglob("*.md"))]
    sources = [file.read_text(encoding="utf-8") for file in modules]
    texts = [
        prose(page.read_text(encoding="utf-8")) for page in pages if "_build" not in page.parts
    ]
    texts += [text for source in sources for text in words_in_code(source)]
    counts = {
        name: sum(len(re.findall(pattern, text)) for text in texts)
        for name, pattern in PATTERNS.items()
    }
    names: Counter[str] = Counter()
    for source in sources:
        names.update(names_in_code(ast.parse(source)))
    return counts | {name: names[name] for name in (CONSTANTS, PARTICIPLES, DOCSTRINGS)}


def prose(page: str) -> str:
    """Return a page of Markdown without its blocks of code and what is quoted as code."""
    without_blocks = re.sub(r"^(`{3,}).*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", without_blocks)


def words_in_code(source: str) -> Iterator[str]:
    """Yield comments and the text of strings, of f-strings too."""
    texts = {tokenize.COMMENT, tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", -1)}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in texts:
            yield token.string


def names_in_code(tree: ast.Module) -> Iterator[str]:
    """Yield the kind of each name and docstring that is counted."""
    documented = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            if re.match(JUDGEMENT, node.id):
                yield CONSTANTS
            elif re.match(PARTICIPLE, node.id):
                yield PARTICIPLES
        elif isinstance(node, documented):
            docstring = ast.get_docstring(node)
            if docstring and re.match(BEGINNINGS, docstring):
                yield DOCSTRINGS


if __name__ == "__main__":
    main()
