"""State that instances hand to each other in a move, and an instance's part in it (docs/design/moves.md 3)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.engine.core.contract import Clock
from penstock.engine.core.elements import Reroute
from penstock.engine.dataflow.chain import ChainNode
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.model.execution_graph import instance_name


@dataclass(frozen=True, slots=True)
class Handover:
    """Everything that one instance of a task gives another in a move: buckets by operator, maybe none."""

    move: int
    task: str
    giver: int
    taker: int
    buckets: Mapping[str, Sequence[GivenBucket]] = field(repr=False)

    @property
    def to(self) -> str:
        """The instance that takes it."""
        return instance_name(self.task, self.taker)

    @property
    def bytes(self) -> int:
        """Bytes of the state."""
        return sum(given.bytes for buckets in self.buckets.values() for given in buckets)


@dataclass(frozen=True, slots=True)
class Installed:
    """An instance has taken in what another of its task gave it, in so many buckets, and goes on with it.

    Rows of these had to wait for ``paused_ns`` at most, since the first channel brought the marker.
    """

    move: int
    task: str
    giver: int
    taker: int
    buckets: int
    paused_ns: int


MoveReport = Handover | Installed
"""What an instance says of a move, to whoever runs it."""

TellMove = Callable[[MoveReport], None]


def nobody_moves(report: MoveReport) -> None:
    """Take in nothing: for executors that move nothing."""


class Handovers:
    """The moves of one instance: what it gives at a marker, and what comes for it, which may be before its marker."""

    def __init__(self, task: str, index: int, clock: Clock, nodes: Iterable[ChainNode], tell: TellMove) -> None:
        """Begin with none."""
        self._task = task
        self._index = index
        self._clock = clock
        self._paged = {node.name: node.operator for node in nodes if isinstance(node.operator, PagedOperator)}
        self._tell = tell
        self._passed = 0
        # When the first channel brought the marker that is awaited, and the one that has gone through last.
        self._marked_ns: int | None = None
        self._since_ns = 0
        self._early: list[Handover] = []

    def marked(self) -> None:
        """A channel has brought the marker of a move, which is awaited on others."""
        if self._marked_ns is None:
            self._marked_ns = self._clock.monotonic_ns()

    def passed(self, reroute: Reroute) -> None:
        """The marker of a move has gone through the chain."""
        self._passed = reroute.move
        if self._marked_ns is not None and reroute.concerns(self._index):
            self._since_ns, self._marked_ns = self._marked_ns, None
        given = {name: operator.take_given() for name, operator in self._paged.items()}
        for taker in sorted({taker for _, giver, taker in reroute.groups if giver == self._index}):
            buckets = {name: by_taker[taker] for name, by_taker in given.items()}
            self._tell(Handover(reroute.move, self._task, self._index, taker, buckets))
        early, self._early = self._early, []
        for handover in early:
            self.arrived(handover)

    def arrived(self, handover: Handover) -> None:
        """Take state in, once the marker has gone through the chain; between two steps."""
        if handover.move > self._passed:
            self._early.append(handover)
        else:
            self._install(handover)

    def _install(self, handover: Handover) -> None:
        for name, buckets in handover.buckets.items():
            self._paged[name].install(buckets)
        count = sum(map(len, handover.buckets.values()))
        paused_ns = self._clock.monotonic_ns() - self._since_ns
        said = handover.move, handover.task, handover.giver, handover.taker
        self._tell(Installed(*said, count, paused_ns))
