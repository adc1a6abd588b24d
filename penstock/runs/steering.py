"""Changes of a running job that are waited for, by whatever way it is asked; ``say`` hears how far they are."""

import time
from collections.abc import Callable, Collection, Mapping

from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord, RescaleSummary
from penstock.engine.moves.move_orders import MoveRecord
from penstock.model.errors import UserError
from penstock.runs.steered_job import SteeredJob

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


def await_move(job: SteeredJob, number: int, say: Say = None) -> MoveRecord:
    """Wait until a move is done.

    Raises:
        UserError: it was not done.
    """
    shown = 0
    while True:
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
        time.sleep(LOOK_S)


def rescaled(job: SteeredJob, parallelism: Mapping[str, int], say: Say = None) -> RescaleSummary:
    """Let operators have so many instances, none named: come to all task managers; return once these run.

    Raises:
        PenstockError: they cannot have so many, or the job went on as before.
    """
    groups = MovedGroups(job, ("rescale", "scale"), say)
    number, shown = job.ask_rescale(parallelism), ""
    while True:
        record = _rescale(job, number)
        if record.summary is not None:
            return record.summary
        if record.state != shown and record.state in STATES and say is not None:
            say(STATES[record.state])
        shown = record.state
        groups.look()
        time.sleep(LOOK_S)


def _rescale(job: SteeredJob, number: int) -> RescaleRecord:
    record = next((item for item in job.rescales() if item.number == number), None)
    if record is None:
        raise UserError(f"job {job.name()!r} knows nothing of change {number} any more: it may have begun anew.")
    if record.state == "failed":
        raise UserError(f"the parallelism of {job.name()!r} has not changed: {record.failure}")
    return record


def place_on(job: SteeredJob, count: int, say: Say = None) -> TaskManagers:
    """Let a job have so many task managers, and its instances be on them; return those there are then.

    Raises:
        PenstockError: the job cannot have so many.
    """
    groups = MovedGroups(job, ("drain",), say)
    shown = len(job.resize(count).live)
    more = count > shown
    while True:
        there = job.known()
        if len(there.live) != shown and say is not None:
            shown = len(there.live)
            say(f"{shown} of {count} task managers are there")
        if there.wanted != count or (len(there.live) == count and not there.leaving):
            break
        groups.look()
        time.sleep(LOOK_S)
    until_s = time.monotonic() + WARM_S
    while more and len(job.known().warm) < count and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    if more:
        rescaled(job, {}, say)
    return job.known()


def drained(job: SteeredJob, name: str, say: Say = None) -> TaskManagers:
    """Let a task manager go for good, and wait until it has; return those there are then.

    Raises:
        PenstockError: it cannot go.
    """
    groups, leaves = MovedGroups(job, ("drain",), say), False
    job.drain(name)
    while True:
        there = job.known()
        if name not in (*there.live, *there.leaving):
            return there
        if name in there.leaving and not leaves and say is not None:
            leaves = True
            say(f"{name} leaves: others take over what it hosts")
        groups.look()
        time.sleep(LOOK_S)
