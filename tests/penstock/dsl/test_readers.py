"""Readers as users call them: files, memory, items, the generator and sources of one's own."""

import csv
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from tests.penstock.front_door import ORDERS, SCHEMA, Row, batch, noon, rows


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def write_inputs() -> dict[str, Callable[..., ps.Stream]]:
    """Write the orders as files; return what reads each."""
    table = pa.Table.from_pylist(ORDERS, schema=SCHEMA)
    pq.write_table(table, "orders.parquet")
    with Path("orders.jsonl").open("w") as file:
        file.writelines(json.dumps(row, default=str) + "\n" for row in ORDERS)
    with Path("orders.csv").open("w") as file:
        writer = csv.writer(file)
        writer.writerow(SCHEMA.names)
        writer.writerows(["" if value is None else value for value in row.values()] for row in ORDERS)
    return {"orders.parquet": ps.read_parquet, "orders.jsonl": ps.read_json, "orders.csv": ps.read_csv}


@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("schema", [None, SCHEMA])
def test_files_of_every_format(schema: pa.Schema | None, parallelism: int) -> None:
    for path, read in write_inputs().items():
        stream = read(path, schema=schema, time="at", job=ps.Job())
        assert stream.schema.names == SCHEMA.names
        counts = stream.key_by("item").window(ps.tumbling("10s")).agg(n=ps.count(), most=ps.max_("price"))
        found = [(row["item"], row["n"], row["most"]) for row in rows(counts, parallelism=parallelism)]
        assert found == [("ink", 1, 8), ("ink", 1, None), ("pen", 2, 5), ("pen", 1, 4), (None, 1, 2)], path


@pytest.mark.parametrize("where", ["orders.parquet", "folder", "folder/*.parquet", Path("folder")])
def test_a_file_a_directory_or_a_glob(where: str | Path) -> None:
    table = pa.Table.from_pylist(ORDERS, schema=SCHEMA)
    Path("folder").mkdir()
    pq.write_table(table, "orders.parquet")
    pq.write_table(table.slice(3), "folder/b.parquet")
    pq.write_table(table.slice(0, 3), "folder/a.parquet")
    result = ps.read_parquet(where, job=ps.Job()).collect()
    result.job.run("files")
    assert result.rows() == ORDERS


def test_readers_use_the_default_job_unless_given_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.dsl.job._default_job", ps.Job())
    write_inputs()
    assert ps.read_parquet("orders.parquet").job is ps.read_memory(ORDERS).job
    job = ps.Job()
    assert ps.read_csv("orders.csv", job=job).job is job


@pytest.mark.parametrize("parallelism", [1, 3])
def test_text_with_line_breaks_comes_back_from_csv(parallelism: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.engine.connectors.files.chunks.CHUNK_BYTES", 400)
    written = [{"n": n, "text": f'{n} "a",\r\n\nb{"," * (n % 3)}\n' if n % 2 else "plain"} for n in range(100)]
    ps.read_memory(written, job=(job := ps.Job())).write_csv("texts.csv")
    job.run("write")
    found = rows(ps.read_csv("texts.csv", job=ps.Job()), parallelism=parallelism)
    assert sorted(found, key=lambda row: row["n"]) == written


def test_items_of_an_iterable() -> None:
    class Sale:
        pass

    items: list[Any] = [*ORDERS[:3], batch(*ORDERS[3:])]
    result = ps.read_iterable(items, schema=SCHEMA, time="at", job=ps.Job()).collect()
    for _ in range(2):
        result.job.run("items")
        assert result.rows() == ORDERS
    with pytest.raises(ps.UserError, match="cannot be iterated over; give an iterable or a function"):
        rows(ps.read_iterable(lambda: Sale(), schema=SCHEMA, job=ps.Job()))  # type: ignore[arg-type, return-value]


def test_an_iterator_is_read_once() -> None:
    result = ps.read_iterable(iter(ORDERS), schema=SCHEMA, job=ps.Job()).select("item").collect()
    result.job.run("once")
    assert len(result.rows()) == 6
    with pytest.raises(ps.UserError, match=r"have been read by an earlier run.*a function that makes a new iterator"):
        result.job.run("twice")


def test_a_function_that_makes_an_iterator_is_called_for_every_run() -> None:
    calls = []

    def sales() -> Iterator[Row]:
        calls.append(1)
        yield from ORDERS

    result = ps.read_iterable(sales, schema=SCHEMA, job=ps.Job()).collect()
    for _ in range(2):
        result.job.run("often")
        assert result.rows() == ORDERS
    assert len(calls) == 2


def test_nexmark() -> None:
    config = ps.NexmarkConfig(events=5_000, seed=3)
    job = ps.Job()
    streams = {kind: ps.read_nexmark(kind, config, job=job).agg(n=ps.count()) for kind in ("person", "auction", "bid")}
    results = {kind: stream.collect() for kind, stream in streams.items()}
    job.run("nexmark")
    assert {kind: result.rows()[0]["n"] for kind, result in results.items()} == {
        "person": 100,
        "auction": 300,
        "bid": 4_600,
    }
    with pytest.raises(ps.UserError, match="bids"):
        ps.read_nexmark("bids", config)


def test_readers_check_their_options() -> None:
    for wrong, sentence in (
        ({"on_error": "ignore"}, r"on_error of memory, 6 rows must be one of dead_letter, skip, fail, not 'ignore'"),
        ({"watermark": "soon"}, "watermark must be a duration such as"),
        ({"watermark": True}, "watermark must be a duration such as"),
        ({"time": "when"}, r"time= at .*:\d+ names the unknown column 'when'"),
    ):
        with pytest.raises(ps.UserError, match=sentence):
            ps.read_memory(ORDERS, job=ps.Job(), **wrong)


def test_rows_that_do_not_fit_their_schema() -> None:
    with pytest.raises(ps.SchemaError, match="the rows do not fit the schema"):
        ps.read_memory([{"price": "dear"}], schema={"price": int}, job=ps.Job())
    with pytest.raises(ps.SchemaError, match=r"with schema=\.\.\. if it is empty"):
        ps.read_memory([], job=ps.Job())
    with pytest.raises(ps.SchemaError, match=r"a list of dicts.*not int"):
        ps.read_memory(5, job=ps.Job())
    with pytest.raises(ps.SchemaError, match="has no columnar counterpart"):
        ps.read_memory(ORDERS, schema={"item": complex}, job=ps.Job())


class Countdown(ps.Source):
    """As a user would write it: two partitions of numbers, read a few at a time, that can be pruned and pushed into."""

    def __init__(self, columns: Sequence[str] = ("number", "square", "at")) -> None:
        self.columns = list(columns)
        self.restricted: list[tuple[list[str], Any]] = []

    @property
    def schema(self) -> pa.Schema:
        fields = {"number": pa.int64(), "square": pa.int64(), "at": pa.timestamp("ms")}
        return pa.schema({name: fields[name] for name in self.columns})

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["even", "odd"]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return CountdownReader(self, 0 if partition == "even" else 1)

    def restrict(self, columns: Sequence[str], predicate: Any) -> "Countdown":
        return Countdown(columns)


class CountdownReader(ps.Reader):
    def __init__(self, source: Countdown, first: int) -> None:
        self.source = source
        self.next = first
        self.turn = 0

    def read(self, max_rows: int) -> ps.Read:
        self.turn += 1
        if self.turn % 3 == 0:
            return ps.NOTHING
        numbers = [self.next + 2 * step for step in range(min(3, max_rows)) if self.next + 2 * step < 20]
        if not numbers:
            return ps.ENDED
        self.next = numbers[-1] + 2
        values = {"number": numbers, "square": [n * n for n in numbers], "at": [noon(n) for n in numbers]}
        return ps.Read(pa.RecordBatch.from_pydict({n: values[n] for n in self.source.columns}, self.source.schema))

    def position(self) -> int:
        return self.next


@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_source_of_the_users(parallelism: int) -> None:
    stream = ps.read(Countdown(), time="at", job=ps.Job())
    counts = stream.window(ps.tumbling("10s")).agg(n=ps.count(), total=ps.sum_("square"))
    found = [(row["n"], row["total"]) for row in rows(counts, parallelism=parallelism)]
    assert found == [(10, 285), (10, 2185)]
