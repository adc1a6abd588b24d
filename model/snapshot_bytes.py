"""Snapshots as bytes: one Arrow stream per group of columns, read without copying figures twice.

For what travels between processes; logs keep JSON, which people can read.
"""

import struct
from typing import Any

import pyarrow as pa

from penstock.model.snapshot import GROUPS, SCHEMA, ClusterSnapshot

_HEAD = struct.Struct("<4sIQqdd")
_MAGIC = b"PSNP"


def to_bytes(snapshot: ClusterSnapshot) -> bytes:
    """Return a snapshot as bytes."""
    sink = pa.BufferOutputStream()
    for name in GROUPS:
        columns = getattr(snapshot, name)
        arrays = {key: getattr(columns, key) for key in columns.__dataclass_fields__}
        batch = pa.RecordBatch.from_pydict({key: pa.array(v) for key, v in arrays.items() if v is not None})
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    body: bytes = sink.getvalue().to_pybytes()
    # The length is said because an Arrow stream that was cut between two messages reads as a short one.
    return _HEAD.pack(_MAGIC, SCHEMA, len(body), snapshot.number, snapshot.time_s, snapshot.window_s) + body


def from_bytes(data: bytes) -> ClusterSnapshot:
    """Return the snapshot that `to_bytes` packed.

    Raises:
        ValueError: it has another schema, or these are not its bytes.
    """
    if len(data) < _HEAD.size or data[:4] != _MAGIC:
        raise ValueError("these bytes are no snapshot")
    _, schema, length, number, time_s, window_s = _HEAD.unpack_from(data)
    if schema != SCHEMA:
        raise ValueError(f"the snapshot has schema {schema}; this version reads {SCHEMA}")
    if len(data) != _HEAD.size + length:
        raise ValueError(f"no whole snapshot: {len(data) - _HEAD.size} bytes of {length}")
    source = pa.BufferReader(pa.py_buffer(data).slice(_HEAD.size))
    groups: dict[str, Any] = {}
    for name, kind in GROUPS.items():
        (batch,) = pa.ipc.open_stream(source)
        columns = dict.fromkeys(kind.__dataclass_fields__)
        columns |= {key: _values(column) for key, column in zip(batch.schema.names, batch.columns, strict=True)}
        groups[name] = kind.from_dict(columns)
    return ClusterSnapshot(number, time_s, window_s, **groups)


def _values(column: pa.Array) -> Any:
    if pa.types.is_string(column.type) or pa.types.is_null(column.type):
        return column.to_pylist()
    return column.to_numpy(zero_copy_only=False)
