"""Everything around a simulated job that outlives its processes: time, dice, disks, fate and history of one seed."""

from dataclasses import dataclass, field

from penstock.engine.core.clock import ManualClock
from penstock.engine.dataflow.instance_services import StateFactory
from penstock.engine.executors.simulation.background import SimulatedBackground
from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.faults import Fate, Faults
from penstock.engine.executors.simulation.history import History
from penstock.engine.executors.simulation.moving import RandomMoves
from penstock.engine.executors.simulation.page_faults import PageFaults
from penstock.engine.executors.simulation.paged import SimulatedPages, SimulatedPaging
from penstock.engine.executors.simulation.random_admissions import RandomAdmissions
from penstock.engine.executors.simulation.random_drains import RandomDrains
from penstock.engine.executors.simulation.random_rates import RandomRates
from penstock.engine.executors.simulation.random_routes import RandomRoutes
from penstock.engine.executors.simulation.rescales import RandomRescales
from penstock.engine.executors.simulation.watermarks import Watermarks
from penstock.model.errors import BugError
from penstock.model.job_graph import JobGraph
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles

LONGEST_TURN_NS = 200_000
"""How long a turn takes at most."""


class StuckError(BugError):
    """A simulated run does not come to its end."""


@dataclass
class World:
    """One seed's world. ``turns`` is about how many an undisturbed run takes, ``most_turns`` when a run is given up."""

    seed: int
    faults: Faults
    state: StateFactory
    paging: SimulatedPaging | None
    turns: int
    most_turns: int
    clock: ManualClock = field(default_factory=ManualClock)
    turned: int = 0

    def __post_init__(self) -> None:
        self.dice = Dice(self.seed)
        self.history = History(self.clock)
        self.checkpoints = SimulatedDisk(self.dice.fork())
        self.outputs = SimulatedDisk(self.dice.fork())
        self.fate = Fate(self.dice, self.history, self.faults, self.turns, self.checkpoints, self.outputs, self._darken)
        self.background = SimulatedBackground(self.clock, self.dice)
        self.watermarks = Watermarks()
        self.pages: SimulatedPages | None = None
        self.rates: RandomRates | None = None
        self.admissions: RandomAdmissions | None = None
        self.moves: RandomMoves | None = None
        self.rescales: RandomRescales | None = None
        self.drains: RandomDrains | None = None
        self.routes: RandomRoutes | None = None
        if self.paging is not None:
            page_faults = PageFaults(self.dice, self.history, self.turns, happen=self.faults.disk)
            self.pages = SimulatedPages(self.paging, page_faults)
        self.restart()

    def shed(self, graph: JobGraph, *, admits: bool) -> None:
        """Let keep rates change at random, and if it ``admits`` let stretches of rows be admitted and dropped."""
        chance = 20.0 / self.turns
        self.rates = RandomRates(self.dice, graph, chance)
        if admits:
            self.admissions = RandomAdmissions(self.dice, self.history, graph, chance)

    def restart(self) -> None:
        """Begin another process on the same disks."""
        if self.rescales is not None:
            self.rescales.forget()
        self.fate.is_over, self.fate.has_power = False, True
        self.background = SimulatedBackground(self.clock, self.dice)
        self.repository = CheckpointRepository(SimulatedFiles(self.checkpoints))
        self.files = SimulatedFiles(self.outputs)

    def pages_were_damaged(self) -> bool:
        """Return whether a fault has damaged page files, and with them maybe what checkpoints have of them."""
        return self.pages is not None and self.pages.faults.damaged > 0

    def empty_repository(self) -> None:
        """Do as somebody who names an empty folder for the checkpoints."""
        disk = self.checkpoints
        for folder in disk.names("")[1]:
            disk.remove_folder(folder)
        disk.sync_folder("")

    def turn(self, *, working: bool = True) -> None:
        """Let a little time pass, and what goes wrong go wrong, also with workers if they are ``working``.

        Raises:
            StuckError: there were too many turns.
            WorkerLostError: a worker is gone.
        """
        self.turned += 1
        if self.turned > self.most_turns:
            raise StuckError(f"the job has not ended after {self.turned:,} turns")
        self.clock.advance_ns(self.dice.below(LONGEST_TURN_NS))
        if self.pages is not None:
            self.pages.faults.at_turn()
        self.fate.at_turn(working)

    def pause(self, seconds: float) -> None:
        """Wait outside an attempt: background work goes on, or else time passes."""
        self.turn(working=False)
        due_ns = self.background.due_ns()
        until_ns = self.clock.monotonic_ns() + round(seconds * 1e9)
        if due_ns is not None and due_ns <= until_ns:
            self.sleep_until(due_ns)
            self.background.proceed()
        else:
            self.sleep_until(until_ns)

    def _darken(self) -> None:
        self.background.lost_power = True

    def sleep_until(self, time_ns: int) -> None:
        """Let time pass."""
        self.clock.advance_ns(max(0, time_ns - self.clock.monotonic_ns()))
