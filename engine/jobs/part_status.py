"""The status of what runs in one place: all that decides whether a job stops or fails, besides errors, as a value.

Read when it is needed; `merge_statuses` makes one of several places.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from penstock.engine.dataflow.build import Build
from penstock.engine.jobs.rows_decided import RowsDecided, add_decided, read_decided
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.outstanding import Outstanding


@dataclass(frozen=True, slots=True)
class PartStatus:
    """The status of the instances of one place, or of several.

    ``exhausted``: every source has read all there is for this run. ``unanswered``: rows wait for calls to the outside.
    ``idle``: no instance can run before something comes from elsewhere or its time. ``sent`` and ``received`` are the
    elements that have crossed to and from other places since the attempt began; they only grow. ``outstanding`` is
    what each sink has on its way, ``decided`` what operators have decided that may exceed the limit of bad records.
    """

    exhausted: bool = True
    unanswered: bool = False
    idle: bool = True
    sent: int = 0
    received: int = 0
    outstanding: tuple[Outstanding, ...] = ()
    decided: dict[str, RowsDecided] = field(default_factory=dict)


def read_status(
    build: Build,
    *,
    idle: bool,
    sent: int = 0,
    received: int = 0,
    undecided: Collection[str] = (),
    last_barrier: int | None = None,
) -> PartStatus:
    """Read the status of what runs here, between two steps; ``undecided`` are the operators to count rows of.

    Behind ``last_barrier`` no row follows; None: it was not sent.
    """
    return PartStatus(
        exhausted=is_exhausted(build),
        unanswered=is_unanswered(build),
        idle=idle,
        sent=sent,
        received=received,
        outstanding=read_outstanding(build),
        decided=read_decided(build, undecided, last_barrier) if undecided else {},
    )


def is_exhausted(build: Build) -> bool:
    """Return whether every source here has read all there is for this run."""
    return all(head.exhausted for head in build.heads())


def is_unanswered(build: Build) -> bool:
    """Return whether rows wait for calls to the outside here."""
    return any(operator.unanswered() for operator in build.operators())


def read_outstanding(build: Build) -> tuple[Outstanding, ...]:
    """Return what the sinks here have on their way."""
    outstanding = (operator.outstanding() for operator in build.operators())
    return tuple(item for item in outstanding if item is not None)


def merge_statuses(graph: ExecutionGraph, parts: Sequence[PartStatus]) -> PartStatus:
    """Return the status of a job of which all places have said theirs."""
    return PartStatus(
        exhausted=all(part.exhausted for part in parts),
        unanswered=any(part.unanswered for part in parts),
        idle=all(part.idle for part in parts),
        sent=sum(part.sent for part in parts),
        received=sum(part.received for part in parts),
        outstanding=tuple(item for part in parts for item in part.outstanding),
        decided=add_decided(graph, [part.decided for part in parts]),
    )


def is_at_rest(earlier: PartStatus, later: PartStatus) -> bool:
    """Return whether sources have nothing more, nothing is on its way and no call is unanswered, over all places.

    Each status is merged of what all places have said, every place in ``later`` after the last one in ``earlier``. When
    as much was received by then as has been sent until now, nothing was under way between the two, and nobody has
    been woken (the four counters of Mattern, 1987).
    """
    at_rest = all(status.exhausted and status.idle and not status.unanswered for status in (earlier, later))
    return at_rest and earlier.received == later.sent
