"""The surroundings of a task manager, by which it speaks, waits and reaches others."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.connectors.dead_letter import OnBadRecord
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.checkpoint_port import Report
from penstock.engine.dataflow.handovers import TellMove
from penstock.engine.dataflow.instance_services import Wake
from penstock.engine.executors.hosted_instances import Surroundings
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.manager_parts import ManagerParts
from penstock.engine.transport.link_set import LinkSet
from penstock.engine.transport.linked import LinkedChannels


@dataclass(frozen=True, slots=True)
class ManagerShell:
    """The surroundings of a task manager.

    ``say`` takes what it says to the head, ``wake`` makes its thread call `turn` soon, from any thread.
    ``is_interrupted`` returns whether a deployment that waits for others is to be given up. One that ``keeps_errors``
    is in the process of whoever it tells, which can have them as they were `raised`.
    """

    clock: Clock
    say: Callable[[ms.ToHead], None]
    wake: Callable[[], None]
    links: LinkSet[int]
    is_interrupted: Callable[[], bool]
    parts: ManagerParts
    keeps_errors: bool = False


def meet(shell: ManagerShell, deployment: int, addresses: Mapping[str, str]) -> dict[str, LinkedChannels]:
    """Return the channels to each of the peers with these addresses, which meet this one for the same deployment.

    Raises:
        WorkerLostError: one of them does not come.
    """
    links = shell.parts.meeting.meet(deployment, dict(sorted(addresses.items())), shell.is_interrupted)
    channels = {peer: LinkedChannels(link) for peer, link in links.items()}
    for peer, channel in channels.items():
        shell.links.add(deployment, peer, channel)
    return channels


def surroundings(
    shell: ManagerShell,
    wake: Wake,
    met: OnBadRecord,
    begun: Callable[[], int],
    report: Callable[[int, Report], None] | None,
    cut_writer: CutWriter | None,
    moves: TellMove,
) -> Surroundings:
    """Return those of the instances that a task manager hosts; see `Surroundings`."""
    parts = shell.parts
    cpu_ns = None if parts.probe is None else parts.probe.thread_cpu_ns
    return Surroundings(
        shell.clock,
        wake,
        met,
        begun,
        report,
        cut_writer,
        scratch=parts.scratch,
        state=parts.state,
        thread_cpu_ns=cpu_ns,
        moves=moves,
        paging=parts.paging,
    )
