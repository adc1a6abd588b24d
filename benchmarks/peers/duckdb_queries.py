"""The Nexmark queries on DuckDB with one thread, each in the form that DuckDB answers fastest.

Called by ``runner.py`` in a process of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.benchmarks.peers.common_sql import COMMON
from penstock.benchmarks.peers.duckdb_bids import BIDS
from penstock.benchmarks.peers.duckdb_joins import JOINS

_BATCH_ROWS = 100_000
_EVENTS = ("person", "auction", "bid")

QUERIES: dict[str, str] = {**COMMON, **BIDS, **JOINS}


def connect(directory: Path) -> duckdb.DuckDBPyConnection:
    """A session with one thread, the three files and q13's side table as views."""
    session = duckdb.connect(config={"threads": 1})
    session.execute("CREATE MACRO to_char(time, format) AS strftime(time, format)")
    session.execute("CREATE MACRO date_bin(width, time) AS time_bucket(width, time)")
    for kind in _EVENTS:
        session.execute(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet({_text(directory / f'{kind}.parquet')})")
    side_input = directory / "side_input.csv"
    if side_input.is_file():
        columns = "{'key': 'BIGINT', 'value': 'VARCHAR'}"
        rows = f"SELECT * FROM read_csv({_text(side_input)}, header = true, columns = {columns})"
    else:
        rows = "SELECT range AS key, CAST(range AS VARCHAR) AS value FROM range(10000)"
    session.execute(f"CREATE VIEW side_input AS {rows}")
    return session


def answer(session: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query, as they come out of DuckDB."""
    yield from session.sql(QUERIES[query]).to_arrow_reader(_BATCH_ROWS)


def _text(path: Path) -> str:
    quoted = str(path).replace("'", "''")
    return f"'{quoted}'"
