"""Changes of a running job that are waited for, by whatever way it is asked; ``say`` hears how far they are."""

import time
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord, RescaleSummary
from penstock.engine.moves.move_orders import MoveRecord
from penstock.model.errors import UserError
from penstock.runs.steered_job import SteeredJob

T = TypeVar("T")

LOOK_S = 0.1
"""How often a job is asked how far it is."""

WARM_S = 60.0
"""How long it is waited at most until those that have come have loaded their kernels."""

Say = Callable[[str], None] | None
"""Takes a line for whoever waits; None: nobody reads it."""

STATES = {
    "checkpointing": "it begins anew, once a checkpoint is committed",
    "restarting": "its instances begin anew",
}
"""What is said of the states of a change of parallelism."""


class MovedGroups:
    """How many key groups have moved of a change that is about to be asked for, of how many, said as that grows."""

    def __init__(self, job: SteeredJob, causes: Collection[str], say: Say) -> None:
        """Note what has moved before, unless nobody hears of it; ``causes`` are those of its moves."""
        self._job, self._causes, self._say = job, causes, say
        self._before = 0 if say is None else max((record.number for record in job.moves()), default=0)
        self._shown = 0

    def look(self) -> None:
        """Say how many have moved, if more have."""
        if self._say is None:
            return
        mine = [item for item in self._job.moves() if item.number > self._before and item.cause in self._causes]
        moved, of = sum(item.moved_key_groups for item in mine), sum(item.key_groups for item in mine)
        if moved > self._shown:
            self._shown = moved
            self._say(groups_text(moved, of))


def groups_text(moved: int, of: int) -> str:
    """Return how far key groups have moved, in words."""
    return f"{moved} of {of} key groups have moved"


def _await(look: Callable[[], T | None]) -> T:
    """Look at a job until there is what is waited for, and return that."""
    while (found := look()) is None:
        time.sleep(LOOK_S)
    return found


def await_move(job: SteeredJob, number: int, say: Say = None) -> MoveRecord:
    """Wait until a move is done.

    Raises:
        UserError: it was not done.
    """
    shown = 0

    def look() -> MoveRecord | None:
        nonlocal shown
        record = next((item for item in job.moves() if item.number == number), None)
        if record is None:
            raise UserError(f"the job knows nothing of move {number} any more: it, or its head, may have begun anew.")
        if record.state == "failed":
            raise UserError(f"{record.instance} has not moved: {record.failure}")
        if record.state == "done":
            return record
        if record.moved_key_groups != shown and say is not None:
            shown = record.moved_key_groups
            say(groups_text(shown, record.key_groups))
        return None

    return _await(look)


def rescaled(job: SteeredJob, parallelism: Mapping[str, int], say: Say = None) -> RescaleSummary:
    """Let operators have so many instances, none named: come to all task managers; return once these run.

    Raises:
        PenstockError: they cannot have so many, or the job went on as before.
    """
    groups = MovedGroups(job, ("rescale", "scale"), say)
    number, shown = job.ask_rescale(parallelism), ""

    def look() -> RescaleSummary | None:
        nonlocal shown
        record = _rescale(job, number)
        if record.summary is None:
            if record.state != shown and record.state in STATES and say is not None:
                say(STATES[record.state])
            shown = record.state
            groups.look()
        return record.summary

    return _await(look)


def _rescale(job: SteeredJob, number: int) -> RescaleRecord:
    record = next((item for item in job.rescales() if item.number == number), None)
    if record is None:
        raise UserError(f"job {job.job!r} knows nothing of change {number} any more: it may have begun anew.")
    if record.state == "failed":
        raise UserError(f"the parallelism of {job.job!r} has not changed: {record.failure}")
    return record


def place_on(job: SteeredJob, count: int, say: Say = None) -> TaskManagers:
    """Let a job have so many task managers, and its instances be on them; return those there are then.

    Raises:
        PenstockError: the job cannot have so many.
    """
    groups = MovedGroups(job, ("drain",), say)
    shown = len(job.resize_managers(count).live)
    has_more = count > shown

    def look() -> TaskManagers | None:
        nonlocal shown
        there = job.task_managers()
        if len(there.live) != shown and say is not None:
            shown = len(there.live)
            say(f"{shown} of {count} task managers are there")
        if there.wanted != count or (len(there.live) == count and not there.leaving):
            return there
        groups.look()
        return None

    there = _await(look)
    if not has_more:
        return there
    until_s = time.monotonic() + WARM_S
    _await(lambda: len(job.task_managers().warm) >= count or time.monotonic() >= until_s or None)
    rescaled(job, {}, say)
    return job.task_managers()


def drained(job: SteeredJob, name: str, say: Say = None) -> TaskManagers:
    """Let a task manager go for good, and wait until it has; return those there are then.

    Raises:
        PenstockError: it cannot go.
    """
    groups, leaves = MovedGroups(job, ("drain",), say), False
    job.drain_manager(name)

    def look() -> TaskManagers | None:
        nonlocal leaves
        there = job.task_managers()
        if name not in (*there.live, *there.leaving):
            return there
        if name in there.leaving and not leaves and say is not None:
            leaves = True
            say(f"{name} leaves: others take over what it hosts")
        groups.look()
        return None

    return _await(look)
