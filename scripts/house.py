"""Draw the rooms of the package in CONTRIBUTING.md; fail on an import upwards, a cycle or a file too long."""

from __future__ import annotations

import argparse
import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from statistics import median
from typing import NamedTuple

PACKAGE = "invariance"
# From low to high: a room imports only itself and the rooms before it.
ROOMS = (
    *(
        "exceptions",
        "_version",
        "_tools",
        "kernels",
        "data",
        "sources",
        "moments",
        "screening",
        "simulation",
        "datasets",
    ),
    *("conditionals", "priors", "posterior", "inference", "decisions", "prediction", "report"),
    *("estimators", "baselines", "comparison", "sweeps", "studies", "faces", "__init__", "__main__"),
)
HEIGHT = {room: n for n, room in enumerate(ROOMS)}
LONGEST_FILE, MEDIAN_FILE, TOP_MODULES = 400, 130, 12
ROW = "| {:>2} | {:17} | {:>5} | {:>6} | {:42} | {} |"

PAGE = Path("CONTRIBUTING.md")
BEGIN, END = "<!-- house -->", "<!-- /house -->"


class Module(NamedTuple):
    name: str
    path: Path
    lines: int
    tree: ast.Module

    @property
    def place(self) -> str:
        return "/".join(self.path.parts[2:])


class Import(NamedTuple):
    importer: str
    imported: str
    where: str
    on_load: bool  # neither inside a function nor for type checkers only


def room_of(name: str) -> str:
    return name.split(".")[1] if "." in name else "__init__"


def packages_around(name: str) -> list[str]:
    inner, _, _ = name.rpartition(".")
    return [inner, *packages_around(inner)] if inner else []


def read_modules() -> dict[str, Module]:
    modules = {}
    for path in sorted(Path("src", PACKAGE).rglob("*.py")):
        name = ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")
        text = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, text.count("\n"), ast.parse(text, path))
    return modules


def imported_names(node: ast.AST) -> list[str]:
    """The dotted names that a node imports, relative ones with their dots; of a computed name the literal beginning."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            stem = "." * level + (f"{module}." if module else "")
            return [stem + alias.name for alias in names]
        case ast.Call(
            func=ast.Name("import_module") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(str(name)) | ast.JoinedStr([ast.Constant(str(name)), *_]), *_],
        ):
            return [name]
    return []


def walk_imports(nodes: Iterable[ast.AST], on_load: bool = True) -> Iterator[tuple[str, int, bool]]:
    for node in nodes:
        for name in imported_names(node):
            yield name, node.lineno, on_load  # type: ignore[attr-defined]
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            yield from walk_imports(node.body, False)
            yield from walk_imports(node.orelse, on_load)
        else:
            deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from walk_imports(ast.iter_child_nodes(node), on_load and not deferred)


def imports_of(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    # The packages that one dot, two dots, … stand for.
    bases = ([module.name] if module.path.name == "__init__.py" else []) + packages_around(module.name)
    for name, line, on_load in walk_imports(module.tree.body):
        stem = name.lstrip(".")
        full = f"{bases[len(name) - len(stem) - 1]}.{stem}" if name != stem else stem
        imported = next((known for known in [full, *packages_around(full)] if known in modules), None)
        if imported and imported != module.name:
            yield Import(module.name, imported, f"{module.path}:{line}", on_load)


def upward(imports: list[Import]) -> Iterator[str]:
    for link in imports:
        low, high = room_of(link.importer), room_of(link.imported)
        if low in HEIGHT and high in HEIGHT and HEIGHT[low] < HEIGHT[high]:
            yield f"{link.where}: import upwards, {low} → {high} ({link.imported})"


def cycles(imports: list[Import]) -> Iterator[str]:
    graph: dict[str, dict[str, str]] = {}
    for importer, imported, where, on_load in imports:
        # Loading a module loads the packages around it; those around the importer are under way already.
        under_way = {importer, *packages_around(importer)}
        loaded = [imported, *(package for package in packages_around(imported) if package not in under_way)]
        for name in loaded if on_load else []:
            graph.setdefault(importer, {}).setdefault(name, where)
    while True:
        try:
            TopologicalSorter(graph).prepare()
            return
        except CycleError as error:
            cycle = error.args[1][::-1]
            yield f"{graph[cycle[0]].pop(cycle[1])}: cycle, {' → '.join(cycle)}"


def median_lines(modules: dict[str, Module]) -> float:
    """Of the files with code; a docstring alone is none."""
    return median([m.lines for m in modules.values() if m.tree.body[ast.get_docstring(m.tree) is not None :]] or [0])


def out_of_measure(modules: dict[str, Module]) -> Iterator[str]:
    source = f"src/{PACKAGE}"
    for room in sorted({room_of(name) for name in modules} - set(ROOMS)):
        yield f"{source}: {room} is no room; move it into one, or give it a place in ROOMS of scripts/house.py"
    for module in modules.values():
        if module.lines > LONGEST_FILE:
            yield f"{module.path}: {module.lines} lines, at most {LONGEST_FILE}; make two files of it"
    if (middle := median_lines(modules)) > MEDIAN_FILE:
        yield f"{source}: the median file has {middle:g} lines, at most {MEDIAN_FILE}; split the larger files"
    if (top := sum("/" not in module.place for module in modules.values())) > TOP_MODULES:
        yield f"{source}: {top} modules beside the rooms, at most {TOP_MODULES}; move some of them into rooms"


def row(number: int | str, name: str, files: Collection[Module], purpose: str) -> str:
    lines = f"{sum(module.lines for module in files):,}"
    largest = max(files, key=lambda module: module.lines)
    return ROW.format(number, name, len(files), lines, f"`{largest.place}` ({largest.lines})", purpose)


def matrix(rooms: Collection[str], imports: list[Import]) -> Iterator[str]:
    links = {(link.importer, room_of(link.imported)) for link in imports}
    files = Counter((room_of(importer), room) for importer, room in links if room_of(importer) != room)
    yield " " * 15 + "".join(f"{n:3}" for n in range(1, len(rooms) + 1))
    for n, room in enumerate(rooms):
        cells = [files[room, other] or "·" * (m < n) for m, other in enumerate(rooms)]
        yield f"{n + 1:2} {room:12}{''.join(f'{cell:>3}' for cell in cells)}".rstrip()


def draw(modules: dict[str, Module], imports: list[Import]) -> Iterator[str]:
    members: dict[str, list[Module]] = {}
    for module in sorted(modules.values(), key=lambda module: HEIGHT.get(room_of(module.name), len(ROOMS))):
        members.setdefault(room_of(module.name), []).append(module)
    yield ROW.format("#", "room", "files", "lines", "largest file", "purpose")
    yield ROW.format("-:", "-" * 17, "----:", "-----:", "-" * 42, "---")
    for number, (room, files) in enumerate(members.items(), 1):
        purpose = (ast.get_docstring(files[0].tree) or "").partition("\n")[0].replace("|", "\\|")
        yield row(number, f"`{room}/`" if "/" in files[0].place else f"`{room}.py`", files, purpose)
    yield row("", "in all", modules.values(), f"the median file has {median_lines(modules):g} lines")
    yield "\nHow many files of a room (row) import from another (column). A room imports only lower numbers:\n"
    yield from ["```text", *matrix(members, imports), "```\n"]


def main() -> str | None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; a drawing out of date is a complaint too")
    only_check = parser.parse_args().check

    modules = read_modules()
    imports = list(dict.fromkeys(link for module in modules.values() for link in imports_of(module, modules)))
    complaints = [*upward(imports), *cycles(imports), *out_of_measure(modules)]

    before, begin, rest = PAGE.read_text(encoding="utf-8").partition(f"{BEGIN}\n")
    old, end, after = rest.partition(END)
    new = "\n".join(draw(modules, imports))
    if not end:
        complaints.append(f"{PAGE}: no room for the drawing; add the lines {BEGIN} and {END} where it should stand")
    elif not only_check:
        PAGE.write_text(before + begin + new + end + after, encoding="utf-8")
    elif new != old:
        complaints.append(f"{PAGE}: the drawing of the rooms is out of date; run `make house`")
    return "\n".join(complaints) or None


if __name__ == "__main__":
    sys.exit(main())
