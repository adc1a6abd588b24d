"""Local folders and files of a job as one process sees them, and the messages that ask for them."""

import msgspec

from penstock.engine.executors.managers.adoption_messages import Message
from penstock.state.leases.run_records import Owner

SizeAndTime = tuple[int, int]
"""The bytes of a file, and when it was changed, in nanoseconds since 1970 UTC."""


class HeldFolder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A folder that the head's run has: what ``kind`` it is, its path, and the ``lease`` that ``run`` has of it there.

    ``owner`` is what the record of the lease says.
    """

    kind: str
    path: str
    lease: str
    run: int
    owner: Owner


class InputFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file that the job reads; None: it is not there."""

    path: str
    seen: SizeAndTime | None


class LookAtFiles(Message, frozen=True):
    """To a task manager that may see other files than its head: look at these. Answer: `FilesSeen`."""

    folders: tuple[HeldFolder, ...]
    files: tuple[InputFile, ...]


class FilesSeen(Message, frozen=True):
    """A task manager on a ``host`` has looked: at the owners of leases, and at files, in the order of the question."""

    host: str
    owners: tuple[Owner | None, ...]
    files: tuple[SizeAndTime | None, ...]
