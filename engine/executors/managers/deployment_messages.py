"""Messages on regions that are built, begin to run and are taken down again."""

import msgspec

from penstock.engine.executors.managers.adoption_messages import Message


class Restore(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The checkpoint that instances go on from: its manifest, and of which ``savepoint`` (None: none).

    ``damaged`` are stored names of files that must be uploaded again.
    Sources that are ``closed`` may bring no row; with ``afresh`` watermarks begin anew.
    """

    manifest: bytes
    savepoint: str | None = None
    damaged: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    afresh: bool = False


class Deploy(Message, frozen=True):
    """To a task manager: build the instances of these tasks that ``places`` gives to it, and run none yet.

    The tasks are a region, ``deployment`` is a number that no other has; ``places`` has the name of a task manager for
    all of its instances, ``addresses`` where each of these is met. ``sinks`` are packed as they are now, ``last_epoch``
    is the greatest that was published before. Answer: `Deployed` or `Refused`.
    """

    deployment: int
    attempt: int
    tasks: tuple[int, ...]
    places: dict[str, str]
    addresses: dict[str, str]
    sinks: bytes
    restore: Restore | None
    last_epoch: int


class Start(Message, frozen=True):
    """To a task manager: let the instances of a deployment run."""

    deployment: int


class TakeDown(Message, frozen=True):
    """To a task manager: abort the instances of these tasks (None: all). Answer: `TakenDown`."""

    tasks: tuple[int, ...] | None
