"""Readers and sinks as users call them: where rows come from, what is left behind, and in which mode."""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from tests.penstock.front_door import NOON, ORDERS, SCHEMA, Row, Script, batch, line, noon, ordered, orders, rows


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
    monkeypatch.setattr("penstock.job._default_job", ps.Job())
    write_inputs()
    assert ps.read_parquet("orders.parquet").job is ps.read_memory(ORDERS).job
    job = ps.Job()
    assert ps.read_csv("orders.csv", job=job).job is job


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


class Logged(ps.Sink):
    """As a user would write it: writes down every call."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def open(self, schema: pa.Schema, instance: int, parallelism: int) -> ps.Writer:
        self.calls.append(f"open {instance}/{parallelism} {','.join(schema.names)}")
        return LoggedWriter(self.calls, instance)


class LoggedWriter(ps.Writer):
    def __init__(self, calls: list[str], instance: int) -> None:
        self.calls = calls
        self.instance = instance

    def write(self, rows: pa.RecordBatch) -> None:
        self.calls.append(f"write {self.instance} {rows.num_rows}")

    def flush(self) -> None:
        self.calls.append(f"flush {self.instance}")

    def close(self) -> None:
        self.calls.append(f"close {self.instance}")

    def abort(self) -> None:
        self.calls.append(f"abort {self.instance}")


def test_a_sink_of_the_users() -> None:
    sink = Logged()
    stream = orders()
    stream.write(sink)
    stream.job.run("logged", batch_rows=4)
    assert sink.calls == ["open 0/1 item,price,at", "write 0 4", "write 0 2", "flush 0", "close 0"]


def test_a_sink_has_a_writer_per_instance() -> None:
    sink = Logged()
    stream = orders()
    stream.rebalance().write(sink).parallelism(2)
    stream.job.run("logged", batch_rows=3)
    assert sorted(sink.calls[:2]) == ["open 0/2 item,price,at", "open 1/2 item,price,at"]
    assert {"write 0 3", "write 1 3", "close 0", "close 1"} <= set(sink.calls)


def test_a_failed_job_aborts_its_sinks() -> None:
    sink = Logged()
    stream = ps.read(Script(SCHEMA, [batch(*ORDERS), ValueError("gone")]), job=ps.Job())
    stream.write(sink)
    with pytest.raises(ValueError, match="gone"):
        stream.job.run("failed", batch_rows=6)
    assert sink.calls == ["open 0/1 item,price,at", "write 0 6", "abort 0"]


def test_a_changelog_reaches_a_sink_with_its_weight() -> None:
    sink = Logged()
    stream = orders().key_by("item").agg(n=ps.count())
    stream.write(sink, mode="changelog")
    stream.job.run("logged")
    assert sink.calls[0] == "open 0/1 item,n,weight"


def changes(mode: str, **options: Any) -> list[list[Row]]:
    """Return the batches that a count per item writes when every row comes by itself."""
    job = ps.Job()
    batches: list[list[Row]] = []
    stream = ps.read(Script(SCHEMA, [batch(row) for row in ORDERS]), time="at", job=job)
    counts = stream.key_by("item").emit(every=0).agg(n=ps.count()).filter(col("n") < 3)
    counts.for_each_batch(lambda rows: batches.append(rows.to_pylist()), mode=mode, **options)
    job.run("changes", linger_ms=0)
    return batches


def test_changelog_mode_writes_insertions_and_retractions() -> None:
    flat = [(row["item"], row["n"], row["weight"]) for rows in changes("changelog") for row in rows]
    assert flat == [
        ("pen", 1, 1),
        ("ink", 1, 1),
        ("pen", 1, -1),
        ("pen", 2, 1),
        (None, 1, 1),
        ("ink", 1, -1),
        ("ink", 2, 1),
        ("pen", 2, -1),
    ]


def test_upsert_mode_writes_the_last_row_of_a_key_or_that_it_is_gone() -> None:
    flat = [(row["item"], row["n"], row["deleted"]) for rows in changes("upsert", key="item") for row in rows]
    assert flat == [
        ("pen", 1, False),
        ("ink", 1, False),
        ("pen", 2, False),
        (None, 1, False),
        ("ink", 2, False),
        ("pen", 2, True),
    ]


@pytest.mark.parametrize("instances", [1, 2, 3])
def test_upserts_of_a_key_stay_in_order_whatever_the_parallelism(instances: int) -> None:
    job = ps.Job()
    numbers = [{"key": number % 7, "at": noon(number)} for number in range(300)]
    latest: dict[int, int] = {}

    def keep(rows: pa.RecordBatch) -> None:
        latest.update((row["key"], row["n"]) for row in rows.to_pylist())

    stream = ps.read_memory(numbers, job=job).key_by("key").emit(every=0).agg(n=ps.count())
    stream.for_each_batch(keep, mode="upsert", key="key").parallelism(instances)
    job.run("upserts", parallelism=2, batch_rows=4, channel_bytes=1)
    assert latest == {key: len(range(key, 300, 7)) for key in range(7)}


def test_append_only_streams_can_be_written_in_every_mode() -> None:
    job = ps.Job()
    stream = orders(job).filter(col("item") == "pen").select("item", "price")
    stream.write_json("log.jsonl", mode="changelog")
    stream.write_json("last.jsonl", mode="upsert", key=["item"])
    job.run("modes")
    assert [json.loads(text)["weight"] for text in Path("log.jsonl").read_text().splitlines()] == [1, 1, 1]
    assert json.loads(Path("last.jsonl").read_text()) == {"item": "pen", "price": 4, "deleted": False}


def test_columns_that_a_mode_adds_must_be_free() -> None:
    stream = orders().rename(price="weight", item="deleted")
    with pytest.raises(ps.PlanError, match="adds a column 'weight' in mode 'changelog'; rename yours"):
        stream.write_json("x", mode="changelog")
    with pytest.raises(ps.PlanError, match="adds a column 'deleted' in mode 'upsert'; rename yours"):
        stream.write_json("x", mode="upsert", key="at")


def read_back(path: Path) -> list[Row]:
    if path.suffix == ".parquet":
        found: list[Row] = pq.read_table(path).to_pylist()
        return found
    if path.suffix == ".jsonl":
        return [json.loads(text) for text in path.read_text().splitlines()]
    with path.open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("write", "suffix"), [("write_parquet", ".parquet"), ("write_json", ".jsonl"), ("write_csv", ".csv")]
)
def test_a_file_or_a_directory_of_parts(write: str, suffix: str) -> None:
    stream = orders()
    getattr(stream, write)(f"one{suffix}").parallelism(1)
    getattr(stream, write)("parts").parallelism(2)
    for _ in range(2):
        stream.job.run("files", parallelism=2, batch_rows=1)
        assert len(read_back(Path(f"one{suffix}"))) == 6
        parts = sorted(Path("parts").iterdir())
        assert [part.name for part in parts] == [f"part-00000{suffix}", f"part-00001{suffix}"]
        assert sum(len(read_back(part)) for part in parts) == 6


def test_files_hold_what_was_written() -> None:
    stream = orders()
    stream.write_parquet("rows.parquet")
    stream.write_json("rows.jsonl")
    stream.write_csv("rows.csv")
    stream.job.run("files")
    assert pq.read_table("rows.parquet").schema == SCHEMA
    assert read_back(Path("rows.parquet")) == ORDERS
    assert read_back(Path("rows.jsonl"))[4] == {"item": "ink", "price": None, "at": "2025-03-01T12:00:12.000000"}
    assert read_back(Path("rows.csv"))[3] == {"item": "", "price": "2", "at": "2025-03-01 12:00:11.000000"}


def test_written_files_can_be_read_again() -> None:
    stream = orders()
    stream.write_parquet("copy/parquet")
    stream.write_json("copy/json")
    stream.write_csv("copy/csv")
    stream.job.run("out", parallelism=2)
    for path, read in (("copy/parquet", ps.read_parquet), ("copy/json", ps.read_json), ("copy/csv", ps.read_csv)):
        found = rows(read(path, schema=SCHEMA, time="at", job=ps.Job()))
        assert found == ordered(ORDERS), path


def test_a_file_cannot_stand_where_a_directory_is() -> None:
    Path("taken").mkdir()
    Path("file").write_text("in the way")
    stream = orders()
    stream.write_json("file/rows.jsonl")
    with pytest.raises(ps.UserError, match=r"cannot write 'file/rows\.jsonl'"):
        stream.job.run("files")


def test_print() -> None:
    out = io.StringIO()
    stream = orders().filter(col("price") > 4).select("item", "price")
    stream.print(file=out)
    stream.key_by("item").agg(n=ps.count()).print(file=out, mode="changelog")
    stream.job.run("printed")
    assert out.getvalue().splitlines()[:2] == ["item=ink  price=8", "item=pen  price=5"]
    assert sorted(out.getvalue().splitlines()[2:]) == ["+ item=ink  n=1", "+ item=pen  n=1"]


def test_print_goes_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    stream = orders().select("price").filter(col("price") == 8)
    stream.print()
    stream.job.run("printed")
    assert capsys.readouterr().out == "price=8\n"


def test_a_black_hole_counts() -> None:
    stream = orders()
    stream.write_black_hole()
    metrics = stream.job.run("swallowed")
    assert line(metrics, "sink-1") == {"rows_in": 6, "passed": 6}


def test_a_callback_gets_batches() -> None:
    batches: list[int] = []
    stream = orders()
    stream.for_each_batch(lambda rows: batches.append(rows.num_rows))
    stream.job.run("called", batch_rows=4)
    assert batches == [4, 2]


def test_collected_rows_are_there_while_the_job_runs() -> None:
    stream = orders()
    counts: list[int] = []
    result = stream.collect()
    stream.for_each_batch(lambda rows: counts.append(len(result.rows())))
    with pytest.raises(ps.PlanError, match="holds nothing yet: run the job first"):
        result.rows()
    stream.job.run("collected", batch_rows=2)
    assert counts == [2, 4, 6]


def test_collected_updates_are_what_stands() -> None:
    stream = orders().key_by("item").emit(every=0).agg(n=ps.count())
    result = stream.collect()
    stream.job.run("collected", batch_rows=1)
    assert ordered(result.rows()) == [{"item": "ink", "n": 2}, {"item": "pen", "n": 3}, {"item": None, "n": 1}]


def test_zones_and_units_leave_as_they_came() -> None:
    at = pa.array([NOON, noon(1)], pa.timestamp("ms", "Europe/Berlin"))
    stream = ps.read_memory(pa.table({"at": at}), time="at", job=ps.Job())
    stream.write_parquet("zoned.parquet")
    windows = stream.window(ps.tumbling("1s")).agg(n=ps.count()).collect()
    stream.job.run("zoned")
    assert pq.read_table("zoned.parquet").schema.field("at").type == at.type
    assert windows.table().schema.field("window_start").type == at.type
    assert isinstance(windows.rows()[0]["window_start"], datetime)
