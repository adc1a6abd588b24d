"""What a policy that was not asked would have decided on a recorded job: in windows of its own time.

Pure but for reading the log (docs/decisions/0134-policies-see-a-recorded-job-in-windows-of-their-own.md).
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from penstock.engine.control.joined_windows import joined
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.action_log import EntryKind, read_log, snapshot_of
from penstock.scheduler.control_loop import ControlLoop, Steering
from penstock.scheduler.loop_state import LoopDecision
from penstock.scheduler.ownership import Level

PLACEMENT = "placement"
"""The policy that the head of every job asks at each tick: its windows follow each other without a gap."""


def is_of_a_head(log: Path) -> bool:
    """Return whether a log is that of a running job: windows of several lengths overlap in it.

    Raises:
        ActionLogError: it cannot be read; the message names the line.
    """
    return any(entry.kind is EntryKind.DECISION and entry.content["policy"] == PLACEMENT for entry in read_log(log))


def ticks_of(log: Path) -> Iterator[ClusterSnapshot]:
    """Yield what the head of a recorded job saw at each tick.

    Raises:
        ActionLogError: the log cannot be read; the message names the line.
    """
    latest: ClusterSnapshot | None = None
    for entry in read_log(log):
        if entry.kind is EntryKind.SNAPSHOT:
            latest = snapshot_of(log, entry)
        elif entry.kind is EntryKind.DECISION and entry.content["policy"] == PLACEMENT and latest is not None:
            yield latest


def wholes_of(log: Path) -> Iterator[ClusterSnapshot]:
    """Yield what a policy that sizes whole applications saw of a recorded job: what it has, and uses.

    Raises:
        ActionLogError: the log cannot be read; the message names the line.
    """
    for entry in read_log(log):
        if entry.kind is EntryKind.SNAPSHOT:
            snapshot = snapshot_of(log, entry)
            if snapshot.applications.cores is not None:
                yield snapshot


def in_windows(log: Path, item: Steering) -> Iterator[LoopDecision]:
    """Yield what a policy decides on the recorded job of a head, each time that it would have looked.

    What an application has and uses is seen only by those that size whole ones: such a policy sees the windows of the
    one that the log has, and ticks without those figures if it has none.

    Raises:
        ActionLogError: the log cannot be read; the message names the line.
    """
    if item.role.level is Level.APPLICATION and any(True for _ in wholes_of(log)):
        return on_wholes(wholes_of(log), item)
    return on_ticks(ticks_of(log), item)


def on_ticks(ticks: Iterable[ClusterSnapshot], item: Steering) -> Iterator[LoopDecision]:
    """Yield what a policy decides on windows since its last look; with a run that begins anew it begins anew."""
    loop = ControlLoop((item,), acts=False, is_told_losses=True)
    state, pending, last_s = loop.start(0.0), list[ClusterSnapshot](), 0.0
    for tick in ticks:
        if tick.time_s < last_s:
            state, pending = loop.start(0.0), []
        last_s = tick.time_s
        pending.append(tick)
        if not loop.due(state, tick.time_s):
            continue
        decisions, _, state = loop.tick({item.name: joined(pending)}, tick.time_s, state)
        pending = []
        yield from decisions


def on_wholes(wholes: Iterable[ClusterSnapshot], item: Steering) -> Iterator[LoopDecision]:
    """Yield what a policy that sizes whole applications decides on a job as another such saw it, at each look."""
    loop = ControlLoop((item,), acts=False, cool_down_s=item.every_s, is_told_losses=True)
    state, last_s = loop.start(0.0), 0.0
    for whole in wholes:
        if whole.time_s < last_s:
            state = loop.start(0.0)
        last_s = whole.time_s
        decisions, _, state = loop.tick({item.name: whole}, whole.time_s, state)
        yield from decisions
