"""Kills or stops the task managers of a pipeline again and again, while the command that has started them runs on."""

import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from penstock.chaos.child import Child
from penstock.chaos.experiment import HEAD_ACTOR as HEAD_PROCESS
from penstock.chaos.experiment import ChaosError, ChaosReport
from penstock.chaos.moments import Moment
from penstock.chaos.trials import BEGUN, COMPLETE, JOINED, Chaos
from penstock.engine.core.failpoint_settings import EVERY_MANAGER, ONCE, FailpointSetting
from penstock.runs.cores import usable_cores

POINTS_AT_ONCE = 8
"""So many points are armed in one run: task managers that die as soon as they begin are replaced ever more slowly."""

RUNNING = "job.running"
_LOOK_S = 0.02


class ManagerChaos(Chaos):
    """One pipeline whose task managers are under attack; every run is one life of the command."""

    _VICTIM = EVERY_MANAGER
    """The processes that are to die at points, as failpoints name them."""

    def run(self) -> ChaosReport:
        """Run once undisturbed, then until all strikes are done; the report of a failure says what was done so far."""
        self._signs = _Signs()
        return super().run()

    def _live(self, folder: Path) -> dict[str, Any] | None:
        armed = self._rest_of_script() or self._next_points()
        struck = folder / "struck"
        struck.mkdir()
        self._signs = _Signs()
        sign = FailpointSetting(RUNNING, 1, "say", self._head)
        child = self._begin_life(folder, [sign, *armed], {ONCE: str(struck)})
        try:
            if armed:
                self._await_deaths(child, armed)
            else:
                self._strike_at_moments(child)
            summary = self._finished(child, folder)
        except BaseException:
            self._give_up(child, folder)
            raise
        self._report.restarts += max(0, self._signs.begun - 1)
        self._report.elsewhere = tuple(sorted({*self._report.elsewhere, *self._elsewhere(child)}))
        return summary

    def _adapt(self, pending: int, kills: int) -> None:
        if not pending and not kills:
            self._hurry()

    def _rest_of_script(self) -> list[FailpointSetting]:
        """Return what is left of the script; one run plays it whole."""
        script, self._script = self._script[::-1], []
        return script

    def _next_points(self) -> list[FailpointSetting]:
        names = list(self._points)
        chosen = self._rng.permutation(len(names))[:POINTS_AT_ONCE]
        return [FailpointSetting(names[index], self._points[names[index]], manager=self._VICTIM) for index in chosen]

    def _await_deaths(self, child: Child, armed: Sequence[FailpointSetting]) -> None:
        """Listen to the end of a run, in which task managers kill themselves at points."""
        report = self._report
        died: set[str] = set()
        while (passed := self._listen(child)) is not None:
            if passed.endswith(" kill"):
                manager, _, point = passed.removesuffix(" kill").rpartition("/")
                self._strike(time.monotonic())
                report.count_kill(manager or HEAD_PROCESS)
                report.points[point] = report.points.get(point, 0) + 1
                died.add(point)
        for setting in armed:
            if setting.name not in died and setting.nth > 1 and setting.name in self._points:
                # Nothing more is passed so often; be content with the first time.
                self._points[setting.name] = 1
                continue
            if setting.name not in died:
                report.unreached = tuple(sorted({*report.unreached, setting.name}))
            self._points.pop(setting.name, None)

    def _strike_at_moments(self, child: Child) -> None:
        """Strike one task manager after the other, each once the job has recovered from the one before."""
        while self._moments and self._until(child, self._moments[-1]):
            chosen = self._choose(child)
            if chosen is None:
                return
            name, manager = chosen
            with suppress(psutil.NoSuchProcess):
                if self._options.stopped_s is None:
                    self._strike(time.monotonic())
                    manager.kill()
                else:
                    self._stop(child, manager, *self._options.stopped_s)
                self._report.count_kill(name)
                self._report.after_checkpoint += self._moments.pop().after_checkpoint

    def _until(self, child: Child, moment: Moment) -> bool:
        """Wait, if for a checkpoint, until the job has recovered, too, and all task managers are there again."""
        while moment.after_checkpoint and not (child.ended or (self._down_since is None and self._are_all_up(child))):
            self._listen(child)
        return super()._until(child, moment)

    def _are_all_up(self, child: Child) -> bool:
        up = self._managers(child).keys() & self._signs.joined
        return len(up) + len(self._elsewhere(child)) >= self._count()

    def _count(self) -> int:
        return self._options.task_managers or usable_cores()

    def _elsewhere(self, child: Child) -> list[str]:
        """Return the task managers on other hosts, with these: they cannot be killed from here."""
        return [f"{name} on {speaker.host}" for name, speaker in child.speakers.items() if speaker.host is not None]

    def _choose(self, child: Child) -> tuple[str, psutil.Process] | None:
        """Return one of the task managers, if it can be one that hosts instances; None: the command has ended.

        Raises:
            ChaosError: all are on other hosts.
        """
        while not child.ended:
            living = self._managers(child)
            names = sorted(living.keys() & self._signs.hosts) or sorted(living)
            if names:
                name = names[int(self._rng.integers(len(names)))]
                return name, living[name]
            if len(elsewhere := self._elsewhere(child)) >= self._count():
                raise ChaosError(
                    f"no task manager is on this host, and those on others cannot be killed from here "
                    f"({', '.join(elsewhere)}): run penstock chaos on a node that has some"
                )
            self._note(child.next_point(_LOOK_S))
        return None

    def _stop(self, child: Child, manager: psutil.Process, least_s: float, most_s: float) -> None:
        """Let a task manager stand still for a while, as a machine that swaps or a virtual one that is moved."""
        manager.send_signal(signal.SIGSTOP)
        until = time.monotonic() + float(self._rng.uniform(least_s, most_s))
        while not child.ended and time.monotonic() < until:
            self._note(child.next_point(until - time.monotonic()))
        if manager in self._managers(child).values():
            manager.send_signal(signal.SIGCONT)
        else:
            self._report.replaced += not child.ended

    def _note(self, passed: tuple[float, str] | None) -> str | None:
        point = super()._note(passed)
        if point is not None:
            self._signs.take(point)
        if self._signs.untroubled >= 2 and not self._goes_on:
            self._down_since = None
        return point

    def _strike(self, when: float) -> None:
        super()._strike(when)
        self._signs.untroubled = 0


@dataclass(slots=True)
class _Signs:
    """The signs of a run: task managers that ``joined``, those of them that are ``hosts``, attempts ``begun``.

    ``untroubled`` counts checkpoints since the last strike: one may have been on its way, two are of a job that had
    nothing where it was struck.
    """

    joined: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    begun: int = 0
    untroubled: int = 0

    def take(self, point: str) -> None:
        """Take in a point that was passed."""
        manager, _, name = point.rpartition("/")
        if name == JOINED:
            self.joined.add(manager)
        elif name == RUNNING:
            self.hosts = set(self.joined)
        elif name == BEGUN:
            self.begun += 1
        elif name == COMPLETE:
            self.untroubled += 1
