"""The parts of a task manager that reach beyond it: where it meets others, its thread, its folder, its stores."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.engine.checkpoint.run_scratch import RunScratch, Scratch
from penstock.engine.core.background import Background, BackgroundThread
from penstock.engine.core.contract import Clock
from penstock.engine.dataflow.instance_services import StateFactory
from penstock.engine.executors.managers.host_probe import Probe, SystemProbe
from penstock.engine.executors.managers.host_process import LOOPBACK
from penstock.engine.executors.managers.setup import ManagerSetup
from penstock.engine.paging.paging import Paging
from penstock.engine.transport.link import Link
from penstock.engine.transport.meeting import MeetingPlace
from penstock.engine.transport.tls import Tls
from penstock.state.stores.page_store import PageStores
from penstock.state.stores.rocksdb_store import RocksDbStores


class Meeting(Protocol):
    """The place where a task manager meets others."""

    @property
    def address(self) -> str:
        """Where others reach it."""

    def meet(self, attempt: int, peers: Mapping[str, str], is_given_up: Callable[[], bool]) -> Mapping[str, Link]:
        """Return a link to each of the peers, by name; see `MeetingPlace.meet`."""

    def close(self) -> None:
        """Let nobody reach it any more."""


@dataclass(frozen=True, slots=True)
class ManagerParts:
    """The parts of one task manager, which closes them.

    ``state`` makes the stores of its instances; None: they are pages in its scratch folder, by ``page_stores``, which
    also read the pages that checkpoints have. Without ``probe`` no CPU is measured. ``paging`` pages state
    that lies by keys in place of them.
    """

    meeting: Meeting
    background: Background
    scratch: Scratch
    page_stores: PageStores
    state: StateFactory | None = None
    probe: Probe | None = None
    paging: Paging | None = None


MakeParts = Callable[[str, Path, ManagerSetup, Clock, Callable[[], None]], ManagerParts]
"""Makes the parts of the task manager of a name, with the job's directory; the last calls its thread."""


def parts_here(
    name: str,
    directory: Path,
    setup: ManagerSetup,
    clock: Clock,
    wake: Callable[[], None],
    host: str = LOOPBACK,
    tls: Tls | None = None,
) -> ManagerParts:
    """Return parts that are of this machine: it can be met from now on, by others at ``host``, between hosts by TLS."""
    return ManagerParts(
        MeetingPlace(name, setup.token, clock, setup.transport, host, tls=tls),
        BackgroundThread(f"penstock-uploads-{name}", wake),
        RunScratch(directory),
        RocksDbStores(),
        probe=SystemProbe(),
    )
