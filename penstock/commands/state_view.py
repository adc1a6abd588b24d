"""A checkpoint for people: what ``penstock state`` prints, as tables or JSON, or writes to files."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.checkpoint.reader import Checkpoint, KeptOperator
from penstock.model.coercion import is_number
from penstock.model.errors import OptionError
from penstock.tables import Column, bytes_text, count_text, print_table, seconds_text

CELL_WIDTH = 60
"""Characters of a value that are printed in a table."""


def print_listing(checkpoint: Checkpoint, now_us: int, *, as_json: bool) -> None:
    """Print what a checkpoint holds, operator by operator; ``now_us`` is the wall clock."""
    operators = checkpoint.operators()
    if as_json:
        print(json.dumps(_listing(checkpoint, operators, now_us), default=_plain))
        return
    if checkpoint.warning is not None:
        print(checkpoint.warning, file=sys.stderr)
    print(_headline(checkpoint, now_us))
    names = ("instances", "rows", "bytes", "file")
    columns = [Column("operator", figures=False), Column("table", figures=False), *map(Column, names)]
    print_table(columns, list(_lines(operators)), stream=sys.stdout)
    for title, state in _beside(operators):
        print(f"{title}: {_short(json.dumps(state, default=_plain), 400)}")


def chosen_tables(checkpoint: Checkpoint, operator: str, table: str | None, *, internal: bool) -> dict[str, pa.Table]:
    """Return one table of an operator, or all.

    Raises:
        OptionError: there is no such operator or table, or it holds none.
    """
    tables = checkpoint.tables_of(operator, internal=internal)
    names = ", ".join(map(repr, tables)) or "none"
    if table is not None and table not in tables:
        raise OptionError(f"operator {operator!r} has no table {table!r}; it has {names}.")
    if not tables:
        raise OptionError(f"operator {operator!r} holds no rows; penstock state ls lists those that do.")
    return tables if table is None else {table: tables[table]}


def print_rows(rows: pa.Table, most: int, *, title: str | None = None, as_json: bool = False) -> None:
    """Print the first rows, and how many there are; as JSON: one line a row."""
    listed = rows.slice(0, most).to_pylist()
    if as_json:
        for row in listed:
            print(json.dumps(row, default=_plain))
        return
    columns = [Column(field.name, figures=is_number(field.type)) for field in rows.schema]
    cells = [[_short("" if value is None else str(value), CELL_WIDTH) for value in row.values()] for row in listed]
    count = count_text(rows.num_rows)
    note = f"{count} row{'s' * (rows.num_rows != 1)}" if rows.num_rows <= most else f"the first {most} of {count} rows"
    print_table(columns, cells, title=title, note=note, stream=sys.stdout)


def write_rows(tables: Mapping[str, pa.Table], arrow: Path | None, parquet: Path | None) -> bool:
    """Write a table to the files that were asked for; return whether one was.

    Raises:
        OptionError: a file was asked for, and there are several tables.
    """
    if arrow is None and parquet is None:
        return False
    if len(tables) > 1:
        raise OptionError(f"one table goes into a file: name one of {', '.join(map(repr, tables))}.")
    (rows,) = tables.values()
    if arrow is not None:
        with pa.ipc.new_file(arrow, rows.schema) as writer:
            writer.write_table(rows)
    if parquet is not None:
        pq.write_table(rows, parquet)
    targets = " and ".join(str(path) for path in (arrow, parquet) if path is not None)
    print(f"wrote {count_text(rows.num_rows)} rows to {targets}", file=sys.stderr)
    return True


def _headline(checkpoint: Checkpoint, now_us: int) -> str:
    manifest = checkpoint.manifest
    time_text = f"{datetime.fromtimestamp(manifest.created_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
    savepoint = "" if checkpoint.savepoint is None else f"  savepoint {checkpoint.savepoint}"
    age = seconds_text(max(0, now_us - manifest.created_us) / 1e6)
    return f"{manifest.job}  epoch {manifest.epoch}{savepoint}  taken {time_text}, {age} ago"


def _listing(checkpoint: Checkpoint, operators: Iterable[KeptOperator], now_us: int) -> dict[str, Any]:
    manifest = checkpoint.manifest
    return {
        "job": manifest.job,
        "epoch": manifest.epoch,
        "savepoint": checkpoint.savepoint,
        "created_us": manifest.created_us,
        "age_us": now_us - manifest.created_us,
        "key_groups": manifest.key_groups,
        "engine_version": manifest.engine_version,
        "warning": checkpoint.warning,
        "operators": [asdict(operator) for operator in operators],
    }


def _lines(operators: Iterable[KeptOperator]) -> Iterable[list[str]]:
    for operator in operators:
        first = [
            operator.operator,
            "",
            str(operator.instances),
            "",
            "",
            bytes_text(operator.file_bytes) if operator.file_bytes else "",
        ]
        for table in operator.tables:
            first[1], first[3], first[4] = table.name, count_text(table.rows), bytes_text(table.bytes)
            yield first
            first = ["", "", "", "", "", ""]
        if not operator.tables:
            yield first


def _beside(operators: Iterable[KeptOperator]) -> Iterable[tuple[str, Any]]:
    """Yield what operators keep beside their tables."""
    for operator in operators:
        if operator.notes:
            yield f"notes of {operator.operator}", operator.notes
        if operator.positions:
            yield f"positions of {operator.operator}", operator.positions
        if operator.receipts:
            yield f"receipts of {operator.operator}", operator.receipts


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _plain(value: Any) -> Any:
    """Return values without a JSON type as text: bytes as hexadecimal digits; a whole decimal is a number."""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value.hex() if isinstance(value, bytes) else str(value)
