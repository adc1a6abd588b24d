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
    for title, kept in _beside(operators):
        print(f"{title}: {_short(json.dumps(kept, default=_plain), 400)}")


def chosen_tables(checkpoint: Checkpoint, operator: str, table: str | None, *, internal: bool) -> dict[str, pa.Table]:
    """Return one table of an operator, or all.

    Raises:
        OptionError: there is no such operator or table, or it holds none.
    """
    tables = checkpoint.tables_of(operator, internal=internal)
    known = ", ".join(map(repr, tables)) or "none"
    if table is not None and table not in tables:
        raise OptionError(f"operator {operator!r} has no table {table!r}; it has {known}.")
    if not tables:
        raise OptionError(f"operator {operator!r} holds no rows; penstock state ls lists those that do.")
    return tables if table is None else {table: tables[table]}


def print_rows(rows: pa.Table, most: int, *, title: str | None = None, as_json: bool = False) -> None:
    """Print the first rows, and how many there are; as JSON: one line a row."""
    shown = rows.slice(0, most).to_pylist()
    if as_json:
        for row in shown:
            print(json.dumps(row, default=_plain))
        return
    columns = [Column(field.name, figures=_is_figure(field.type)) for field in rows.schema]
    cells = [[_short("" if value is None else str(value), CELL_WIDTH) for value in row.values()] for row in shown]
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
    written = " and ".join(str(path) for path in (arrow, parquet) if path is not None)
    print(f"wrote {count_text(rows.num_rows)} rows to {written}", file=sys.stderr)
    return True


def _headline(checkpoint: Checkpoint, now_us: int) -> str:
    manifest = checkpoint.manifest
    taken = f"{datetime.fromtimestamp(manifest.created_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"
    savepoint = "" if checkpoint.savepoint is None else f"  savepoint {checkpoint.savepoint}"
    age = seconds_text(max(0, now_us - manifest.created_us) / 1e6)
    return f"{manifest.job}  epoch {manifest.epoch}{savepoint}  taken {taken}, {age} ago"


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
        "operators": [asdict(kept) for kept in operators],
    }


def _lines(operators: Iterable[KeptOperator]) -> Iterable[list[str]]:
    for kept in operators:
        first = [kept.operator, "", str(kept.instances), "", "", bytes_text(kept.file_bytes) if kept.file_bytes else ""]
        for table in kept.tables:
            first[1], first[3], first[4] = table.name, count_text(table.rows), bytes_text(table.bytes)
            yield first
            first = ["", "", "", "", "", ""]
        if not kept.tables:
            yield first


def _beside(operators: Iterable[KeptOperator]) -> Iterable[tuple[str, Any]]:
    """Yield what operators keep beside their tables."""
    for kept in operators:
        if kept.notes:
            yield f"notes of {kept.operator}", kept.notes
        if kept.positions:
            yield f"positions of {kept.operator}", kept.positions
        if kept.receipts:
            yield f"receipts of {kept.operator}", kept.receipts


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def _plain(value: Any) -> Any:
    """Return what JSON has no word for as text: bytes as hexadecimal digits; a whole decimal is a number."""
    if isinstance(value, Decimal) and value.as_tuple().exponent == 0:
        return int(value)
    return value.hex() if isinstance(value, bytes) else str(value)


def _is_figure(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))
