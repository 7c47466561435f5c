"""The published yeast files: R, HDF5, text and panels."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from invariance.exceptions import DataError, DataWarning, FileError, SettingError
from replication.yeast import (
    PANELS,
    YeastDeletions,
    deleted_in,
    load_yeast,
    load_yeast_panels,
    systematic_names,
)

GENES = ("YAL001C", "YBR020W", "YIL014W-A", "YKL112W", "YML100W", "SNR10")
SYMBOLS = ("TFC3", "GAL1", "", "ABF1", "ARG5,6", "SNR10")
MUTANTS = ("YBR020W", "YIL014W-A", "YML100W")
DELETED = (None, None, None, None, *MUTANTS)


def expression(deleted: tuple[str | None, ...], seed: int = 0) -> np.ndarray:
    """(samples, genes); a deleted gene is far down."""
    values = np.random.default_rng(seed).normal(0, 0.1, (len(deleted), len(GENES)))
    for row, gene in enumerate(deleted):
        if gene in GENES:
            values[row, GENES.index(gene)] = -3.0 - 0.01 * row
    return values.round(6)


VALUES = expression(DELETED)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"genes": GENES[:5]}, "5 genes"),
        ({"deleted": DELETED[1:]}, "6 deleted"),
        ({"genes": (*GENES[:5], "YAL001C")}, "measured twice: 'YAL001C'"),
        (
            {"values": np.where(VALUES[1, 2] == VALUES, np.nan, VALUES)},
            "1 values .* gene 'YIL014W-A' in sample 't'",
        ),
        ({"deleted": (None,) * 7}, "all 7 samples"),
    ],
)
def test_what_is_no_set_of_deletions(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        YeastDeletions(
            **(
                {"values": VALUES, "genes": GENES, "samples": tuple("stuvwxy"), "deleted": DELETED}
                | changed
            )
        )


def write_r(path: Path, **changed: Any) -> Path:
    rdata = pytest.importorskip("rdata")
    published = {
        "obs": VALUES[:4],
        "int": VALUES[4:],
        "intpos": np.array([GENES.index(gene) + 1 for gene in MUTANTS], dtype=np.int32),
        "genenames": np.array(GENES),
        "mutantnames": np.array(MUTANTS),
    }
    kept = {name: member for name, member in (published | changed).items() if member is not None}
    rdata.write_rda(path, {"data": kept})
    return path


def write_hdf5(path: Path, **changed: Any) -> Path:
    h5py = pytest.importorskip("h5py")
    arrays = {
        "obser/data": VALUES[:4].T,
        "inter/data": VALUES[4:].T,
        "ids/genes": np.array(GENES, dtype="S12"),
        "ids/mutants": np.array(MUTANTS, dtype="S12"),
    }
    with h5py.File(path, "w") as target:
        for name, array in (arrays | changed).items():
            if array is not None:
                target[name] = array
    return path


@pytest.mark.parametrize(
    ("write", "changed"),
    [
        (write_r, {}),
        (write_r, {"mutantnames": None}),
        (write_r, {"intpos": None}),
        (write_hdf5, {}),
        (write_hdf5, {"ids/genes": list(GENES)}),
    ],
)
def test_matrices(tmp_path: Path, write: Any, changed: dict[str, Any]) -> None:
    found = load_yeast(write(tmp_path / "file", **changed))
    np.testing.assert_array_equal(found.values, VALUES)
    assert (found.genes, found.deleted) == (GENES, DELETED)
    assert found.samples[3:5] == ("wild type 4", "YBR020W")
    assert found.silenced == 1.0
    assert hashlib.sha256((tmp_path / "file").read_bytes()).hexdigest() in found.describe()


@pytest.mark.parametrize(
    ("write", "changed", "named"),
    [
        (write_r, {"intpos": np.array([0, 2, 3], dtype=np.int32)}, "from 1"),
        (write_r, {"intpos": np.array([2, 3, 4], dtype=np.int32)}, "disagree"),
        (write_r, {"intpos": None, "mutantnames": None}, "mutantnames"),
        (write_r, {"genenames": np.array(GENES[:5])}, "5 gene names and 3 deletions"),
        (write_r, {"obs": None}, "published list"),
        (write_hdf5, {"ids/mutants": None}, "mutants"),
        (write_hdf5, {"obser/data": VALUES[:4]}, "do not fit"),
    ],
)
def test_broken_matrices(tmp_path: Path, write: Any, changed: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        load_yeast(write(tmp_path / "file", **changed))


@pytest.mark.parametrize("name", ["obs", "int"])
def test_matrices_of_genes_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    rdata = pytest.importorskip("rdata")
    xarray = pytest.importorskip("xarray")
    file = write_r(tmp_path / "file")
    found = rdata.read_rda(file)["data"]
    monkeypatch.setattr(rdata, "read_rda", lambda *_, **__: {"data": found})
    found[name] = xarray.DataArray(
        found[name], [("dim_0", np.arange(len(found[name]))), ("dim_1", list(GENES))]
    )
    assert load_yeast(file).genes == GENES
    found[name] = found[name].assign_coords(dim_1=list(GENES[::-1]))
    with pytest.raises(DataError, match="not the same genes in the same order"):
        load_yeast(file)


def test_files_that_are_cut_off_and_deletions_of_other_rows(tmp_path: Path) -> None:
    file = write_r(tmp_path / "file", intpos=None, mutantnames=np.array([*MUTANTS[1:], MUTANTS[0]]))
    with pytest.warns(DataWarning, match="Only in 0%"):
        load_yeast(file)
    for file in (write_r(tmp_path / "r"), write_hdf5(tmp_path / "hdf5")):
        file.write_bytes(file.read_bytes()[:-60])
        with pytest.raises(DataError, match="Is the file whole"):
            load_yeast(file)


CONDITIONS = {
    "gal1-del vs. wt": "YBR020W",  # a symbol of the file, in lower case
    "yil014w-a-del vs. wt": "YIL014W-A",  # a name with a hyphen
    "abf1-del-matA vs. wt-matA": "YKL112W",
    "ARG5,6-del-2 vs. wt": "YML100W",
    "yor999w-del vs. wt": "YOR999W",  # not measured
    "wt-matA vs. wt": "",
}
WILD_TYPES = {"wt-tl035 vs. wt": None, "wt vs. refpool": None}


def write_text(
    path: Path, conditions: dict[str, Any], symbols: bool, seed: int = 0, genes: Any = GENES
) -> np.ndarray:
    """For each condition columns A and M; with symbols as deleteome files, without as limma_MARG
    files."""
    values = expression(tuple(conditions.values()), seed)
    ids = ["reporterId", "systematicName", "geneSymbol"] if symbols else ["systematicName"]
    lines = [
        [*ids, *(condition for condition in conditions for _ in range(2))],
        [*["dataType"] * len(ids), *["A", "M"] * len(conditions)],
    ]
    lines += (
        []
        if symbols
        else [[name, *["1"] * 2 * len(conditions)] for name in ("dyeSwap", "protocol", "sample")]
    )
    for j, gene in enumerate(genes):
        names = [f"r{j}", gene, SYMBOLS[j]] if symbols else [gene]
        lines.append([*names, *(cell for row in values for cell in ("9.5", repr(float(row[j]))))])
    path.write_text("".join("\t".join(line) + "\n" for line in lines))
    return values


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_text(tmp_path / "deleteome_mutants.txt", CONDITIONS, symbols=True, seed=1)
    write_text(tmp_path / "limma_MARG_wt_pool.txt", WILD_TYPES, symbols=False)
    return tmp_path


def test_deletions_and_wild_types_together(folder: Path) -> None:
    with pytest.warns(DataWarning, match="Left out.*'wt-matA vs. wt'"):
        found = load_yeast(folder)
    assert found.genes == GENES
    assert found.samples == (*list(CONDITIONS)[:5], *WILD_TYPES)
    assert found.deleted == (*list(CONDITIONS.values())[:5], None, None)
    expected = [expression(tuple(CONDITIONS.values()), 1)[:5], expression((None, None))]
    np.testing.assert_array_equal(found.values, np.vstack(expected))


@pytest.mark.filterwarnings("ignore:Left out")
def test_genes_of_several_reporters_and_genes_without_all_values(folder: Path) -> None:
    file = folder / "deleteome_mutants.txt"
    *lines, last = file.read_text().splitlines()
    again = lines[2].replace("YAL001C", "yal001c").split("\t")
    first = [float(cell) for cell in again[4::2]]
    again[4::2] = ["0.5"] * 6
    file.write_text("\n".join([*lines, "\t".join(again), "\t".join(last.split("\t")[:8])]))
    with pytest.warns(DataWarning, match="1 genes .* left out: SNR10"):
        found = load_yeast(folder)
    assert found.genes == GENES[:-1]
    np.testing.assert_allclose(found.values[:5, 0], (np.array(first[:5]) + 0.5) / 2)


@pytest.mark.filterwarnings("ignore:Left out")
def test_names_that_the_files_do_not_tell(folder: Path) -> None:
    write_text(folder / "more.txt", {"hsn1-del vs. wt": "YAL001C"}, symbols=True)
    with pytest.warns(DataWarning, match=r"names=\{'hsn1': '\.\.\.'\}"):
        assert load_yeast(folder).deleted[-1] == "HSN1"
    assert load_yeast(folder, names={"HSN1": "YAL001C"}).deleted[-1] == "YAL001C"
    (folder / "edition.txt").write_text((folder / "more.txt").read_text())
    with pytest.raises(DataError, match="two of the files"):
        load_yeast(folder)


@pytest.mark.parametrize(
    ("condition", "gene"),
    [
        ("del1-del-2-vs-wt", "del1"),
        ("atg4.del.1.vs..wt", "atg4"),
        ("ab1-del-cd2-del vs. wt", ""),
        ("refpool vs. wt", None),
        ("wt-ypd-vs-wt", ""),
        ("wtm1 vs. wt", ""),
        ("gal1-delta vs. wt", ""),
        ("gal1-del vs. gal4-del", ""),
    ],
)
def test_conditions(condition: str, gene: str | None) -> None:
    assert deleted_in(condition) == gene


def test_names() -> None:
    symbols = [
        ("AAA1;BBB1", "YAL001C"),
        ("TWO", "YAL001C"),
        ("TWO", "YBR020W"),
        ("YKL112W", "YAL001C"),
    ]
    called = systematic_names(["YBR020W", "YAL001C", "YKL112W"], symbols, {"odd": "YXX"})
    expected = {
        "bbb1": "YAL001C",
        "two": "TWO",
        "ykl112w": "YKL112W",
        "yil014w_a": "YIL014W-A",
        "ODD": "YXX",
    }
    assert {name: called(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:4], lines[4] + "\t1", *lines[5:]], "is damaged"),
        (lambda lines: [lines[0], *lines[2:]], "is not a deleteome"),
        (lambda lines: [*lines[:3], lines[3].replace("-3.0", "x3.0"), *lines[4:]], "is damaged"),
        (lambda lines: [lines[0].replace("geneSymbol", "x"), *lines[1:]], "genes before line 6"),
        (
            lambda lines: [line.replace("\tY", "\tX") for line in lines[:-1]],
            "no gene has all values",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Left out")
def test_broken_text(folder: Path, change: Any, message: str) -> None:
    file = folder / "deleteome_mutants.txt"
    file.write_text("\n".join(change(file.read_text().splitlines())) + "\n")
    with pytest.raises(DataError, match=message):
        load_yeast(folder)


def test_what_is_no_file_of_yeast(tmp_path: Path) -> None:
    file = write_r(tmp_path / "k.RData")
    for paths, error in (
        ((tmp_path / "nowhere",), FileError),
        ((), DataError),
        ((file, file), DataError),
    ):
        with pytest.raises(error, match="https://deleteome"):
            load_yeast(*paths)


def test_panels(tmp_path: Path) -> None:
    position = [-1 if gene is None else GENES.index(gene) for gene in DELETED]
    arrays: dict[str, Any] = {
        "X": [VALUES, 2 * VALUES],
        "samples": [list("stuvwxy")] * 2,
        "genes": [GENES] * 2,
        "is_obs": [[gene is None for gene in DELETED]] * 2,
        "ko_index": [position] * 2,
    }
    np.savez(tmp_path / PANELS, **arrays)
    first, second = load_yeast_panels(tmp_path)
    np.testing.assert_array_equal(second.values, 2 * first.values)
    assert (first.genes, first.deleted) == (GENES, DELETED)
    np.savez(tmp_path / "other.npz", **arrays | {"is_obs": [[True] * 7] * 2})
    np.savez(tmp_path / "less.npz", X=[VALUES])
    for name, named in (("other", "do not agree"), ("less", "samples"), ("nowhere", "nowhere")):
        with pytest.raises(DataError, match=named):
            load_yeast_panels(tmp_path / f"{name}.npz")


CHANGES = (0, 3, 4, 900, 2)
STRAINS_DELETED = ("YBR020W", "YIL014W-A", "YML100W", "YKL112W", "YER000C")


def write_strains(path: Path, **changed: Any) -> Path:
    arrays = {
        "log2_ratio_times_2000": np.round(2000 * expression(STRAINS_DELETED)).astype(np.int16),
        "genes": np.array(GENES),
        "deleted": np.array(STRAINS_DELETED),
        "replicate": np.array(list("11121")),
        "changes": np.array(CHANGES),
    }
    np.savez(
        path, **{name: array for name, array in (arrays | changed).items() if array is not None}
    )
    return path


def test_strains_without_wild_types(tmp_path: Path) -> None:
    file = write_strains(tmp_path / "deletions.npz")
    for source in (file, tmp_path):
        found = load_yeast(source)
        np.testing.assert_allclose(found.values, expression(STRAINS_DELETED), atol=0.00025)
        assert (found.genes, found.deleted) == (GENES, STRAINS_DELETED)
        assert found.samples[3] == "YKL112W 2"
        assert found.observational.tolist() == [True, True, False, False, True]
        assert not found.wild_type.any()
        assert found.environments[2] == "responsive"
        assert found.silenced == 1.0
        said = found.describe()
        assert "0 wild types and 5 deletions of 5 genes" in said
        assert (
            "3 non-responsive strains, which change fewer than 4 genes, in place of wild types"
            in said
        )
        assert "Deleted and not measured: YER000C." in said
        assert hashlib.sha256(file.read_bytes()).hexdigest() in said


def test_the_file_decides_what_environment_one_can_be(tmp_path: Path) -> None:
    file = write_strains(tmp_path / "deletions.npz")
    assert load_yeast(file, observational="non-responsive").observational.sum() == 3
    with pytest.raises(DataError, match=r"deletions\.npz has no wild types"):
        load_yeast(file, observational="wild-types")
    with pytest.raises(
        SettingError, match="observational='quiet' is not known: use wild-types or non-responsive"
    ):
        load_yeast(file, observational="quiet")
    published = write_hdf5(tmp_path / "published")
    assert load_yeast(published, observational="wild-types").observational.sum() == 4
    with pytest.raises(DataError, match="how many genes a strain changes"):
        load_yeast(published, observational="non-responsive")


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"changes": None}, "changes"),
        ({"changes": np.array(CHANGES[1:])}, "4 numbers of changes for 5 strains"),
        ({"genes": np.array(GENES[1:])}, "values have shape"),
        (
            {"changes": np.zeros(5)},
            "all 5 samples are non-responsive samples or all are responsive samples",
        ),
    ],
)
def test_broken_strains(tmp_path: Path, changed: dict[str, Any], named: str) -> None:
    with pytest.raises(DataError, match=named):
        load_yeast(write_strains(tmp_path / "deletions.npz", **changed))


def test_a_strain_file_that_is_cut_short(tmp_path: Path) -> None:
    file = write_strains(tmp_path / "deletions.npz")
    file.write_bytes(file.read_bytes()[:600])
    with pytest.raises(DataError, match=r"cannot be read as deletions\.npz"):
        load_yeast(file)


def test_a_strain_file_without_an_array(tmp_path: Path) -> None:
    file = write_strains(tmp_path / "deletions.npz")
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive if name != "replicate"}
    np.savez(file, **arrays)
    with pytest.raises(DataError, match="has no 'replicate'"):
        load_yeast(file)
