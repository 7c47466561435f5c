"""Names of a package that load on first use: what is heavy need not be waited for by those who do not use it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def on_first_use(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package, from {name: module inside the package that has it}."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(package)
        value = getattr(import_module("." + homes[name], package), name)
        setattr(module, name, value)
        return value

    return load, lambda: sorted(homes)
