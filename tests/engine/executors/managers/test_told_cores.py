"""Task managers hear of the cores that they may use, as often as these change, and also while they leave."""

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any

from penstock.engine.control.machine_load import MachineReading
from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.manager_changes import ManagerChanges
from penstock.engine.jobs.manager_orders import ManagerOrders
from penstock.engine.jobs.running_cores import RunningCores

SECOND_NS = 1_000_000_000


class Pool:
    """The task managers of a job."""

    def __init__(self) -> None:
        self.names, self.gone, self.wanted = ["tm-0", "tm-1"], dict[str, int](), 2

    def live(self) -> list[str]:
        return [name for name in self.names if name not in self.gone]

    warm = live

    def leaving(self) -> dict[str, int]:
        return self.gone

    def release(self, manager: str) -> None:
        """It goes once it has read what it was told."""


class Told:
    """A head that keeps what it says."""

    def __init__(self) -> None:
        self.pool, self.cores, self.told = Pool(), RunningCores(), list[tuple[str, float | None]]()
        head: Any = SimpleNamespace(pool=self.pool, send=self._send)
        context: Any = SimpleNamespace(checkpoints=None, managers=ManagerOrders(), cores=self.cores)
        self.changes = ManagerChanges(head, context, lambda managers: None)
        self.used = dict.fromkeys(self.pool.names, 0)
        self.second = 0

    def _send(self, manager: str, message: ms.ToManager) -> None:
        assert isinstance(message, ms.SetCores)
        self.told.append((manager, message.cores))

    def turn(self, hosting: Collection[str]) -> list[tuple[str, float | None]]:
        """Return what it says in a turn."""
        self.told.clear()
        assert not [*self.changes.turn(hosting, self.second * SECOND_NS)]
        return [*self.told]

    def live(self, seconds: int, **used: float) -> None:
        """Let each use so many cores."""
        for _ in range(seconds):
            self.second += 1
            for name, cores in used.items():
                self.used[name] += int(cores * SECOND_NS)
                now_ns = self.second * SECOND_NS
                self.changes.hear(name, MachineReading(now_ns, "host", (0,), self.used[name], (0,), 0))


def test_cores_are_told_as_they_change() -> None:
    told = Told()
    both = ("tm-0", "tm-1")
    assert told.turn(both) == [], "no bound"
    told.cores.wanted = 0.4
    assert told.turn(both) == [("tm-0", 0.2), ("tm-1", 0.2)]
    assert told.turn(both) == []
    names = {"tm-0": 0.2, "tm-1": 0.05}
    told.live(5, **names)
    shares = dict(told.turn(both))
    assert shares["tm-0"] > 0.22 and shares["tm-1"] < 0.18
    assert told.turn(both) == [], "nobody was heard of since"
    told.cores.wanted = None
    assert told.turn(both) == [("tm-0", None), ("tm-1", None)]


def test_one_that_leaves_has_its_part_as_long_as_it_hosts_instances() -> None:
    told = Told()
    told.cores.wanted = 0.4
    told.turn(("tm-0", "tm-1"))
    told.pool.gone = {"tm-1": 0}
    assert told.turn(("tm-0", "tm-1")) == []
    assert told.turn(("tm-0",)) == [("tm-0", 0.4), ("tm-1", None)], "it is not bound once it hosts none"
