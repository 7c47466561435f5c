"""Kemmeren.RData and its form in HDF5."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from yeast_files import GENES, expression, r_integers, r_list, r_matrix, r_strings, save_r

from invariance.exceptions import DataError, DataWarning, FileError
from replication.yeast import load_yeast

MUTANTS = ("YBR020W", "YIL014W-A", "YML100W")
POSITIONS = [GENES.index(gene) + 1 for gene in MUTANTS]
WILD_TYPES = ("wt-a-vs-wt", "wt-b-vs-wt", "wt-a-vs-wt", "wt-c-vs-wt")
VALUES = expression(4, MUTANTS)
HOLED = np.where(VALUES[:4] == VALUES[1, 2], np.nan, VALUES[:4])


def members(**changed: bytes | None) -> bytes:
    """The list of Kemmeren.RData, with members changed, added, or left out where None."""
    published = {
        "obs": r_matrix(VALUES[:4], WILD_TYPES, GENES),
        "int": r_matrix(VALUES[4:], MUTANTS, GENES),
        "plateobs": r_integers([0, 1, 0, 0]),
        "intpos": r_integers(POSITIONS, names=r_strings(MUTANTS)),
        "p": r_integers([len(GENES)]),
        "genenames": r_strings(GENES),
        "mutantnames": r_strings(MUTANTS),
    }
    return r_list({name: member for name, member in (published | changed).items() if member is not None})


def check(found, wild_type_names=("wt-a-vs-wt", "wt-b-vs-wt", "wt-a-vs-wt (2)", "wt-c-vs-wt")) -> None:
    np.testing.assert_array_equal(found.values, VALUES)
    assert found.genes == GENES
    assert found.deleted == (None, None, None, None, *MUTANTS)
    assert found.samples == (*wild_type_names, *MUTANTS)


class TestR:
    @pytest.fixture(autouse=True)
    def _reader(self) -> None:
        pytest.importorskip("rdata")

    def test_published_form(self, tmp_path: Path) -> None:
        found = load_yeast(save_r(tmp_path / "Kemmeren.RData", data=members()))
        check(found)
        assert found.silenced == 1.0

    @pytest.mark.parametrize(
        "left_out",
        [
            {"mutantnames": None},  # the older form of the file
            {"intpos": None},
            {"intpos": None, "mutantnames": None},  # the row names of int are left
            {"genenames": None},
            {"int": r_matrix(VALUES[4:])},
        ],
    )
    def test_forms_with_less(self, tmp_path: Path, left_out: dict) -> None:
        check(load_yeast(save_r(tmp_path / "k.RData", data=members(**left_out))))

    def test_swapped(self, tmp_path: Path) -> None:
        swapped = {"obs": r_matrix(VALUES[:4].T, GENES, WILD_TYPES), "int": r_matrix(VALUES[4:].T, GENES, MUTANTS)}
        found = load_yeast(save_r(tmp_path / "k.RData", data=members(**swapped)))
        check(found, [f"wild type {i}" for i in range(1, 5)])
        assert "rows and columns swapped" in found.describe()

    def test_no_gene_that_is_measured(self, tmp_path: Path) -> None:
        changed = {"intpos": None, "mutantnames": r_strings(["gal1", "abf1", "arg5"])}
        file = save_r(tmp_path / "k.RData", data=members(**changed))
        with pytest.warns(DataWarning, match="No deleted gene is among the measured ones"):
            load_yeast(file)

    def test_same_sample_twice(self, tmp_path: Path) -> None:
        obs = VALUES[:4].copy()
        obs[2] = obs[0]
        found = load_yeast(save_r(tmp_path / "k.RData", data=members(obs=r_matrix(obs, WILD_TYPES, GENES))))
        assert "all of them kept: wt-a-vs-wt (2) as wt-a-vs-wt." in found.describe()
        assert "same values" not in load_yeast(save_r(tmp_path / "k.RData", data=members())).describe()

    def test_names_of_other_rows(self, tmp_path: Path) -> None:
        changed = {"intpos": r_integers([position - 1 for position in POSITIONS]), "mutantnames": None}
        file = save_r(tmp_path / "k.RData", data=members(**changed))
        with pytest.warns(DataWarning, match="Only in 0% .* do not seem to belong to their rows"):
            load_yeast(file)

    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"intpos": r_integers([0, 2, 3]), "mutantnames": None}, "intpos reaches from 0"),
            ({"intpos": r_integers([1, 2, 7]), "mutantnames": None}, "reaches from 1 to 7"),
            ({"intpos": r_matrix(np.array([[1, np.nan, 2]])), "mutantnames": None}, "nan to nan"),
            ({"intpos": r_integers([2, 3, 4])}, "first 'YKL112W' and 'YML100W'"),
            ({"mutantnames": r_strings(MUTANTS[:2])}, "first 3 and 2"),
            ({"genenames": r_strings(GENES[:5])}, "5 gene names and 3 deletions"),
            ({"genenames": r_strings(GENES[::-1]), "mutantnames": None}, "columns of obs and genenames"),
            ({"genenames": None, "obs": r_matrix(VALUES[:4])}, "does not name the genes"),
            ({"intpos": None, "mutantnames": None, "int": r_matrix(VALUES[4:])}, "which genes are deleted"),
            ({"obs": None}, "its objects are 'data'"),
            ({"obs": r_matrix(HOLED, WILD_TYPES, GENES)}, "'wt-b-vs-wt'"),
        ],
    )
    def test_complaints(self, tmp_path: Path, changed: dict, named: str) -> None:
        file = save_r(tmp_path / "k.RData", data=members(**changed))
        with pytest.raises(DataError, match=named):
            load_yeast(file)

    def test_cut_off(self, tmp_path: Path) -> None:
        file = save_r(tmp_path / "k.RData", data=members())
        whole = file.read_bytes()
        for share in (0.2, 0.5, 0.97):
            file.write_bytes(whole[: int(share * len(whole))])
            with pytest.raises(DataError, match=r"k.RData .*https://deleteome"):
                load_yeast(file)

    def test_reader_is_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "rdata", None)
        with pytest.raises(DataError, match=r"k\.RData needs rdata: install it with pip install 'invariance\[genes\]'"):
            load_yeast(save_r(tmp_path / "k.RData", data=members()))


class TestHDF5:
    @pytest.fixture
    def h5py(self):
        return pytest.importorskip("h5py")

    @staticmethod
    def write(h5py, file: Path, **changed) -> Path:
        arrays = {
            "obser/data": VALUES[:4].T,
            "inter/data": VALUES[4:].T,
            "obser/extplate": np.zeros(4, dtype=int),
            "ids/genes": np.array(GENES, dtype="S12"),
            "ids/mutants": np.array(MUTANTS, dtype="S12"),
        }
        with h5py.File(file, "w") as target:
            for name, array in (arrays | changed).items():
                if array is not None:
                    target[name] = array
        return file

    NAMES = tuple(f"wild type {i}" for i in range(1, 5))

    def test_published_form(self, tmp_path: Path, h5py) -> None:
        found = load_yeast(self.write(h5py, tmp_path / "kemmeren.hdf5"))
        check(found, self.NAMES)
        assert "swapped" not in found.describe()

    def test_swapped_and_other_strings(self, tmp_path: Path, h5py) -> None:
        changed = {"obser/data": VALUES[:4], "inter/data": VALUES[4:], "ids/genes": list(GENES)}
        found = load_yeast(self.write(h5py, tmp_path / "k.h5", **changed))
        check(found, self.NAMES)
        assert "swapped" in found.describe()

    def test_square_matrices_are_read_as_published(self, tmp_path: Path, h5py) -> None:
        mutants = (*GENES[1:], GENES[0])
        values = expression(6, mutants)
        changed = {
            "obser/data": values[:6].T,
            "inter/data": values[6:].T,
            "ids/mutants": np.array(mutants, dtype="S12"),
        }
        found = load_yeast(self.write(h5py, tmp_path / "k.h5", **changed))
        np.testing.assert_array_equal(found.values, values)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"ids/mutants": None}, "has no ids/mutants; it holds .*'ids/genes'"),
            ({"inter/data": VALUES[4:6].T}, "6 gene names and 3 deletions, which do not fit"),
            ({"obser/data": VALUES[0]}, "do not fit matrices of shapes 6 "),
            ({"ids/genes": np.array([*GENES[:5], "YAL001C"], dtype="S12")}, "measured twice: 'YAL001C'"),
        ],
    )
    def test_complaints(self, tmp_path: Path, h5py, changed: dict, message: str) -> None:
        with pytest.raises(DataError, match=message):
            load_yeast(self.write(h5py, tmp_path / "k.h5", **changed))

    def test_cut_off(self, tmp_path: Path, h5py) -> None:
        file = self.write(h5py, tmp_path / "k.h5")
        file.write_bytes(file.read_bytes()[:-500])
        with pytest.raises(DataError, match=r"k.h5 .*https://deleteome"):
            load_yeast(file)

    def test_reader_is_not_installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file = tmp_path / "k.h5"
        file.write_bytes(b"\x89HDF\r\n\x1a\n")
        monkeypatch.setitem(sys.modules, "h5py", None)
        with pytest.raises(DataError, match=r"k\.h5 needs h5py: install it with pip install 'invariance\[genes\]'"):
            load_yeast(file)


def test_what_is_no_file_of_yeast(tmp_path: Path) -> None:
    np.savez(tmp_path / "panels.npz", X=np.zeros(3))
    file = save_r(tmp_path / "k.RData", data=members())
    for paths, error, named in (
        ((tmp_path / "nowhere.RData",), FileError, r"nowhere\.RData"),
        ((), DataError, "path"),
        ((tmp_path,), DataError, r"\.txt"),
        ((tmp_path / "panels.npz",), DataError, "load_yeast_panels"),
        ((file, file), DataError, r"k\.RData"),
    ):
        with pytest.raises(error, match=named):
            load_yeast(*paths)
