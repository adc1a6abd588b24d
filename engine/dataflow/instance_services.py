"""Services of an executor to the instances that it has built: time, storage, channels and callbacks."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from penstock.engine.connectors.dead_letter import DeadLetterWriter
from penstock.engine.core.async_calls import IoThread, MakeCalls
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.checkpoint_port import InstanceReport
from penstock.engine.dataflow.handovers import TellMove, nobody_moves
from penstock.engine.paging.paging import Paging
from penstock.engine.transport.halves import ReceivingHalf, SendingHalf
from penstock.engine.transport.in_memory import join
from penstock.model.execution_graph import Edge
from penstock.model.ids import TaskId
from penstock.state.store import StateStore
from penstock.state.tables.image import StoreImage

Wake = Callable[[str], None]
"""Makes the loop look at the instance of this name again; from any thread."""

StateFactory = Callable[[str, int, StoreImage], StateStore]
"""Makes the state store of one operator instance from the operator's name, the instance's index and what it holds."""


Halves = tuple[SendingHalf | None, ReceivingHalf | None]
"""The two halves of a channel; None for one whose instance is elsewhere."""


class MakeChannel(Protocol):
    """Makes the halves of a channel whose instances are here, one of them at least; the simulator hands in its own."""

    def __call__(self, edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
        """Make those of an edge's channel, by the indices of its instances; `join` says what the others are."""


Hosts = Callable[[TaskId, int], bool]
"""Returns whether the instance of a task with this index is to be built here."""


def no_wake(instance: str) -> None:
    """Wake nobody: for loops that nothing comes to from other threads."""


def local_channel(edge: Edge, producer: int, receiver: int, name: str, capacity_bytes: int) -> Halves:
    """Make a channel inside one worker."""
    channel = join(name, capacity_bytes)
    return channel.sender, channel.receiver


def everything_here(task: TaskId, index: int) -> bool:
    """Build every instance."""
    return True


@dataclass(frozen=True, slots=True)
class InstanceServices:
    """All services of instances. Without ``paging``, state that lies by keys must fit in memory.

    Only instances that it ``hosts`` are built. ``report`` takes the number of an attempt and what its instances
    contribute to checkpoints, from the thread of the loop; None: they take part in none. ``moves`` takes what they say
    of moves, in the same way. With ``keeps`` sources leave
    their streams open at their ends. ``sampling_seed`` is that of the samples that sources keep when they shed.
    """

    clock: Clock
    state: StateFactory
    dead_letters: DeadLetterWriter
    wake: Wake = no_wake
    async_calls: MakeCalls = IoThread
    channel: MakeChannel = local_channel
    hosts: Hosts = everything_here
    paging: Paging | None = None
    report: Callable[[int, InstanceReport], None] | None = None
    moves: TellMove = nobody_moves
    keeps: bool = False
    sampling_seed: int = 0
