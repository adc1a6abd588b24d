"""Messages on instances that come to a deployed region while it runs."""

import numpy as np

from penstock.engine.dataflow.growth import Standing
from penstock.engine.executors.managers.adoption_messages import Message
from penstock.model.ids import TaskId


class Grow(Message, frozen=True):
    """To a task manager: build the instances from the numbers on that have ``begun``, by task, and let gates listen.

    The tasks are a region that runs; ``places`` has the task manager of all its instances, old and new, ``addresses``
    where each of these is met. ``deployment`` is a number that no other has, under which the new channels go, ``first``
    that of the region's first deployment.
    ``owners`` has those of the key groups of each task, as int32 in little-endian; ``last_epoch`` is the last
    checkpoint that was begun, ``last_move`` the last move. Answer: `Deployed` or `Refused`.
    """

    deployment: int
    first: int
    attempt: int
    tasks: tuple[int, ...]
    places: dict[str, str]
    begun: dict[int, int]
    addresses: dict[str, str]
    sinks: bytes
    owners: dict[int, bytes]
    last_epoch: int
    last_move: int

    def standing(self) -> Standing:
        """Return what the new instances come to."""
        owners = {TaskId(task): np.frombuffer(table, "<i4").astype(np.int32) for task, table in self.owners.items()}
        for table in owners.values():
            table.flags.writeable = False
        begun = {TaskId(task): count for task, count in self.begun.items()}
        return Standing(begun, owners, self.last_move)


class JoinGrown(Message, frozen=True):
    """To a task manager: let producers send to the new instances of a deployment. Answer: `ChannelsJoined`."""

    deployment: int


class ChannelsJoined(Message, frozen=True):
    """All producers here send to the new instances of a deployment."""

    deployment: int


class Dismiss(Message, frozen=True):
    """To a task manager: let producers send nothing more to instances of these numbers, by task, which go."""

    gone: dict[int, tuple[int, ...]]


class PeerGone(Message, frozen=True):
    """To a task manager: another one, of which all that was there has ended, leaves; its links are of no more use."""

    manager: str
