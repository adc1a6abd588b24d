"""One suite for every backend's log of rows: against a dictionary from id to row."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from penstock.model.errors import BugError, SchemaError, StateBudgetError
from penstock.state.stores.memory_store import MemoryStore
from tests.contracts.backends import BACKENDS

SCHEMA = pa.schema(
    [
        ("int", pa.int64()),
        ("text", pa.string()),
        ("flag", pa.bool_()),
        ("small", pa.int16()),
        ("float", pa.float64()),
        ("price", pa.decimal128(9, 2)),
        ("time", pa.timestamp("us", "UTC")),
        ("list", pa.list_(pa.string())),
        ("code", pa.binary(3)),
        ("wide", pa.large_string()),
        ("kind", pa.dictionary(pa.int8(), pa.string())),
    ]
)


def row_of(number):
    row = {
        "int": number * 1_000_003,
        "text": f"text {number}" * (number % 4),
        "flag": number % 3 == 0,
        "small": number % 100,
        "float": -0.0 if number % 2 else number / 7,
        "price": f"{number % 1000}.25",
        "time": number,
        "list": ["x"] * (number % 3),
        "code": b"%03d" % (number % 1000),
        "wide": f"wide {number}",
        "kind": "ab"[number % 2],
    }
    return {name: None if (number + index) % 5 == 0 else value for index, (name, value) in enumerate(row.items())}


def batch_of(numbers):
    rows = [row_of(number) for number in numbers]
    columns = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        if pa.types.is_decimal(field.type):
            columns.append(pa.array(values, pa.string()).cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


class LogMachine(RuleBasedStateMachine):
    """Row i of the log is `row_of(i)`, so that an id tells what its row must be."""

    backend = MemoryStore

    def __init__(self):
        super().__init__()
        self.store = self.backend("op")
        self.log = self.store.log("log", SCHEMA)
        self.kept = []
        self.next = 0

    @rule(count=st.integers(0, 40), times=st.integers(1, 12), sliced=st.booleans())
    def append(self, count, times, sliced):
        for _ in range(times):
            numbers = list(range(self.next, self.next + count))
            rows = batch_of([7, *numbers, 8]).slice(1, count) if sliced else batch_of(numbers)
            assert self.log.append(rows).tolist() == numbers
            self.kept += numbers
            self.next += count

    @rule(data=st.data())
    def take(self, data):
        if self.kept:
            ids = data.draw(st.lists(st.sampled_from(self.kept), max_size=50))
            self.check(ids)
            start = data.draw(st.integers(0, len(self.kept)))
            self.check(self.kept[start : start + data.draw(st.integers(0, 30))])

    @rule(data=st.data(), part=st.floats(0, 1))
    def remove(self, data, part):
        rng = np.random.default_rng(data.draw(st.integers(0, 99)))
        gone = [number for number in self.kept if rng.random() < part]
        self.log.remove(rng.permutation(np.array(gone, np.int64)))
        self.kept = sorted(set(self.kept) - set(gone))

    @rule(limit=st.floats(0, 1))
    def remove_oldest(self, limit):
        count = int(limit * len(self.kept))
        self.log.remove(np.array(self.kept[:count], np.int64))
        self.kept = self.kept[count:]

    @invariant()
    def live_rows_and_bytes(self):
        assert self.log.live().tolist() == self.kept
        assert self.log.live().dtype == np.int64
        assert (self.log.bytes_used() > 0) == bool(self.kept)
        assert self.store.bytes_used() == self.log.bytes_used()

    def check(self, ids):
        taken = self.log.take(np.array(ids, np.int64))
        taken.validate(full=True)
        assert taken.schema == SCHEMA
        assert taken.to_pylist() == batch_of(ids).to_pylist()
        some = self.log.take(np.array(ids, np.int64), ["text", "int"])
        assert some.schema.names == ["text", "int"]
        assert some.column(1).to_pylist() == [row_of(i)["int"] for i in ids]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_log_is_a_dictionary(backend):
    machine = type("Machine", (LogMachine,), {"backend": BACKENDS[backend]})
    machine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None, derandomize=True)
    machine.TestCase("runTest").runTest()


@pytest.mark.parametrize("size", [1, 63, 997, 32_768])
def test_batches_of_any_size(store, size):
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    log = store.log("log", schema)
    total = min(100_000, 300 * size)
    for start in range(0, total, size):
        numbers = np.arange(start, min(start + size, total))
        texts = pa.array(numbers).cast(pa.string())
        log.append(pa.RecordBatch.from_arrays([pa.array(numbers), texts], schema=schema))
    ids = np.random.default_rng(1).integers(0, total, 5_000)
    taken = log.take(ids)
    assert taken.column(0).to_numpy().tolist() == ids.tolist()
    assert taken.column(1).to_pylist() == [str(number) for number in ids]
    assert log.take(log.live()).column(0).to_numpy().tolist() == list(range(total))


def test_a_batch_is_kept_without_copying(store):
    rows = pa.record_batch({"a": np.arange(40_000)})
    log = store.log("log", rows.schema)
    ids = log.append(rows)
    assert log.take(ids).column(0).buffers()[1].address == rows.column(0).buffers()[1].address
    assert log.bytes_used() == rows.nbytes


def test_a_slice_does_not_keep_its_whole_batch_alive(store):
    rows = pa.record_batch({"a": np.arange(40_000)})
    log = store.log("log", rows.schema)
    log.append(rows.slice(5, 100))
    assert log.bytes_used() == 800
    assert log.take(np.array([99])).column(0).to_pylist() == [104]


def test_bytes_are_given_back_while_rows_leave(store):
    rows = pa.record_batch({"a": np.arange(1_000), "b": ["text"] * 1_000})
    log = store.log("log", rows.schema)
    most = 0
    for _ in range(200):
        log.append(rows)
        live = log.live()
        if len(live) > 5_000:
            log.remove(live[:: 2 if len(live) % 2 else 3])
        most = max(most, log.bytes_used())
    assert most < 20 * rows.nbytes


def test_bits_survive(store):
    odd_nan = np.array([0x7FF8000000000123], np.uint64).view(np.float64)[0]
    values = np.array([-0.0, odd_nan, math.inf])
    log = store.log("log", pa.schema([("f", pa.float64())]))
    for value in values:
        log.append(pa.record_batch({"f": [value]}))
    taken = log.take(np.array([2, 1, 0])).column(0).to_numpy()
    assert taken.view(np.uint64).tolist() == values[::-1].view(np.uint64).tolist()


def test_the_budget_refuses_rows_and_keeps_the_log(store):
    log = store.log("log", pa.schema([("a", pa.int64())]))
    store.set_budget(10_000)
    log.append(pa.record_batch({"a": np.arange(1_000)}))
    with pytest.raises(StateBudgetError, match="'op'"):
        log.append(pa.record_batch({"a": np.arange(1_000)}))
    assert len(log.live()) == 1_000
    log.remove(np.arange(500, dtype=np.int64)[::-1].copy())
    store.set_budget(20_000)
    assert log.append(pa.record_batch({"a": np.arange(1_000)}))[0] == 1_000


def test_misuse_has_a_name(store):
    log = store.log("log", pa.schema([("a", pa.int64())]))
    with pytest.raises(SchemaError):
        log.append(pa.record_batch({"b": [1]}))
    with pytest.raises(SchemaError):
        store.log("log", pa.schema([("a", pa.int32())]))
    assert store.log("log", pa.schema([("a", pa.int64())])) is log
    ids = log.append(pa.record_batch({"a": [1, 2, 3, 4]}))
    log.remove(ids[:1])
    for unknown in (0, 4, -1):
        with pytest.raises(BugError, match=f"row {unknown} "):
            log.take(np.array([unknown]))
    with pytest.raises(BugError, match="twice"):
        log.remove(ids[[1, 1]])
