"""Messages of partitions that change their instances; one ``handover`` has the same number in all of them."""

from penstock.engine.dataflow.partition_handover import GivenPartition, HeldSource
from penstock.engine.executors.managers.adoption_messages import Message


class ToSources(Message, frozen=True):
    """To the task managers of the instances of a source, which all take part in a ``handover``."""

    handover: int


class HoldPartitions(ToSources, frozen=True):
    """Let these ``instances`` begin to change partitions: their watermarks stay. Answer: `PartitionsHeld`."""

    instances: tuple[str, ...]


class StopPartitions(ToSources, frozen=True):
    """Let these partitions, by instance, be read up to a watermark alone. Answer: `PartitionsStopped`, once all are.

    Those of the ``takers`` that are idle say ``least_us``, and are waited for from then on.
    """

    leaving: dict[str, tuple[str, ...]]
    above_us: int
    takers: tuple[str, ...]
    least_us: int


class GivePartitions(ToSources, frozen=True):
    """The barrier behind what was read of what goes has passed all: let go of it. Answer: `PartitionsGiven`."""


class TakePartitions(ToSources, frozen=True):
    """Read these partitions on, by instance, and go on. Answer: `PartitionsTaken`.

    ``places`` has the place of each instance among those that stay, and ``known`` all partitions that they have.
    """

    given: dict[str, dict[str, GivenPartition]]
    places: dict[str, int]
    known: tuple[str, ...]


class PartitionsHeld(Message, frozen=True):
    """The partitions of the instances that are here."""

    handover: int
    sources: tuple[HeldSource, ...]


class PartitionsStopped(Message, frozen=True):
    """Nothing is read here any more of what is to go, and what was leaves before the next barrier."""

    handover: int


class PartitionsGiven(Message, frozen=True):
    """The partitions that were let go of here, by name."""

    handover: int
    given: dict[str, GivenPartition]


class PartitionsTaken(Message, frozen=True):
    """All instances here go on with the partitions that they have now."""

    handover: int


OfPartitions = PartitionsHeld | PartitionsStopped | PartitionsGiven | PartitionsTaken
"""What a task manager says of a handover of partitions."""
