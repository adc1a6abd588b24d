"""A task manager's part in moves: lets producers send markers, and brings what its instances give to who takes it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from penstock.engine.core.background import Background
from penstock.engine.dataflow.handovers import Handover, Installed, MoveReport
from penstock.engine.dataflow.instance import Instance
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.handover_parcel import HandoverReader, pack_handover
from penstock.engine.executors.managers.held_moves import HeldMoves
from penstock.engine.executors.managers.places import Places
from penstock.engine.moves.movable import takers, together
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.execution_graph import instance_name
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId
from penstock.state.keys.arrays import RESERVE

TABLES_PERCENT = 150
"""The memory that tables take, by the bytes of the rows that they are made of."""

LEAST_READY_BYTES = 1 << 20
"""Less is not made ready before it is needed."""


@dataclass(frozen=True, slots=True)
class _Routes:
    """Where the instances of a deployment are: those here, and the links to the others."""

    held: HeldMoves
    places: Places
    here: Mapping[str, Instance]
    links: Mapping[str, LinkedChannels]


class ManagerMoves:
    """The moves of all deployments that are here. It belongs to the thread of the loop."""

    def __init__(self, tell: Callable[[ms.ToHead], None], background: Background) -> None:
        """Begin without deployments; ``background`` makes memory ready for what instances here take."""
        self._tell = tell
        self._background = background
        self._routes: dict[int, _Routes] = {}
        self._taken_bytes = 0

    def add(
        self,
        deployment: int,
        held: HeldMoves,
        places: Places,
        instances: Iterable[Instance],
        links: Mapping[str, LinkedChannels],
    ) -> None:
        """Take in what was built, and ``held`` to note what becomes of its owners.

        Where a region has grown it is all of its instances, those too that were there before.
        """
        here = {item.name: item for item in instances}
        self._routes[deployment] = _Routes(held, places, here, links)
        for link in links.values():
            link.on_state = _Taking(here, self._note_taken)

    def remove(self, deployment: int) -> None:
        """Forget a deployment; what is under way to it goes with its links."""
        self._routes.pop(deployment, None)

    def hear(self, order: ms.ToMovers) -> None:
        """Let producers that have not ended send the marker, and say how many they were; or note that it is over."""
        routes, sent = self._routes.get(order.deployment), 0
        if isinstance(order, ms.RoundOver):
            if routes is not None:
                routes.held.end(order.move)
            RESERVE.clear()
            return
        if routes is not None:
            routes.held.begin(order)
            self._make_ready(order, routes)
            for name in order.producers:
                instance = next(item.here[name] for item in self._routes.values() if name in item.here)
                if not instance.done:
                    instance.send_reroute(order.reroute())
                    sent += 1
            failpoint("move.markers.sent")
        self._tell(ms.MarkersSent(order.move, sent))

    def _make_ready(self, order: ms.SendMarkers, routes: _Routes) -> None:
        """Have as much memory ready as the round before took, if an instance here takes state: rows wait for it."""
        graph, size = routes.held.graph, self._taken_bytes * TABLES_PERCENT // 100
        tasks = takers(graph, together(graph, TaskId(order.task)))
        names = {instance_name(graph.name(task), taker) for task in tasks for _, _, taker in order.groups}
        if size >= LEAST_READY_BYTES and not names.isdisjoint(routes.here):
            # Whoever finds nothing ready takes memory as it comes, and says what is wrong with it.
            self._background.submit(partial(RESERVE.fill, size), lambda result, error: None)

    def _note_taken(self, size: int) -> None:
        self._taken_bytes = size

    def report(self, report: MoveReport) -> None:
        """Take in what an instance says of a move."""
        said = report.move, report.task, report.giver, report.taker
        if isinstance(report, Installed):
            failpoint("move.state.installed")
            self._tell(ms.StateInstalled(*said, report.buckets, report.paused_ns))
            return
        known = [item for item in self._routes.values() if report.to in item.places]
        if not known:
            # Its deployment is being taken down, and the move is void.
            return
        self._tell(ms.StateGiven(*said, report.bytes))
        failpoint("move.state.given")
        taker = next((item.here[report.to] for item in known if report.to in item.here), None)
        if taker is not None:
            taker.take_over(report)
            return
        link = next(item.links[place] for item in known if (place := item.places[report.to]) in item.links)
        for body, size in pack_handover(report):
            link.send_state(body, size)


class _Taking:
    """Brings what comes over one link to the instances of a deployment."""

    def __init__(self, here: Mapping[str, Instance], note_bytes: Callable[[int], None]) -> None:
        self._here, self._note_bytes = here, note_bytes
        self._reader = HandoverReader()

    def __call__(self, content: pa.Buffer) -> None:
        handover: Handover | None = self._reader.take(content)
        if handover is not None:
            self._note_bytes(handover.bytes)
            self._here[handover.to].take_over(handover)
