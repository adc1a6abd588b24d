import datetime
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.expressions.compiler import compile_predicate
from penstock.model.errors import SchemaError, UserError
from penstock.model.expressions import Expr, col, lit
from tests.engine.connectors.reading import read_all

DAY = datetime.datetime(2020, 1, 1)


def table(rows: int, first: int = 0) -> pa.Table:
    numbers = np.arange(first, first + rows)
    return pa.table(
        {
            "n": pa.array(numbers, mask=numbers % 10 == 3),
            "f": pa.array(np.where(numbers % 7 == 0, np.nan, numbers / 2)),
            "s": pa.array([f"channel-{number % 13}" for number in numbers], pa.string()),
            "u": pa.array([f"text {number} {'x' * (number % 50)}" for number in numbers], pa.string()),
            "t": pa.array(numbers * 1000 - 5_000, pa.timestamp("ms")),
            "z": pa.array(numbers, pa.timestamp("ns", "UTC")),
            "b": pa.array(numbers > 500, pa.bool_()),
            "k": pa.nulls(rows, pa.int64()),
        }
    )


def write(path: Path, rows: int = 1000, group: int = 100, first: int = 0, **options: Any) -> pa.Table:
    made = table(rows, first)
    pq.write_table(made, path, row_group_size=group, **options)
    return made


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("parquet") / "in.parquet"
    write(path)
    return path


def same(got: list[pa.RecordBatch], wanted: pa.Table) -> bool:
    """Compare, taking NaN for equal to itself."""
    place = wanted.schema.get_field_index("z")
    found, wanted = (
        item.set_column(place, "z", item["z"].cast(pa.int64()))
        for item in (pa.Table.from_batches(got, wanted.schema), wanted)
    )
    return repr(found.to_pylist()) == repr(wanted.to_pylist())


@pytest.mark.parametrize("max_rows", [1, 7, 100, 130, 100_000])
def test_all_rows_come_in_order(file: Path, max_rows: int) -> None:
    got = read_all(ParquetSource(file), max_rows)
    assert same(got.batches, table(1000))


@pytest.mark.parametrize("options", [{"use_dictionary": False}, {"compression": "zstd"}, {"data_page_version": "2.0"}])
def test_other_encodings(tmp_path: Path, options: dict[str, Any]) -> None:
    write(tmp_path / "a.parquet", **options)
    assert same(read_all(ParquetSource(tmp_path)).batches, table(1000))


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parallelism=st.integers(1, 4),
    max_rows=st.integers(1, 400),
    stop_after=st.none() | st.integers(1, 4),
    group=st.sampled_from([30, 100, 333, 1000]),
)
def test_reading_goes_on_from_any_position(
    tmp_path: Path, parallelism: int, max_rows: int, stop_after: int | None, group: int
) -> None:
    for number in range(3):
        write(tmp_path / f"{number}.parquet", 300, group, first=300 * number)
    source = ParquetSource(tmp_path).restrict(["t", "n"], None)
    got = read_all(source, max_rows, parallelism, stop_after)
    rows = [row for batch in got.batches for row in batch.to_pylist()]
    wanted = table(900).select(["t", "n"]).to_pylist()
    assert sorted(rows, key=lambda row: row["t"]) == wanted
    if parallelism == 1:
        assert rows == wanted


def test_partitions_advance_together(file: Path) -> None:
    source = ParquetSource(file)
    readers = [source.open(partition, None) for partition in source.partitions(2)]
    for turn in range(5):
        for place, reader in enumerate(readers):
            rows = reader.read(100).rows
            assert rows is not None
            assert rows.column("t")[0].as_py() == DAY.replace(year=1970) + datetime.timedelta(
                seconds=100 * (2 * turn + place) - 5
            )
    for reader in readers:
        reader.close()


PREDICATES: list[tuple[Expr, int]] = [
    (col("n") > 850, 8),
    (col("n") >= 899, 8),
    (col("n") < 100, 9),
    (lit(850) < col("n"), 8),
    (col("n") == 250, 9),
    (col("n") == 5000, 10),
    (col("n").is_in([5, 950]), 8),
    (col("n").between(150, 250), 8),
    ((col("n") > 850) & (col("n") < 50), 10),
    ((col("n") > 850) | (col("n") < 50), 7),
    (~((col("n") <= 850) | (col("n") > 950)), 8),
    (col("n") != 5, 0),
    (col("f") > 1e9, 0),
    (col("f") < 10, 9),
    (col("f") == 10.0, 9),
    (col("s") > "zzz", 10),
    (col("s") == "channel-3", 0),
    (col("t") >= DAY.replace(year=1971), 10),
    (col("t") < datetime.datetime(1970, 1, 1, 0, 1), 9),
    (col("z") < datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC), 10),
    (col("b"), 5),
    (~col("b"), 4),
    (col("k").is_null(), 0),
    (col("k").is_not_null(), 10),
    (col("k") > 5, 10),
    (col("n").is_null(), 0),
    ((col("n") % 123 == 0) & (col("n") > 850), 8),
    (col("n") + 1 > 5000, 0),
    ((col("n") > 850) & (col("n") + 1 > 0), 0),
    (lit(False), 10),
]


@pytest.mark.parametrize(("predicate", "left_out"), PREDICATES, ids=lambda value: repr(value))
def test_row_groups_are_left_out_and_no_row_that_counts(file: Path, predicate: Expr, left_out: int) -> None:
    source = ParquetSource(file).with_time("t").restrict(["t", "n"], predicate)
    got = read_all(source, 64)
    read = [row for batch in got.batches for row in batch.to_pylist()]
    whole = table(1000)
    mask = compile_predicate(predicate, whole.schema, "test")(whole.to_batches()[0])
    wanted = whole.filter(mask).select(["t", "n"]).to_pylist()
    assert [row for row in read if row in wanted] == wanted
    assert got.skipped == 100 * left_out
    assert len(read) + got.skipped == 1000
    if left_out == 10:
        assert got.skipped_time_us == 994_000_000


def test_what_is_left_out_is_reported_where_it_stands(file: Path) -> None:
    source = ParquetSource(file).with_time("t").restrict(["n"], (col("n") < 100) | (col("n") > 850))
    reader = source.open(str(file), None)
    with closing(reader):
        first, second, third, fourth = (reader.read(100) for _ in range(4))
    assert (first.skipped, second.skipped, third.skipped) == (0, 700, 0)
    assert second.skipped_time_us == (799 * 1000 - 5000) * 1000
    assert second.rows is not None and second.rows.column("n")[0].as_py() == 800
    assert fourth.ended


def test_positions_do_not_depend_on_what_is_left_out(file: Path) -> None:
    all_rows = ParquetSource(file).restrict(["n"], None)
    few = all_rows.restrict(["n"], col("n") > 450)
    reader = all_rows.open(str(file), None)
    with closing(reader):
        for _ in range(5):
            reader.read(50)
        position = reader.position()
    with closing(few.open(str(file), position)) as reader:
        got = reader.read(1000)
    assert got.skipped == 150 and got.rows is not None
    assert got.rows.column("n").to_pylist()[0] == 400


def test_statistics_in_nanoseconds_are_floored(file: Path) -> None:
    got = read_all(ParquetSource(file).with_time("z").restrict(["n"], col("n") > 9_999))
    assert got.skipped_time_us == 0


def test_files_without_statistics_are_read_whole(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", write_statistics=False)
    got = read_all(ParquetSource(tmp_path).restrict(["n"], col("n") > 850))
    assert got.skipped == 0 and len(got.rows) == 1000


def test_a_declared_schema_chooses_and_widens(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]}), tmp_path / "a.parquet")
    source = ParquetSource(tmp_path, pa.schema([("b", pa.string()), ("a", pa.int64())]))
    assert read_all(source).rows == [{"b": "x", "a": 1}]
    assert source.schema.field("a").type == pa.int64()
    with pytest.raises(SchemaError, match="no column 'aa'; did you mean 'a'"):
        ParquetSource(tmp_path, pa.schema([("aa", pa.int64())]))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", None, "a"]).dictionary_encode(),
        pa.array(["a", None], pa.large_string()),
        pa.array([[1], None], pa.large_list(pa.int32())),
        pa.array([{"x": "a"}, None]),
        pa.array([1000, 2000], pa.timestamp("ns")),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_come_in_normal_types(tmp_path: Path, column: pa.Array) -> None:
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet")
    assert read_all(ParquetSource(tmp_path)).column("x") == column.to_pylist()


def test_later_files_must_fit(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": ["x"]}), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match=r"2\.parquet' differs .* 'a' is string, but int64 is declared"):
        read_all(ParquetSource(tmp_path))
    pq.write_table(pa.table({"b": [1]}), tmp_path / "2.parquet")
    with pytest.raises(SchemaError, match=r"2\.parquet' differs .* 'a' is missing"):
        read_all(ParquetSource(tmp_path))


def test_files_without_rows(tmp_path: Path) -> None:
    write(tmp_path / "1.parquet", 0)
    write(tmp_path / "2.parquet", 5)
    assert read_all(ParquetSource(tmp_path)).column("n") == [0, 1, 2, None, 4]


def test_what_is_not_parquet_is_an_error(tmp_path: Path) -> None:
    for content in (b"", b"hello", b"PAR1 but no more"):
        (tmp_path / "a.parquet").write_bytes(content)
        with pytest.raises(UserError, match=r"a\.parquet' cannot be read as Parquet"):
            ParquetSource(tmp_path / "a.parquet")


def test_a_damaged_page_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write(path, compression="none", use_dictionary=False)
    content = bytearray(path.read_bytes())
    content[4:200] = b"\xff" * 196
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"a\.parquet' is damaged"):
        read_all(ParquetSource(path))


def test_a_position_in_a_file_that_is_gone_is_an_error(file: Path) -> None:
    with pytest.raises(UserError, match="no longer there to go on from"):
        position = ParquetSource(file).open(str(file), None).position()
        position["mark"]["file"] = "gone.parquet"
        ParquetSource(file).open(str(file), position)
