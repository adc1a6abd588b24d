"""The statistics of a Parquet file's row groups as columns, for `statistics_filter`. Called by the Parquet reader."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.normalise import to_schema
from penstock.engine.connectors.parquet.statistics_filter import PartStatistics
from penstock.engine.core.event_time import MICROSECONDS

_DICTIONARY_BYTES = 8
"""Bytes per value of a text column, uncompressed, up to which it counts as dictionary indices."""

_UNITS = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}


def row_group_statistics(
    metadata: pq.FileMetaData, groups: Sequence[int], fields: Sequence[pa.Field]
) -> PartStatistics:
    """Return the statistics of some columns in some row groups, in the types of ``fields``."""
    places = flat_columns(metadata)
    least, greatest, nulls = [], [], {}
    for field in fields:
        statistics = [_statistics(metadata, group, places.get(field.name)) for group in groups]
        least.append(_values(statistics, field, greatest=False))
        greatest.append(_values(statistics, field, greatest=True))
        nulls[field.name] = np.array([_nulls(item) for item in statistics], np.int64)
    schema = pa.schema([field.with_nullable(True) for field in fields])
    rows = np.array([metadata.row_group(group).num_rows for group in groups], np.int64)
    return PartStatistics(
        rows,
        pa.RecordBatch.from_arrays(least, schema=schema),
        pa.RecordBatch.from_arrays(greatest, schema=schema),
        nulls,
    )


def greatest_times_us(metadata: pq.FileMetaData, groups: Sequence[int], field: pa.Field) -> list[int | None]:
    """Return the greatest time of a timestamp column in each row group in microseconds; None where it is not known."""
    times = row_group_statistics(metadata, groups, [field]).greatest.column(0)
    unit = field.type.unit
    raw = times.cast(pa.int64()).to_pylist()
    if unit == "ns":
        return [None if value is None else value // 1_000 for value in raw]
    return [None if value is None else value * MICROSECONDS[unit] for value in raw]


def dictionary_columns(metadata: pq.FileMetaData, schema: pa.Schema, columns: Sequence[str]) -> list[str]:
    """Return the text columns that are cheaper to read as dictionaries and then decoded.

    That holds where a value takes few bytes in the file although it is text, so nearly all are dictionary indices.
    """
    places = flat_columns(metadata)
    chosen = []
    for name in columns:
        place = places.get(name)
        if place is None or metadata.num_row_groups == 0 or not pa.types.is_string(schema.field(name).type):
            continue
        chunk = metadata.row_group(0).column(place)
        small = chunk.total_uncompressed_size <= _DICTIONARY_BYTES * max(chunk.num_values, 1)
        if chunk.has_dictionary_page and small:
            chosen.append(name)
    return chosen


def flat_columns(metadata: pq.FileMetaData) -> dict[str, int]:
    """Return the leaf column number of every flat column."""
    paths = [metadata.schema.column(index).path for index in range(metadata.num_columns)]
    return {path: index for index, path in enumerate(paths) if "." not in path}


def _statistics(metadata: pq.FileMetaData, group: int, place: int | None) -> pq.Statistics | None:
    if place is None:
        return None
    chunk = metadata.row_group(group).column(place)
    return chunk.statistics if chunk.is_stats_set else None


def _nulls(statistics: pq.Statistics | None) -> int:
    return statistics.null_count if statistics is not None and statistics.has_null_count else -1


def _values(statistics: Sequence[pq.Statistics | None], field: pa.Field, *, greatest: bool) -> pa.Array:
    """Return one bound of each row group; null where the file has none or it does not fit the type."""
    bounded = [item is not None and item.has_min_max for item in statistics]
    try:
        if pa.types.is_timestamp(field.type):
            return _times(statistics, bounded, field, greatest)
        values = [_bound(item, greatest) if has else None for item, has in zip(statistics, bounded, strict=True)]
        return pa.array(values, field.type)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        return pa.nulls(len(statistics), field.type)


def _times(
    statistics: Sequence[pq.Statistics | None], bounded: Sequence[bool], field: pa.Field, greatest: bool
) -> pa.Array:
    pairs = list(zip(statistics, bounded, strict=True))
    raw = [_bound(item, greatest, "_raw") if has else None for item, has in pairs]
    units = {_unit(item) for item, has in pairs if has}
    if not units:
        return pa.nulls(len(statistics), field.type)
    times = pa.array(raw, pa.int64()).view(pa.timestamp(units.pop()))
    rows = pa.RecordBatch.from_arrays([times], [field.name])
    return to_schema(rows, pa.schema([field])).column(0)


def _bound(statistics: pq.Statistics, greatest: bool, suffix: str = "") -> Any:
    return getattr(statistics, f"{'max' if greatest else 'min'}{suffix}")


def _unit(statistics: pq.Statistics) -> str:
    text = str(statistics.logical_type)
    unit = next((unit for name, unit in _UNITS.items() if name in text), None)
    if unit is None:
        raise ValueError(f"{text} is not a timestamp of a known unit")
    return unit
