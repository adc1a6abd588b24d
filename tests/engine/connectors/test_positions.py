"""Every source goes on exactly where it stopped, and says so when what it read has changed."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.connectors import partitions
from penstock.engine.connectors.files import chunks as file_chunks
from penstock.engine.connectors.files import positions as file_positions
from penstock.engine.connectors.local.iterable import IterableSource
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.source import NexmarkSource
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import NOTHING, Reader, Source
from penstock.model.errors import UserError
from penstock.model.expressions import col
from tests.engine.connectors.reading import Got, read_all

SCHEMA = pa.schema([("n", pa.int64()), ("t", pa.timestamp("us"))])
FILES = ["parquet", "json", "csv"]
FILE_SOURCES: dict[str, Callable[..., Source]] = {"parquet": ParquetSource, "json": JsonLinesSource, "csv": CsvSource}
BAD_LINES = {"json": ["{", '{"n":"x","t":0}', "", '{"n":1}'], "csv": ["x,0", "1", "", '"1,0', "5,"]}


def write(path: Path, rows: int, first: int = 0, group: int = 7) -> None:
    """Write rows in order of time; every fifth line is bad or blank where lines can be."""
    path.parent.mkdir(exist_ok=True)
    numbers = range(first, first + rows)
    if path.suffix == ".parquet":
        table = pa.table([pa.array(numbers, pa.int64()), pa.array(numbers, pa.timestamp("us"))], schema=SCHEMA)
        pq.write_table(table, path, row_group_size=group)
        return
    kind = path.suffix[1:]
    good = [f'{{"n":{n},"t":{n}}}' if kind == "json" else f"{n},{n}" for n in numbers]
    mixed = [BAD_LINES[kind][n % len(BAD_LINES[kind])] if n % 5 == 4 else line for n, line in enumerate(good)]
    header = ["n,t"] if kind == "csv" else []
    path.write_text("\n".join([*header, *mixed]) + ("\n" if rows % 2 else ""))


def interrupted(source: Source, reads: list[tuple[int, bool]], parallelism: int) -> Got:
    """Read every partition with these numbers of rows, in turn; where it says so, go on in a new reader."""
    got = Got()
    for partition in source.partitions(parallelism):
        reader = reopened(source, partition, None)
        read = NOTHING
        for turn in range(100_000):
            max_rows, stop = reads[turn % len(reads)]
            if stop and read is not NOTHING:
                reader = reopened(source, partition, reader)
            read = reader.read(max_rows)
            got.add(read)
            if read.ended:
                break
        reader = reopened(source, partition, reader)
        assert reader.read(1).rows is None, "there is a row behind the end"
        reader.close()
    return got


def reopened(source: Source, partition: str, reader: Reader | None) -> Reader:
    """Close a reader, and open one at its position as it comes back from disk."""
    if reader is None:
        return source.open(partition, None)
    position = json.loads(json.dumps(reader.position()))
    reader.close()
    again = source.open(partition, position)
    assert json.loads(json.dumps(again.position())) == position
    return again


def undisturbed(source: Source, parallelism: int) -> Got:
    return read_all(source, 10_000, parallelism)


def same(got: Got, wanted: Got) -> None:
    assert got.rows == wanted.rows
    assert got.rejected == wanted.rejected
    assert (got.skipped, got.skipped_time_us) == (wanted.skipped, wanted.skipped_time_us)


READS = st.lists(st.tuples(st.integers(1, 30), st.booleans()), min_size=1, max_size=6)


@pytest.fixture(scope="module", params=FILES)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four files, one of them without rows."""
    made = tmp_path_factory.mktemp("positions") / str(request.param)
    for number, rows in enumerate([43, 0, 90, 17]):
        write(made / f"{number}.{request.param}", rows, 100 * number)
    return made


@settings(max_examples=12)
@given(reads=READS, parallelism=st.integers(1, 6), most=st.sampled_from([2, 256]), chunk=st.sampled_from([60, 333]))
def test_files(folder: Path, reads: list[tuple[int, bool]], parallelism: int, most: int, chunk: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_chunks, "CHUNK_BYTES", chunk)
        patch.setattr(partitions, "MAX_FILE_PARTITIONS", most)
        source = FILE_SOURCES[folder.name](folder, SCHEMA).with_time("t")
        same(interrupted(source, reads, parallelism), undisturbed(source, parallelism))
        source = source.restrict(["n"], (col("n") > 120) & (col("n") != 230))
        same(interrupted(source, reads, parallelism), undisturbed(source, parallelism))


@settings(max_examples=40)
@given(reads=READS, parallelism=st.integers(1, 4), rows=st.integers(0, 300))
def test_memory(reads: list[tuple[int, bool]], parallelism: int, rows: int) -> None:
    source = MemorySource(pa.table({"n": pa.array(range(rows), pa.int64())}))
    same(interrupted(source, reads, parallelism), undisturbed(source, parallelism))


@settings(max_examples=20)
@given(
    reads=st.lists(st.tuples(st.integers(1, 9000), st.booleans()), min_size=1, max_size=4),
    parallelism=st.integers(1, 3),
    events=st.integers(0, 90_000),
    kind=st.sampled_from(["person", "auction"]),
)
def test_nexmark(reads: list[tuple[int, bool]], parallelism: int, events: int, kind: str) -> None:
    source = NexmarkSource(NexmarkConfig(events=events), kind).restrict(["id", "dateTime"], None)
    wanted = undisturbed(source, parallelism).column("id")
    assert interrupted(source, [(1000 + rows, stop) for rows, stop in reads], parallelism).column("id") == wanted


ITEM = st.one_of(
    st.just({"n": 1}), st.just({"n": "bad"}), st.just(7), st.none(), st.integers(0, 9).map(lambda rows: [rows])
)


@settings(max_examples=40)
@given(reads=READS, items=st.lists(ITEM, max_size=25))
def test_iterables(reads: list[tuple[int, bool]], items: list[Any]) -> None:
    """A list stands for an Arrow item with so many rows."""
    schema = pa.schema([("n", pa.int64())])

    def made() -> Iterator[Any]:
        for item in items:
            yield pa.table({"n": pa.array(range(item[0]), pa.int64())}) if isinstance(item, list) else item

    source = IterableSource(made, schema)
    same(interrupted(source, reads, 1), undisturbed(source, 1))


def begun(source: Source, parallelism: int = 1, reads: int = 1) -> dict[str, Any]:
    """Read a little of every partition and return the positions."""
    positions: dict[str, Any] = {}
    for partition in source.partitions(parallelism):
        reader = source.open(partition, None)
        for _ in range(reads):
            reader.read(3)
        positions[partition] = json.loads(json.dumps(reader.position()))
        reader.close()
    return positions


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("parallelism", [1, 2])
def test_a_file_that_has_changed_is_refused(tmp_path: Path, kind: str, parallelism: int) -> None:
    path = tmp_path / "in" / f"a.{kind}"
    write(path, 40)
    for partition, position in begun(FILE_SOURCES[kind](path, SCHEMA), parallelism).items():
        write(path, 41)
        with pytest.raises(UserError, match=r"has changed since reading stopped there \(it has \d+ bytes instead of"):
            FILE_SOURCES[kind](path, SCHEMA).open(partition, position)
        write(path, 40)
        content = bytearray(path.read_bytes())
        content[-3] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match="it has other contents"):
            CsvSource(path, SCHEMA, header=False).open(partition, {"mark": position["mark"], "chunk": 0, "records": 0})
        path.unlink()
        write(path.with_name(f"b.{kind}"), 40)
        with pytest.raises(UserError, match="is no longer there to go on from"):
            FILE_SOURCES[kind](tmp_path / "in", SCHEMA).open(partition, position)
        write(path, 40)
        FILE_SOURCES[kind](path, SCHEMA).open(partition, position).close()


@pytest.mark.parametrize("kind", FILES)
@pytest.mark.parametrize("parallelism", [1, 5])
def test_files_that_came_since_are_partitions_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, parallelism: int
) -> None:
    """Shares of files go on as they were cut, though the files now have other numbers."""
    monkeypatch.setattr(file_chunks, "CHUNK_BYTES", 60)
    for name in ("b", "d"):
        write(tmp_path / "in" / f"{name}.{kind}", 50, ord(name) * 100)
    old = FILE_SOURCES[kind](tmp_path / "in", SCHEMA)
    positions: dict[str, Any] = {}
    numbers: list[int] = []
    for partition in old.partitions(parallelism):
        reader = old.open(partition, None)
        read = reader.read(5)
        numbers += read.rows.column("n").to_pylist() if read.rows else []
        positions[partition] = reader.position()
        reader.close()
    for name in ("a", "c"):
        write(tmp_path / "in" / f"{name}.{kind}", 50, ord(name) * 100)
    new = FILE_SOURCES[kind](tmp_path / "in", SCHEMA)
    since = new.partitions_after(positions)
    assert [Path(name).stem for name in since] == ["a", "c"]
    assert old.partitions_after(positions) == []
    for partition in [*positions, *since]:
        reader = new.open(partition, positions.get(partition))
        while not (read := reader.read(9)).ended:
            numbers += read.rows.column("n").to_pylist() if read.rows else []
        numbers += read.rows.column("n").to_pylist() if read.rows else []
        reader.close()
    assert sorted(numbers) == sorted(undisturbed(new, 1).column("n"))


def test_files_that_came_among_many_are_read_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MAX_FILE_PARTITIONS", 2)
    for number in range(6):
        write(tmp_path / "in" / f"{number}.json", 5)
    positions = begun(JsonLinesSource(tmp_path / "in", SCHEMA))
    # One before, one among and one behind what is read together.
    for number in ("00", "25", "7"):
        write(tmp_path / "in" / f"{number}.json", 5)
    new = JsonLinesSource(tmp_path / "in", SCHEMA)
    since = new.partitions_after(positions)
    assert [Path(name.removesuffix(" 0/1")).stem for name in since] == ["00", "25", "7"]
    numbers: list[int] = []
    for partition in [*positions, *since]:
        reader = new.open(partition, positions.get(partition))
        while not (read := reader.read(9)).ended:
            numbers += read.rows.column("n").to_pylist() if read.rows else []
        positions[partition] = reader.position()
        reader.close()
    assert len(numbers) == len(undisturbed(new, 1).rows) - 2 * 3
    assert new.partitions_after(positions) == []


def test_files_that_came_among_too_many_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "MAX_FILE_PARTITIONS", 2)
    monkeypatch.setattr(file_positions, "_MOST_NAMES", 2)
    for number in range(6):
        write(tmp_path / "in" / f"{number}.json", 5)
    positions = begun(JsonLinesSource(tmp_path / "in", SCHEMA))
    assert len(positions) == 2
    assert JsonLinesSource(tmp_path / "in", SCHEMA).partitions_after(positions) == []
    write(tmp_path / "in" / "7.json", 5)
    new = JsonLinesSource(tmp_path / "in", SCHEMA)
    with pytest.raises(UserError, match="which are new cannot be told"):
        new.partitions_after(positions)
    same_files, other_files = positions
    new.open(same_files, positions[same_files]).close()
    with pytest.raises(UserError, match="more than 256 files are not a partition each"):
        new.open(other_files, positions[other_files])


def test_a_position_of_another_source_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.json", 9)
    write(tmp_path / "a.parquet", 9)
    (_, position), *_ = begun(JsonLinesSource(tmp_path / "a.json", SCHEMA)).items()
    sources: list[Source] = [
        ParquetSource(tmp_path / "a.parquet"),
        MemorySource([{"n": 1}]),
        IterableSource([{"n": 1}], SCHEMA),
        NexmarkSource(NexmarkConfig(events=9), "bid"),
    ]
    for source in sources:
        with pytest.raises(UserError, match="holds no position of the source"):
            source.open(source.partitions(1)[0], position)


def test_rows_in_memory_that_have_changed_are_refused() -> None:
    (_, position), *_ = begun(MemorySource([{"n": 1}, {"n": 2}])).items()
    with pytest.raises(
        UserError, match=r"rows in memory have changed since reading stopped: there were 2, and now .* 3"
    ):
        MemorySource([{"n": 1}, {"n": 2}, {"n": 3}]).open("0/1", position)


def test_an_iterator_cannot_be_read_again() -> None:
    for position in ({"items": 1, "rows": 0}, {"items": 0, "rows": 1}):
        with pytest.raises(UserError, match="an iterator gives them once; give a function that makes a new iterator"):
            IterableSource(iter([{"n": 1}, {"n": 2}]), SCHEMA).open("0/1", position)
    IterableSource(iter([{"n": 1}]), SCHEMA).open("0/1", {"items": 0, "rows": 0}).close()


@pytest.mark.parametrize(
    ("items", "position"),
    [
        ([{"n": 1}], {"items": 2, "rows": 0}),
        ([{"n": 1}], {"items": 1, "rows": 3}),
        ([{"n": 1}], {"items": 0, "rows": 1}),
        ([pa.table({"n": [1, 2]})], {"items": 0, "rows": 3}),
    ],
)
def test_an_iterable_that_has_changed_is_refused(items: list[Any], position: dict[str, int]) -> None:
    reader = IterableSource(lambda: items, pa.schema([("n", pa.int64())])).open("0/1", position)
    with pytest.raises(UserError, match="are not those that were read before the restart"):
        for _ in range(10_000):
            assert reader.read(10).rows is None
    reader.close()
