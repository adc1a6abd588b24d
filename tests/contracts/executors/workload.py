"""What the suite of executors runs: files of orders and refunds, a pipeline of every kind, and DuckDB's answers."""

import json
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import penstock as ps
from penstock import col
from penstock.model.process import Context, Timer

BEGIN = datetime(2025, 3, 1, 12)
SLOT_S = 10
ORDERS = 12_000
REFUNDS = 1_500
FILES = 4
"""Into so many files each side is cut, so that several instances read."""

UNWANTED = 499
"""An amount that a function refuses."""

BROKEN = ('{"sale": 1, "amount": ', '{"order": "two", "amount": 3}', "[]", '{"amount": 4}')
"""Lines that are no refunds."""


REFUND = pa.schema(
    [
        pa.field("sale", pa.int64(), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        pa.field("amount", pa.int64(), nullable=False),
        pa.field("seen", pa.timestamp("us"), nullable=False),
    ]
)


class SlotCounts(ps.Process):
    """Counts the rows of each slot of time, and says so at its end."""

    counts = ps.map_state(int, int)

    def process(self, row: dict[str, Any], context: Context) -> Iterator[dict[str, Any]]:
        slot = int((row["seen"] - BEGIN).total_seconds()) // SLOT_S
        if not self.counts.contains(slot):
            context.timers.at(BEGIN + timedelta(seconds=(slot + 1) * SLOT_S))
            self.counts.put(slot, 0)
        self.counts.put(slot, self.counts.get(slot) + row["amount"])
        yield from ()

    def on_timer(self, timer: Timer, context: Context) -> Iterator[dict[str, Any]]:
        slot = int((timer.time - BEGIN).total_seconds()) // SLOT_S - 1
        yield {"key": context.key, "slot": slot, "amount": self.counts.get(slot)}
        self.counts.delete(slot)


def priced(row: dict[str, Any]) -> dict[str, Any]:
    if row["amount"] == UNWANTED:
        raise ValueError("nobody wants this")
    return {"id": row["id"], "tax": row["amount"] // 5}


def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
    amounts = batch.column("amount").to_numpy() * 2
    return pa.RecordBatch.from_pydict({"id": batch.column("id"), "twice": pa.array(amounts, pa.int64())})


def write_inputs(folder: Path) -> None:
    """Write orders as Parquet and refunds as JSON lines, both nearly in order of time."""
    draw = np.random.default_rng(7)
    (folder / "orders").mkdir(parents=True)
    (folder / "refunds").mkdir()
    seconds = np.sort(draw.uniform(0, 300, ORDERS))
    seconds[draw.permutation(ORDERS)[: ORDERS // 3]] -= 0.5
    orders = pa.table(
        {
            "id": pa.array(range(ORDERS), pa.int64()),
            "key": pa.array(draw.integers(0, 40, ORDERS), pa.int64()),
            "amount": pa.array(draw.integers(0, 1_000, ORDERS), pa.int64()),
            "seen": pa.array([BEGIN + timedelta(seconds=1 + float(second)) for second in seconds], pa.timestamp("us")),
        }
    )
    for number in range(FILES):
        pq.write_table(orders.take(list(range(number, ORDERS, FILES))), folder / "orders" / f"{number}.parquet")
    lines: list[list[str]] = [[] for _ in range(FILES)]
    for number, order in enumerate(np.sort(draw.integers(0, ORDERS, REFUNDS)).tolist()):
        row = orders.slice(order, 1).to_pylist()[0]
        at = (row["seen"] + timedelta(seconds=2)).isoformat(timespec="microseconds")
        refund = {"sale": order, "key": row["key"], "amount": row["amount"] // 2, "seen": at}
        lines[number % FILES].append(json.dumps(refund))
    for number, text in enumerate(BROKEN):
        lines[number % FILES].insert(50, text)
    for number, some in enumerate(lines):
        (folder / "refunds" / f"{number}.jsonl").write_text("\n".join(some) + "\n")


def read_both(folder: Path, job: ps.Job) -> tuple[ps.Stream, ps.Stream]:
    """Return orders and refunds as streams."""
    orders = ps.read_parquet(folder / "orders", time="seen", watermark="2s", job=job).name("orders")
    refunds = ps.read_json(folder / "refunds", schema=REFUND, time="seen", watermark="2s", job=job).name("refunds")
    return orders, refunds


def outputs(folder: Path, job: ps.Job) -> dict[str, ps.Stream]:
    """Return the streams of the pipeline by name, each with an answer in `ANSWERS` but for the dead letters."""
    orders, refunds = read_both(folder, job)
    halves = orders.split(dear=col("amount") >= 700, cheap=col("amount") < 100)
    both = orders.select("key", "amount", "seen").union(refunds.select("key", "amount", "seen"))
    taxed = orders.map(priced, {"id": int, "tax": int})
    return {
        "filtered": orders.filter(col("amount") > 900).select("id", "key", "amount"),
        "dear": halves["dear"].select("id"),
        "cheap": halves["cheap"].select("id"),
        "totals": orders.key_by("key").agg(n=ps.count(), total=ps.sum_("amount"), most=ps.max_("amount")),
        "whole": orders.agg(n=ps.count(), total=ps.sum_("amount")),
        "windows": orders.key_by("key").window(ps.tumbling("10s")).agg(n=ps.count(), total=ps.sum_("amount")),
        "hops": orders.key_by("key").window(ps.hopping("30s", "10s")).emit("updates").agg(n=ps.count()),
        "joined": orders.join(refunds, left_on="id", right_on="sale").select("id", "amount", "amount_right"),
        "window_joined": orders.join(refunds, on="key", window=ps.tumbling("10s")).select("id", "sale"),
        "slots": orders.key_by("key").process(SlotCounts, {"key": int, "slot": int, "amount": int}),
        "united": both.key_by("key").agg(n=ps.count(), total=ps.sum_("amount")),
        "taxed": taxed,
        "refused": taxed.side_output("dead_letter"),
        "doubled": orders.map_batches(doubled, {"id": int, "twice": int}),
        "distinct": refunds.distinct("key").select("key"),
        "broken": refunds.side_output("dead_letter"),
    }


_SLOT = f"INTERVAL {SLOT_S} SECOND"
_START = f"time_bucket({_SLOT}, seen, TIMESTAMP '2000-01-01')"
_WINDOWS = f"SELECT key, {_START} AS window_start, {_START} + {_SLOT} AS window_end"
_HOPS = f"(SELECT key, {_START} - back.n * {_SLOT} AS window_start FROM orders, range(3) AS back(n))"

ANSWERS = {
    "filtered": "SELECT id, key, amount FROM orders WHERE amount > 900",
    "dear": "SELECT id FROM orders WHERE amount >= 700",
    "cheap": "SELECT id FROM orders WHERE amount < 100",
    "totals": "SELECT key, count(*) AS n, sum(amount)::BIGINT AS total, max(amount) AS most FROM orders GROUP BY key",
    "whole": "SELECT count(*) AS n, sum(amount)::BIGINT AS total FROM orders",
    "windows": f"{_WINDOWS}, count(*) AS n, sum(amount)::BIGINT AS total FROM orders GROUP BY ALL",
    "hops": f"SELECT key, window_start, window_start + 3 * {_SLOT} AS window_end, count(*) AS n FROM {_HOPS} "
    "GROUP BY ALL",
    "joined": "SELECT id, o.amount, r.amount AS amount_right FROM orders o JOIN refunds r ON id = r.sale",
    "window_joined": f"SELECT id, r.sale FROM orders o JOIN refunds r ON o.key = r.key AND "
    f"{_START.replace('seen,', 'o.seen,')} = {_START.replace('seen,', 'r.seen,')}",
    "slots": f"SELECT key, date_diff('second', TIMESTAMP '{BEGIN}', {_START}) // {SLOT_S} AS slot, "
    "sum(amount)::BIGINT AS amount FROM orders GROUP BY ALL",
    "united": "SELECT key, count(*) AS n, sum(amount)::BIGINT AS total FROM "
    "(SELECT key, amount FROM orders UNION ALL SELECT key, amount FROM refunds) GROUP BY key",
    "taxed": f"SELECT id, amount // 5 AS tax FROM orders WHERE amount <> {UNWANTED}",
    "doubled": "SELECT id, amount * 2 AS twice FROM orders",
    "distinct": "SELECT DISTINCT key FROM refunds",
}
"""What DuckDB is asked for each output."""


def answer(folder: Path, name: str) -> pa.Table:
    """Return DuckDB's answer over the same files."""
    columns = "{sale: 'BIGINT', key: 'BIGINT', amount: 'BIGINT', seen: 'TIMESTAMP'}"
    with duckdb.connect(config={"threads": 1}) as con:
        con.execute(f"CREATE VIEW orders AS FROM read_parquet('{folder}/orders/*.parquet')")
        lines = (
            f"read_json('{folder}/refunds/*.jsonl', format='newline_delimited', ignore_errors=true, columns={columns})"
        )
        con.execute(f"CREATE VIEW refunds AS FROM {lines} WHERE sale IS NOT NULL AND key IS NOT NULL")
        return con.sql(ANSWERS[name]).to_arrow_table()
