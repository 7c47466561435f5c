"""Validate public docstrings by numpydoc's rules: `python scripts/docstrings.py [NAME ...]`.

Public are the names of `docs/api/index.rst` and the members of classes that
`docs/_extensions/public_members.py` lists. Names that begin with one of the arguments are
validated, all names without arguments. Documented defaults must be those of the signature, and the
names of `invariance.__all__` need an example. The script fails if it finds anything.
"""

from __future__ import annotations

import importlib
import inspect
import pydoc
import re
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numpydoc.docscrape import ClassDoc, get_doc_object
from numpydoc.validate import Validator, error, get_validation_checks, validate

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
SECTIONS = "Parameters", "Other Parameters"
# Checks of numpydoc that are not made:
EXCLUDED = {
    "GL01",  # where the summary starts, on which versions of numpydoc differ
    "ES01",  # an extended summary, which most methods do not need
    "SA01",  # See Also, which stands where another function is an alternative
    "EX01",  # examples of every method: required are those of the names in `invariance.__all__`
}
# Defaults of fields that a factory makes, and empty mappings
COMPUTED = "<factory>", "mappingproxy"
CHECKS = get_validation_checks({"all", *EXCLUDED})


class PublicDocstring(Validator):
    """Validate the types and descriptions of attributes like those of parameters.

    Attributes of a class without a section of parameters must cover its fields: it is a record,
    which users read and do not construct.
    """

    def __init__(self, obj_name: str) -> None:
        config = {"show_class_members": False}
        super().__init__(get_doc_object(load(obj_name), config=config))

    @property
    def doc_all_parameters(self) -> dict[str, Any]:
        return self._doc_parameters([*SECTIONS, *self._attributes])

    @property
    def signature_parameters(self) -> tuple[str, ...]:
        home = getattr(getattr(self.obj, "__init__", None), "__module__", "")
        inherited = inspect.isclass(self.obj) and home.startswith(("pandas", "typing"))
        return () if inherited else super().signature_parameters

    @property
    def parameter_mismatches(self) -> list[tuple[str, str]]:
        documented = self._doc_parameters(SECTIONS)
        actual = self.signature_parameters
        if self._attributes and not documented:
            missing = set(actual) - set(self.doc_all_parameters)
            return [error("PR01", missing_params=missing)] if missing else []
        names = tuple(documented)
        findings = {
            "PR01": {"missing_params": set(actual) - set(names)},
            "PR02": {"unknown_params": set(names) - set(actual)},
        }
        found = [
            error(code, **details) for code, details in findings.items() if any(*details.values())
        ]
        if not found and names != actual:
            found = [error("PR03", actual_params=actual, documented_params=names)]
        return found

    @property
    def _attributes(self) -> tuple[str, ...]:
        return ("Attributes",) if isinstance(self.doc, ClassDoc) else ()


def main() -> None:
    beginnings = tuple(sys.argv[1:])
    names = [name for name in public_names() if name.startswith(beginnings or "")]
    findings = [f"{name}: {code} {text}" for name in names for code, text in findings_of(name)]
    print(*findings, sep="\n")
    if findings:
        raise SystemExit(f"{len(findings)} findings in {len(names)} public names")
    print(f"{len(names)} public names are documented")


def public_names() -> Iterator[str]:
    """Yield the full names of what the reference documents, except data."""
    reference = (ROOT / "docs" / "api" / "index.rst").read_text(encoding="utf-8")
    members = runpy.run_path(str(ROOT / "docs" / "_extensions" / "public_members.py"))["MEMBERS"]
    for name in re.findall(r"^   ([\w.]+)$", reference, re.MULTILINE):
        full = f"invariance.{name}"
        if callable(load(full)):
            yield full
            yield from (f"{full}.{member}" for member in members.get(name.split(".")[-1], ()))


def load(name: str) -> Any:
    """Return what has this name, also if a module has the name of a function in it."""
    module, _, attribute = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError:
        return getattr(load(module), attribute)


def findings_of(name: str) -> list[tuple[str, str]]:
    """Return the codes and texts of what numpydoc finds in the docstring of a public name."""
    found = validate(name, PublicDocstring)["errors"]
    found = [(code, text) for code, text in found if code in CHECKS]
    found += wrong_defaults(PublicDocstring(name))
    top_level = name.startswith("invariance.") and name.count(".") == 1
    if top_level and ">>>" not in pydoc.getdoc(load(name)):
        found.append(error("EX01"))
    return found


def wrong_defaults(docstring: PublicDocstring) -> Iterator[tuple[str, str]]:
    """Yield parameters whose documented default is not the default of the signature."""
    if not callable(docstring.obj) or not docstring.signature_parameters:
        return
    signature = inspect.signature(docstring.obj)
    for name, (kind, _) in docstring._doc_parameters(SECTIONS).items():
        if name not in signature.parameters:
            continue
        default = signature.parameters[name].default
        actual = None if default is inspect.Parameter.empty else repr(default).replace("'", '"')
        stated = re.search("default=(.*)", kind)
        if actual is not None and actual.startswith(COMPUTED):
            continue
        if actual != (stated and stated[1]):
            yield "default", f"of {name!r} is {actual}, and is documented as {kind!r}"


if __name__ == "__main__":
    main()
