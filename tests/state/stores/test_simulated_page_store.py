"""The simulated page store under faults: full, flipped, torn and cut at every failpoint."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import StateCorruptionError, StateIoError
from penstock.model.failpoints import arm
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from penstock.state.stores.page_segments import (
    DamagedBytesError,
    decode_list,
    decode_segment,
    encode_list,
    encode_segment,
)
from penstock.state.stores.simulated_page_store import SimulatedPageStores

EVERYTHING = (b"", b"\xff" * 9)
STORE = Path("store")


class PowerLossError(BaseException):
    """The machine stops here."""


def new_disk(seed=1):
    disk = SimulatedDisk(np.random.default_rng(seed))
    return disk, SimulatedPageStores(SimulatedFiles(disk))


def numbered(count, of=b"x"):
    return [(b"%03d" % i, of * (10 + i)) for i in range(count)]


def run_until(point, store, work):
    """Work until the n-th failpoint is passed; return the names passed, and whether power was lost."""
    passed = []

    def strike(name):
        passed.append(name)
        if len(passed) == point:
            raise PowerLossError

    arm(strike)
    try:
        work(store)
    except PowerLossError:
        return passed, True
    finally:
        arm(None)
    return passed, False


def three_flushes(store):
    for version in (b"b", b"c", b"d"):
        store.put_many(numbered(5, version))
        store.flush()
    store.copy_to(Path("snapshot"))


def test_power_may_fail_at_every_failpoint():
    names, point, lost = set(), 0, True
    while lost:
        point += 1
        disk, stores = new_disk(seed=point)
        store = stores.create(STORE)
        store.put_many(numbered(5, b"a"))
        store.flush()
        passed, lost = run_until(point, store, three_flushes)
        names.update(passed)
        flushed = passed[: point - 1].count("pages.flush.done") if lost else 4
        disk.crash()
        found = dict(stores.restore(STORE).scan(*EVERYTHING))
        versions = [dict(numbered(5, of)) for of in (b"a", b"b", b"c", b"d")]
        assert found in versions[min(flushed, 3) : flushed + 2]
        try:
            snapshot = stores.restore(Path("snapshot"))
        except StateCorruptionError:
            assert lost
        else:
            assert dict(snapshot.scan(*EVERYTHING)) == versions[3]
    assert {"pages.flush.begin", "pages.flush.segment", "pages.flush.done", "pages.snapshot.flushed"} <= names
    assert point > 20


def test_what_was_not_flushed_is_forgotten():
    disk, stores = new_disk()
    store = stores.create(STORE)
    store.put_many(numbered(3))
    store.flush()
    store.put_many([(b"000", b"late"), (b"new", b"late")])
    disk.crash()
    assert list(stores.restore(STORE).scan(*EVERYTHING)) == numbered(3)


def test_every_flipped_bit_of_every_file_is_an_error():
    disk, stores = new_disk()
    store = stores.create(STORE)
    store.put_many(numbered(3))
    store.delete_range(b"001", b"002")
    store.flush()
    for name in SimulatedFiles(disk).list("store"):
        for bit in range(disk.size(f"store/{name}") * 8):
            disk.flip(f"store/{name}", bit)
            with pytest.raises(StateCorruptionError, match="store"):
                stores.restore(STORE)
            disk.flip(f"store/{name}", bit)
    assert [key for key, _ in stores.restore(STORE).scan(*EVERYTHING)] == [b"000", b"002"]


def test_bits_that_flip_while_pages_are_read_are_errors():
    disk, stores = new_disk()
    store = stores.create(STORE)
    store.put_many(numbered(50))
    store.flush()
    disk.flip_rate = 1.0
    wrong = 0
    for key, value in numbered(50):
        try:
            assert store.get_many([key]) == [value]
        except StateCorruptionError:
            wrong += 1
    assert wrong > 0
    disk.flip_rate = 0.0
    assert list(store.scan(*EVERYTHING)) == numbered(50)


def test_every_cut_and_every_missing_file_is_an_error():
    disk, stores = new_disk()
    store = stores.create(STORE)
    store.put_many(numbered(3))
    store.flush()
    files = SimulatedFiles(disk)
    for name in files.list("store"):
        data = files.read(f"store/{name}")
        for length in range(len(data)):
            disk.truncate(f"store/{name}", length)
            with pytest.raises(StateCorruptionError):
                stores.restore(STORE)
            files.write(f"store/{name}", data)
        files.delete(f"store/{name}")
        with pytest.raises(StateCorruptionError, match="Restore the last checkpoint"):
            stores.restore(STORE)
        files.write(f"store/{name}", data)


def test_a_full_disk_is_an_error_and_loses_nothing_that_was_flushed():
    disk, stores = new_disk()
    store = stores.create(STORE)
    store.put_many(numbered(20))
    store.flush()
    disk.capacity_bytes = disk.used_bytes() + 100
    store.put_many(numbered(20, b"y"))
    with pytest.raises(StateIoError, match=r"write a segment.*restart from the last checkpoint"):
        store.flush()
    with pytest.raises(StateIoError):
        store.copy_to(Path("snapshot"))
    disk.crash()
    assert list(stores.restore(STORE).scan(*EVERYTHING)) == numbered(20)
    disk.capacity_bytes = None
    store = stores.restore(STORE)
    store.put_many(numbered(20, b"z"))
    store.copy_to(Path("snapshot"))
    assert list(stores.restore(Path("snapshot")).scan(*EVERYTHING)) == numbered(20, b"z")


def test_merged_segments_are_removed():
    disk, stores = new_disk()
    store = stores.create(STORE)
    for version in range(40):
        store.put_many(numbered(10, b"%d" % (version % 10)))
        store.delete_range(b"008", b"009")
        store.flush()
    assert len(SimulatedFiles(disk).list("store")) <= 8
    assert list(stores.restore(STORE).scan(*EVERYTHING)) == [page for page in numbered(10, b"9") if page[0] != b"008"]


def test_one_seed_is_one_trace():
    def trace(seed):
        disk, stores = new_disk(seed)
        disk.flip_rate = 0.3
        store = stores.create(STORE)
        seen = []
        for i in range(30):
            try:
                store.put_many(numbered(i))
                store.flush()
                seen.append(dict(store.scan(*EVERYTHING)))
            except StateCorruptionError as error:
                seen.append(str(error))
        return seen

    assert trace(4) == trace(4)
    assert trace(4) != trace(5)


@given(st.dictionaries(st.binary(max_size=5), st.none() | st.binary(max_size=20)), st.integers(0, 2**32 - 1))
@settings(max_examples=50)
def test_segments_and_lists_come_back(pages, number):
    data, extents = encode_segment(number, pages)
    assert dict(decode_segment(number, data)) == extents
    assert set(extents) == set(pages)
    assert decode_list(encode_list({number: len(data)})) == {number: len(data)}


@given(st.binary(max_size=60))
def test_other_bytes_are_refused(data):
    if data:
        with pytest.raises(DamagedBytesError):
            list(decode_segment(0, data))
    if data != b"\0\0\0\0":
        with pytest.raises(DamagedBytesError):
            decode_list(data)
