"""One suite for every page store: against a dictionary, with copies, restores and crashes."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.model.errors import BugError, OptionError, StateCorruptionError
from penstock.state.stores.page_store import SMALLEST_MEMORY_BYTES
from tests.contracts.page_stores import PAGE_STORES

EVERYTHING = (b"", b"\xff" * 9)


@pytest.fixture(params=PAGE_STORES)
def disk(request, tmp_path):
    return PAGE_STORES[request.param](tmp_path)


@pytest.fixture
def store(disk):
    store = disk.stores.create(disk.path("store"))
    yield store
    store.close()


def test_a_new_store_is_empty(store):
    assert store.get_many([b"a", b""]) == [None, None]
    assert store.get_many([]) == []
    assert list(store.scan(*EVERYTHING)) == []
    store.put_many([])
    store.flush()


def test_pages_come_back_by_key_and_in_order(store):
    store.put_many([(b"b", b"1"), (b"a", b"2"), (b"b", b"3"), (b"", b"none"), (b"c", b""), (b"\xff\x00", b"high")])
    assert store.get_many([b"b", b"x", b"a", b"b", b"", b"c"]) == [b"3", None, b"2", b"3", b"none", b""]
    assert list(store.scan(b"a", b"c")) == [(b"a", b"2"), (b"b", b"3")]
    assert [key for key, _ in store.scan(*EVERYTHING)] == [b"", b"a", b"b", b"c", b"\xff\x00"]
    assert list(store.scan(b"c", b"a")) == []


def test_a_range_is_forgotten_and_may_be_stored_again(store):
    store.put_many([(b"%d" % i, b"x") for i in range(10)])
    store.flush()
    store.put_many([(b"4", b"y"), (b"55", b"y")])
    store.delete_range(b"4", b"7")
    store.delete_range(b"9", b"1")
    store.put_many([(b"6", b"z")])
    store.flush()
    assert dict(store.scan(*EVERYTHING)) == {**{b"%d" % i: b"x" for i in (0, 1, 2, 3, 7, 8, 9)}, b"6": b"z"}
    assert store.get_many([b"4", b"5", b"55", b"6"]) == [None, None, None, b"z"]


def test_more_pages_than_memory(store):
    store.set_memory(SMALLEST_MEMORY_BYTES)
    pages = {b"%04d" % i: b"%d" % i * 6_000 for i in range(400)}
    store.put_many(list(pages.items()))
    assert dict(store.scan(*EVERYTHING)) == pages
    assert store.get_many(list(pages)) == list(pages.values())
    statistics = store.statistics()
    assert statistics.bytes_on_disk > 4_000_000
    assert statistics.memory_bytes <= 2 * SMALLEST_MEMORY_BYTES


def test_a_page_may_be_larger_than_a_batch_and_a_chunk_of_a_scan(store):
    pages = [(b"%d" % i, bytes([i]) * 3_000_000) for i in range(3)]
    store.put_many(pages)
    assert list(store.scan(*EVERYTHING)) == pages


def test_a_scan_may_be_left_and_the_store_written_meanwhile(store, disk):
    store.put_many([(b"%04d" % i, b"x" * 1_000) for i in range(3_000)])
    scan = store.scan(*EVERYTHING)
    seen = [next(scan)]
    store.delete_range(b"2000", b"3000")
    store.put_many([(b"0000a", b"new")])
    seen += scan
    assert {b"%04d" % i for i in range(2_000)} <= {key for key, _ in seen}
    assert [key for key, _ in seen] == sorted({key for key, _ in seen})
    left = store.scan(*EVERYTHING)
    next(left)
    store.flush()
    store.close()
    again = disk.stores.restore(disk.path("store"))
    assert again.get_many([b"0000a"]) == [b"new"]
    again.close()
    with pytest.raises(BugError, match="closed"):
        list(left)


def test_a_copy_holds_what_was_there_and_is_not_changed_by_what_follows(store, disk):
    store.put_many([(b"a", b"1"), (b"b", b"2" * 100_000)])
    names = store.copy_to(disk.path("first"))
    assert names == disk.names(disk.path("first"))
    store.put_many([(b"a", b"other")])
    store.delete_range(b"b", b"c")
    store.copy_to(disk.path("second"))
    store.close()
    for name, pages in {"first": {b"a": b"1", b"b": b"2" * 100_000}, "second": {b"a": b"other"}}.items():
        for copy in (f"{name}-copy", f"{name}-copy-2"):
            disk.copy(disk.path(name), disk.path(copy))
            restored = disk.stores.restore(disk.path(copy))
            assert dict(restored.scan(*EVERYTHING)) == pages
            restored.put_many([(b"a", b"changed")])
            restored.copy_to(disk.path(f"{copy}-again"))
            restored.close()


def test_wrong_calls_are_refused(store, disk):
    with pytest.raises(BugError, match="holds one already"):
        disk.stores.create(disk.path("store"))
    with pytest.raises(StateCorruptionError, match="estore"):
        disk.stores.restore(disk.path("nothing"))
    store.put_many([(b"a", b"1")])
    store.copy_to(disk.path("snapshot"))
    with pytest.raises(BugError, match="exists"):
        store.copy_to(disk.path("snapshot"))
    with pytest.raises(OptionError, match="1 MB"):
        store.set_memory(1_000)
    with pytest.raises(OptionError, match="1 MB"):
        disk.stores.create(disk.path("other"), 1_000)
    store.close()
    store.close()
    for call in (
        lambda: store.get_many([b"a"]),
        lambda: store.put_many([(b"a", b"1")]),
        lambda: list(store.scan(b"a", b"b")),
        lambda: store.delete_range(b"a", b"b"),
        store.flush,
        lambda: store.copy_to(disk.path("late")),
        lambda: store.set_memory(2 * SMALLEST_MEMORY_BYTES),
        store.statistics,
    ):
        with pytest.raises(BugError, match="closed"):
            call()


KEYS = st.binary(max_size=2) | st.sampled_from([b"a", b"b", b"c", b"\xff"])
PAGES = st.lists(st.tuples(KEYS, st.binary(max_size=20) | st.binary(min_size=1, max_size=1).map(lambda b: b * 9_000)))


class PageStoreMachine(RuleBasedStateMachine):
    """A store against a dictionary; of what was not flushed, a crash may leave any of the values since the flush."""

    disk_class = PAGE_STORES["simulated"]

    @initialize()
    def start(self):
        self.folder = tempfile.TemporaryDirectory()
        self.disk = self.disk_class(Path(self.folder.name))
        self.names = 0
        self.copies = []
        self.model = {}
        self.possible = {}
        self.directory = self.new_path()
        self.store = self.disk.stores.create(self.directory)

    def new_path(self):
        self.names += 1
        return self.disk.path(f"d{self.names}")

    def set(self, key, value):
        self.possible.setdefault(key, {self.model.get(key)}).add(value)
        if value is None:
            self.model.pop(key, None)
        else:
            self.model[key] = value

    @rule(pages=PAGES)
    def put(self, pages):
        self.store.put_many(pages)
        for key, value in pages:
            self.set(key, value)

    @rule(start=KEYS, end=KEYS)
    def delete(self, start, end):
        self.store.delete_range(start, end)
        for key in [key for key in self.model if start <= key < end]:
            self.set(key, None)

    @rule(keys=st.lists(KEYS), start=KEYS, end=KEYS)
    def read(self, keys, start, end):
        assert self.store.get_many(keys) == [self.model.get(key) for key in keys]
        expected = sorted((key, value) for key, value in self.model.items() if start <= key < end)
        assert list(self.store.scan(start, end)) == expected

    @rule()
    def flush(self):
        self.store.flush()
        self.possible = {}

    @rule()
    def copy(self):
        path = self.new_path()
        self.store.copy_to(path)
        self.possible = {}
        self.copies.append((path, dict(self.model)))

    @rule()
    def crash(self):
        self.disk.crash(self.store)
        self.store = self.disk.stores.restore(self.directory)
        found = dict(self.store.scan(*EVERYTHING))
        for key, values in self.possible.items():
            assert found.get(key) in values
        assert {k: v for k, v in found.items() if k not in self.possible} == {
            k: v for k, v in self.model.items() if k not in self.possible
        }
        self.model = found
        self.possible = {key: {*values, found.get(key)} for key, values in self.possible.items()}

    @rule(data=st.data())
    def restore(self, data):
        if self.copies:
            path, model = data.draw(st.sampled_from(self.copies))
            self.store.close()
            self.directory = self.new_path()
            self.disk.copy(path, self.directory)
            self.store = self.disk.stores.restore(self.directory)
            self.model, self.possible = dict(model), {}

    @invariant()
    def holds_the_model(self):
        assert dict(self.store.scan(*EVERYTHING)) == self.model

    def teardown(self):
        self.store.close()
        self.folder.cleanup()


class RocksDbMachine(PageStoreMachine):
    disk_class = PAGE_STORES["rocksdb"]


TestSimulatedMachine = PageStoreMachine.TestCase
TestSimulatedMachine.settings = settings(max_examples=80, stateful_step_count=30)
TestRocksDbMachine = RocksDbMachine.TestCase
TestRocksDbMachine.settings = settings(max_examples=15, stateful_step_count=20)
