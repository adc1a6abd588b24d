"""Stores of every backend: what a name stands for."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.model.errors import SchemaError
from penstock.state.store import FixedColumn, TableSpec


def test_the_same_name_is_the_same_table(store):
    spec = TableSpec("t", (pa.int64(),), {"a": FixedColumn(np.dtype(np.int64))})
    assert store.table(spec) is store.table(TableSpec("t", (pa.int64(),), {"a": FixedColumn(np.dtype(np.int64))}))
    with pytest.raises(SchemaError, match="'t'"):
        store.table(TableSpec("t", (pa.int32(),)))
    with pytest.raises(SchemaError, match="'t'"):
        store.log("t", pa.schema([]))
    store.log("a log", pa.schema([]))
    assert store.names() == ["a log", "t"]
