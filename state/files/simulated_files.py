"""A seeded disk that loses unsynced data, tears, flips bits and fills up, and durable files on it.

The simulated executor and the tests of checkpoints use it (docs/design/simulated-runs.md 2); one seed gives one
behaviour.
"""

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from penstock.state.files.disk_files import UNFINISHED, Disk, DiskFiles, OpenFile
from penstock.state.files.durable_files import CHUNK_BYTES, Chunk, join_path

SECTOR_BYTES = 512
"""The unit that a disk writes whole or not at all."""


@dataclass(slots=True)
class _File:
    """A file's bytes, as they are read now, and as they were when they were last synced."""

    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(slots=True)
class _Folder:
    """The names in a folder, those that are safe, and the changes between, in order: what each name came to mean."""

    now: "dict[str, _File | _Folder]" = field(default_factory=dict)
    safe: "dict[str, _File | _Folder]" = field(default_factory=dict)
    changes: "list[dict[str, _File | _Folder | None]]" = field(default_factory=list)

    def change(self, names: "dict[str, _File | _Folder | None]") -> None:
        self.changes.append(names)
        _apply(self.now, names)


class SimulatedDisk(Disk):
    """A disk in memory.

    `crash` does the worst that a power loss may do: of a file whose bytes were not synced any number of sectors
    remain, some of them as zeros; of the changes to a folder that was not synced, any number of the first ones. Folders
    forget independently of each other. ``flip_rate`` in [0, 1] is the probability that reading a file flips one bit of
    what is read; ``capacity_bytes`` is what fits (None: anything). Both may be changed at any time.
    """

    def __init__(self, rng: np.random.Generator, *, flip_rate: float = 0.0, capacity_bytes: int | None = None) -> None:
        """Start empty; every choice is drawn from ``rng``."""
        self.flip_rate = flip_rate
        self.capacity_bytes = capacity_bytes
        self._rng = rng
        self._base = _Folder()
        self._parts = 0

    def crash(self) -> None:
        """Lose unsynced data; the rest is safe."""
        self._settle(self._base)

    def flip(self, path: str, bit: int) -> None:
        """Flip a bit of a file for good: 0 is the lowest of its first byte.

        Raises:
            FileNotFoundError: there is no such file.
        """
        file = self._file(path)
        file.now[bit // 8] ^= 1 << bit % 8
        file.synced = bytes(file.now)

    def truncate(self, path: str, length: int) -> None:
        """Cut a file for good.

        Raises:
            FileNotFoundError: there is no such file.
        """
        file = self._file(path)
        del file.now[length:]
        file.synced = bytes(file.now)

    def used_bytes(self) -> int:
        """Return the bytes of all files."""
        return _used(self._base)

    def create(self, folder: str, name: str) -> tuple[str, OpenFile]:
        """Number the names, so that a seed gives the same ones."""
        self._parts += 1
        name = f"{name}{self._parts}{UNFINISHED}"
        file = _File()
        self._folder(folder).change({name: file})
        return join_path(folder, name), _OpenFile(self, file)

    def rename(self, old: str, new: str) -> None:
        """Change both names at once."""
        folder, name = self._place(old)
        _, new_name = self._place(new)
        folder.change({name: None, new_name: self._file(old)})

    def make_folder(self, folder: str) -> None:
        """Add an empty one, unless it is there."""
        above, name = self._place(folder)
        if name not in above.now:
            above.change({name: _Folder()})

    def sync_folder(self, folder: str) -> None:
        """Make the names safe, not what they name."""
        node = self._folder(folder)
        node.safe = dict(node.now)
        node.changes.clear()

    def sync_base(self) -> None:
        """Do nothing: the base is always there."""

    def remove(self, path: str) -> None:
        """Take the name away."""
        folder, name = self._place(path)
        self._file(path)
        folder.change({name: None})

    def remove_folder(self, folder: str) -> None:
        """Take its name away, and with it all below."""
        above, name = self._place(folder)
        self._folder(folder)
        above.change({name: None})

    def chunks(self, path: str) -> Iterator[bytes]:
        """Return what is there now, with a bit flipped now and then."""
        data = bytearray(self._file(path).now)
        if data and self._rng.random() < self.flip_rate:
            bit = int(self._rng.integers(len(data) * 8))
            data[bit // 8] ^= 1 << bit % 8
        for start in range(0, len(data), CHUNK_BYTES):
            yield bytes(data[start : start + CHUNK_BYTES])

    def size(self, path: str) -> int:
        """Count the bytes."""
        return len(self._file(path).now)

    def names(self, folder: str) -> tuple[Sequence[str], Sequence[str]]:
        """List what is there now."""
        entries = self._folder(folder).now.items()
        files = [name for name, node in entries if isinstance(node, _File)]
        return files, [name for name, node in entries if isinstance(node, _Folder)]

    def check_room(self, more_bytes: int) -> None:
        """Check that so many bytes more fit.

        Raises:
            OSError: they do not.
        """
        if self.capacity_bytes is not None and self.used_bytes() + more_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, "No space left on device")

    def _settle(self, folder: _Folder) -> None:
        changes_kept = int(self._rng.integers(len(folder.changes) + 1))
        folder.now = dict(folder.safe)
        for change in folder.changes[:changes_kept]:
            _apply(folder.now, change)
        folder.safe = dict(folder.now)
        folder.changes.clear()
        for node in folder.now.values():
            if isinstance(node, _Folder):
                self._settle(node)
            else:
                self._tear(node)

    def _tear(self, file: _File) -> None:
        if file.now != file.synced:
            sectors = -(-len(file.now) // SECTOR_BYTES)
            torn = file.now[: int(self._rng.integers(sectors + 1)) * SECTOR_BYTES]
            torn[: len(file.synced)] = file.synced[: len(torn)]
            for start in range(len(file.synced), len(torn), SECTOR_BYTES):
                if self._rng.random() < 0.5:
                    stop = min(start + SECTOR_BYTES, len(torn))
                    torn[start:stop] = bytes(stop - start)
            file.now = torn if len(torn) >= len(file.synced) else bytearray(file.synced)
            file.synced = bytes(file.now)

    def _file(self, path: str) -> _File:
        folder, name = self._place(path)
        node = folder.now.get(name)
        if not isinstance(node, _File):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return node

    def _folder(self, path: str) -> _Folder:
        node: _File | _Folder | None = self._base
        for name in path.split("/") if path else ():
            node = node.now.get(name) if isinstance(node, _Folder) else None
        if not isinstance(node, _Folder):
            raise FileNotFoundError(errno.ENOENT, "No such folder", path)
        return node

    def _place(self, path: str) -> tuple[_Folder, str]:
        folder, _, name = path.rpartition("/")
        return self._folder(folder), name


class SimulatedFiles(DiskFiles):
    """Durable files on a simulated disk, by the very steps of `LocalFiles`.

    After a crash make a new one on the same disk.
    """

    def __init__(self, disk: SimulatedDisk) -> None:
        """Keep the disk."""
        super().__init__(disk, "the simulated disk")
        self.disk = disk


class _OpenFile:
    def __init__(self, disk: SimulatedDisk, file: _File) -> None:
        self._disk = disk
        self._file = file

    def write(self, chunk: Chunk) -> None:
        self._disk.check_room(len(chunk))
        self._file.now += chunk

    def sync(self) -> None:
        self._file.synced = bytes(self._file.now)

    def close(self) -> None:
        pass


def _apply(names: dict[str, _File | _Folder], change: dict[str, _File | _Folder | None]) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _used(folder: _Folder) -> int:
    return sum(_used(node) if isinstance(node, _Folder) else len(node.now) for node in folder.now.values())
