"""No kernel is called with a number that numba sees as a literal: it would be compiled once more for every such value.

Nested kernels multiply that: a logistic model took three times as long to compile.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import invariance.kernels

HOME = Path(invariance.kernels.__file__).parent


def kernels(module: ast.Module) -> Iterator[ast.FunctionDef]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and any("kernel" in ast.unparse(d) for d in node.decorator_list):
            yield node


def is_literal(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int)


def literal_names(kernel: ast.FunctionDef) -> set[str]:
    """Names that stand for a literal somewhere in a kernel."""
    found = set()
    for node in ast.walk(kernel):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                pairs = [(target, node.value)]
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                    pairs = list(zip(target.elts, node.value.elts, strict=True))
                found |= {name.id for name, value in pairs if isinstance(name, ast.Name) and is_literal(value)}
    return found


def calls_with_literals(modules: dict[str, ast.Module]) -> list[str]:
    known = {kernel.name for module in modules.values() for kernel in kernels(module)}
    found = []
    for where, module in modules.items():
        for kernel in kernels(module):
            names = literal_names(kernel)
            for call in ast.walk(kernel):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in known:
                    given = [*call.args, *(keyword.value for keyword in call.keywords)]
                    found += [
                        f"{where}: {kernel.name} calls {call.func.id} with {ast.unparse(argument)}"
                        for argument in given
                        if is_literal(argument) or (isinstance(argument, ast.Name) and argument.id in names)
                    ]
    return found


def test_no_kernel_is_called_with_a_literal() -> None:
    modules = {str(path.relative_to(HOME)): ast.parse(path.read_text()) for path in HOME.rglob("*.py")}
    assert sum(1 for module in modules.values() for _ in kernels(module)) > 100
    assert calls_with_literals(modules) == [], "use ZERO, NO and YES of kernels/compiled.py"
