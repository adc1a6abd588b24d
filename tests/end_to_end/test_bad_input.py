"""Bad input end to end: a clear sentence or a dead letter, nothing lost uncounted, nothing hanging."""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from penstock.engine.ledger import Ledger, check_ledger
from tests.penstock.front_door import Script, dead_letters, line, ordered

Row = dict[str, Any]

START = datetime(2025, 3, 1)
SALE = pa.schema({"shop": pa.string(), "amount": pa.int64(), "at": pa.timestamp("us")})
GOOD = '{"shop": "north", "amount": 1, "at": "2025-03-01T00:00:00"}'
LARGEST = 2**63 - 1


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def sale(shop: str | None, amount: int | None, seconds: float | None) -> Row:
    return {"shop": shop, "amount": amount, "at": None if seconds is None else at(seconds)}


@dataclass
class Outcome:
    """What a run left behind."""

    rows: list[Row]
    ledger: Ledger
    letters: list[Row] = field(default_factory=list)

    @property
    def errors(self) -> list[tuple[str, str]]:
        """Position, without the folder, and error of every dead letter."""
        return [(letter["position"].rsplit("/", 1)[-1], letter["error"]) for letter in self.letters]


def run(stream: ps.Stream, folder: Path, **options: Any) -> Outcome:
    """Run a stream; every row of every operator is accounted for, and dead letters are all there."""
    result = stream.collect()
    metrics = stream.job.run("bad", directory=folder / "job", **options)
    check_ledger(metrics.ledger, ended=True)
    letters = dead_letters(folder / "job")
    assert len(letters) == metrics.ledger.dead_lettered
    return Outcome(ordered(result.rows()), metrics.ledger, letters)


def from_json(folder: Path, *lines: str | bytes, **options: Any) -> ps.Stream:
    file = folder / "sales.jsonl"
    file.write_bytes(b"\n".join(text if isinstance(text, bytes) else text.encode() for text in lines))
    return ps.read_json(file, job=ps.Job(), **{"schema": SALE, "time": "at", **options})


def from_csv(folder: Path, text: str, **options: Any) -> ps.Stream:
    file = folder / "sales.csv"
    file.write_text(text)
    return ps.read_csv(file, job=ps.Job(), **{"schema": SALE, "time": "at", **options})


def from_memory(*sales: Row, **options: Any) -> ps.Stream:
    return ps.read_memory(list(sales), schema=SALE, job=ps.Job(), **{"time": "at", **options})


def test_malformed_json(tmp_path: Path) -> None:
    stream = from_json(tmp_path, GOOD, '{"shop":', "", GOOD, "[1]", '"text"', b'{"shop": "\xff"}', GOOD)
    outcome = run(stream, tmp_path)
    assert len(outcome.rows) == 3
    assert [position for position, _ in outcome.errors] == [
        "sales.jsonl:2", "sales.jsonl:5", "sales.jsonl:6", "sales.jsonl:7",
    ]  # fmt: skip
    assert [letter["text"] for letter in outcome.letters] == ['{"shop":', "[1]", '"text"', None]
    assert outcome.letters[-1]["raw_base64"] == "eyJzaG9wIjogIv8ifQ=="


def test_json_of_wrong_types(tmp_path: Path) -> None:
    stream = from_json(
        tmp_path,
        GOOD,
        '{"shop": 1, "amount": 1, "at": "2025-03-01T00:00:00"}',
        '{"shop": "a", "amount": "many", "at": "2025-03-01T00:00:00"}',
        '{"shop": "a", "amount": 1.5, "at": "2025-03-01T00:00:00"}',
        '{"shop": "a", "amount": 9223372036854775808, "at": "2025-03-01T00:00:00"}',
        '{"shop": "a", "amount": 1, "at": "yesterday"}',
    )
    outcome = run(stream, tmp_path)
    assert len(outcome.rows) == 1
    expected = ["`$.shop`", "`$.amount`", "`$.amount`", "`$.amount`", "'yesterday'"]
    for (position, error), number, part in zip(outcome.errors, range(2, 7), expected, strict=True):
        assert position == f"sales.jsonl:{number}"
        assert part in error


def test_json_without_some_fields(tmp_path: Path) -> None:
    outcome = run(from_json(tmp_path, GOOD, '{"shop": "a"}', "{}", time=None), tmp_path)
    assert [(row["shop"], row["amount"]) for row in outcome.rows] == [("a", None), ("north", 1), (None, None)]
    (tmp_path / "timed").mkdir()
    outcome = run(from_json(tmp_path / "timed", GOOD, '{"shop": "a"}'), tmp_path / "timed")
    assert outcome.errors == [("sales.jsonl:2", "event time column 'at' is null")]


def test_malformed_csv(tmp_path: Path) -> None:
    text = "shop,amount,at\na,1,2025-03-01 00:00:00\nb,x,2025-03-01 00:00:00\nc,2\nd,3,2025-03-01 00:00:00,4\ne,5,\n"
    outcome = run(from_csv(tmp_path, text), tmp_path)
    assert len(outcome.rows) == 1
    assert [position for position, _ in outcome.errors] == [f"sales.csv:{number}" for number in (3, 4, 5, 6)]
    for (_, error), part in zip(outcome.errors, ("'amount'", "got 2", "got 4", "'at' is null"), strict=True):
        assert part in error


def test_csv_without_a_column(tmp_path: Path) -> None:
    with pytest.raises(ps.SchemaError, match=r"sales.csv' has no column 'amount'; it has shop, sum, at"):
        run(from_csv(tmp_path, "shop,sum,at\na,1,2025-03-01\n"), tmp_path)


def parquet(folder: Path, *tables: pa.Table | bytes) -> ps.Stream:
    files = folder / "sales"
    files.mkdir()
    for number, table in enumerate(tables):
        file = files / f"{number}.parquet"
        if isinstance(table, bytes):
            file.write_bytes(table)
        else:
            pq.write_table(table, file)
    return ps.read_parquet(files, time="at", job=ps.Job())


SALES = pa.Table.from_pylist([sale("a", number, number) for number in range(10)], schema=SALE)


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (SALES.drop_columns(["amount"]), r"1.parquet' .*column 'amount' is missing; there are shop, at"),
        (SALES.set_column(1, "amount", SALES["shop"]), r"1.parquet' .*column 'amount' is string, but int64"),
        (b"not parquet at all", r"1.parquet' cannot be read as Parquet"),
        (b"", r"1.parquet' cannot be read as Parquet: Parquet file size is 0 bytes"),
    ],
)
def test_parquet_files_that_do_not_fit(tmp_path: Path, second: pa.Table | bytes, sentence: str) -> None:
    stream = parquet(tmp_path, SALES, second)
    stream.write_json(tmp_path / "out.jsonl")
    with pytest.raises(ps.UserError, match=sentence):
        run(stream, tmp_path)
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("parallelism", [1, 2])
def test_parquet_files_without_rows(tmp_path: Path, parallelism: int) -> None:
    stream = parquet(tmp_path, SALES.slice(0, 0), SALES, SALES.slice(0, 0))
    assert len(run(stream, tmp_path, parallelism=parallelism).rows) == 10


@pytest.mark.parametrize(
    ("read", "file", "text"),
    [(ps.read_json, "empty.json", ""), (ps.read_csv, "empty.csv", ""), (ps.read_csv, "empty.csv", "shop,amount,at\n")],
)
def test_empty_files(tmp_path: Path, read: Callable[..., ps.Stream], file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    stream = read(tmp_path / file, schema=SALE, time="at", job=ps.Job())
    windows = stream.window(ps.tumbling("1s")).agg(n=ps.count())
    total = stream.agg(n=ps.count()).collect()
    assert run(windows, tmp_path, parallelism=2).rows == []
    assert total.rows() in ([], [{"n": 0}])
    if not text:
        with pytest.raises(ps.SchemaError, match=r"empty.*give schema="):
            read(tmp_path / file, job=ps.Job())


@pytest.mark.parametrize("read", [ps.read_parquet, ps.read_csv, ps.read_json])
def test_files_that_are_not_there(tmp_path: Path, read: Callable[..., ps.Stream]) -> None:
    (tmp_path / "notes.md").write_text("hello")
    with pytest.raises(ps.UserError, match=r"'.*/sales.x' does not exist; folder .* has notes.md"):
        read(tmp_path / "sales.x")
    with pytest.raises(ps.UserError, match=r"no file matches .*sales-\*"):
        read(tmp_path / "sales-*.x")
    with pytest.raises(ps.UserError, match=r"holds no file that ends in .*; it has notes\.md"):
        read(tmp_path)


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("batch_rows", [1, 3, 1000])
def test_time_that_goes_back_by_days(tmp_path: Path, parallelism: int, batch_rows: int) -> None:
    day = 86_400
    before = [sale("a", 1, number) for number in range(100)]
    back = [sale("b", 1, number - 3 * day) for number in range(7)]
    after = [sale("a", 1, number) for number in range(100, 200)]
    table = pa.Table.from_pylist([*before, *back, *after], schema=SALE)
    stream = parquet(tmp_path, table)
    counts = stream.key_by("shop").window(ps.tumbling("10s")).agg(n=ps.count())
    late = counts.side_output("late").collect()
    outcome = run(counts, tmp_path, parallelism=parallelism, batch_rows=batch_rows)
    found = late.rows()
    assert outcome.ledger.late == len(found)
    assert all(row["shop"] == "b" for row in found)
    assert sum(row["n"] for row in outcome.rows) + len(found) == 207
    assert sum(row["n"] for row in outcome.rows if row["shop"] == "a") == 200
    if parallelism == 1 and batch_rows == 1:
        # Row by row, whatever comes after the jump forward is late.
        assert len(found) == 7
    if batch_rows == 1000:
        assert found == []


def no_time(folder: Path) -> Iterable[tuple[str, ps.Stream]]:
    rows = [sale("a", number, None if number % 3 == 0 else number) for number in range(9)]
    table = pa.Table.from_pylist(rows, schema=SALE)
    for name in ("json", "csv", "parquet", "map"):
        (folder / name).mkdir()
    lines = [json.dumps(row, default=str) for row in rows]
    yield "json", from_json(folder / "json", *lines)
    text = "\n".join(f"{row['shop']},{row['amount']},{row['at'] or ''}" for row in rows)
    yield "csv", from_csv(folder / "csv", f"shop,amount,at\n{text}\n")
    yield "parquet", parquet(folder / "parquet", table)
    yield "memory", from_memory(*rows)
    yield "items", ps.read_iterable(lambda: iter(rows), schema=SALE, time="at", job=ps.Job())
    yield "batches", ps.read_iterable(lambda: iter([table]), schema=SALE, time="at", job=ps.Job())
    yield "script", ps.read(Script(SALE, table.to_batches()), time="at", job=ps.Job())
    whole = from_memory(*[sale("a", number, number) for number in range(9)])
    yield "map", whole.map(lambda row: {**row, "at": None} if row["amount"] % 3 == 0 else row)


def test_rows_without_event_time_are_dead_letters_wherever_they_come_from(tmp_path: Path) -> None:
    for name, stream in no_time(tmp_path):
        folder = tmp_path / f"job-{name}"
        outcome = run(stream.window(ps.tumbling("1m")).agg(n=ps.count(), least=ps.min_("amount")), folder)
        assert [(row["n"], row["least"]) for row in outcome.rows] == [(6, 1)], name
        assert len(outcome.letters) == 3, name
        assert all("event time column 'at' is null" in letter["error"] for letter in outcome.letters), name


def test_a_batch_function_that_loses_event_time(tmp_path: Path) -> None:
    def lose(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.set_column(2, "at", pa.nulls(batch.num_rows, pa.timestamp("us")))

    stream = from_memory(sale("a", 1, 0), sale("a", 2, 1)).map_batches(lose)
    outcome = run(stream.window(ps.tumbling("1m")).agg(n=ps.count()), tmp_path)
    assert outcome.rows == []
    assert [error for _, error in outcome.errors] == [
        "penstock.model.errors.BadRecordError: in row 1 of the result, event time column 'at' is null"
    ] * 2


def test_event_times_outside_the_calendar(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([0, 2**62, -(2**62), None], pa.timestamp("us"))})
    stream = ps.read_memory(table, time="at", job=ps.Job())
    outcome = run(stream.window(ps.tumbling("1s")).agg(n=ps.count()), tmp_path)
    assert [row["n"] for row in outcome.rows] == [1]
    assert [position for position, _ in outcome.errors] == ["row 2", "row 3", "row 4"]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize(
    ("build", "left"),
    [
        (lambda s: s.select(more=col("amount") + 1), [{"more": 2}, {"more": 6}]),
        (lambda s: s.filter(col("amount") * 2 > 3).select("amount"), [{"amount": 5}]),
        (lambda s: s.filter(col("amount") * 2 > 3).select(more=col("amount") * 2), [{"more": 10}]),
        (lambda s: s.split(some=col("amount") + 1 > 3)["some"].select("amount"), [{"amount": 5}]),
        (lambda s: s.key_by(more=col("amount") + 1).agg(n=ps.count()), [{"more": 2, "n": 1}, {"more": 6, "n": 1}]),
        (lambda s: s.key_by("shop").agg(n=ps.sum_(col("amount") + 1)), [{"shop": "a", "n": 2}, {"shop": "b", "n": 6}]),
        (
            lambda s: s.key_by("shop").agg(n=ps.count().filter(col("amount") + 1 > 2)).select("n"),
            [{"n": 0}, {"n": 1}],
        ),
        (
            lambda s: s.join(s, left_on=col("amount") + 1, right_on=col("amount") + 1).select("amount"),
            [{"amount": 1}, {"amount": 5}],
        ),
    ],
)
def test_integers_that_overflow_in_expressions_cost_their_row(
    tmp_path: Path, build: Callable[[ps.Stream], ps.Stream], left: list[Row], parallelism: int
) -> None:
    stream = from_memory(sale("a", LARGEST, 0), sale("a", 1, 1), sale("b", 5, 2))
    outcome = run(build(stream), tmp_path, parallelism=parallelism)
    assert outcome.rows == ordered(left)
    assert outcome.letters
    assert all("int64" in error or "overflow" in error.lower() for _, error in outcome.errors)
    assert {json.loads(letter["text"])["amount"] for letter in outcome.letters} == {LARGEST}


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("window", [None, ps.tumbling("1m"), ps.session("1m"), ps.count_window(3)])
def test_a_sum_that_overflows_ends_the_job_with_a_sentence(tmp_path: Path, window: Any, parallelism: int) -> None:
    stream = from_memory(sale("a", LARGEST, 0), sale("a", 1, 1), sale("b", 5, 2)).key_by("shop")
    total = {"total": ps.sum_("amount")}
    summed = stream.agg(**total) if window is None else stream.window(window).agg(**total)
    with pytest.raises(ps.NumericOverflowError, match=r"'agg-1'.*'total'.*cast its input to decimal or double"):
        run(summed, tmp_path, parallelism=parallelism)


def test_a_sum_that_overflows_on_the_way_and_comes_back(tmp_path: Path) -> None:
    stream = from_memory(sale("a", LARGEST, 0), sale("a", LARGEST, 1), sale("a", -LARGEST, 2))
    outcome = run(stream.key_by("shop").window(ps.tumbling("1m")).agg(total=ps.sum_("amount")), tmp_path)
    assert [row["total"] for row in outcome.rows] == [LARGEST]


def picky(row: Row) -> Row:
    if row["amount"] % 4 == 2:
        raise ValueError(f"cannot sell {row['amount']}")
    if row["amount"] % 4 == 3:
        return {**row, "amount": "three"}
    return row


@pytest.mark.parametrize("batch_rows", [1, 5, 100])
def test_a_user_function_that_raises_on_some_rows(tmp_path: Path, batch_rows: int) -> None:
    stream = from_memory(*[sale("a", number, number) for number in range(20)])
    outcome = run(stream.map(picky).name("picky"), tmp_path, batch_rows=batch_rows)
    assert [row["amount"] for row in outcome.rows] == [n for n in range(20) if n % 4 < 2]
    assert {letter["operator"] for letter in outcome.letters} == {"picky"}
    assert [json.loads(letter["text"])["amount"] for letter in outcome.letters] == [n for n in range(20) if n % 4 >= 2]
    raised = [letter for letter in outcome.letters if letter["traceback"]]
    assert [letter["error"] for letter in raised] == [f"ValueError: cannot sell {n}" for n in range(2, 20, 4)]
    assert all("in picky" in letter["traceback"] for letter in raised)
    unfit = [letter["error"] for letter in outcome.letters if not letter["traceback"]]
    assert len(unfit) == 5
    assert all("does not fit the schema" in error for error in unfit)


def test_a_flat_map_that_raises_midway_passes_none_of_its_rows(tmp_path: Path) -> None:
    def burst(row: Row) -> Iterator[Row]:
        yield row
        if row["amount"] == 1:
            raise ValueError("burst")
        yield row

    outcome = run(from_memory(*[sale("a", number, number) for number in range(3)]).flat_map(burst), tmp_path)
    assert [row["amount"] for row in outcome.rows] == [0, 0, 2, 2]
    assert [error for _, error in outcome.errors] == ["ValueError: burst"]


def test_a_batch_function_that_raises_costs_its_batch(tmp_path: Path) -> None:
    def refuse(batch: pa.RecordBatch) -> pa.RecordBatch:
        if 4 in batch["amount"].to_pylist():
            raise ValueError("no fours")
        return batch

    stream = from_memory(*[sale("a", number, number) for number in range(9)])
    outcome = run(stream.map_batches(refuse), tmp_path, batch_rows=3)
    assert [row["amount"] for row in outcome.rows] == [0, 1, 2, 6, 7, 8]
    assert [json.loads(letter["text"])["amount"] for letter in outcome.letters] == [3, 4, 5]


@pytest.mark.parametrize("result", [None, 5, "text", [1, 2], {"other": 1}, {"amount": 1, "amout": 2}])
def test_a_user_function_that_returns_something_else(tmp_path: Path, result: Any) -> None:
    outcome = run(from_memory(sale("a", 1, 0)).map(lambda row: result), tmp_path)
    assert outcome.rows == []
    (letter,) = outcome.letters
    assert "SchemaError" in letter["error"]


def test_values_that_python_does_not_have_cost_their_row(tmp_path: Path) -> None:
    table = pa.table({"day": pa.array([0, 2**31 - 1, None], pa.date32()), "n": [1, 2, 3]})
    outcome = run(ps.read_memory(table, job=ps.Job()).filter(lambda day: True).select("n"), tmp_path)
    assert [row["n"] for row in outcome.rows] == [1, 3]
    assert len(outcome.letters) == 1


def test_nanoseconds_are_floored_for_user_functions(tmp_path: Path) -> None:
    table = pa.table({"at": pa.array([1_001, -1], pa.timestamp("ns")), "n": [1, 2]})
    seen: list[datetime] = []

    def look(at: datetime) -> bool:
        seen.append(at)
        return True

    stream = ps.read_memory(table, job=ps.Job()).filter(look)
    result = stream.collect()
    stream.job.run("nanoseconds", directory=tmp_path)
    assert seen == [datetime(1970, 1, 1, 0, 0, 0, 1), datetime(1969, 12, 31, 23, 59, 59, 999_999)]
    assert result.table()["at"].cast(pa.int64()).to_pylist() == [1_001, -1]


def test_a_source_that_raises_ends_the_job(tmp_path: Path) -> None:
    source = Script(SALE, [SALES.to_batches()[0], OSError("disk on fire")])
    stream = ps.read(source, job=ps.Job()).name("sales")
    stream.write_json(tmp_path / "out.jsonl")
    with pytest.raises(OSError, match="disk on fire") as error:
        run(stream, tmp_path)
    assert any("In task sales" in note for note in error.value.__notes__)
    assert source.closed == 1
    assert not list(tmp_path.glob("*.jsonl"))


def test_a_source_with_other_columns_than_it_said(tmp_path: Path) -> None:
    source = Script(SALE, [pa.record_batch({"shop": ["a"], "amount": ["1"], "at": pa.array([0], pa.timestamp("us"))})])
    with pytest.raises(ps.SchemaError, match="column 'amount' is string, but int64 is declared"):
        run(ps.read(source, job=ps.Job()), tmp_path)


def test_a_generator_that_raises_midway(tmp_path: Path) -> None:
    def sales() -> Iterator[Row]:
        yield from (sale("a", number, number) for number in range(5))
        raise KeyError("till")

    stream = ps.read_iterable(sales, schema=SALE, job=ps.Job())
    with pytest.raises(ps.UserError, match=r"items of sales raised KeyError after 5 items: 'till'") as error:
        run(stream, tmp_path)
    assert isinstance(error.value.__cause__, KeyError)


def test_items_that_are_no_rows(tmp_path: Path) -> None:
    items = [sale("a", 1, 0), 7, {**sale("b", 2, 1), "amount": "two"}, sale("c", 3, 2)]
    stream = ps.read_iterable(lambda: iter(items), schema=SALE, job=ps.Job())
    outcome = run(stream, tmp_path)
    assert [row["shop"] for row in outcome.rows] == ["a", "c"]
    assert [position for position, _ in outcome.errors] == ["item 2", "item 3"]


def test_fail_ends_the_job_at_the_first_bad_record(tmp_path: Path) -> None:
    stream = from_json(tmp_path, GOOD, "{", GOOD, on_error="fail").name("sales")
    with pytest.raises(ps.BadRecordError, match=r"'sales' met a bad record at .*sales.jsonl:2: .*the record is \{"):
        run(stream, tmp_path)
    assert not dead_letters(tmp_path / "job")


def test_skip_counts_and_writes_nothing(tmp_path: Path) -> None:
    result = from_json(tmp_path, GOOD, "{", GOOD, on_error="skip").collect()
    metrics = result.job.run("skips", directory=tmp_path / "job")
    assert line(metrics, "source-1") == {"rows_in": 3, "passed": 2, "dead_lettered": 1, "rows_out": 2}
    assert not dead_letters(tmp_path / "job")


def test_one_huge_batch_is_cut(tmp_path: Path) -> None:
    count = 100_000
    huge = pa.record_batch({"n": np.arange(count)})
    sizes: list[int] = []
    stream = ps.read(Script(huge.schema, [huge]), job=ps.Job())
    stream.for_each_batch(lambda rows: sizes.append(rows.num_rows))
    outcome = run(stream.agg(total=ps.sum_("n")), tmp_path, batch_rows=999)
    assert outcome.rows == [{"total": count * (count - 1) // 2}]
    assert max(sizes) == 999
    assert sum(sizes) == count


@pytest.mark.parametrize("parallelism", [1, 2])
def test_no_rows_at_all(tmp_path: Path, parallelism: int) -> None:
    stream = from_memory()
    stream.key_by("shop").agg(n=ps.count()).write_parquet(tmp_path / "keyed", mode="changelog")
    stream.write_json(tmp_path / "rows")
    joined = stream.join(stream, on="shop", window=ps.tumbling("1s")).collect()
    sessions = stream.key_by("shop").window(ps.session("1s")).agg(n=ps.count())
    assert run(sessions.map(lambda row: row), tmp_path, parallelism=parallelism).rows == []
    assert joined.table().num_rows == 0
    assert pq.read_table(tmp_path / "keyed").column_names == ["shop", "n", "weight"]
    assert sum(len(file.read_text()) for file in (tmp_path / "rows").glob("*.jsonl")) == 0


@pytest.mark.parametrize("parallelism", [1, 2, 3])
@pytest.mark.parametrize("window", [None, ps.tumbling("1m"), ps.session("1m"), ps.global_window()])
def test_null_keys_are_a_group_of_their_own(tmp_path: Path, window: Any, parallelism: int) -> None:
    sales = [sale(None, 1, 0), sale("a", 2, 1), sale(None, 3, 2), sale("", 4, 3), sale("a", None, 4)]
    keyed = from_memory(*sales).key_by("shop")
    calls = {"n": ps.count(), "total": ps.sum_("amount")}
    stream = keyed.agg(**calls) if window is None else keyed.window(window).agg(**calls).select("shop", "n", "total")
    outcome = run(stream, tmp_path, parallelism=parallelism, batch_rows=2)
    assert outcome.rows == ordered(
        [{"shop": None, "n": 2, "total": 4}, {"shop": "a", "n": 2, "total": 2}, {"shop": "", "n": 1, "total": 4}]
    )


def test_a_null_in_a_composite_key_is_a_value_like_any_other(tmp_path: Path) -> None:
    sales = [sale(None, 1, 0), sale("a", None, 1), sale(None, None, 2), sale(None, 1, 3), sale("a", None, 4)]
    outcome = run(from_memory(*sales).key_by("shop", "amount").agg(n=ps.count()), tmp_path, parallelism=2)
    assert [(row["shop"], row["amount"], row["n"]) for row in outcome.rows] == [
        ("a", None, 2), (None, 1, 2), (None, None, 1),
    ]  # fmt: skip


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("window", [None, ps.tumbling("1m")])
def test_null_keys_never_match_in_joins(tmp_path: Path, window: Any, parallelism: int) -> None:
    job = ps.Job()
    left, right = (
        ps.read_memory(
            [sale(None, number, 0), sale("a", number, 1), sale(None, number, 2)], schema=SALE, time="at", job=job
        )
        for number in (1, 2)
    )
    outcome = run(left.join(right, on="shop", window=window), tmp_path, parallelism=parallelism)
    assert [(row["shop"], row["amount"], row["amount_right"]) for row in outcome.rows] == [("a", 1, 2)]
    (join,) = [item for item in outcome.ledger.operators if item.operator == "join-1"]
    assert (join.rows_in, join.filtered, join.folded) == (6, 4, 2)
