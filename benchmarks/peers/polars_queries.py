"""The Nexmark queries on Polars with one thread, each in the form that Polars answers fastest.

Called by ``runner.py`` in a process of its own, which sets ``POLARS_MAX_THREADS`` first.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pyarrow as pa
from polars import col

from penstock.benchmarks.peers.polars_bids import BIDS
from penstock.benchmarks.peers.polars_events import Events
from penstock.benchmarks.peers.polars_joins import JOINS

QUERIES: dict[str, Callable[[Events], pl.LazyFrame]] = {**BIDS, **JOINS}


def connect(directory: Path) -> Events:
    """The three files and q13's side table, to be scanned lazily."""
    person, auction, bid = (pl.scan_parquet(directory / f"{kind}.parquet") for kind in ("person", "auction", "bid"))
    file = directory / "side_input.csv"
    if file.is_file():
        side_input = pl.scan_csv(file, schema={"key": pl.Int64(), "value": pl.String()})
    else:
        keys = pl.LazyFrame().select(key=pl.int_range(10_000, dtype=pl.Int64))
        side_input = keys.with_columns(value=col("key").cast(pl.String))
    return Events(person, auction, bid, side_input)


def answer(session: Events, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query in no order, batch by batch as the streaming engine hands them over."""
    for frame in QUERIES[query](session).collect_batches(engine="streaming", maintain_order=False):
        yield from frame.to_arrow(compat_level=pl.CompatLevel.newest()).to_batches()
