"""The commands that change a running job: what they wait for, and what they print."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.commands.running_managers import drained, place_on, print_managers
from penstock.commands.running_memory import print_memory, read_budgets
from penstock.commands.running_rescale import await_rescale, print_preview, print_rescale
from penstock.dsl.job import Handle
from penstock.engine.jobs.manager_orders import ManagerOrders, TaskManagers
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from penstock.model.errors import OptionError, UserError
from tests.penstock.http_api.served_jobs import ACTION_TOKEN
from tests.penstock.recovery.checkpoint_jobs import running


class Pool:
    """A job whose task managers come one at each look, are warm at the next, and go when they are looked at."""

    def __init__(self, *live: str) -> None:
        self._orders = ManagerOrders()
        self._orders.open(lambda: None)
        self._there = TaskManagers(len(live), live, warm=live)
        self._orders.tell(self._there)
        self.placed = 0

    def name(self) -> str:
        return "shop"

    def known(self) -> TaskManagers:
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

    def resize(self, count: int) -> TaskManagers:
        return self._orders.resize(count)

    def drain(self, name: str) -> TaskManagers:
        return self._orders.drain(name)

    def place_anew(self) -> None:
        self.placed += 1


def test_task_managers_are_waited_for_and_instances_placed_on_them(capsys: pytest.CaptureFixture[str]) -> None:
    pool = Pool("tm-0")
    there = place_on(pool, 3, quiet=False)
    assert there.live == ("tm-0", "tm-1", "tm-2") and pool.placed == 1
    print_managers("shop", there, as_json=False)
    out, err = capsys.readouterr()
    assert err.splitlines()[-1] == "3 of 3 task managers are there"
    assert out == "shop has 3 task managers: tm-0, tm-1, tm-2\n"
    # Those that came last go, and nothing is placed anew.
    assert place_on(pool, 1, quiet=True).live == ("tm-0",) and pool.placed == 1
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
    number = client.rescale({"per item": 2}).number
    assert number is not None
    summary = await_rescale(client, number)
    print_rescale("items", summary, as_json=False)
    said = capsys.readouterr().out
    assert "with 2 instances of 'per item' (before 1), 2 instances of 'out' (before 1): 64 of 128 key groups" in said
    print_rescale("items", summary, as_json=True)
    assert json.loads(capsys.readouterr().out)["key_groups_moved"] == 64
    with pytest.raises(UserError, match="knows nothing of change 7"):
        await_rescale(client, 7)


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
