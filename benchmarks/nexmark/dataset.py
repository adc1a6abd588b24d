"""Writes the three Parquet files of a Nexmark data set, which every engine then reads.

Called by the ``nexmark`` command, the peers' benchmark and the tests.
"""

import json
from dataclasses import asdict
from pathlib import Path

import pyarrow.parquet as pq

from penstock.engine.connectors.nexmark.generator import (
    KINDS,
    SCHEMAS,
    NexmarkConfig,
    generate,
    rows_of_kind,
)
from penstock.model.errors import OptionError

COMPRESSIONS = ("none", "snappy", "lz4", "zstd")

# Columns with few distinct long values. Plain numbers without compression are what Arrow, DuckDB,
# Polars and DataFusion each read fastest, so no engine is measured decoding for another's sake.
_DICTIONARIES: dict[str, list[str]] = {
    "person": ["name", "city", "state"],
    "auction": [],
    "bid": ["channel", "url"],
}
# Written last, so a folder that has it is complete.
_MARK = "dataset.json"


def write_dataset(
    directory: str | Path,
    config: NexmarkConfig,
    row_group_rows: int = 131_072,
    compression: str = "none",
) -> dict[str, int]:
    """Write ``person.parquet``, ``auction.parquet`` and ``bid.parquet``; give the rows of each.

    The directory is made if need be and files in it are replaced; ``dataset.json`` tells the
    options. Rows are in stream order. Memory holds one row group at a time. Raises ``OptionError``
    if the stream never ends or an option has an impossible value.
    """
    if compression not in COMPRESSIONS:
        raise OptionError(
            f"write_dataset: compression is {compression!r}; it must be one of {', '.join(COMPRESSIONS)}."
        )
    if row_group_rows < 1:
        raise OptionError(f"write_dataset: row_group_rows is {row_group_rows}; it must be above 0.")
    rows: dict[str, int] = {}
    for kind in KINDS:
        total = rows_of_kind(config, kind)
        if total is None:
            raise OptionError("write_dataset: NexmarkConfig.events is None; a file needs an end.")
        rows[kind] = total
    folder = Path(directory)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).unlink(missing_ok=True)
    for kind, total in rows.items():
        with pq.ParquetWriter(
            folder / f"{kind}.parquet",
            SCHEMAS[kind],
            compression=compression,
            use_dictionary=_DICTIONARIES[kind],
        ) as writer:
            for first in range(0, total, row_group_rows):
                batch = generate(config, kind, first, min(row_group_rows, total - first))
                writer.write_batch(batch, row_group_size=row_group_rows)
    (folder / _MARK).write_text(json.dumps(asdict(config), indent=1) + "\n")
    return rows


def ensure_dataset(directory: str | Path, config: NexmarkConfig | int) -> Path:
    """The directory of a data set, written first unless a complete one of these options is there.

    A number means that many events with the defaults.
    """
    config_or_default = NexmarkConfig(config) if isinstance(config, int) else config
    folder = Path(directory)
    mark = folder / _MARK
    if not mark.exists() or json.loads(mark.read_text()) != asdict(config_or_default):
        write_dataset(folder, config_or_default)
    return folder
