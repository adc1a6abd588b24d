"""The commands that change a running job: what they wait for, and what they print."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal

import pytest

from penstock.commands.running_managers import OverHttp, print_managers
from penstock.commands.running_memory import print_memory, read_budgets
from penstock.commands.running_move import print_move
from penstock.commands.running_rescale import print_preview, print_rescale
from penstock.dsl.handle import Handle
from penstock.engine.jobs.manager_orders import ManagerOrders, TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleOrders, RescaleRecord, RescaleSummary
from penstock.engine.jobs.rescale_preview import PlannedMove, RescalePreview
from penstock.engine.moves.move_orders import ChangeOrder, MoveCause, MoveOrders, MoveRecord, MoveSummary
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.model.errors import OptionError, UserError
from penstock.runs.steering import drained, place_on, rescaled
from tests.penstock.http_api.served_jobs import ACTION_TOKEN
from tests.penstock.recovery.checkpoint_jobs import running

SUMMARY = RescaleSummary({"count": 1}, {"count": 2}, 0, 40, 100, 7.0, 0.0, True)
MOVED = MoveSummary(
    40, 3, 4_000_000, 900.0, 200.0, 310.0, 12, (3.0, 20.0), (1.0, 2.5), planned_bytes=3_000_000, planned_ms=1_100.0
)


class Pool:
    """A job whose task managers come one at each look, are warm at the next, and go when they are looked at.

    Of what moves ten of forty key groups have at each look.
    """

    def __init__(self, *live: str, states: tuple[Literal["moving", "checkpointing", "restarting"], ...] = ()) -> None:
        self._states, self._looks = states, 0
        self._orders_of_moves, self._rescales = MoveOrders(), RescaleOrders()
        self._rescales.open(lambda: None)
        self._orders_of_moves.note(ChangeOrder("before", "drain"), 9).progress = (9, 9)
        self._orders = ManagerOrders()
        self._orders.open(lambda: None)
        self._there = TaskManagers(len(live), live, warm=live)
        self._orders.tell(self._there)
        self.placed = 0

    job = "shop"

    def task_managers(self) -> TaskManagers:
        there = self._there
        while (order := self._orders.take()) is not None:
            live = tuple(name for name in there.live if name not in order.drained)
            there = TaskManagers(order.wanted, live, order.drained, there.warm)
            self._there = there
            return there
        live = there.live
        if len(live) < there.wanted:
            live = (*live, f"tm-{len(live)}")
        self._there = TaskManagers(there.wanted, live, (), there.live)
        self._orders.tell(self._there)
        return self._there

    def resize_managers(self, count: int) -> TaskManagers:
        return self._orders.resize(count)

    def drain_manager(self, name: str) -> TaskManagers:
        self._begin("drain")
        return self._orders.drain(name)

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        self.placed += 1
        self._begin("rescale" if parallelism else "scale")
        return self._rescales.ask(parallelism).number

    def rescales(self) -> tuple[RescaleRecord, ...]:
        asked = self._rescales._all[-1]
        if self._looks < len(self._states):
            asked.state = self._states[self._looks]
        elif not asked.answer.done():
            asked.answer.set_result(SUMMARY)
        self._looks += 1
        return self._rescales.records()

    def moves(self) -> tuple[MoveRecord, ...]:
        asked = self._orders_of_moves._all[-1]
        moved, of = asked.progress
        asked.progress = min(moved + 10, of), of
        return self._orders_of_moves.records()

    def _begin(self, cause: MoveCause) -> None:
        self._orders_of_moves.note(ChangeOrder("count", cause), 40)


def test_task_managers_are_waited_for_and_instances_placed_on_them(capsys: pytest.CaptureFixture[str]) -> None:
    pool = Pool("tm-0")
    said: list[str] = []
    there = place_on(pool, 3, said.append)
    assert there.live == ("tm-0", "tm-1", "tm-2") and pool.placed == 1
    print_managers("shop", there, as_json=False)
    assert said == ["2 of 3 task managers are there", "3 of 3 task managers are there"]
    assert capsys.readouterr().out == "shop has 3 task managers: tm-0, tm-1, tm-2\n"
    # Those that came last go, and nothing is placed anew.
    assert place_on(pool, 1).live == ("tm-0",) and pool.placed == 1
    with pytest.raises(OptionError, match="only task manager"):
        drained(pool, "tm-0")


def test_one_is_drained_and_gone(capsys: pytest.CaptureFixture[str]) -> None:
    pool = Pool("tm-0", "tm-1")
    print_managers("shop", drained(pool, "tm-0"), as_json=True)
    assert json.loads(capsys.readouterr().out) == {
        "job": "shop",
        "wanted": 1,
        "live": ["tm-1"],
        "leaving": [],
        "warm": ["tm-1"],
    }


def test_it_is_said_how_far_a_drain_and_a_rescale_are() -> None:
    said: list[str] = []
    drained(Pool("tm-0", "tm-1"), "tm-0", said.append)
    assert said == ["tm-0 leaves: others take over what it hosts", "10 of 40 key groups have moved"]
    said.clear()
    pool = Pool("tm-0", states=("moving", "moving", "checkpointing", "checkpointing", "restarting"))
    assert rescaled(pool, {"count": 2}, said.append) is SUMMARY
    assert [line for line in said if "key groups" not in line] == [
        "it begins anew, once a checkpoint is committed",
        "its instances begin anew",
    ]
    assert said[:2] == ["10 of 40 key groups have moved", "20 of 40 key groups have moved"]


def test_what_a_move_took_is_told_beside_what_was_expected(capsys: pytest.CaptureFixture[str]) -> None:
    took = (
        "40 key groups in 12 buckets with 4.0 MB (3.0 MB expected) in 0.900 s (1.100 s expected), 3 rounds of 200.0 ms "
        "(p99 310.0 ms); keys paused 3.0 ms (p99 20.0 ms), the marker took 1.0 ms (p99 2.5 ms)\n"
    )
    print_move(MoveRecord(1, "count[0]", "tm-1", "done", 40, 40, None, MOVED), as_json=False)
    assert capsys.readouterr().out == f"count[0] has moved to tm-1: {took}"
    live = RescaleSummary({"count": 1}, {"count": 2}, 0, 40, 100, 950.0, 0.0, True, moves={"count -> out": MOVED})
    print_rescale("shop", live, as_json=False)
    assert capsys.readouterr().out == (
        "shop has 2 instances of 'count' (before 1): 40 of 100 key groups moved in 0.950 s, while it ran\n"
        f"  count -> out: {took}"
    )


def test_what_would_move_is_told_and_how_long_if_that_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    moves = (PlannedMove("count[0]", "count[1]", 40, 3_000_000),)
    known = RescalePreview(
        {"count": 1}, {"count": 2}, 40, 100, 9, None, moves=moves, planned_bytes=3_000_000, planned_ms=1_100.0
    )
    print_preview("shop", known, as_json=False)
    assert capsys.readouterr().out == (
        "shop would have 2 instances of 'count' (before 1): 40 of 100 key groups would move, with about 3.0 MB of "
        "state, while it runs, in about 1.100 s\n  40 key groups, about 3.0 MB: count[0] to count[1]\n"
    )
    unknown = RescalePreview({"count": 1}, {"count": 2}, 40, 100, 9, None, moves=moves, sources=("rows",))
    print_preview("shop", unknown, as_json=False)
    said = capsys.readouterr().out
    assert "no move before tells how long that takes; partitions of 'rows' are dealt out anew" in said
    anew = RescalePreview({"count": 1}, {"count": 2}, 40, 100, 9, 70.0, "it is single", 400.0)
    print_preview("shop", anew, as_json=False)
    assert "stand still while its instances begin with 9 B of state (0.400 s the last time)" in capsys.readouterr().out


@pytest.fixture
def handle(tmp_path: Path) -> Iterator[Handle]:
    token = tmp_path / "action-token"
    token.touch(0o600)
    token.write_text(ACTION_TOKEN)
    with running(tmp_path, metrics_port=0, action_token=f"file:{token}") as handle:
        yield handle


def test_parallelism_changes_and_is_told(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    assert handle.metrics_url is not None
    client = JobClient(parse_address(handle.metrics_url, ACTION_TOKEN))
    answer = client.rescale({"per item": 2}, dry_run=True)
    assert answer.number is None
    print_preview(answer.job, answer.preview, as_json=False)
    said = "items would go on with 2 instances of 'per item' (before 1), 2 instances of 'out' (before 1): 64 of 128 key"
    assert said in capsys.readouterr().out
    print_preview(answer.job, answer.preview, as_json=True)
    assert json.loads(capsys.readouterr().out)["after"] == {"per item": 2, "out": 2}
    lines: list[str] = []
    summary = rescaled(OverHttp(client), {"per item": 2}, lines.append)
    # A look may come late.
    assert set(lines) <= {"it begins anew, once a checkpoint is committed", "its instances begin anew"}
    print_rescale("items", summary, as_json=False)
    said = capsys.readouterr().out
    assert "with 2 instances of 'per item' (before 1), 2 instances of 'out' (before 1): 64 of 128 key groups" in said
    print_rescale("items", summary, as_json=True)
    assert json.loads(capsys.readouterr().out)["key_groups_moved"] == 64
    with pytest.raises(UserError, match="nothing would change: 'per item' has 2 instances already"):
        rescaled(OverHttp(client), {"per item": 2})


def test_memory_changes_and_is_told(handle: Handle, capsys: pytest.CaptureFixture[str]) -> None:
    assert handle.metrics_url is not None
    client = JobClient(parse_address(handle.metrics_url, ACTION_TOKEN))
    wanted = read_budgets(["per item=8MB"])
    assert wanted == {"per item": 8_000_000}
    previewed = client.change_memory(wanted, dry_run=True)
    assert client.memory().memory.total_bytes == 0
    print_memory(previewed.job, previewed.memory, as_json=False)
    lines = capsys.readouterr().out.strip().splitlines()
    assert lines[0].split() == ["operator", "instances", "before", "memory", "of", "each"]
    assert lines[2].split() == ["per", "item", "1", "unbounded", "8.0", "MB"]
    assert lines[-1] == "items: 8.0 MB in all"
    answer = client.change_memory(wanted)
    print_memory(answer.job, answer.memory, as_json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["operators"] == [
        {"operator": "per item", "instances": 1, "before_bytes": None, "after_bytes": 8_000_000}
    ]
    back = client.change_memory(read_budgets(["per item=program"])).memory.operators[0]
    assert (back.before_bytes, back.after_bytes) == (8_000_000, None)


@pytest.mark.parametrize("text", ["per item", "=8MB", "per item=much", "per item="])
def test_memory_is_said_of_an_operator(text: str) -> None:
    with pytest.raises(OptionError, match=r"OPERATOR=BYTES|is a number of bytes such as"):
        read_budgets([text])
