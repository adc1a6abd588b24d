"""Bad files and bad event times end to end: a clear sentence or a dead letter, nothing lost uncounted."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pytest

import penstock as ps
from tests.end_to_end.bad_input_support import (
    GOOD,
    SALE,
    SALES,
    from_csv,
    from_json,
    from_memory,
    parquet,
    run,
    sale,
)
from tests.penstock.front_door import Script


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


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        (SALES.drop_columns(["amount"]), r"1.parquet' .*column 'amount' is missing; there are shop, at"),
        (SALES.set_column(1, "amount", SALES["shop"]), r"1.parquet' .*column 'amount' is string, but int64"),
        (b"not parquet at all", r"1.parquet' cannot be read as Parquet"),
        (b"", r"1.parquet' cannot be read as Parquet"),
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
