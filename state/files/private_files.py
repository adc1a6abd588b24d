"""Folders and files that only their owner may read, since they hold data of the user's records."""

import os
from pathlib import Path
from typing import BinaryIO


def make_private_folder(folder: Path) -> None:
    """Make a folder of mode 0700, and those above it that are missing; one that is there stays as it is."""
    missing = [folder]
    while not missing[-1].exists() and missing[-1] != missing[-1].parent:
        missing.append(missing[-1].parent)
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def append_private(path: Path) -> BinaryIO:
    """Open a file to write at its end; one that is made has mode 0600, one that is there keeps its own."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab")
