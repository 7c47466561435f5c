from __future__ import annotations

import pickle
import warnings
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from invariance import Moments
from invariance.data import sources as base
from invariance.data.reading import TableFile, read_columns
from invariance.data.sources import source_of
from invariance.exceptions import DataError, DataWarning
from source_rows import batches_of, rows_of

ROWS = [(1.5, "a"), (2.5, "b"), (3.5, "a")]
TABLE = pa.table({"x": [1.5, 2.5, 3.5], "site": ["a", "b", "a"]})


def write(path: Path, table: pa.Table = TABLE, row_group_size: int | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=row_group_size)
    elif path.suffix == ".xlsx":
        table.to_pandas().to_excel(path, index=False)
    else:
        table.to_pandas().to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet", ".xlsx"])
def test_every_kind_of_file(tmp_path: Path, ending: str) -> None:
    path = write(tmp_path / f"table{ending}")
    assert rows_of(path, ["x"]) == rows_of(str(path), ["x"]) == rows_of([path], ["x"]) == ROWS
    source = source_of(path)
    assert source.name == path.name
    assert source.schema.names == ["x", "site"]
    assert source.rereadable


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_files_of_a_folder_in_natural_order(
    tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for n in (10, 2, 1):
        write(tmp_path / "data" / f"part-{n}{ending}", pa.table({"x": [float(n)], "site": ["a"]}))
    wanted = [(1.0, "a"), (2.0, "a"), (10.0, "a")]
    monkeypatch.chdir(tmp_path)
    for rows in ("data", Path("data"), f"data/*{ending}", "**/part-*", "d*"):
        assert rows_of(rows, ["x"]) == wanted
    backwards = [f"data/part-{n}{ending}" for n in (10, 2, 1)]
    assert rows_of(backwards, ["x"]) == wanted[::-1]


def test_tasks_travel_to_other_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for ending in (".csv", ".parquet"):
        write(tmp_path / ending[1:] / "site=4" / f"a{ending}", TABLE.drop("site"))
    monkeypatch.chdir(tmp_path)
    sent = [
        pickle.dumps(task)
        for kind in ("csv", "parquet")
        for task in source_of(kind).tasks("site", ["x"])
    ]
    monkeypatch.chdir("/")
    for task in map(pickle.loads, sent):
        (batch,) = task.batches(["site", "x"])
        assert batch.to_pydict() == {"site": ["4"] * 3, "x": [1.5, 2.5, 3.5]}


def test_a_file_with_its_form_may_be_a_folder(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x;site\n?;a\n")
    assert rows_of(TableFile.of(tmp_path, sep=";", na=["?"]), ["x"]) == [(None, "a")] * 2


def test_what_hides_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet")
    for name in ("_SUCCESS", ".a.parquet.crc", "_temporary/b.parquet", ".git/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("nothing")
    for rows in (tmp_path, f"{tmp_path}/*", f"{tmp_path}/**"):
        assert rows_of(rows, ["x"]) == ROWS


@pytest.mark.parametrize(
    ("labels", "values", "kind"),
    [
        (["1", "2"], ["1", "2"], pa.int64()),
        (["1", "1.0"], ["1", "1.0"], pa.float64()),
        (["01", "02"], ["01", "02"], None),
        (["12345678901234567", "2"], ["12345678901234567", "2"], None),
        (["new%20york", "a=b"], ["new york", "a=b"], None),
        (["__HIVE_DEFAULT_PARTITION__", "7"], [None, "7"], pa.int64()),
        (["__HIVE_DEFAULT_PARTITION__", "b"], [None, "b"], None),
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_labels_in_paths(
    tmp_path: Path, labels: list[str], values: list[object], kind: object, ending: str
) -> None:
    one = pa.table({"x": [1.0, 2.0]})
    paths = [
        write(tmp_path / "data" / f"site={label}" / "year=2020" / f"a{ending}", one)
        for label in labels
    ]
    wanted = [(x, value) for value in values for x in (1.0, 2.0)]
    for rows in (
        tmp_path / "data",
        f"{tmp_path}/data/*/*/*{ending}",
        paths,
        [path.parents[1] for path in paths],
    ):
        found = rows_of(rows, ["x"])
        assert sorted(found, key=repr) == sorted(wanted, key=repr)
        assert {type(label) for _, label in found} == set(map(type, values))
    schema = source_of(tmp_path / "data").schema
    assert schema.names == ["x", "site", "year"]
    assert schema.field("site").type == (kind or pa.dictionary(pa.int32(), pa.string()))
    assert {row[0] for row in rows_of(tmp_path / "data", ["year", "x"])} == {2020}


def test_a_label_that_is_a_column_too(tmp_path: Path) -> None:
    for ending in (".csv", ".parquet"):
        write(tmp_path / ending[1:] / "site=a" / f"a{ending}")
        with pytest.raises(DataError, match="'site'"):
            rows_of(tmp_path / ending[1:], ["x"])


@pytest.mark.parametrize("other", ["b", "kind=1/b", "site=a/site=b/b"])
def test_labels_must_be_those_of_all(tmp_path: Path, other: str) -> None:
    write(tmp_path / "site=a" / "a.csv", TABLE.drop("site"))
    write(tmp_path / f"{other}.csv", TABLE.drop("site"))
    with pytest.raises(DataError, match=r"give it the labels .*'site'"):
        source_of(tmp_path)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
@pytest.mark.parametrize(
    ("second", "message"),
    [
        ({"x": [1.0]}, r"b/2.* and a/1.* differ in the column '(Site', ')?site'"),
        ({"x": [1.0], "site": ["a"], "z": [2.0]}, r"b/2.* differ in the column 'z'"),
        ({"x": [1.0], "Site": ["a"]}, r"b/2.* and a/1.* differ in the column '(Site', ')?site'"),
    ],
)
def test_other_columns_or_types_are_refused(
    tmp_path: Path, ending: str, second: dict, message: str
) -> None:
    write(tmp_path / "a" / f"1{ending}")
    write(tmp_path / "b" / f"2{ending}", pa.table(second))
    with pytest.raises(DataError, match=message):
        rows_of(tmp_path, ["x"])


def test_numbers_of_several_types_and_orders_belong_together(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", pa.table({"x": pa.nulls(1), "site": ["a"]}))
    write(
        tmp_path / "2.parquet",
        pa.table({"site": pa.array(["a"]).dictionary_encode(), "x": [2**60 + 1]}),
    )
    write(
        tmp_path / "3.parquet", pa.table({"x": [0.5], "site": pa.array(["b"], pa.large_string())})
    )
    assert rows_of(tmp_path, ["x"]) == [(None, "a"), (2**60 + 1, "a"), (0.5, "b")]
    assert source_of(tmp_path).schema.field("x").type == pa.int64()
    write(tmp_path / "4.parquet", pa.table({"x": ["?"], "site": ["b"]}))
    with pytest.raises(
        DataError, match=r"'x' holds text in 4\.parquet, and numbers in pieces before"
    ):
        rows_of(tmp_path, ["x"])


def test_kinds_are_not_mixed(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    write(tmp_path / "a.csv.gz")
    with pytest.raises(DataError, match=r"several kinds: 'a\.csv', 'a\.csv\.gz'") as told:
        source_of(tmp_path)
    assert rows_of(str(told.value).split("such as '")[1].split("'")[0], ["x"]) == ROWS


@pytest.mark.parametrize("rows", ["", "*.csv", "a.csv", "none/*/*.parquet"])
def test_nothing_to_read(tmp_path: Path, rows: str) -> None:
    with pytest.raises(DataError, match="Check the path and the working directory"):
        source_of(f"{tmp_path}/{rows}")


def test_no_file_counts_twice(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv")
    (tmp_path / "b.csv").symlink_to(path)
    for rows in ([path, path], [tmp_path / "b.csv", path], tmp_path):
        with pytest.raises(DataError, match="twice"):
            source_of(rows)
    assert len(rows_of([path, write(tmp_path / "c.csv")], ["x"])) == 6


def test_broken_pages_name_the_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.parquet",
        pa.table({"x": [float(n) for n in range(10_000)], "site": ["a"] * 10_000}),
    )
    content = bytearray(path.read_bytes())
    content[4:2_000] = b"\xff" * 1_996
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"^a\.parquet cannot be read"):
        rows_of(path, ["x"])


# ---------------------------------------------------------------- parquet


def test_small_files_share_tasks_and_large_groups_come_in_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "TASK_BYTES", 8 * 2 * 100)  # of two columns
    monkeypatch.setattr(base, "TASK_ROWS_PER_COLUMN", 0)
    monkeypatch.setattr(base, "_BATCH_ROWS", 30)

    def table(n: int, start: int = 0) -> pa.Table:
        return pa.table({"x": [float(k) for k in range(start, start + n)], "site": ["a"] * n})

    sizes = [40, 60, 1, 250, 99, 0, 1, 100]
    for n, size in enumerate(sizes):
        write(tmp_path / f"{n}.parquet", table(size, sum(sizes[:n])))
    source = source_of(tmp_path)
    tasks = source.tasks("site", ["x"])
    found = [[batch.num_rows for batch in task.batches(["x", "site"])] for task in tasks]
    assert [sum(each) for each in found] == [100, 1, 250, 100, 100]
    assert max(map(max, found)) == 30
    assert [row[0] for row in rows_of(source, ["x"])] == list(range(sum(sizes)))
    groups = source_of(
        write(tmp_path / "groups" / "a.parquet", table(330), row_group_size=33)
    ).tasks("site", ["x"])
    assert [sum(batch.num_rows for batch in task.batches(["x"])) for task in groups] == [
        99,
        99,
        99,
        33,
    ]


def test_stated_words_for_missing_values(tmp_path: Path) -> None:
    table = pa.table(
        {
            "x": [-999, 2**60 + 1, None],
            "t": ["?", "b", "-999"],
            "f": [True, False, True],
            "site": ["a", "?", "b"],
        }
    )
    path = write(tmp_path / "a.parquet", table)
    wanted = [(None, None, True, "a"), (2**60 + 1, "b", False, None), (None, None, True, "b")]
    assert rows_of(path, ["x", "t", "f"], na=["?", "-999"]) == wanted


# ---------------------------------------------------------------- text, as one file in memory is
# read


@pytest.fixture
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_BATCH_ROWS", 2)


@pytest.mark.usefixtures("few_rows")
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("x,y,site\n1.5,1,1\n2,2,1.0\n,3,01\n-1e3,4,a\n", {}),
        ("x,y,site\n1.5,1,1\n2,2,1.5\nNA,3,2\nn.a.,4,2\n", {"na": ["n.a."]}),
        ("x;y;site\n1,5;1;a\n2,5;2;b\n3;3;a\n", {"decimal": ","}),
        ("x;y;site\n1.234,5;1;a\n2,5;2;b\n3;3;a\n", {"thousands": "."}),
        ('x|y|site\n"1.5"|1|"a|b"\n2|2|"a\nb"\n3|3|c\n', {"sep": "|"}),
        ("x,y,site\n1.5,1,köln\n2,2,køge\n3,3,köln\n", {"encoding": "latin-1"}),
        ("sep=;\nx;y;site\n1.5;1;a\n2;2;b\n3;3;a\n", {}),
        (" x , y , site \n1.5, 1, a\n2, 2, b\n3, 3, a\n", {}),
    ],
)
def test_the_same_values_and_environments_as_in_memory(
    tmp_path: Path, text: str, form: dict
) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding=form.get("encoding", "utf-8"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of decimal commas
        frame = read_columns(TableFile.of(path, **form), ["x", "y", "site"], labels="site")
        found = rows_of(path, ["x", "y"], **form)
    frame = frame.astype(object).where(frame.notna(), None)
    assert found == list(frame.itertuples(index=False, name=None))


@pytest.mark.usefixtures("few_rows")
def test_text_is_decided_by_the_first_value_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("x,t,v,site\n1,,,a\n2,,,a\n3,,,a\n")
    (tmp_path / "2.csv").write_text("x,t,v,site\n4,b7,,a\n5,01,,a\n6,3.0,7,a\n")
    (tmp_path / "3.csv").write_text("x,t,v,site\n7,001,8,a\n")
    found = rows_of(tmp_path, ["x", "t", "v"])
    assert [row[1] for row in found] == [None, None, None, "b7", "01", "3.0", "001"]
    assert [row[2] for row in found] == [None] * 5 + [7, 8]
    kinds = {
        str(batch.schema.field("t").type)
        for batch in batches_of(source_of(tmp_path), ["t"], "site")
    }
    assert len(kinds) == 1


@pytest.mark.usefixtures("few_rows")
def test_text_after_numbers_is_refused_and_both_remedies_work(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("x,y,site\n1,1,a\n02,2,a\n3,3,a\n")
    (tmp_path / "2.csv").write_text("x,y,site\n4,4,a\n?,5,b\n")
    with pytest.raises(
        DataError, match=r"'x' holds numbers.*\('\?'\).*na=\['\?'\].*categorical=\['x'\]"
    ):
        Moments.from_rows(tmp_path, "y", "site")
    assert [row[0] for row in rows_of(tmp_path, ["x"], na=["?"])] == [1, 2, 3, 4, None]
    assert [row[0] for row in rows_of(tmp_path, ["x"], words=["x"])] == ["1", "02", "3", "4", "?"]


def test_sheets(tmp_path: Path) -> None:
    path = tmp_path / "book.xlsx"
    with pd.ExcelWriter(path) as book:
        pd.DataFrame({"x": [1.5, 2.5, 3], "site": ["a", 1, 2.5]}).to_excel(
            book, sheet_name="one", index=False
        )
        pd.DataFrame({"x": [1, "n.a."], "site": ["a", "b"]}).to_excel(
            book, sheet_name="two", index=False
        )
    assert rows_of(path, ["x"], sheet="one") == [(1.5, "a"), (2.5, 1), (3.0, 2.5)]
    with pytest.raises(
        DataError, match=r"'x' of book\.xlsx holds values of several.*'n\.a\.'.*exclude=\['x'\]"
    ):
        rows_of(path, ["x"], sheet="two")
    assert rows_of(path, [], sheet="two") == [("a",), ("b",)]
    assert rows_of(path, ["x"], sheet="two", words=["x"]) == [("1", "a"), ("n.a.", "b")]


def test_standard_input(tmp_path: Path) -> None:
    content = b"x,site\n1.5,a\n"
    source = source_of(TableFile.of("-", content=content))
    assert source.name == "standard input"
    assert rows_of(source, ["x"]) == [(1.5, "a")]
    path = tmp_path / "a.parquet"
    pd.DataFrame({"x": [1.5], "site": ["a"]}).to_parquet(path)
    assert rows_of(TableFile.of("-", content=path.read_bytes()), ["x"]) == [(1.5, "a")]


@pytest.mark.filterwarnings("ignore:.*decimal commas")
@pytest.mark.parametrize("cells", [["2,5", "1.149"], ["1.149", "2,5"]])
def test_points_of_one_file_beside_decimal_commas_of_another(
    tmp_path: Path, cells: list[str]
) -> None:
    for n, cell in enumerate(cells):
        (tmp_path / f"{n}.tsv").write_text(f"x\tsite\n{cell}\ta\n7\ta\n")
    with pytest.raises(DataError, match=rf"{cells.index('1.149')}\.tsv has '1\.149'"):
        rows_of(tmp_path, ["x"])
    assert sorted(rows_of(tmp_path, ["x"], thousands=".")) == [
        (2.5, "a"),
        (7, "a"),
        (7, "a"),
        (1149, "a"),
    ]
