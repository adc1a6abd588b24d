"""What the tests of reduce share: a stream, a function that minds the order, and windows folded in a loop."""

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from penstock.engine.operators.aggregates.reduce import Reduce
from penstock.model.expressions import Expr, col
from penstock.model.job_graph import MAIN, ReduceSpec
from penstock.model.schema import WEIGHT, StreamSchema, TimeColumn
from penstock.model.windows import (
    Count,
    Emission,
    Global,
    Hopping,
    Session,
    Tumbling,
    Window,
    WindowAssigner,
    Windowing,
)
from tests.engine.dataflow.dozing import restarting
from tests.engine.restarts import Restarting
from tests.engine.support import Collected, open_operator

Row = dict[str, Any]

INPUT = StreamSchema(
    pa.schema([("at", pa.timestamp("us")), ("k", pa.string()), ("v", pa.int64()), ("tags", pa.list_(pa.string()))]),
    TimeColumn("at"),
)
KEY = (("k", col("k")),)
MODULUS = 1_000_003


class Uneven(WindowAssigner):
    """Windows of unlike sizes that share their ends; times divisible by four have none."""

    def assign(self, times_us: Any) -> Any:
        rows = np.flatnonzero(times_us % 4 != 0)
        end = (times_us[rows] // 8 + 1) * 8
        long = np.stack([rows, end - 8, end], 1)
        short = np.stack([rows, times_us[rows], end], 1)
        both = np.stack([long, short], 1).reshape(-1, 3)
        return both[:, 0], both[:, 1], both[:, 2]


def chain(one: Row, other: Row) -> Row:
    """Depends on the order of rows."""
    return {
        "at": other["at"],
        "k": "anything",
        "v": (one["v"] * 31 + other["v"]) % MODULUS,
        "tags": [*(one["tags"] or []), *(other["tags"] or [])],
    }


rows_of_any_time = st.lists(
    st.fixed_dictionaries(
        {
            "at": st.integers(0, 24),
            "k": st.one_of(st.none(), st.sampled_from("ab")),
            "v": st.integers(0, 3),
            "tags": st.one_of(st.none(), st.lists(st.sampled_from("xy"), max_size=2)),
        }
    ),
    max_size=40,
)
windows = st.sampled_from([Tumbling(10), Hopping(10, 4, 1), Session(2), Count(3), Global(), Uneven()])


def operator_of(
    window: Window | None,
    function: Callable[[Row, Row], Any] = chain,
    *,
    keys: tuple[tuple[str, Expr], ...] = KEY,
    lateness_us: int = 0,
    emission: Emission | None = None,
    **options: Any,
) -> Reduce:
    """Open a reduce; its windows are final unless told otherwise."""
    windowing = None if window is None else Windowing(window, lateness_us, emission=emission or Emission())
    return open_operator(Reduce(ReduceSpec(keys, function, windowing), INPUT, "r"), **options)


def restarting_of(
    window: Window | None,
    cuts: list[str],
    *,
    keys: tuple[tuple[str, Expr], ...] = KEY,
    lateness_us: int = 0,
    emission: Emission | None = None,
    **options: Any,
) -> Restarting:
    """Open the reduce of `chain`, to stop and go on as ``cuts`` say."""
    windowing = None if window is None else Windowing(window, lateness_us, emission=emission or Emission())
    spec = ReduceSpec(keys, chain, windowing)
    names = [name for name, _ in keys]
    return open_operator(restarting(lambda: Reduce(spec, INPUT, "r"), cuts, *names), **options)


def steps_of(rows: list[Row], cut: random.Random) -> list[pa.RecordBatch | int]:
    """Batches of random sizes, with watermarks no later row falls behind."""
    steps: list[pa.RecordBatch | int] = []
    at, passed = 0, -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(batch_of(rows[at : at + size]))
        at += size
        watermark = min((row["at"] for row in rows[at:]), default=24) - cut.randint(0, 2)
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def batch_of(rows: Sequence[Row]) -> pa.RecordBatch:
    """Return rows as a batch of `INPUT`."""
    return pa.RecordBatch.from_pylist(list(rows), schema=INPUT.fields)


def total_order(row: Row) -> tuple[Any, ...]:
    """Return what rows of one key are sorted by."""
    return (row["at"], row["v"], row["tags"] is not None, row["tags"] or [])


def folded(rows: list[Row]) -> tuple[int, tuple[str, ...] | None]:
    """Fold rows that are in order."""
    result = functools.reduce(chain, rows)
    return result["v"], None if result["tags"] is None else tuple(result["tags"])


def bounds_of(rows: list[Row], window: Window) -> list[tuple[int, int, list[Row]]]:
    """Cut the rows of one key, in order, into (start, end, rows)."""
    times = [row["at"] for row in rows]
    if isinstance(window, Count):
        parts = [rows[start : start + window.rows] for start in range(0, len(rows), window.rows)]
        return [(part[0]["at"], part[-1]["at"], part) for part in parts]
    if isinstance(window, Session):
        cuts = [0, *(i for i in range(1, len(rows)) if times[i] > times[i - 1] + window.gap_us), len(rows)]
        parts = [rows[start:stop] for start, stop in itertools.pairwise(cuts)]
        return [(part[0]["at"], part[-1]["at"] + window.gap_us, part) for part in parts]
    if isinstance(window, WindowAssigner):
        owners, starts, ends = window.assign(np.array(times, np.int64))
        pairs = list(zip(owners.tolist(), starts.tolist(), ends.tolist(), strict=True))
    else:
        assert isinstance(window, Tumbling | Hopping)
        hop = window.hop_us if isinstance(window, Hopping) else window.size_us
        spans = [(j * hop + window.offset_us, j * hop + window.offset_us + window.size_us) for j in range(-9, 9)]
        pairs = [(i, *span) for i in range(len(rows)) for span in spans if span[0] <= times[i] < span[1]]
    return [
        (*span, [rows[i] for i, *of in pairs if tuple(of) == span]) for span in sorted({(s, e) for _, s, e in pairs})
    ]


def expected(rows: list[Row], window: Window) -> Counter[tuple[Any, ...]]:
    """Return the results of these rows: key, bounds (but for the global window), v and tags."""
    results: Counter[tuple[Any, ...]] = Counter()
    for key in {row["k"] for row in rows}:
        mine = sorted((row for row in rows if row["k"] == key), key=total_order)
        if isinstance(window, Global):
            results[(key, *folded(mine))] += 1
        else:
            results.update((key, start, end, *folded(part)) for start, end, part in bounds_of(mine, window))
    return results


def found(collected: Collected) -> Counter[tuple[Any, ...]]:
    """Return the results; of a changelog, what is left once all is applied."""
    results: Counter[tuple[Any, ...]] = Counter()
    for batch in collected.batches.get(MAIN, []):
        bounds = [
            batch.column(name).cast(pa.int64()).to_pylist()
            for name in ("window_start", "window_end")
            if name in batch.schema.names
        ]
        tags = [None if item is None else tuple(item) for item in batch.column("tags").to_pylist()]
        weights = batch.column(WEIGHT).to_pylist() if WEIGHT in batch.schema.names else [1] * batch.num_rows
        rows = zip(batch.column("k").to_pylist(), *bounds, batch.column("v").to_pylist(), tags, strict=True)
        for row, weight in zip(rows, weights, strict=True):
            results[row] += weight
    assert all(count >= 0 for count in results.values()), results
    return +results
