"""A data set given row by row, and what the oracle answers over it.

Called by the tests of the oracle.
"""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.nexmark.generator import KINDS, SCHEMAS
from tests.benchmarks.oracle import ReadSoFar, expected

_NOT_TEXT = {"id", "auction", "bidder", "price", "dateTime", "expires", "seller", "category"}
_NOT_TEXT |= {"initialBid", "reserve"}


class Case:
    """A data set given row by row; what is not given is 0 or empty."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.rows: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}

    def add(self, kind: str, **values: object) -> None:
        blank = {name: 0 if name in _NOT_TEXT else "" for name in SCHEMAS[kind].names}
        self.rows[kind].append({**blank, **values})

    def ask(self, query: str, upto: ReadSoFar | None = None) -> list[tuple[Any, ...]]:
        for kind, rows in self.rows.items():
            pq.write_table(pa.Table.from_pylist(rows, SCHEMAS[kind]), self.directory / f"{kind}.parquet")
        answer = expected(query, self.directory, upto=upto)
        plain = [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in answer.columns]
        return sorted(zip(*(column.to_pylist() for column in plain), strict=True))
