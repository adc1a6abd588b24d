"""The scratch folder of a run, for files that nobody needs after it: its own, so that two runs cannot meet in it.

Also a run that was taken over, and does not know yet, works on in its own. A lock that ends with its process tells
which folders are left over.
"""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from penstock.state.files.private_files import make_private_folder

SCRATCH = "scratch"

_LOCK = "lock"

_TRIES = 100
"""How often a folder is made again that others remove meanwhile."""


class Scratch(Protocol):
    """A folder for what nobody keeps."""

    @property
    def path(self) -> Path:
        """The folder, once it is claimed."""

    def claim(self) -> None:
        """Make the folder, unless it was made."""

    def close(self) -> None:
        """Remove the folder."""


class RunScratch:
    """A folder below the directory of a job, `claim`ed while it is used."""

    def __init__(self, directory: Path) -> None:
        """Nothing is touched yet."""
        self._all = directory / SCRATCH
        self.path = self._all / uuid4().hex
        self._lock: int | None = None

    def claim(self) -> None:
        """Make the folder and lock it; remove those whose process is gone.

        Where it cannot be made a job runs that keeps nothing there; whoever wants to write below it is told why not.
        """
        if self._lock is not None:
            return
        for _ in range(_TRIES):
            try:
                make_private_folder(self.path)
                lock = os.open(self.path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
            except FileNotFoundError:
                # Another run, which closes, has removed the empty folder around it.
                continue
            except OSError:
                return
            # Whoever looks for folders that are left may have it for as long as that takes, and takes this for one.
            fcntl.flock(lock, fcntl.LOCK_EX)
            if _is_there(lock, self.path):
                self._lock = lock
                break
            os.close(lock)
        else:
            return
        for other in self._all.iterdir():
            if other != self.path:
                _remove_if_left(other)

    def close(self) -> None:
        """Remove the folder."""
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None
        for folder in (self._all, self._all.parent):
            with suppress(OSError):
                folder.rmdir()


def _remove_if_left(folder: Path) -> None:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR)
    except OSError:
        # It is being made, or being removed.
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_there(lock, folder):
            shutil.rmtree(folder, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def _is_there(lock: int, folder: Path) -> bool:
    """Return whether an open lock is that of a folder, and not of one of its name that was removed."""
    try:
        return os.path.samestat(os.fstat(lock), (folder / _LOCK).stat())
    except OSError:
        return False
