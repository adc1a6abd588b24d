"""q12 goes by the clock on the wall: the test is the clock."""

import random
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.testing import Kit
from tests.end_to_end.nexmark_support import DataSets

WINDOW = timedelta(seconds=10)


def window_of(time: datetime) -> tuple[datetime, datetime]:
    start = time - timedelta(microseconds=round(time.timestamp() * 1e6) % 10_000_000)
    return start, start + WINDOW


def pieces(bids: pa.Table, chance: random.Random) -> list[pa.Table]:
    cuts = sorted(chance.sample(range(1, bids.num_rows), 40))
    return [bids.slice(start, end - start) for start, end in zip([0, *cuts], [*cuts, bids.num_rows], strict=True)]


@pytest.mark.parametrize("parallelism", [1, 2])
@pytest.mark.parametrize("batch_rows", [1, 997, 32_768])
def test_bids_are_counted_by_the_window_in_which_they_came(
    data_sets: DataSets, parallelism: int, batch_rows: int
) -> None:
    chance = random.Random(12)
    folder: Path = data_sets.directory("midnight", shuffled=True, events=5_000)
    bids = pq.read_table(folder / "bid.parquet")
    kit = Kit(parallelism=parallelism, batch_rows=batch_rows)
    pushed = kit.input(bids.schema, time="dateTime", watermark="4s")
    result = kit.output(load("q12")(cast(Events, SimpleNamespace(bid=pushed.stream))))
    counts: Counter[tuple[int, datetime, datetime]] = Counter()
    for piece in pieces(bids, chance):
        pushed.push(piece)
        counts.update((bidder, *window_of(kit.now)) for bidder in piece["bidder"].to_pylist())
        kit.advance(timedelta(milliseconds=chance.choice([0, 1, 2_000, 9_999, 25_000])))
        # Every window that is over has been put out, and no other.
        assert found(result.rows()) == {key: count for key, count in counts.items() if key[2] <= kit.now}
    kit.end()
    assert found(result.rows()) == counts
    assert len({start for _, start, _ in counts}) > 8


def found(rows: list[dict[str, Any]]) -> dict[tuple[int, datetime, datetime], int]:
    counts = {(row["bidder"], row["starttime"], row["endtime"]): row["bid_count"] for row in rows}
    assert len(counts) == len(rows)
    return counts
