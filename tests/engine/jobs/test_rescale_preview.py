"""What a change of parallelism would do is told by what instances have now: who gives what to whom, and how long."""

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.rescale_preview import IN_ONE_PROCESS, PlannedMove, RescaleTimes, preview
from penstock.engine.moves.held_state import HeldState, planned_bytes
from penstock.engine.moves.live_changes import LiveChange, live_change
from penstock.engine.plan.recut import recut
from penstock.engine.restore.key_group_owners import Noted
from penstock.model.config import LoopOptions
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph

KEY_GROUPS = 16
BYTES = {"tm-0": 9_000, "tm-1": 1_000}
TIMES = RescaleTimes(10_000, checkpoint_ms=70.0, stopped_ms=400.0)


def graph() -> ExecutionGraph:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=10), watermark="1s", job=job).name("rows")
    rows.key_by("auction").agg(n=ps.count()).name("counts").write_black_hole(mode="changelog").name("out")
    return job.plan(2, apart=True)


GRAPH = graph()
PLAN = JobPlan("shop", GRAPH, LoopOptions(key_groups=KEY_GROUPS), Path())
(COUNTS,) = (task for task in GRAPH.tasks if GRAPH.name(task) == "counts -> out")
UNEVEN = np.array([0] * 12 + [1] * 4, np.int32)
"""As moves have left them."""


def state_bytes(manager: str | None, operators: Collection[str]) -> int:
    return BYTES.get(manager or "", 0) if "counts" in operators else 0


def held(ns_per_byte: float | None = None, *, ended: bool = False) -> HeldState:
    places = {name: f"tm-{name[-2]}" for task in GRAPH.tasks for name in GRAPH.instances(task)}
    return HeldState(GRAPH, {COUNTS.id: UNEVEN}, places, state_bytes, ns_per_byte, ended=ended)


def test_it_says_what_goes_from_where_to_where_and_how_long_by_the_move_before() -> None:
    found = preview(PLAN, {"counts": 3}, TIMES, held(2_000.0), {})
    assert found.begins_anew is None and found.after == {"counts": 3, "out": 3}
    change = live_change(GRAPH, recut(GRAPH, {"counts": 3}, KEY_GROUPS))
    assert isinstance(change, LiveChange)
    ((_, groups),) = change.moves({COUNTS.id: UNEVEN})
    assert (found.key_groups_moved, found.key_groups) == (len(groups), KEY_GROUPS)
    assert sum(move.key_groups for move in found.moves) == len(groups)
    # Twelve key groups have 9,000 bytes, four have 1,000, and as many as five of the twelve go.
    given = {(move.giver, move.taker): move for move in found.moves}
    assert ("counts -> out[0]", "counts -> out[2]") in given
    for move in found.moves:
        each = 750 if move.giver == "counts -> out[0]" else 250
        assert move.state_bytes == each * move.key_groups
    assert found.planned_bytes == sum(move.state_bytes for move in found.moves)
    assert found.planned_ms == found.planned_bytes * 2_000.0 / 1e6


def test_nobody_knows_how_long_where_nothing_has_moved() -> None:
    assert preview(PLAN, {"counts": 3}, TIMES, held(), {}).planned_ms is None


def test_fewer_instances_give_all_that_those_have_which_go() -> None:
    found = preview(PLAN, {"counts": 1}, TIMES, held(), {})
    assert found.moves == (PlannedMove("counts -> out[1]", "counts -> out[0]", 4, 1_000),)


def test_a_source_deals_out_its_partitions_and_no_key_group_moves() -> None:
    found = preview(PLAN, {"rows": 3}, TIMES, held(), {})
    assert (found.begins_anew, found.sources, found.moves) == (None, ("rows",), ())
    assert (found.key_groups_moved, found.key_groups, found.planned_ms) == (0, 0, None)


def test_a_task_manager_that_has_come_gets_instances_and_as_many_key_groups() -> None:
    three = replace(held(), managers=("tm-0", "tm-1", "tm-2"))
    found = preview(PLAN, {}, TIMES, three, {})
    assert (found.begins_anew, found.after) == (None, {"counts": 3, "out": 3})
    assert {move.taker for move in found.moves} >= {"counts -> out[2]"} and found.key_groups == KEY_GROUPS
    nobody = preview(PLAN, {}, TIMES, replace(three, managers=("tm-0", "tm-1")), {})
    assert nobody.begins_anew == "nothing can come beside the instances that run" and nobody.after == {}


def test_numbers_that_were_taken_come_no_more() -> None:
    found = preview(PLAN, {"counts": 3}, TIMES, replace(held(), used={COUNTS.id: 7}), {})
    assert {move.taker for move in found.moves} >= {"counts -> out[7]"}


def test_what_begins_anew_counts_those_that_have_other_owners_than_now() -> None:
    with_moves = preview(PLAN, {"counts": 4}, TIMES, held(ended=True), {})
    assert with_moves.begins_anew == "instances of it have ended" and with_moves.moves == ()
    assert (with_moves.checkpoint_ms, with_moves.stopped_ms, with_moves.state_bytes) == (70.0, 400.0, 10_000)
    # The first has eight too many, and four stay where they are.
    assert (with_moves.key_groups_moved, with_moves.key_groups) == (8, KEY_GROUPS)
    in_one = preview(PLAN, {"counts": 4}, TIMES, None, {"counts": Noted(UNEVEN, 2)})
    assert in_one.begins_anew == IN_ONE_PROCESS and in_one.key_groups_moved == 8
    assert preview(PLAN, {"counts": 4}, TIMES, None, {}).key_groups_moved == 8


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(OptionError, match="there is no operator 'most'"):
        preview(PLAN, {"most": 2}, TIMES, held(), {})


def test_state_is_shared_by_the_instances_of_one_place() -> None:
    places = dict.fromkeys(held().places, "tm-0")
    there = HeldState(GRAPH, {COUNTS.id: UNEVEN}, places, state_bytes)
    assert planned_bytes(there, COUNTS.id, [(0, 0, 1), (1, 0, 1), (2, 0, 1)]) == {(0, 1): 9_000 / 2 / 4}
    assert there.planned_ms(9_000) is None and HeldState(GRAPH, {}, {}, state_bytes, 5.0).planned_ms(0) is None
