"""What the launcher hands to the process of a task manager when it starts it."""

import json
import os
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class ChildSettings:
    """Name, job and run of a task manager, and what it takes over from the head's process.

    ``link`` and ``output_lock`` are descriptors: its end of the control link, and the file that is locked to print.
    ``path`` and ``arguments`` are the head's `sys.path` and `sys.argv`, so that the modules of the user's program are
    found there as here. ``service`` is the module whose ``serve`` is the task manager. It keeps to ``core``, None: to
    those of the head.
    """

    name: str
    job: str
    run: int
    link: int
    output_lock: int
    service: str
    path: tuple[str, ...]
    arguments: tuple[str, ...]
    core: int | None = None


def write_settings(settings: ChildSettings) -> int:
    """Return the descriptor of a file without a name that holds settings of any length, for one process to read."""
    descriptor = os.memfd_create("penstock-settings")
    try:
        with os.fdopen(descriptor, "wb", closefd=False) as file:
            file.write(json.dumps(asdict(settings)).encode())
        os.lseek(descriptor, 0, os.SEEK_SET)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def read_settings(descriptor: int) -> ChildSettings:
    """Return what `write_settings` wrote, and close the file."""
    with os.fdopen(descriptor, "rb") as file:
        values = json.loads(file.read())
    return ChildSettings(**values | {"path": tuple(values["path"]), "arguments": tuple(values["arguments"])})
