"""Pages written behind the loop: in order, seen by whoever reads, and errors that surface."""

import random
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.paging.write_behind import WriteBehind
from penstock.model.errors import StateIoError
from penstock.state.stores.page_store import Page, PageStore, PageStoreStatistics
from penstock.state.stores.rocksdb_store import RocksDbStores

LONG_S = 60.0
"""Longer than anything here takes."""


class Slow(PageStore):
    """A dictionary whose writes wait for ``gate``, or fail from some write on."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.pages: dict[bytes, bytes] = {}
        self.gate = threading.Event()
        self.gate.set()
        self.calls: list[str] = []
        self._fails_at = fails_at

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.pages.get(key) for key in keys]

    def put_many(self, pages: Sequence[Page]) -> None:
        self._write("put")
        self.pages.update(pages)

    def scan(self, start: bytes, end: bytes) -> Iterator[Page]:
        return iter([(key, self.pages[key]) for key in sorted(self.pages) if start <= key < end])

    def delete_range(self, start: bytes, end: bytes) -> None:
        self._write("delete")
        self.pages = {key: page for key, page in self.pages.items() if not start <= key < end}

    def flush(self) -> None:
        self.calls.append("flush")

    def copy_to(self, directory: Path) -> list[str]:
        self.calls.append(f"copy of {len(self.pages)}")
        return []

    def set_memory(self, memory_bytes: int) -> None:
        self.calls.append("set_memory")

    def statistics(self) -> PageStoreStatistics:
        return PageStoreStatistics(0, 0)

    def close(self) -> None:
        self.calls.append(f"close with {len(self.pages)}")

    def _write(self, what: str) -> None:
        assert self.gate.wait(LONG_S)
        self.calls.append(what)
        if self._fails_at is not None and len(self.calls) > self._fails_at:
            raise StateIoError("the disk is full")


@pytest.mark.parametrize("seed", range(5))
def test_reads_as_a_dictionary_does(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    known: dict[bytes, bytes] = {}
    pages = WriteBehind(RocksDbStores().create(tmp_path / "pages"))
    for turn in range(200):
        low, high = sorted(bytes([rng.randrange(20)]) for _ in range(2))
        what = rng.choice(["put", "put", "delete", "scan", "get", "flush"])
        if what == "put":
            pages.put_many([(low, b"%d" % turn), (high, b"%d" % -turn)])
            known |= {low: b"%d" % turn, high: b"%d" % -turn}
        elif what == "delete":
            pages.delete_range(low, high)
            known = {key: page for key, page in known.items() if not low <= key < high}
        elif what == "scan":
            assert list(pages.scan(low, high)) == sorted(item for item in known.items() if low <= item[0] < high)
        elif what == "get":
            assert pages.get_many([high, low]) == [known.get(high), known.get(low)]
        else:
            pages.flush()
    pages.close()
    pages.close()


def test_reads_of_other_pages_go_first_and_no_more_than_two_writes_wait() -> None:
    below = Slow()
    pages = WriteBehind(below)
    pages.put_many([(b"a", b"1")])
    pages.flush()
    below.gate.clear()
    pages.put_many([(b"b", b"2")])
    pages.delete_range(b"c", b"d")
    assert list(pages.scan(b"a", b"b")) == [(b"a", b"1")]
    third = threading.Thread(target=lambda: pages.put_many([(b"c", b"3")]))
    third.start()
    third.join(0.05)
    assert third.is_alive()
    below.gate.set()
    third.join(LONG_S)
    assert list(pages.scan(b"a", b"d")) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert below.calls == ["put", "flush", "put", "delete", "put"]
    pages.close()


def test_a_write_that_waits_for_another_counts_as_stalled() -> None:
    asked = threading.Event()

    class Ticking(ManualClock):
        def monotonic_ns(self) -> int:
            # Asked for only by whoever is to wait, who holds the lock until it does.
            asked.set()
            self.advance_ns(1_000)
            return super().monotonic_ns()

    below = Slow()
    pages = WriteBehind(below, Ticking())
    pages.put_many([(b"a", b"1")])
    pages.put_many([(b"b", b"2")])
    pages.flush()
    assert pages.stalled_ns() == 0 and not asked.is_set()
    below.gate.clear()
    pages.put_many([(b"a", b"1")])
    pages.put_many([(b"b", b"2")])
    third = threading.Thread(target=lambda: pages.put_many([(b"c", b"3")]))
    third.start()
    assert asked.wait(LONG_S)
    below.gate.set()
    third.join(LONG_S)
    assert pages.stalled_ns() == 1_000
    pages.close()


def test_a_copy_has_all_that_was_written_before_and_so_has_the_end() -> None:
    below = Slow()
    pages = WriteBehind(below)
    for number in range(6):
        pages.put_many([(bytes([number]), b"")])
    pages.copy_to(Path("anywhere"))
    pages.put_many([(b"z", b"")])
    pages.close()
    assert below.calls[6:] == ["copy of 6", "put", "close with 7"]


def test_a_write_that_failed_is_told_by_all_that_follow() -> None:
    pages = WriteBehind(Slow(fails_at=0))
    pages.put_many([(b"a", b"1")])
    for call in (
        lambda: pages.get_many([b"a"]),
        pages.flush,
        lambda: list(pages.scan(b"a", b"b")),
        lambda: pages.put_many([(b"b", b"")]),
        lambda: pages.delete_range(b"a", b"b"),
        lambda: pages.copy_to(Path("anywhere")),
    ):
        with pytest.raises(StateIoError, match="the disk is full"):
            call()
    pages.close()


def test_nothing_is_written_for_nothing() -> None:
    below = Slow()
    pages = WriteBehind(below)
    pages.put_many([])
    pages.delete_range(b"b", b"a")
    pages.flush()
    pages.close()
    assert below.calls == ["flush", "close with 0"]
