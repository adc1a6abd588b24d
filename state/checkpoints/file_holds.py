"""Holds on files to which no manifest refers yet, and the counts of files uploaded and reused by each epoch."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from penstock.state.checkpoints.manifest import FileEntry
from penstock.state.checkpoints.results import Traffic


class FileHolds:
    """Stored names held by epochs in progress and by savepoints (by name) being written. Safe for threads.

    A file is held before it is looked up, and files are deleted only inside `free`: so a file that was found is not
    deleted. What other processes look up is not known here: nothing is deleted while an epoch is that they add to.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holds: dict[int | str, _Hold] = {}
        self._left: set[str] = set()

    def begin(self, holder: int | str, *, elsewhere: bool = False) -> None:
        """Register a holder, without files yet; ``elsewhere``: other processes add to it."""
        with self._lock:
            hold = self._holds.setdefault(holder, _Hold())
            hold.elsewhere |= elsewhere

    def is_elsewhere(self, holder: int | str) -> bool:
        """Return whether other processes add to a holder."""
        with self._lock:
            return holder in self._holds and self._holds[holder].elsewhere

    def hold(self, holder: int | str, entries: Iterable[FileEntry]) -> None:
        """Hold files until `release`."""
        with self._lock:
            self._holds.setdefault(holder, _Hold()).stored.update(entry.stored for entry in entries)

    def count(self, holder: int | str, entry: FileEntry, *, uploaded: bool) -> None:
        """Count a file as uploaded or reused, unless the holder was released meanwhile."""
        with self._lock:
            if (hold := self._holds.get(holder)) is not None:
                (hold.uploaded if uploaded else hold.reused).append(entry.bytes)

    def add_traffic(self, holder: int | str, traffic: Traffic) -> None:
        """Count files that another process has added, unless the holder was released meanwhile."""
        with self._lock:
            if (hold := self._holds.get(holder)) is not None:
                hold.added.append(traffic)

    def take_left(self) -> set[str]:
        """Return the files that `free` has left since this was asked last."""
        with self._lock:
            left, self._left = self._left, set()
        return left

    def release(self, holder: int | str) -> None:
        """Release all files of this holder."""
        with self._lock:
            self._holds.pop(holder, None)

    def release_through(self, epoch: int) -> Traffic:
        """Release this epoch and earlier ones; return the traffic of this one."""
        with self._lock:
            done = self._holds.get(epoch, _Hold())
            self._holds = {
                holder: hold for holder, hold in self._holds.items() if isinstance(holder, str) or holder > epoch
            }
        here = Traffic(len(done.uploaded), sum(done.uploaded), len(done.reused), sum(done.reused))
        return sum(done.added, start=here)

    def any(self) -> bool:
        """Return whether there is a holder."""
        with self._lock:
            return bool(self._holds)

    def free(self, stored: Iterable[str], delete: Callable[[list[str]], None]) -> int:
        """Delete the files that are not held, and return their number; no file can be held meanwhile.

        While other processes add files, none is deleted: they are left, for `take_left`.
        """
        with self._lock:
            if any(hold.elsewhere for hold in self._holds.values()):
                self._left.update(stored)
                return 0
            held_names = {name for hold in self._holds.values() for name in hold.stored}
            free = [name for name in stored if name not in held_names]
            delete(free)
        return len(free)


@dataclass(slots=True)
class _Hold:
    stored: set[str] = field(default_factory=set)
    uploaded: list[int] = field(default_factory=list)
    reused: list[int] = field(default_factory=list)
    added: list[Traffic] = field(default_factory=list)
    elsewhere: bool = False
