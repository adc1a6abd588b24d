"""Rows that go by their keys: a single receiver gets whole batches, several what they own, and groups are counted."""

import numpy as np
import pyarrow as pa

from penstock.engine.core.elements import Batch
from penstock.engine.dataflow.exchange import COUNTED_ROWS, Hash
from penstock.engine.expressions.compiler import compile_projection
from penstock.engine.transport.in_memory import Channel
from penstock.model.expressions import col
from penstock.model.key_groups import moved
from tests.engine.loop import channel

GROUPS = 16
KEYS = compile_projection([("k0", col("key"))], pa.schema({"key": pa.int64()}), "counts")


def by_key(*channels: Channel) -> Hash:
    owners = np.zeros(GROUPS, np.int32)
    return Hash([item.sender for item in channels], KEYS, KEYS.schema.types, owners)


def batch(keys: object) -> Batch:
    return Batch(pa.record_batch({"key": pa.array(keys, pa.int64())}))


def sent(one: Channel) -> list[pa.RecordBatch]:
    return [one.receiver.take().rows for _ in range(len(one.receiver))]


def test_a_single_receiver_gets_batches_as_they_are() -> None:
    only = channel()
    output, rows = by_key(only), batch(range(1_000))
    output.send(rows)
    assert [item.equals(rows.rows) for item in sent(only)] == [True]


def test_key_groups_are_counted_for_a_single_receiver_as_for_several() -> None:
    keys = np.random.default_rng(1).integers(0, 40, (30, 10 * COUNTED_ROWS))
    single, several = by_key(channel()), by_key(channel(), channel())
    for each in keys:
        single.send(batch(each))
        several.send(batch(each))
    assert single.group_rows.sum() == several.group_rows.sum() == keys.size
    assert np.abs(single.group_rows - several.group_rows).max() < 0.03 * keys.size


def test_a_batch_that_is_not_a_multiple_of_what_is_counted_is_counted_whole() -> None:
    output = by_key(channel())
    for _ in range(3):
        output.send(batch(range(COUNTED_ROWS + 1)))
    output.send(batch([]))
    assert output.group_rows.sum() == 3 * (COUNTED_ROWS + 1)


def test_rows_are_dealt_out_once_another_receiver_has_joined() -> None:
    first, second = channel(), channel()
    output, keys = by_key(first), list(range(200))
    output.join([second.sender], [1])
    output._owners = moved(output._owners, tuple((group, 0, 1) for group in range(0, GROUPS, 2)))
    output.send(batch(keys))
    parts = [[key for rows in sent(each) for key in rows.column("key").to_pylist()] for each in (first, second)]
    assert all(parts) and sorted(parts[0] + parts[1]) == keys
    output.dismiss([0])
    output.send(batch(keys))
    assert [rows.column("key").to_pylist() for rows in sent(second)] == [keys]
