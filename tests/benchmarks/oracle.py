"""What each Nexmark query must answer, asked of DuckDB over the same Parquet files.

``oracle/qN.sql`` holds the questions: they read the views ``person``, ``auction`` and ``bid``, and
the one-row view ``watermark``, up to which windows are closed. Called by tests of the queries.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from penstock.engine.connectors.nexmark.generator import KINDS
from tests.benchmarks.same_rows import assert_same_rows

__all__ = ["INPUTS", "QUERIES", "ReadSoFar", "assert_same_rows", "expected"]

INPUTS: dict[str, tuple[str, ...]] = {
    "q0": ("bid",),
    "q1": ("bid",),
    "q2": ("bid",),
    "q3": ("person", "auction"),
    "q4": ("auction", "bid"),
    "q5": ("bid",),
    "q6": ("auction", "bid"),
    "q7": ("bid",),
    "q8": ("person", "auction"),
    "q9": ("auction", "bid"),
    "q10": ("bid",),
    "q11": ("bid",),
    "q13": ("bid",),
    "q14": ("bid",),
    "q15": ("bid",),
    "q16": ("bid",),
    "q17": ("bid",),
    "q18": ("bid",),
    "q19": ("bid",),
    "q20": ("auction", "bid"),
    "q21": ("bid",),
    "q22": ("bid",),
    "q23": ("person", "auction", "bid"),
}
"""What each query reads, but for q13's side table. q12 goes by the clock on the wall and has a test of its own."""
QUERIES = tuple(INPUTS)


@dataclass(frozen=True)
class ReadSoFar:
    """How far a stream has come when its sources are paused."""

    rows: Mapping[str, int]
    """Rows read of each kind, from the start of its file; a kind not named has read none."""
    delay_ms: int
    """Watermark delay of every source."""
    ended: frozenset[str] = frozenset()
    """Kinds whose end the stream has seen: their watermark is at the end of time."""


def expected(query: str, directory: str | Path, *, upto: ReadSoFar | None = None) -> pa.Table:
    """The rows of ``query`` (``"q5"``) over a data set, with the columns of the reference's sink.

    With ``upto``, what a stream must have given once everything it has read is worked through:
    all rows for queries without windows (changelogs consolidated), else those of closed windows.
    A window is closed when its end <= W, a session when its end < W, where W is the minimum over
    the query's inputs of (greatest ``dateTime`` read - delay). Bids that q7 takes from beyond a
    closed window (those at its very end) count as soon as they are read.
    """
    with duckdb.connect() as con:
        for kind in KINDS:
            _view(con, kind, Path(directory) / f"{kind}.parquet", upto)
        con.execute("CREATE VIEW side_input AS SELECT range AS key, CAST(range AS VARCHAR) AS value FROM range(10000)")
        con.execute(f"CREATE VIEW watermark AS SELECT {_watermark(query, upto)} AS time")
        question = (Path(__file__).parent / "oracle" / f"{query}.sql").read_text()
        answer = con.sql(question).to_arrow_table()
    schema = pa.schema(
        [pa.field(f.name, pa.timestamp("ms") if pa.types.is_timestamp(f.type) else f.type) for f in answer.schema]
    )
    return answer.cast(schema)


def _view(con: duckdb.DuckDBPyConnection, kind: str, path: Path, upto: ReadSoFar | None) -> None:
    file = str(path).replace("'", "''")
    if upto is None:
        con.execute(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{file}')")
        return
    con.execute(
        f"CREATE VIEW {kind} AS SELECT * EXCLUDE file_row_number "
        f"FROM read_parquet('{file}', file_row_number = true) "
        f"WHERE file_row_number < {upto.rows.get(kind, 0)}"
    )


def _watermark(query: str, upto: ReadSoFar | None) -> str:
    """SQL for the time up to which the query's windows are closed."""
    open_inputs = [] if upto is None else [k for k in INPUTS[query] if k not in upto.ended]
    if upto is None or not open_inputs:
        return "TIMESTAMP 'infinity'"
    times = [
        f'(SELECT coalesce(max("dateTime") - {upto.delay_ms} * INTERVAL 1 MILLISECOND, '
        f"TIMESTAMP '-infinity') FROM {kind})"
        for kind in open_inputs
    ]
    return f"least({', '.join(times)})"
