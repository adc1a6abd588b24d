"""Faults of a simulated run and their times: drawn from the seed, at named failpoints and at turns."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NoReturn

from penstock.engine.executors.simulation.dice import Dice
from penstock.engine.executors.simulation.history import History
from penstock.model.errors import OptionError, WorkerLostError
from penstock.state.files.simulated_files import SimulatedDisk

KINDS = ("crash", "delay", "cut", "disk")
"""Crashes of a worker or of the whole process; slow messages; links that are down for a while; disks that fail."""

MOST_CRASHES = 6
"""After so many a run is left alone, so that it comes to its end."""


class PowerLossError(SystemExit):
    """The process ends at once: what is not durable is gone. No error that anybody handles."""


class ProcessKilledError(SystemExit):
    """One of several processes ends at once; what it has written stays. No error that anybody handles."""


@dataclass(frozen=True, slots=True)
class Faults:
    """The kinds of faults that may happen."""

    crash: bool = True
    delay: bool = True
    cut: bool = True
    disk: bool = True

    @classmethod
    def of(cls, kinds: Iterable[str]) -> "Faults":
        """Return those of these `KINDS`.

        Raises:
            OptionError: there is no such kind.
        """
        wanted = [kind.strip() for kind in kinds if kind.strip()]
        unknown = sorted(set(wanted) - set(KINDS))
        if unknown:
            raise OptionError(f"unknown fault {unknown[0]!r}; faults are {', '.join(KINDS)}")
        return cls(**{kind: kind in wanted for kind in KINDS})

    def any(self) -> bool:
        """Return whether anything may happen."""
        return self.crash or self.delay or self.cut or self.disk


HEAD_POINTS = ("checkpoint.", "job.sink.adopting", "job.sinks_adopted", "move.round.", "growth.")
"""Beginnings of the names of failpoints at which a head is killed: between a cut and its commit, or in a change."""

_IDLE = 0.15
"""How much less likely a crash is as long as no checkpoint was published since the last one."""

ALL = Faults()
NONE = Faults.of(())


class Fate:
    """Decides over one run, that takes about ``turns`` turns when nothing goes wrong.

    ``checkpoints`` is the disk of the repository and ``outputs`` that of the sinks; both lose power together.
    """

    def __init__(
        self,
        dice: Dice,
        history: History,
        faults: Faults,
        turns: int,
        checkpoints: SimulatedDisk,
        outputs: SimulatedDisk,
        on_power_loss: Callable[[], None],
    ) -> None:
        """Plan nothing ahead: every moment is diced for.

        ``on_power_loss`` is called when the process is gone, before the error is raised.
        """
        self.faults = faults
        self.crashes = 0
        self.workers_lost = 0
        self.crashed_at: Counter[str] = Counter()
        """Power losses by failpoint; those at a turn are not among them."""
        self.passed: Counter[str] = Counter()
        self.damaged = 0
        """Files of the repository that were damaged for good."""
        self.process: str | None = None
        """The process of those that share the power in which something happens now, None: the head's, or the only."""
        self.is_process_killed = False
        """Whether that process is gone: nothing of what it still says counts."""
        self.is_over = False
        """Whether the process is gone in which the job was started."""
        self.head_kills = 0
        """How often the head alone is yet to be killed at a failpoint of a checkpoint, or of an adoption."""
        self.has_power = True
        """Whether only that process is gone, if one is: others of the machine live."""
        self._on_power_loss = on_power_loss
        self._dice = dice
        self._history = history
        self._turns = max(turns, 1)
        self._disks = (checkpoints, outputs)
        self._idle = True
        self._most_crashes = dice.between(1, MOST_CRASHES) if faults.crash else 0

    def at_failpoint(self, name: str) -> None:
        """Maybe lose power at a named point; the more likely, the less often the point was passed."""
        self.passed[name] += 1
        if name == "checkpoint.manifest.published":
            self._idle = False
        self._history.detail(f"failpoint {name}")
        at_head = self.head_kills and self.process is None and name.startswith(HEAD_POINTS)
        if at_head and self._dice.chance(0.1):
            self.head_kills -= 1
            self.crashed_at[name] += 1
            self.end_process(f"at failpoint {name}")
        if self._may_crash() and self._dice.chance(self._eager() * 0.12 / self.passed[name] ** 0.5):
            self.crashed_at[name] += 1
            if self.process is not None and self._dice.chance(0.7):
                self.crashes += 1
                self._idle = True
                self._history.event(f"FAULT {self.process} ends at failpoint {name}")
                self.is_process_killed = True
                raise ProcessKilledError
            self._lose_power(f"at failpoint {name}")

    def at_turn(self, working: bool) -> None:
        """Maybe lose power or a worker (if they are ``working``), fill a disk or make room again.

        Raises:
            PowerLossError: the process is gone.
            WorkerLostError: a worker is.
        """
        if self._may_crash() and self._dice.chance(self._eager() * 2.0 / self._turns):
            self._lose_power("between two turns")
        if working and self.strikes(2.0):
            self.workers_lost += 1
            self._history.event("FAULT a worker is lost")
            raise WorkerLostError("the simulation took a worker away")
        if self.faults.disk:
            self._disk_at_turn()

    def strikes(self, times: float) -> bool:
        """Return whether one more process is to be lost now, which happens so many times in a run, about."""
        if self._may_crash() and self._dice.chance(self._eager() * times / self._turns):
            self.crashes += 1
            self._idle = True
            return True
        return False

    def end_process(self, where: str) -> None:
        """End the process in which the job was started; what it has written stays.

        Raises:
            PowerLossError: it is gone.
        """
        self._history.event(f"FAULT the head is killed {where}")
        self._end()

    def check_alive(self) -> None:
        """Raise `PowerLossError` if that process is gone: nothing that it would do happens."""
        if self.is_over:
            raise PowerLossError

    def after_power_loss(self) -> None:
        """Damage a file of the repository now and then: a bit flips, or its end is missing."""
        if self.faults.disk and self._dice.chance(0.2):
            disk = self._disks[0]
            paths = [f"{folder}/{name}" for folder in ("checkpoints", "files") for name in _files(disk, folder)]
            if paths:
                self._damage(disk, self._dice.choose(paths))

    def _damage(self, disk: SimulatedDisk, path: str) -> None:
        size = disk.size(path)
        if not size:
            return
        self.damaged += 1
        if self._dice.chance(0.5):
            self._history.event(f"FAULT a bit flips in a file of {path.partition('/')[0]}")
            disk.flip(path, self._dice.below(8 * size))
        else:
            self._history.event(f"FAULT a file of {path.partition('/')[0]} is cut short")
            disk.truncate(path, self._dice.below(size))

    def _eager(self) -> float:
        """A crash with nothing new to lose teaches little, but for crashes while a job recovers from the last one."""
        return _IDLE if self._idle else 1.0

    def _may_crash(self) -> bool:
        return self.crashes < self._most_crashes

    def _lose_power(self, where: str) -> None:
        self.crashes += 1
        self._idle = True
        self._history.event(f"FAULT power loss {where}")
        for disk in self._disks:
            disk.capacity_bytes = None
            disk.crash()
        self.has_power = False
        self._end()

    def _end(self) -> NoReturn:
        self.is_over = True
        self._on_power_loss()
        raise PowerLossError

    def _disk_at_turn(self) -> None:
        for name, disk in zip(("checkpoints", "outputs"), self._disks, strict=True):
            if disk.capacity_bytes is None:
                if self._dice.chance(0.5 / self._turns):
                    disk.capacity_bytes = disk.used_bytes() + self._dice.below(2_000)
                    self._history.event(f"FAULT the disk of {name} is full")
            elif self._dice.chance(20.0 / self._turns):
                disk.capacity_bytes = None
                self._history.event(f"the disk of {name} has room again")


def _files(disk: SimulatedDisk, folder: str) -> list[str]:
    try:
        return sorted(disk.names(folder)[0])
    except FileNotFoundError:
        return []
