"""RocksDB on real files: damage is an error and never a missing page; memory, batches and what is measured."""

import os
import shutil
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from penstock.model.errors import StateCorruptionError, StateIoError
from penstock.model.failpoints import arm
from penstock.state.stores import rocksdb_store
from penstock.state.stores.page_store import SMALLEST_MEMORY_BYTES
from penstock.state.stores.rocksdb_store import RocksDbStores

EVERYTHING = (b"", b"\xff" * 9)
STORES = RocksDbStores()


def random_pages(count, size, seed=1):
    rng = np.random.default_rng(seed)
    return {b"key %05d" % i: rng.bytes(size) for i in range(count)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A copy with small pages, which lie in tables, and large ones, which lie in blob files; and its pages."""
    folder = tmp_path_factory.mktemp("whole")
    pages = {**random_pages(2_000, 100), **{key + b"+": page for key, page in random_pages(24, 8_000).items()}}
    store = STORES.create(folder / "store")
    for part in range(2):
        store.put_many([page for i, page in enumerate(pages.items()) if i % 2 == part])
        store.flush()
    store.copy_to(folder / "snapshot")
    store.close()
    return folder / "snapshot", pages


@pytest.fixture
def broken(whole, tmp_path):
    """Give a copy of it that may be damaged."""
    copies = 0

    def copy():
        nonlocal copies
        copies += 1
        return Path(shutil.copytree(whole[0], tmp_path / str(copies)))

    return copy


def outcomes(directory, pages):
    """Read all pages in every way; return what came of it, each "right" or the error. Anything else fails."""
    found = []
    try:
        store = STORES.restore(directory)
    except StateCorruptionError as error:
        assert str(directory) in str(error)
        return ["open"]
    for read in (
        lambda: dict(store.scan(*EVERYTHING)) == pages,
        lambda: store.get_many(list(pages)) == list(pages.values()),
        lambda: [store.get_many([key])[0] for key in pages] == list(pages.values()),
    ):
        try:
            assert read(), "pages are missing or wrong, and nothing was said"
            found.append("right")
        except StateCorruptionError as error:
            assert str(directory) in str(error)
            found.append("error")
    store.close()
    return found


@pytest.mark.parametrize("kind", ["sst", "blob"])
def test_a_flipped_bit_is_an_error_or_harms_nothing(whole, broken, kind):
    rng = np.random.default_rng(3)
    seen = Counter()
    for _ in range(30):
        directory = broken()
        path = sorted(directory.glob(f"*.{kind}"))[rng.integers(2)]
        data = bytearray(path.read_bytes())
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        seen.update(set(outcomes(directory, whole[1])))
        shutil.rmtree(directory)
    assert seen["error"] + seen["open"] >= 25


@pytest.mark.parametrize("kind", ["sst", "blob"])
def test_a_cut_or_missing_file_is_an_error(whole, broken, kind):
    for share in (0.0, 0.3, 0.9, 0.9999, None):
        directory = broken()
        path = min(directory.glob(f"*.{kind}"))
        if share is None:
            path.unlink()
        else:
            os.truncate(path, int(path.stat().st_size * share))
        found = outcomes(directory, whole[1])
        assert "right" not in found or (kind == "blob" and share == 0.9999), (share, found)


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*"])
def test_a_copy_without_its_root_does_not_open(whole, broken, name):
    directory = broken()
    next(directory.glob(name)).unlink()
    assert outcomes(directory, whole[1]) == ["open"]


def test_a_store_lives_on_after_an_error(whole, broken):
    directory = broken()
    for path in directory.glob("*.sst"):
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    store = STORES.restore(directory)
    scan = store.scan(*EVERYTHING)
    with pytest.raises(StateCorruptionError) as caught:
        list(scan)
    assert "scan pages" in str(caught.value)
    # The error, which is still alive, must not hold the lock of the database.
    store.close()
    STORES.restore(directory).close()


def test_an_open_store_is_not_opened_twice(tmp_path):
    store = STORES.create(tmp_path / "store")
    store.flush()
    with pytest.raises(StateIoError, match="lock"):
        STORES.restore(tmp_path / "store")
    store.close()


def test_a_store_that_cannot_be_made_says_where(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(StateIoError, match="file"):
        STORES.create(tmp_path / "file" / "store")
    store = STORES.create(tmp_path / "store")
    with pytest.raises(StateIoError, match="make a snapshot"):
        store.copy_to(tmp_path / "file" / "snapshot")
    store.close()


def test_batches_are_small():
    sizes = [batch.size_in_bytes() for batch in rocksdb_store._batches(list(random_pages(64, 65_536).items()), 1 << 20)]
    assert max(sizes) <= 1 << 20
    assert len(sizes) <= 5
    large = rocksdb_store._batches([(b"a", b"1"), (b"b", bytes(2 << 20)), (b"c", b"3")], 1 << 20)
    assert [len(batch) for batch in large] == [1, 1, 1]


def test_pages_are_read_while_others_are_written_and_a_copy_is_made(tmp_path):
    store = STORES.create(tmp_path / "store", SMALLEST_MEMORY_BYTES)
    kept, written = random_pages(200, 9_000), {b"w" + key: page for key, page in random_pages(600, 9_000).items()}
    store.put_many(list(kept.items()))

    def write():
        store.put_many(list(written.items()))
        store.copy_to(tmp_path / "snapshot")

    with ThreadPoolExecutor(1) as background:
        writing = background.submit(write)
        while not writing.done():
            assert dict(store.scan(b"key", b"kez")) == kept
            assert store.get_many(list(kept)) == list(kept.values())
        writing.result()
    store.close()
    restored = STORES.restore(tmp_path / "snapshot")
    assert dict(restored.scan(*EVERYTHING)) == {**kept, **written}
    restored.close()


def test_copies_share_files_that_do_not_change(tmp_path):
    store = STORES.create(tmp_path / "store")
    store.put_many(list(random_pages(100, 10_000).items()))
    store.copy_to(tmp_path / "a")
    store.put_many(list(random_pages(1, 10_000, seed=2).items()))
    store.copy_to(tmp_path / "b")
    store.close()
    old, new = ({p.name: p for p in (tmp_path / name).iterdir() if p.suffix in (".sst", ".blob")} for name in "ab")
    shared = [name for name in old if name in new and old[name].samefile(new[name])]
    assert sum(old[name].stat().st_size for name in shared) > 900_000


def test_memory_is_bounded_and_may_change(tmp_path):
    store = STORES.create(tmp_path / "store", SMALLEST_MEMORY_BYTES)
    store.put_many(list(random_pages(4_000, 2_000).items()))
    keys = list(random_pages(4_000, 1))
    for memory in (SMALLEST_MEMORY_BYTES, 16 << 20, 2 << 20):
        store.set_memory(memory)
        store.get_many(keys)
        assert store.statistics().memory_bytes <= memory + (512 << 10)
    store.close()


def test_space_of_forgotten_ranges_comes_back(tmp_path):
    store = STORES.create(tmp_path / "store")
    for window in range(12):
        store.put_many([(b"%04d/" % window + key, page) for key, page in random_pages(64, 65_536).items()])
        store.delete_range(b"%04d/" % (window - 1), b"%04d0" % (window - 1))
        store.flush()
    assert store.statistics().bytes_on_disk < 40_000_000
    store.close()


def test_failpoints_lie_around_flush_and_copy(tmp_path):
    passed = []
    store = STORES.create(tmp_path / "store")
    arm(passed.append)
    try:
        store.copy_to(tmp_path / "snapshot")
    finally:
        arm(None)
    store.close()
    assert passed == ["pages.flush.begin", "pages.flush.done", "pages.snapshot.flushed", "pages.snapshot.done"]
