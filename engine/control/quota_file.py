"""The book of leases of the jobs of one machine: a file that one process at a time has.

A lease that is half written is none: the file is replaced whole, under a lock of the system's that ends with its
process.
"""

import fcntl
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from penstock.engine.control.quota_share import QuotaView
from penstock.engine.core.clock import SystemClock
from penstock.model.errors import OptionError
from penstock.scheduler.shared_quota import Ask, Book, Lease, others_of, renewed, taken, without

TERM_S = 10.0
"""Task managers on this machine end within 5 s of losing their head."""

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class QuotaFile:
    """A `QuotaKeeper` for jobs of one user on one machine, which have the name of the quota in common."""

    term_s = TERM_S

    def __init__(self, name: str, folder: Path | None = None, now_s: Callable[[], float] | None = None) -> None:
        """Use the file of a name, in ``folder`` or where the system keeps what is temporary.

        ``now_s`` is its clock, None: the machine's.

        Raises:
            OptionError: that is no name, or there is no such file to be had.
        """
        check_name(name)
        folder = Path(tempfile.gettempdir()) / f"penstock-quota-{os.getuid()}" if folder is None else folder
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise OptionError(f"the quota {name!r} cannot be kept in {str(folder)!r}: {error.strerror}") from error
        self._path, self._lock, self._now_s = folder / f"{name}.json", folder / f"{name}.lock", now_s or monotonic_s
        # Times are since the machine was started.
        self._boot = _BOOT.read_text(encoding="ascii").strip() if _BOOT.exists() else ""

    def renew(self, lease: Lease) -> QuotaView:
        """Renew a lease; return what there was of it and of others."""
        with self._book() as book:
            before = book.leases.get(lease.job)
            book.leases = renewed(book.leases, lease, self._now_s())
            return QuotaView(before, others_of(book.leases, lease.job))

    def take(self, ask: Ask) -> "Future[Lease]":
        """Take what there is."""
        answer: Future[Lease] = Future()
        with self._book() as book:
            book.leases = taken(book.leases, ask, self._now_s())
            answer.set_result(book.leases[ask.job])
        return answer

    def leave(self, job: str) -> None:
        """Give up a lease."""
        with self._book() as book:
            book.leases = without(book.leases, job)

    @contextmanager
    def _book(self) -> Iterator["_OpenBook"]:
        try:
            with self._lock.open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                book = _OpenBook(self._read())
                yield book
                self._write(book.leases)
        except OSError as error:
            raise OptionError(f"the quota {str(self._path)!r} cannot be kept: {error.strerror}") from error

    def _read(self) -> Book:
        if not self._path.exists():
            return {}
        kept = json.loads(self._path.read_text(encoding="utf-8"))
        if kept["boot"] != self._boot:
            return {}
        return {each["job"]: Lease(**each) for each in kept["leases"]}

    def _write(self, book: Book) -> None:
        kept = {"boot": self._boot, "leases": [asdict(lease) for lease in book.values()]}
        written = self._path.with_suffix(".part")
        written.write_text(json.dumps(kept), encoding="utf-8")
        written.replace(self._path)


def monotonic_s() -> float:
    """Return the time since the machine was started, the same in all of its processes."""
    return SystemClock().monotonic_ns() / 1e9


class _OpenBook:
    """The leases while the lock is held; what they are then is written."""

    def __init__(self, leases: Book) -> None:
        self.leases = leases


def check_name(name: str) -> None:
    """Refuse what is no name of a quota.

    Raises:
        OptionError: it has other characters, or too many.
    """
    if not _NAME.fullmatch(name):
        raise OptionError(f"control: quota is a name of letters, digits, '.', '_' and '-', not {name!r}")
