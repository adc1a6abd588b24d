"""A task manager's part in moves: lets producers send markers, and brings what its instances give to who takes it."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from penstock.engine.dataflow.handovers import Handover, Installed, MoveReport
from penstock.engine.dataflow.instance import Instance
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.handover_parcel import HandoverReader, pack_handover
from penstock.engine.executors.managers.held_moves import HeldMoves
from penstock.engine.executors.managers.places import Places
from penstock.engine.transport.linked import LinkedChannels
from penstock.model.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class _Routes:
    """Where the instances of a deployment are: those here, and the links to the others."""

    held: HeldMoves
    places: Places
    here: Mapping[str, Instance]
    links: Mapping[str, LinkedChannels]


class ManagerMoves:
    """The moves of all deployments that are here. It belongs to the thread of the loop."""

    def __init__(self, tell: Callable[[ms.ToHead], None]) -> None:
        """Begin without deployments."""
        self._tell = tell
        self._routes: dict[int, _Routes] = {}

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
            link.on_state = _Taking(here)

    def remove(self, deployment: int) -> None:
        """Forget a deployment; what is under way to it goes with its links."""
        self._routes.pop(deployment, None)

    def hear(self, order: ms.ToMovers) -> None:
        """Let producers that have not ended send the marker, and say how many they were; or note that it is over."""
        routes, sent = self._routes.get(order.deployment), 0
        if isinstance(order, ms.RoundOver):
            if routes is not None:
                routes.held.end(order.move)
            return
        if routes is not None:
            routes.held.begin(order)
            for name in order.producers:
                instance = next(item.here[name] for item in self._routes.values() if name in item.here)
                if not instance.done:
                    instance.send_reroute(order.reroute())
                    sent += 1
            failpoint("move.markers.sent")
        self._tell(ms.MarkersSent(order.move, sent))

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
        parts = pack_handover(report)
        for left, (body, size) in zip(reversed(range(len(parts))), parts, strict=True):
            link.send_state(body, size, more=left > 0)


class _Taking:
    """Brings what comes over one link to the instances of a deployment."""

    def __init__(self, here: Mapping[str, Instance]) -> None:
        self._here = here
        self._reader = HandoverReader()

    def __call__(self, content: pa.Buffer) -> None:
        handover: Handover | None = self._reader.take(content)
        if handover is not None:
            self._here[handover.to].take_over(handover)
