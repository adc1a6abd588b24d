"""Messages between the head of a job and its task managers: frozen values, and their bytes.

They travel in the envelopes of `delivery`, each once and in order. An attempt's number stands in whatever an instance
says, so that nothing counts that one of an earlier attempt has said.
"""

from typing import Any, TypeVar

import msgspec

from penstock.engine.connectors.dead_letter import FirstBadRecord
from penstock.engine.control.machine_load import MachineReading
from penstock.engine.executors.managers.adoption_messages import (
    Adopt,
    Adopted,
    EpochCommitted,
    Holding,
    Message,
    ReadHolding,
    SetKeep,
)
from penstock.engine.executors.managers.deployment_messages import Deploy, Restore, Start, TakeDown
from penstock.engine.executors.managers.failures import Failure
from penstock.engine.executors.managers.file_views import FilesSeen, LookAtFiles
from penstock.engine.executors.managers.growth_messages import ChannelsJoined, Dismiss, Grow, JoinGrown, PeerGone
from penstock.engine.executors.managers.move_messages import (
    MarkersSent,
    OfMoves,
    RoundOver,
    SendMarkers,
    SetRoutes,
    StateGiven,
    StateInstalled,
    ToMovers,
)
from penstock.engine.executors.managers.partition_messages import (
    GivePartitions,
    HoldPartitions,
    OfPartitions,
    PartitionsGiven,
    PartitionsHeld,
    PartitionsStopped,
    PartitionsTaken,
    StopPartitions,
    TakePartitions,
    ToSources,
)
from penstock.engine.executors.managers.plan_messages import ChangePlan, SetCores, SetMemory, WarmedUp
from penstock.engine.executors.managers.progress_messages import Progress, RegionProgress
from penstock.engine.executors.managers.step_messages import OutOfStep, StuckInStep
from penstock.engine.jobs.metrics import JobMetrics
from penstock.engine.jobs.part_status import PartStatus
from penstock.model.sic import NO_CHECKS, CheckTimes
from penstock.shedding.kept_log import Stretch
from penstock.state.checkpoints.manifest import InstanceEntry
from penstock.state.checkpoints.results import Traffic

__all__ = ["Adopt", "Adopted", "ChangePlan", "ChannelsJoined", "Deploy", "Dismiss", "EpochCommitted", "FilesSeen"]
__all__ += ["GivePartitions", "Grow", "HoldPartitions", "Holding", "JoinGrown", "LookAtFiles", "MarkersSent", "OfMoves"]
__all__ += ["OfPartitions", "OutOfStep", "PartitionsGiven", "PartitionsHeld", "PartitionsStopped", "PartitionsTaken"]
__all__ += ["PeerGone", "Progress", "StopPartitions", "TakePartitions", "ToSources"]
__all__ += ["ReadHolding", "RegionProgress", "Restore", "RoundOver", "SendMarkers", "SetKeep", "SetMemory", "SetRoutes"]
__all__ += ["SetCores", "Start", "StateGiven", "StateInstalled", "StuckInStep", "TakeDown", "ToMovers", "WarmedUp"]


class Setup(Message, frozen=True):
    """To a task manager, first of all: the packed `ManagerSetup`. Answer: `Joined` or `SetupFailed`."""

    packed: bytes


class Inject(Message, frozen=True):
    """To a task manager: a checkpoint begins; let these sources send its barrier, behind the ``last`` read nothing."""

    epoch: int
    sources: tuple[str, ...]
    last: bool


class EndSources(Message, frozen=True):
    """To a task manager: let these sources read nothing more; with ``drain`` as if their inputs had ended."""

    sources: tuple[str, ...]
    drain: bool = True


class Upload(Message, frozen=True):
    """To a task manager: bring the cuts of an epoch to the repository. Answer: `Uploaded` or `UploadFailed`."""

    epoch: int


class GiveUpEpoch(Message, frozen=True):
    """To a task manager: this epoch will not be published; let go of its cuts."""

    epoch: int


class ReadStatus(Message, frozen=True):
    """To a task manager: say how what runs there is. Answer: `Status` of the same ``number``.

    It counts the rows of the ``undecided`` operators, behind ``last_barrier`` none of which follows (None: not sent).
    """

    number: int
    undecided: tuple[str, ...]
    last_barrier: int | None


class Finish(Message, frozen=True):
    """To a task manager: close everything. Answer: `Finished`."""

    drained: bool


class Leave(Message, frozen=True):
    """To a task manager: end."""


class Joined(Message, frozen=True):
    """A task manager has what it needs: its process, where others meet it, and a name of the files that it sees."""

    pid: int
    address: str
    files: str


class SetupFailed(Message, frozen=True):
    """A task manager cannot make anything of its `Setup`."""

    failure: Failure


class Deployed(Message, frozen=True):
    """The instances of a deployment are built."""

    deployment: int


class Refused(Message, frozen=True):
    """The instances of a deployment could not be built; none of them is there."""

    deployment: int
    failure: Failure


class CutTaken(Message, frozen=True):
    """An instance has passed the barrier of an epoch, or ``ended`` before; see `checkpoint_port.CutTaken`."""

    instance: str
    attempt: int
    epoch: int
    ended: bool
    receipts: dict[str, Any]
    stretches: tuple[Stretch, ...] = ()


class BarrierMissed(Message, frozen=True):
    """An instance will never pass the barrier of an epoch."""

    instance: str
    attempt: int
    epoch: int


class Uploaded(Message, frozen=True):
    """The cuts of an epoch are in the repository: the parts of its manifest that are this task manager's.

    ``positions`` are those of the partitions of sources, ``counters`` the row counters of operators, both by name;
    ``traffic`` counts the files that were uploaded, and those that were there, ``ended`` has for each operator how many
    instances had ended before the barrier.
    """

    epoch: int
    entries: tuple[InstanceEntry, ...]
    positions: dict[str, dict[str, Any]]
    counters: dict[str, dict[str, int]]
    traffic: Traffic = Traffic()
    ended: dict[str, int] = msgspec.field(default_factory=dict)


class UploadFailed(Message, frozen=True):
    """The cuts of an epoch could not be uploaded."""

    epoch: int
    failure: Failure


class Failed(Message, frozen=True):
    """Something raised in a step of an instance; None: outside of any."""

    deployment: int
    instance: str | None
    failure: Failure


class LinkLost(Message, frozen=True):
    """The link of a deployment to another task manager broke: what was on its way is lost."""

    deployment: int
    peer: str
    reason: str


class TakenDown(Message, frozen=True):
    """The instances of these tasks (None: all) are gone; ``notes`` say what went wrong with that."""

    tasks: tuple[int, ...] | None
    notes: tuple[str, ...]


class LeaveAsked(Message, frozen=True):
    """This process was told to end, but not by its head."""


class AllEnded(Message, frozen=True):
    """All instances of a deployment that are here have ended."""

    deployment: int


class Finished(Message, frozen=True):
    """Everything is closed, or why not."""

    failure: Failure | None


class Metrics(Message, frozen=True):
    """The metrics of all here, once a second and before it goes; without checkpoints what sources read since then."""

    metrics: JobMetrics
    stretches: tuple[Stretch, ...] = ()


class Readings(Message, frozen=True):
    """The readings of a task manager's process and of what it hosts, once a second.

    They are those of a `PartReading`: the bytes of its rows, ``errors`` an Arrow stream or empty; ``instances`` None:
    it hosts nothing. ``keep``: the rates in force, ``checks`` those of what waits.
    """

    machine: MachineReading
    instances: bytes | None = None
    sent: bytes = b""
    received: bytes = b""
    partitions: bytes = b""
    partition_names: tuple[str, ...] = ()
    keep: SetKeep | None = None
    errors: bytes = b""
    sic: bytes = b""
    checks: CheckTimes = NO_CHECKS
    reuse: bytes = b""
    group_rows: bytes = b""
    group_bytes: bytes = b""
    dropped: bytes = b""


class Status(Message, frozen=True):
    """The status of what is hosted here, as it was asked for."""

    number: int
    status: PartStatus


class BadRecordMet(Message, frozen=True):
    """The first bad record that an operator has met here; it is said before any count of it is."""

    record: FirstBadRecord


ToManager = (
    Setup
    | ChangePlan
    | LookAtFiles
    | Deploy
    | Start
    | TakeDown
    | Inject
    | EndSources
    | Upload
    | GiveUpEpoch
    | ReadStatus
    | Finish
    | Leave
    | Progress
    | EpochCommitted
    | ReadHolding
    | Adopt
    | SetKeep
    | SetCores
    | SetMemory
    | ToMovers
    | SetRoutes
    | Grow
    | JoinGrown
    | Dismiss
    | PeerGone
    | HoldPartitions
    | StopPartitions
    | GivePartitions
    | TakePartitions
)
"""What the head says. `Progress` goes both ways: up each one's own, down the least of the others."""

ToHead = (
    Joined
    | WarmedUp
    | SetupFailed
    | FilesSeen
    | Deployed
    | Refused
    | CutTaken
    | BarrierMissed
    | Uploaded
    | UploadFailed
    | Failed
    | LinkLost
    | StuckInStep
    | OutOfStep
    | TakenDown
    | LeaveAsked
    | AllEnded
    | Finished
    | Progress
    | Metrics
    | Readings
    | Status
    | BadRecordMet
    | Holding
    | Adopted
    | OfMoves
    | ChannelsJoined
    | OfPartitions
)
"""What a task manager says."""


Said = TypeVar("Said")


class UnreadableMessageError(ValueError):
    """Bytes that are no message of this side; the text says why."""


_encoder = msgspec.msgpack.Encoder()
_to_manager: msgspec.msgpack.Decoder[ToManager] = msgspec.msgpack.Decoder(ToManager)
_to_head: msgspec.msgpack.Decoder[ToHead] = msgspec.msgpack.Decoder(ToHead)


def encode(message: ToManager | ToHead) -> bytes:
    """Return the bytes of a message."""
    return _encoder.encode(message)


def decode_for_manager(data: bytes) -> ToManager:
    """Return what the head says.

    Raises:
        UnreadableMessageError: the bytes are not such a message.
    """
    return _decoded(_to_manager, data)


def decode_for_head(data: bytes) -> ToHead:
    """Return what a task manager says.

    Raises:
        UnreadableMessageError: the bytes are not such a message.
    """
    return _decoded(_to_head, data)


def _decoded(decoder: msgspec.msgpack.Decoder[Said], data: bytes) -> Said:
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise UnreadableMessageError(str(error)) from None
