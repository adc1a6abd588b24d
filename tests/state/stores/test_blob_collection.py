"""When garbage in blob files is collected: from half of them on, down to two fifths; what is held stays what it was."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.state.stores.page_store import SMALLEST_MEMORY_BYTES
from penstock.state.stores.rocksdb_store import RocksDbStore, RocksDbStores

SHARES = st.lists(st.tuples(st.integers(0, 100), st.integers(1, 1_000)), min_size=1, max_size=30)


class Database:
    """Says how much garbage there is, and keeps what is set; RocksDB counts it only after compactions."""

    def __init__(self) -> None:
        self.garbage, self.files = 0, 0
        self.settings: list[str] = []

    def property_int_value(self, name: str) -> int:
        return self.garbage if name.endswith("garbage-size") else self.files

    def set_options(self, options: dict[str, str]) -> None:
        self.settings.append(options["enable_blob_garbage_collection"])


def switched(shares: Sequence[tuple[int, int]]) -> list[bool]:
    """Return whether a store collects after each of these shares of garbage, in percent, of so many bytes."""
    store = RocksDbStore.__new__(RocksDbStore)
    database = Database()
    vars(store).update(_db=database, _collecting=False)
    states = []
    for percent, megabytes in shares:
        database.files = megabytes << 20
        database.garbage = database.files * percent // 100
        store._collect_garbage()
        states.append(store._collecting)
    flips = [str(now).lower() for before, now in zip([False, *states], states, strict=False) if now != before]
    assert database.settings == flips
    return states


@given(SHARES)
def test_it_begins_above_a_half_and_ends_at_two_fifths(shares: list[tuple[int, int]]) -> None:
    before = False
    for (percent, _), collecting in zip(shares, switched(shares), strict=True):
        if percent > 50:
            assert collecting
        elif percent < 40:
            assert not collecting
        elif 40 < percent < 50:
            assert collecting == before
        before = collecting


@given(st.integers(0, 3), st.lists(st.integers(0, 11), min_size=60, max_size=120))
@settings(max_examples=3)
def test_pages_survive_their_collection(seed: int, writes: list[int]) -> None:
    rng = np.random.default_rng(seed)
    with TemporaryDirectory() as directory:
        store = RocksDbStores().create(Path(directory) / "store", SMALLEST_MEMORY_BYTES)
        held: dict[bytes, bytes] = {}
        for number in writes:
            key = b"%02d" % number
            held[key] = rng.bytes(64 << 10)
            store.put_many([(key, held[key])])
        store.flush()
        assert dict(store.scan(b"", b"\xff")) == held
        store.close()
