"""Functions that move event times: what is dated before the watermark is late behind them, and counted."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock import col
from penstock.dsl.job import Job
from penstock.dsl.stream import Stream
from tests.penstock.front_door import Row, noon, orders, rows

BACK = timedelta(seconds=40)


def moved(row: Row) -> Row:
    """Date every pen back to before everything else."""
    return {**row, "at": row["at"] - BACK} if row["item"] == "pen" else row


def moved_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    times = batch.column("at")
    pens = pc.fill_null(pc.equal(batch.column("item"), "pen"), False)
    at = pc.if_else(pens, pc.subtract(times, pa.scalar(BACK)), times)
    return batch.set_column(batch.schema.get_field_index("at"), "at", at)


def moved_rows(row: Row) -> Iterator[Row]:
    yield moved(row)


@pytest.mark.fixed_settings("parallelism")
@pytest.mark.parametrize(
    ("name", "move"),
    [
        ("map", lambda stream: stream.map(moved)),
        ("flat_map", lambda stream: stream.flat_map(moved_rows)),
        ("map_batches", lambda stream: stream.map_batches(moved_batch)),
    ],
)
def test_rows_dated_before_the_watermark_are_late_for_the_window_behind(
    name: str, move: Callable[[Stream], Stream]
) -> None:
    job = Job()
    counts = move(orders(job)).window(ps.tumbling("10s")).agg(n=ps.count())
    result, late = counts.collect(), counts.side_output("late").collect()
    metrics = job.run("moved", batch_rows=1)
    # The first pen comes before any watermark, at noon(-40); when the others come, everything before noon is over.
    assert [(row["window_start"], row["n"]) for row in result.rows()] == [
        (noon(-40), 1),
        (noon(0), 1),
        (noon(10), 2),
    ]
    assert [row["at"] for row in late.rows()] == [noon(4) - BACK, noon(25) - BACK]
    function = next(item for item in metrics.ledger.operators if item.operator.startswith(name))
    assert (function.rows_in, function.passed) == (6, 6)
    window = next(item for item in metrics.ledger.operators if item.late)
    assert (window.rows_in, window.folded, window.late) == (6, 4, 2)


def test_times_moved_forward_wait_for_their_window() -> None:
    ahead = orders().map(lambda row: {**row, "at": row["at"] + BACK})
    found = rows(ahead.window(ps.tumbling("10s")).agg(n=ps.count()), batch_rows=1)
    assert [(row["window_start"], row["n"]) for row in found] == [(noon(40), 3), (noon(50), 2), (noon(60), 1)]


def test_a_result_without_the_time_column_has_no_event_time() -> None:
    stream = orders().map(lambda row: {"item": row["item"]}, schema={"item": "string"})
    with pytest.raises(ps.PlanError, match="event time"):
        stream.window(ps.tumbling("10s")).agg(n=ps.count())
    texts = (
        orders().with_columns(price=col("price") * 2).map(lambda row: {"at": str(row["at"])}, schema={"at": "string"})
    )
    with pytest.raises(ps.PlanError, match="event time"):
        texts.window(ps.tumbling("10s")).agg(n=ps.count())
