"""Bad rows, functions and sources end to end: a clear sentence or a dead letter, nothing lost uncounted."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col
from tests.end_to_end.bad_input_support import (
    GOOD,
    LARGEST,
    SALE,
    SALES,
    Row,
    from_json,
    from_memory,
    run,
    sale,
)
from tests.penstock.front_door import Script, dead_letters, line, ordered


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
