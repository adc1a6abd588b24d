"""Columns and keys of the tables that the suites fill."""

import json

import numpy as np
import pyarrow as pa

from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.store import BagColumn, FixedColumn, ObjectColumn, TextColumn

OBJECTS = ObjectColumn(
    encode=lambda item: json.dumps(item).encode(), decode=json.loads, size=lambda item: 8 * len(item)
)
COLUMNS = {
    "sum": FixedColumn(np.dtype(np.int64)),
    "seen": FixedColumn(np.dtype(np.bool_)),
    "text": TextColumn(pa.string()),
    "bag": BagColumn(pa.float64()),
    "list": OBJECTS,
}


def encode(types, rows):
    columns = [pa.array([row[i] for row in rows], type_) for i, type_ in enumerate(types)]
    return KeyCodec(types).encode(columns, len(rows))


def integer_keys(*values):
    return encode([pa.int64()], [(value,) for value in values])


def slots_of(*slots):
    return np.array(slots, np.int64)
