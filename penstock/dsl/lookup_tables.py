"""Side tables to look rows up in: files, rows in memory, or what a function returns."""

from pathlib import Path
from typing import Any

from penstock.engine.connectors.local.lookup_tables import FunctionTable, SourceTable
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.parquet.source import ParquetSource
from penstock.engine.connectors.text.csv_files import CsvSource
from penstock.engine.connectors.text.json_lines import JsonLinesSource
from penstock.model.connectors import Source
from penstock.model.durations import Duration, to_microseconds
from penstock.model.errors import OptionError
from penstock.model.lookup_tables import LookupTable
from penstock.model.schema import Fields, to_arrow_schema

_FILES = {
    ".csv": CsvSource,
    ".json": JsonLinesSource,
    ".jsonl": JsonLinesSource,
    ".ndjson": JsonLinesSource,
    ".parquet": ParquetSource,
}


def lookup_table(data: Any, *, schema: Fields | None = None, refresh: Duration | None = None) -> LookupTable:
    """Describe a side table for `Stream.lookup`.

    ``data`` is a path (``.csv``, ``.json``, ``.jsonl``, ``.ndjson``, ``.parquet``), rows in memory (anything with the
    Arrow PyCapsule interface, or a list of dicts), a `Source`, or a function without parameters that returns such rows.
    The table is read when the job starts, and with ``refresh`` again that often, on a thread of its own; if that
    fails, the job goes on with the table it has. ``schema`` is needed where the columns cannot be inferred.

    Raises:
        OptionError: the file's kind is not known, or ``refresh`` is not positive.
        SchemaError: it is no table.
    """
    refresh_us = None if refresh is None else to_microseconds(refresh, "refresh")
    if refresh_us == 0:
        raise OptionError("lookup_table(refresh=...) must be longer than 0")
    fields = None if schema is None else to_arrow_schema(schema)
    if isinstance(data, Source):
        return SourceTable(data, refresh_us)
    if isinstance(data, str | Path):
        kind = _FILES.get(Path(data).suffix)
        if kind is None:
            raise OptionError(f"lookup_table({str(data)!r}): a table is read from {', '.join(_FILES)} files")
        return SourceTable(kind(data, schema=fields), refresh_us)
    if callable(data):
        return FunctionTable(data, fields, refresh_us)
    return SourceTable(MemorySource(data, fields), refresh_us)
