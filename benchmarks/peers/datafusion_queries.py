"""The Nexmark queries on DataFusion with one partition, each in the form it answers fastest.

Called by ``runner.py`` in a process of its own, which sets ``TOKIO_WORKER_THREADS`` first.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from penstock.benchmarks.peers.common_sql import COMMON
from penstock.benchmarks.peers.datafusion_bids import BIDS
from penstock.benchmarks.peers.datafusion_joins import JOINS

_EVENTS = ("person", "auction", "bid")
_SIDE_INPUT = pa.schema({"key": pa.int64(), "value": pa.string()})

QUERIES: dict[str, str] = {**COMMON, **BIDS, **JOINS}


def connect(directory: Path) -> SessionContext:
    """A session with one partition, the three files and q13's side table as tables."""
    session = SessionContext(SessionConfig().with_target_partitions(1))
    for kind in _EVENTS:
        session.register_parquet(kind, str(directory / f"{kind}.parquet"))
    side_input = directory / "side_input.csv"
    if side_input.is_file():
        session.register_csv("side_input", str(side_input), schema=_SIDE_INPUT)
    else:
        rows = "SELECT value AS key, CAST(value AS VARCHAR) AS value FROM generate_series(0, 9999)"
        session.sql(f"CREATE VIEW side_input AS {rows}").collect()
    return session


def answer(session: SessionContext, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query, as they come out of DataFusion."""
    for batch in session.sql(QUERIES[query]).execute_stream():
        yield batch.to_pyarrow()
