"""Bugs planted on purpose: the simulator must find each within 200 seeds."""

from dataclasses import replace

import msgspec
import pytest

from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import CutWriter
from penstock.engine.core.elements import START_OF_TIME_US, Barrier, Batch
from penstock.engine.dataflow import source_head
from penstock.engine.dataflow.input_gate import InputGate
from penstock.engine.executors.simulation.attempt import SimulatedAttempt
from penstock.engine.plan.regions import struck_by
from penstock.engine.restore.state_assignment import RestoredState
from penstock.engine.transport.halves import ReceivingHalf
from penstock.state.checkpoints.manifest import pack_notes
from penstock.state.files import simulated_files
from tests.engine.executors.simulated_support import simulation

SEEDS = range(1, 201)


def skip_a_barrier(patch):
    """The gate does not wait for its last channel."""
    align = InputGate._align

    def aligned(gate, index, element):
        if index and index == len(gate.inputs) - 1:
            return None
        return align(gate, index, element)

    def released(gate, port):
        last = len(gate.inputs) - 1
        missing = [i for i, ended in enumerate(gate._ended) if not ended and i not in gate._blocked]
        if gate._awaited is None or (missing and missing != [last or -1]):
            return None
        element, gate._awaited = gate._awaited, None
        gate._blocked.clear()
        return port, element

    patch.setattr(InputGate, "_align", aligned)
    patch.setattr(InputGate, "_release", released)


def rows_join_those_before_the_barrier(patch):
    """Rows that wait behind a barrier are handed out with those before it."""

    def found(gate, index, keep):
        return any(isinstance(element, Batch) and element.keep == keep for element in gate._receivers[index])

    def taken(gate, index, most_rows):
        channel = gate._receivers[index]
        while not isinstance(channel._queue[0][0], Batch):
            channel._queue.rotate(-1)
        return channel.take_share(most_rows)

    patch.setattr(InputGate, "_has_next", found)
    patch.setattr(InputGate, "_take_batch", taken)


def a_barrier_overtakes(patch):
    """The barrier leaves a channel before rows that wait there."""
    accept = ReceivingHalf.accept

    def overtaking(channel, element, picks, rows, size):
        accept(channel, element, picks, rows, size)
        if isinstance(element, Barrier):
            channel._queue.appendleft(channel._queue.pop())

    patch.setattr(ReceivingHalf, "accept", overtaking)


def drop_a_dirty_part(patch):
    """The state of the first instance of each operator is left out of every other checkpoint."""
    entry = CutWriter._entry

    def without(snapshots, epoch, cut):
        made = entry(snapshots, epoch, cut)
        return made if cut.instance or epoch % 2 else msgspec.structs.replace(made, files=())

    patch.setattr(CutWriter, "_entry", without)


def lose_the_notes(patch):
    """Checkpoints have no notes: what operators know beside their tables is gone at a restart."""
    entry = CutWriter._entry

    def without(snapshots, epoch, cut):
        return msgspec.structs.replace(entry(snapshots, epoch, cut), notes=pack_notes({}))

    patch.setattr(CutWriter, "_entry", without)


def forget_the_notes_at_restore(patch):
    """Checkpoints have notes, and instances begin without them: rows that were late would not be any more.

    No output that is compared shows it, as nothing is promised of late rows.
    """
    start_of = RestoredState.start_of
    patch.setattr(RestoredState, "start_of", lambda *arguments: replace(start_of(*arguments), notes=()))


def publish_before_the_sync(patch):
    """Files are renamed without having been synced."""
    patch.setattr(simulated_files._OpenFile, "sync", lambda file: None)


def forget_what_held_the_watermark_back(patch):
    """A source goes on from the greatest time it saw, not from its watermark."""
    patch.setattr(
        source_head, "merged_us", lambda known: max((item.latest_us for item in known), default=START_OF_TIME_US)
    )


def forget_the_last_epoch(patch):
    """Instances of a new attempt that end before its first barrier count epochs from one again."""
    built = SimulatedAttempt._built

    def forgetful(attempt, tasks, start):
        return built(attempt, tasks, replace(start, last_epoch=0))

    patch.setattr(SimulatedAttempt, "_built", forgetful)


def take_the_other_region_back_without_its_sinks(patch):
    """A region that is restarted takes the other one with it, whose sink keeps what it has prepared since."""
    take_down, restore = SimulatedAttempt.take_down, SimulatedAttempt.restore

    def everything(attempt, tasks, error):
        take_down(attempt, None, error)

    def back(attempt, tasks, start):
        prepared, graph = attempt._checkpoints._receipts._prepared, attempt._graph
        kept = {name: known for name, known in prepared.items() if not struck_by(graph, name) & tasks}
        restore(attempt, frozenset(task.id for task in graph.tasks), start)
        prepared |= kept

    patch.setattr(SimulatedAttempt, "take_down", everything)
    patch.setattr(SimulatedAttempt, "restore", back)


def go_on_from_the_aborted_epoch(patch):
    """The sources of a restarted region go on where they were at the last barrier, whatever became of its epoch."""
    take_cut, restore = CheckpointSession._take_cut, SimulatedAttempt.restore

    def noting(session, attempt, cut):
        for item in cut.operators:
            if item.positions is not None:
                vars(session).setdefault("seen", {}).setdefault(item.operator, {}).update(item.positions)
        take_cut(session, attempt, cut)

    def ahead(attempt, tasks, start):
        if start.restored is not None:
            start.restored._positions |= vars(attempt._checkpoints).get("seen", {})
        restore(attempt, tasks, start)

    patch.setattr(CheckpointSession, "_take_cut", noting)
    patch.setattr(SimulatedAttempt, "restore", ahead)


@pytest.mark.parametrize(
    ("plant", "pipeline"),
    [
        (skip_a_barrier, "counted"),
        (rows_join_those_before_the_barrier, "tumbled"),
        (a_barrier_overtakes, "tumbled"),
        (drop_a_dirty_part, "counted"),
        (lose_the_notes, "tumbled"),
        (forget_the_notes_at_restore, "tumbled"),
        (forget_the_notes_at_restore, "sessions"),
        (publish_before_the_sync, "sessions"),
        pytest.param(
            forget_what_held_the_watermark_back,
            "tumbled",
            marks=pytest.mark.long("many seeds before it is found; ten bugs that are found sooner stay"),
        ),
        (forget_the_last_epoch, "sessions"),
        pytest.param(
            take_the_other_region_back_without_its_sinks,
            "apart",
            marks=pytest.mark.long("many seeds before it is found; go_on_from_the_aborted_epoch-apart stays"),
        ),
        (go_on_from_the_aborted_epoch, "apart"),
    ],
)
def test_a_planted_bug_is_found(plant, pipeline, monkeypatch):
    undisturbed = simulation(pipeline)
    plant(monkeypatch)
    found = next((seed for seed in SEEDS if undisturbed.run(seed).problem is not None), None)
    assert found is not None
    assert undisturbed.run(found).problem == undisturbed.run(found).problem
