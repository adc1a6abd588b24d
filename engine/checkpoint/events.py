"""Events and commands of the checkpoint coordinator: frozen values.

Instances are named as `Instance.name` names them. Epochs count from 1 and are never used twice; attempts grow with
every start of an instance, so that what a dead one still says is known as such.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Started:
    """Instances run under a new attempt, for the first time or again: all of the job, or one region of it.

    ``sources`` are those of ``instances`` that read from outside. ``restored`` is the epoch of the checkpoint they
    began from, None without one. ``last_epoch`` is the greatest epoch known to have been begun by an earlier run of the
    job, complete or not; 0 if there was none. ``alone``: nothing that ran before counts any more, also of other names;
    else those that are ``gone`` do not.
    """

    now_ns: int
    attempt: int
    instances: frozenset[str]
    sources: frozenset[str]
    restored: int | None = None
    last_epoch: int = 0
    alone: bool = False
    gone: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Joined:
    """Instances have joined those that run, of the attempt of these: barriers meet them, and ``sources`` send them.

    No checkpoint may be in flight.
    """

    attempt: int
    instances: frozenset[str]
    sources: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Tick:
    """Time went on to ``now_ns`` (monotonic). Only a tick begins a checkpoint or finds that one takes too long."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class Requested:
    """Somebody wants a checkpoint before the next one is due: under a name as a savepoint, before a stop, or both.

    A request outlives aborted epochs and restarts. ``at_end``: the stop is for want of input, so that a restart, after
    which there is input again, takes it back.
    """

    savepoint: str | None = None
    then_stop: bool = False
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class DrainRequested:
    """The sources shall end as if their input had; the last checkpoint follows when every instance has ended."""


@dataclass(frozen=True, slots=True)
class BarriersHeld:
    """No barrier may be sent, for state is on its way between instances; or, if not ``held``, may be again."""

    held: bool


@dataclass(frozen=True, slots=True)
class InstanceSnapshotted:
    """The acknowledgement of a barrier: what the instance contributes to the epoch, opaque to the coordinator."""

    instance: str
    attempt: int
    epoch: int
    what: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class AlignmentFailed:
    """An instance will never pass the barrier of an epoch: one of its channels brought something else in its place."""

    instance: str
    attempt: int
    epoch: int


@dataclass(frozen=True, slots=True)
class InstanceEnded:
    """An instance is done and counts as having delivered every barrier later than ``delivered``.

    ``delivered`` is the last barrier it passed, 0 if none; the acknowledgement of that one may still be under way.
    ``what`` is its contribution to every later epoch.
    """

    instance: str
    attempt: int
    delivered: int
    what: object = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class InstanceFailed:
    """An instance raised, or whoever runs it is lost."""

    instance: str
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class UploadFinished:
    """Everything an epoch consists of lies durably in the checkpoint store, but for the manifest."""

    epoch: int


@dataclass(frozen=True, slots=True)
class UploadFailed:
    """An upload was given up."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Published:
    """The manifest of the epoch is durable: from now on a restart begins there."""

    epoch: int


@dataclass(frozen=True, slots=True)
class PublishFailed:
    """The manifest is not there and never will be. Whoever cannot know that must find out before it says so."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Committed:
    """Every sink has committed its output up to the epoch, as it was ordered under ``attempt``."""

    epoch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A sink could not commit, or is lost with the commit half done; a restart commits the epoch again."""

    epoch: int
    attempt: int
    reason: str


Event = (
    Started
    | Joined
    | Tick
    | Requested
    | DrainRequested
    | BarriersHeld
    | InstanceSnapshotted
    | AlignmentFailed
    | InstanceEnded
    | InstanceFailed
    | UploadFinished
    | UploadFailed
    | Published
    | PublishFailed
    | Committed
    | CommitFailed
)


@dataclass(frozen=True, slots=True)
class InjectBarrier:
    """Let the sources send the barrier of an epoch; after a ``last`` one they read nothing, but may get another."""

    epoch: int
    sources: frozenset[str]
    last: bool


@dataclass(frozen=True, slots=True)
class StartUpload:
    """Bring the contributions of all instances to the checkpoint store. Answer: UploadFinished or UploadFailed."""

    epoch: int
    savepoint: str | None
    snapshots: Mapping[str, object] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish the manifest of an epoch, atomically. Answer: Published or PublishFailed, however long it takes."""

    epoch: int
    savepoint: str | None


@dataclass(frozen=True, slots=True)
class CommitSinks:
    """Let all sinks commit up to a published epoch; must be idempotent. Answer: Committed or CommitFailed.

    The same epoch is ordered again after a restart, so the answer names the attempt.
    """

    epoch: int
    attempt: int


@dataclass(frozen=True, slots=True)
class AbortEpoch:
    """Give an epoch up: stop its upload and delete what it left. What its barriers cut off belongs to the next one.

    ``in_row``: so many have failed since the last one that was committed; 0: it did not fail, an instance did.
    """

    epoch: int
    reason: str
    in_row: int = 0


@dataclass(frozen=True, slots=True)
class FailJob:
    """End the job: ``in_row`` checkpoints in a row have failed, the last one for this ``reason``."""

    reason: str
    in_row: int


@dataclass(frozen=True, slots=True)
class RetainCheckpoints:
    """Delete checkpoints up to ``newest`` but for the ``count`` newest of them; never a savepoint."""

    newest: int
    count: int


@dataclass(frozen=True, slots=True)
class EndSources:
    """Let sources end as if their input had."""

    sources: frozenset[str]


@dataclass(frozen=True, slots=True)
class Stop:
    """Everything is committed up to ``epoch``: end the job. ``ended``: its inputs had ended; else it resumes there."""

    epoch: int
    ended: bool


Command = (
    InjectBarrier | StartUpload | Publish | CommitSinks | AbortEpoch | FailJob | RetainCheckpoints | EndSources | Stop
)
