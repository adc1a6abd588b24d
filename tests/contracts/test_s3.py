"""Durable files on S3, spoken to by its protocol, and everything that goes wrong on the way.

``PENSTOCK_S3_FAULTS`` sets how many faults strike; it is 500 before a version (docs/design/fault-tests.md S4).
"""

import os
import pickle
import random
import time
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from penstock.model.errors import FencedError, InUseError, RetryableError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.arrow_files import open_files
from penstock.state.leases.run_lease import RunLease
from penstock.state.leases.run_records import Owner
from tests.contracts.faulty_s3 import FORBIDDEN, PASSING, SILENT, Store, s3_store
from tests.long_cases import but_for
from tests.state.checkpoints.checkpoint_support import manifest_of, restored
from tests.state.checkpoints.uploading import elsewhere

FAULTS = int(os.environ.get("PENSTOCK_S3_FAULTS", "20"))
MOST_ATTEMPTS = 10
MOST_S = 90.0


@pytest.fixture(scope="module")
def running() -> Iterator[Store]:
    with s3_store() as store:
        yield store


@pytest.fixture
def store(running: Store) -> Iterator[Store]:
    running.faults.calm()
    yield running
    running.faults.calm()


def test_what_is_written_is_read(store: Store) -> None:
    files = open_files(store.url("plain"), "job")
    large = [bytes([number]) * (1 << 20) for number in range(12)]
    files.write("a/small", b"abc")
    files.write("a/b/large", iter(large))
    assert files.read("a/small") == b"abc"
    assert b"".join(files.chunks("a/b/large")) == b"".join(large)
    assert (list(files.list("a")), list(files.folders("a")), files.size("a/small")) == (["small"], ["b"], 3)
    files.delete("a/small", "a/nothing")
    files.delete_folder("a/b")
    assert (list(files.list("a")), list(files.list("a/b"))) == ([], [])
    with pytest.raises(FileNotFoundError):
        files.read("a/small")


def test_files_in_another_process_are_the_same(store: Store) -> None:
    files = open_files(store.url("travelled"), "job")
    copy = pickle.loads(pickle.dumps(files))
    copy.write("a/x", b"abc")
    assert files.read("a/x") == b"abc"


def test_another_process_adds_files_by_a_client_of_its_own(store: Store) -> None:
    head = CheckpointRepository(open_files(store.url("shared"), "job"))
    head.begin_run(1)
    with elsewhere(head.files, 1) as other:
        head.begin(1, elsewhere=True)
        entries = [other.add_file(1, "x", b"1" * 1_000)]
        assert other.hand_over(1).uploaded_bytes == 1_000
    head.publish(manifest_of(1, entries))
    loaded = head.latest()
    assert loaded is not None and restored(head, loaded) == {"x": b"1" * 1_000}


@pytest.mark.parametrize("fault", PASSING)
def test_a_fault_that_passes_is_not_noticed(store: Store, fault: str) -> None:
    files = open_files(store.url(f"passing-{fault.replace(' ', '-')}"))
    for act, expected in (
        (lambda: files.write("a/x", b"some bytes" * 100), 1_000),
        (lambda: files.read("a/x"), b"some bytes" * 100),
        (lambda: list(files.list("a")), ["x"]),
        (lambda: files.delete("a/x"), None),
    ):
        left = iter([fault])
        store.faults.choose = lambda method, path, left=left: next(left, None)
        assert act() == expected
    assert store.faults.struck == 4


@pytest.mark.parametrize(
    "fault", but_for(["error", FORBIDDEN], [FORBIDDEN], "waits until it gives up; [forbidden] stays")
)
def test_a_fault_that_stays_ends_in_an_error_that_names_the_file(store: Store, fault: str) -> None:
    files = open_files(store.url("staying"))
    files.write("a/x", b"before")
    for act in (lambda: files.write("a/x", b"after"), lambda: files.read("a/x")):
        store.faults.calm()
        store.faults.choose = lambda method, path: fault
        began = time.monotonic()
        with pytest.raises(RetryableError, match=r"cannot (write|read) 'a/x' below 'bucket/staying'"):
            act()
        assert time.monotonic() - began < MOST_S
        # Of the operation, of closing the stream, and of deleting what may be there.
        assert store.faults.requests <= 4 * MOST_ATTEMPTS
    store.faults.calm()


def test_random_faults(store: Store) -> None:
    """Every operation does what it says or raises; a file is the old one, the new one, or gone, never half of one."""
    files = open_files(store.url("random"))
    chance = random.Random(FAULTS)
    known: dict[str, set[bytes | None]] = {}
    kinds = list(chain(PASSING, repeat(SILENT, FAULTS // 250)))
    struck = failed = 0
    while struck < FAULTS:
        # Runs of equal faults outlast the retries now and then.
        faults = iter([chance.choice(kinds)] * chance.choice([1, 1, 1, 2, 5]))
        store.faults.calm()
        store.faults.choose = lambda method, path, faults=faults: next(faults, None)
        path = f"f/{chance.randrange(4)}"
        possible = known.setdefault(path, {None})
        began = time.monotonic()
        try:
            match chance.choice(["write", "read", "list", "delete"]):
                case "write":
                    content = chance.randbytes(chance.choice([10, 3_000]))
                    possible.add(content)
                    files.write(path, content)
                    known[path] = {content}
                case "read":
                    found = files.read(path) if files.exists(path) else None
                    assert found in possible
                    known[path] = {found}
                case "list":
                    listed = set(files.list("f"))
                    for other, contents in known.items():
                        assert other[2:] in listed or None in contents
                        assert other[2:] not in listed or contents != {None}
                case "delete":
                    possible.add(None)
                    files.delete(path)
                    known[path] = {None}
        except RetryableError as error:
            failed += 1
            possible.add(None)
            assert "below 'bucket/random'" in str(error)
        assert time.monotonic() - began < MOST_S
        assert store.faults.requests <= 4 * MOST_ATTEMPTS
        struck += store.faults.struck
    store.faults.calm()
    for path, contents in known.items():
        assert (files.read(path) if files.exists(path) else None) in contents


def test_a_lease_on_an_object_store_refuses_a_second_run_and_is_taken_over(store: Store) -> None:
    files = open_files(store.url("lease"), "job")

    def lease(pid: int) -> RunLease:
        owner = Owner(job="job", user="u", host="h", machine="m", pid=pid, process_start="1", since_us=0)
        return RunLease(files, "the checkpoint directory", owner, lambda other: True, lambda: 0, lambda: f"{pid:016x}")

    first, second, third = lease(1), lease(2), lease(3)
    first.acquire(time.sleep, print)
    first.beat()
    with pytest.raises(InUseError, match="process 1"):
        second.acquire(time.sleep, print)
    second.acquire(time.sleep, print, take_over=True)
    with pytest.raises(FencedError, match="process 2"):
        first.check()
    second.release()
    third.acquire(time.sleep, print)
    third.check()
    assert (list(files.list("runs")), third.number) == (["0000000003.json"], 3)
