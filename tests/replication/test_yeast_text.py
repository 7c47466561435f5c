"""deleteome_*.txt and limma_MARG_*.txt."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from yeast_files import GENES, SYMBOLS, TextTable, expression

from invariance.exceptions import DataError, DataWarning
from replication.yeast import GeneNames, Kind, load_yeast, understand

WILD_TYPES = ("wt-tl035 vs. wt", "wt-ea004-1 vs. wt", "wt vs. refpool")
CONTROLS = ("wt-matA vs. wt", "wt-by4743 vs. wt", "wt-ypd vs. wt")
DELETIONS = {
    "gal1-del vs. wt": "YBR020W",  # a symbol of the file, in lower case
    "yil014w-a-del vs. wt": "YIL014W-A",  # a name with a hyphen
    "abf1-del-matA vs. wt-matA": "YKL112W",
    "arg56-del-1 vs. wt": "YML100W",  # the file writes ARG5,6
    "ARG5,6-del-2 vs. wt": "YML100W",
    "yor999w-del vs. wt": "YOR999W",  # not measured
}
WILD = TextTable(WILD_TYPES, expression(3, ()), symbols=None)


def mutants(extra: tuple[str, ...] = (), **changed) -> TextTable:
    conditions = (*DELETIONS, *extra, *CONTROLS)
    values = expression(0, [DELETIONS.get(condition, "") for condition in conditions], seed=1)
    return TextTable(**({"conditions": conditions, "values": values, "swapped": CONTROLS} | changed))


def load(folder: Path, mutated: TextTable, wild: TextTable = WILD, **options):
    files = mutated.write(folder / "deleteome_mutants.txt"), wild.write(folder / "limma_MARG_wt_pool.txt")
    return load_yeast(*files, **options)


def test_deletions_and_wild_types_together(tmp_path: Path) -> None:
    table = mutants()
    found = load(tmp_path, table)
    assert found.genes == GENES
    assert found.samples == (*DELETIONS, *WILD_TYPES)
    assert found.deleted == (*DELETIONS.values(), None, None, None)
    np.testing.assert_array_equal(found.values, np.vstack([table.values[:6], WILD.values]))
    text = found.describe()
    assert all(f"'{condition}'" in text for condition in CONTROLS)
    for file in tmp_path.iterdir():
        assert f"{file.name}: {hashlib.sha256(file.read_bytes()).hexdigest()}" in text
    again = load_yeast(tmp_path)
    assert again.samples == (*DELETIONS, *WILD_TYPES)
    np.testing.assert_array_equal(again.values, found.values)


def test_reporters_of_one_gene_are_averaged(tmp_path: Path) -> None:
    genes, symbols = (*GENES, "YAL001C", "yal001c"), (*SYMBOLS, "TFC3", "TFC3")
    values = np.hstack([mutants().values, np.full((9, 1), 0.5), np.full((9, 1), 0.7)])
    found = load(tmp_path, mutants(genes=genes, symbols=symbols, values=values))
    assert found.genes == GENES
    np.testing.assert_allclose(found.values[:6, 0], (values[:6, 0] + 1.2) / 3, rtol=1e-14)


def test_genes_that_not_all_files_have(tmp_path: Path) -> None:
    wild = TextTable(
        WILD_TYPES, expression(3, ())[:, ::-1][:, 1:], genes=[gene.lower() for gene in GENES[::-1][1:]], symbols=None
    )
    with pytest.warns(DataWarning, match="1 genes are not in all files and were left out: snR10"):
        found = load(tmp_path, mutants(), wild)
    assert found.genes == GENES[:-1]
    np.testing.assert_array_equal(found.values[6:], WILD.values[:, :-1])


def test_missing_values(tmp_path: Path) -> None:
    table = mutants()
    table.values[2, 0] = table.values[5, 5] = np.nan
    with pytest.warns(DataWarning, match="2 genes miss values and were left out: YAL001C, snR10") as caught:
        found = load(tmp_path, table)
    assert len(caught) == 1
    assert found.genes == GENES[1:-1]
    assert "miss values" in found.describe()


def test_names_the_files_do_not_tell(tmp_path: Path) -> None:
    table = mutants(extra=("hsn1-del vs. wt",))
    with pytest.warns(DataWarning, match=r"deleted genes 'hsn1'.*names=\{'hsn1': '\.\.\.'\}"):
        found = load(tmp_path, table)
    assert found.deleted[6] == "HSN1"
    assert "'hsn1'" in found.describe()
    table.values[6, 0] = -5.0
    assert load(tmp_path, table, names={"HSN1": "YAL001C"}).deleted[6] == "YAL001C"


def test_what_is_no_single_deletion(tmp_path: Path) -> None:
    extra = ("gal1-del abf1-del vs. wt", "abf1-oe vs. wt", "gal1-del vs. abf1-del")
    with pytest.warns(DataWarning) as caught:
        found = load(tmp_path, mutants(extra=extra))
    assert all(any(condition in str(warning.message) for warning in caught) for condition in extra)
    assert found.samples == (*DELETIONS, *WILD_TYPES)


@pytest.mark.parametrize(
    ("condition", "kind", "gene"),
    [
        ("swd1-del vs. wt", Kind.DELETION, "swd1"),
        ("swd1-del-matA vs. wt-matA", Kind.DELETION, "swd1"),
        ("wtm1-del vs. wt", Kind.DELETION, "wtm1"),
        ("del1-del-2-vs-wt", Kind.DELETION, "del1"),
        ("yil014c-a-del vs wt", Kind.DELETION, "yil014c-a"),
        ("mf(alpha)1-del vs. wt", Kind.DELETION, "mf(alpha)1"),
        ("atg4.del.1.vs..wt", Kind.DELETION, "atg4"),
        ("SWD1-DEL vs. WT", Kind.DELETION, "SWD1"),
        ("ab1-del-cd2-del vs. wt", Kind.DOUBLE, None),
        ("wt-tl035-vs-wt", Kind.WILD_TYPE, None),
        ("refpool vs. wt", Kind.WILD_TYPE, None),
        ("wt-matA vs. wt", Kind.CONTROL, None),
        ("wt-ypd-vs-wt", Kind.CONTROL, None),
        ("wtm1 vs. wt", Kind.UNKNOWN, None),
        ("gal1-delta vs. wt", Kind.UNKNOWN, None),
        ("gal1-del vs. gal4-del", Kind.UNKNOWN, None),
    ],
)
def test_conditions(condition: str, kind: Kind, gene: str | None) -> None:
    assert understand(condition) == (kind, gene)


def test_names() -> None:
    symbols = [
        ("GAL1", "YBR020W"),
        ("AAA1;BBB1", "YAL001C"),
        ("TWO", "YAL001C"),
        ("TWO", "YBR020W"),
        ("YKL112W", "YAL001C"),
    ]
    called = GeneNames(["YBR020W", "YAL001C", "YKL112W", "YIL014W-A"], symbols, {"odd": "YXX"})
    expected = {
        "gal1": "YBR020W",
        "bbb1": "YAL001C",
        "aaa1": "YAL001C",
        "two": None,
        "ykl112w": "YKL112W",  # a systematic name comes before a symbol
        "yil014w_a": "YIL014W-A",
        "ydr034w-b": "YDR034W-B",
        "q0010": "Q0010",
        "ODD": "YXX",
        "nobody": None,
        "": None,
    }
    assert {name: called.systematic(name) for name in expected} == expected


def test_a_wild_type_in_two_files_is_kept(tmp_path: Path) -> None:
    WILD.write(tmp_path / "limma_MARG_wt_pool_platereader.txt")
    found = load(tmp_path, mutants())
    again = load_yeast(tmp_path)
    assert again.samples == (*found.samples, *(f"{name} (2)" for name in WILD_TYPES))
    assert "wt-tl035 vs. wt (2) as wt-tl035 vs. wt" in again.describe()


def _edit(file: Path, change) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join(change(lines)) + "\n")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:5], lines[5][:40]], r"line 6: \d+ cells, where the first line has 30"),
        (lambda lines: [*lines[:4], lines[4] + "\t1", *lines[5:]], "line 5: 31 cells"),
        (lambda lines: lines[:2], "deleteome.txt ends before the first gene"),
        (lambda lines: [lines[0], *lines[2:]], r"is not a deleteome_\*\.txt or limma_MARG_\*\.txt file"),
        (lambda lines: ["a,b", "1,2"], "is not a deleteome"),
        (lambda lines: [], "is not a deleteome"),
        (
            lambda lines: [*lines[:3], lines[3].replace("-3.0", "x3.0"), *lines[4:]],
            "line 4, column 4: 'x3.0' is no number",
        ),
        (lambda lines: [lines[0].replace("geneSymbol", "x"), *lines[1:]], "line 3 is gene 'YAL001C', where 5 lines"),
    ],
)
def test_broken_files(tmp_path: Path, change, message: str) -> None:
    file = mutants().write(tmp_path / "deleteome.txt")
    _edit(file, change)
    with pytest.raises(DataError, match=message):
        load_yeast(file, WILD.write(tmp_path / "limma_MARG_wt_pool.txt"))


def test_samples_without_values_and_genes_without_names(tmp_path: Path) -> None:
    table = mutants()
    table.values[1] = np.nan
    with pytest.raises(DataError, match=r"without any value: 'yil014w-a-del vs\. wt'"):
        load(tmp_path, table)
    table = mutants()
    np.fill_diagonal(table.values, np.nan)
    with pytest.raises(DataError, match="every gene misses values, 6 in all"):
        load(tmp_path, table)
    wild = TextTable(WILD_TYPES, WILD.values, genes=[f"other{j}" for j in range(6)], symbols=None)
    with pytest.raises(DataError, match=r"'deleteome_mutants.txt', 'limma_MARG_wt_pool.txt' have no gene in common"):
        load(tmp_path, mutants(), wild)
    with pytest.warns(DataWarning, match="1 rows without a systematic name were left out"):
        found = load(
            tmp_path,
            mutants(genes=(*GENES, ""), symbols=(*SYMBOLS, ""), values=np.pad(mutants().values, [(0, 0), (0, 1)])),
        )
    assert found.genes == GENES
