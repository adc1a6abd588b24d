"""Sage on a job that runs: the size of the whole job, by readings made by hand, alone and on a quota with others."""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.engine.control.decision_replay import redecide
from penstock.engine.control.job_control import JobControl
from penstock.engine.control.job_loop import LOOKED_AT_S, JobLoop
from penstock.engine.control.levers import Levers
from penstock.engine.control.quota_file import QuotaFile
from penstock.engine.control.quota_share import QuotaShare, QuotaView
from penstock.engine.control.scale_actuator import ScaleActuator, ScaleResult
from penstock.engine.control.scale_control import UNKNOWN
from penstock.engine.control.start_control import start_control
from penstock.engine.control.steering import scaler
from penstock.engine.control.whole_job import WholeJob
from penstock.engine.jobs.attempt import JobPlan
from penstock.model.config import LoopOptions
from penstock.model.control import Control, ControlOptions
from penstock.model.errors import OptionError
from penstock.model.plan import ApplicationSize, NoChange, RescalePlan
from penstock.model.snapshot import ApplicationColumns, ClusterSnapshot
from penstock.scheduler.loop_state import ended
from penstock.scheduler.shared_quota import Ask, Lease
from tests.engine.control.test_scale_control import AGG, GRAPH, Running, lines, live, started
from tests.scheduler.hostile_cases import job

SAGE = {"windows": 1 / 60}


def whole(
    running: Running,
    folder: Path,
    quota: QuotaFile | None = None,
    name: str = "shop",
    tell: Callable[[str], None] = lambda text: None,
    **control: Any,
) -> tuple[JobControl, ScaleActuator]:
    """Return the controllers of a job that Sage sizes, and what carries its sizes out."""
    wanted = Control(**{"scale": "sage", "mode": "act", "cores": 4, "parameters": SAGE, **control})
    actuator = running.actuator()
    share = None if quota is None else QuotaShare(quota, name, wanted.priority, wanted.cores, wanted.memory_bytes)
    running.memory.change(GRAPH, LoopOptions(), {AGG: 16 << 20}, paged=True)
    plan = JobPlan(name, GRAPH, LoopOptions(state_bytes=16 << 20), folder)
    options = ControlOptions(folder / "actions.jsonl", wanted)
    levers = Levers(sizes=actuator, memory=running.memory, quota=share)
    return start_control(plan, 0, options, tell, levers), actuator


def test_sage_gives_a_job_the_cores_that_it_uses_up(tmp_path: Path) -> None:
    running = Running()
    steered, actuator = whole(running, tmp_path, first_cores=1.0)
    # Two processes use half a core each.
    live(steered, 10, running.turn)
    assert actuator.cores.wanted == 1.5
    results = [entry for entry in lines(tmp_path / "actions.jsonl", "sage") if entry["kind"] == "result"]
    assert [entry["outcome"] for entry in results[:2]] == ["begun", "applied"]
    assert results[1]["detail"] == {"cores": 1.5, "task_managers": 2}
    status = steered.scaling_status()
    assert status is not None and status.changes >= 1
    assert all(item.same for item in redecide(tmp_path / "actions.jsonl", "sage", {}))


def test_sage_takes_of_a_shared_quota_what_others_leave(tmp_path: Path) -> None:
    running, now = Running(), [0.0]
    book = QuotaFile("team", tmp_path / "book", lambda: now[0])
    book.renew(Lease("other", 2.8, 0.0))
    steered, actuator = whole(running, tmp_path, QuotaFile("team", tmp_path / "book", lambda: now[0]), first_cores=1.0)
    live(steered, 10, running.turn)
    # Of 4 cores 1.2 are there for it.
    assert actuator.cores.wanted == pytest.approx(1.2)
    (held,) = book.renew(Lease("other", 2.8, 0.0)).others
    assert (held.name, held.cores) == ("shop", pytest.approx(1.2))
    (first, *_) = [
        entry["decision"]["reason"]
        for entry in lines(tmp_path / "actions.jsonl", "sage")
        if entry["kind"] == "decision" and entry["decision"]["kind"] == "RescalePlan"
    ]
    assert "CPU up, 1 -> 1.5; refused: shop cores: the quota of all applications" in first


@pytest.mark.parametrize(("others", "begins"), [(1.5, 2.0), (2.0 + 1e-12, 2.0), (2.6, 1.4), (4.0, 0.2)])
def test_a_job_begins_with_what_others_leave_of_a_quota(tmp_path: Path, others: float, begins: float) -> None:
    running, told = Running(), list[str]()
    book = QuotaFile("team", tmp_path / "book", lambda: 0.0)
    book.renew(Lease("other", others, 0.0))
    steered, actuator = whole(running, tmp_path, book, tell=told.append, first_cores=2.0)
    live(steered, 4, running.turn)
    assert actuator.cores.wanted == (begins if begins == 2.0 else pytest.approx(begins))
    cut = [f"it begins with {begins:g} cores instead of 2: other jobs have the rest of the quota"]
    assert told == (cut if begins < 2.0 else [])


def test_a_job_that_comes_later_takes_nothing_of_one_that_runs(tmp_path: Path) -> None:
    """Sage looks once a minute: what a job begins with is settled in its first seconds all the same."""
    book = QuotaFile("team", tmp_path / "book", lambda: 0.0)
    has, told = [], list[str]()
    for name, cores, priority in (("shop", 2.0, 0), ("late", 4.0, 9)):
        (tmp_path / name).mkdir()
        steered, actuator = whole(
            Running(), tmp_path / name, book, name, told.append, first_cores=cores, priority=priority, parameters={}
        )
        live(steered, 5)
        has.append(actuator.cores.wanted)
    assert has == [2.0, 2.0] and len(told) == 1
    # A head that follows at once has what was granted, and not what was wished for; nobody can take it meanwhile.
    after, actuator = whole(Running(), tmp_path, book, "late", told.append, first_cores=4.0, parameters={})
    live(after, 1)
    ask = Ask("shop", 4.0, 0.0, 4.0)
    assert book.take(ask).result().cores == 2.0
    live(after, 4, since=1)
    assert actuator.cores.wanted == 2.0 and len(told) == 1
    assert {lease.name: lease.cores for lease in book.renew(Lease("third", 0.0, 0.0)).others} == {
        "shop": 2.0, "late": 2.0,
    }  # fmt: skip


def test_a_job_takes_its_first_cores_once_whoever_keeps_the_book_grants_any(tmp_path: Path) -> None:
    """An actor that has just begun leaves everybody what he has, until all have told it: that is no answer."""

    class Learning(QuotaFile):
        until = 3

        def take(self, ask: Ask) -> "Future[Lease]":
            self.until -= 1
            if self.until < 0:
                return super().take(ask)
            answer: Future[Lease] = Future()
            answer.set_result(Lease(ask.job, 0.2, 0.0))
            return answer

    told = list[str]()
    steered, actuator = whole(
        Running(), tmp_path, Learning("team", tmp_path / "book", lambda: 0.0), tell=told.append, first_cores=1.5,
        parameters={},
    )  # fmt: skip
    live(steered, 4)
    assert actuator.cores.wanted is None
    status = steered.scaling_status()
    assert status is None or not status.changes
    # Nobody else takes meanwhile what it is to begin with.
    (other,) = Learning("team", tmp_path / "book", lambda: 0.0).renew(Lease("other", 0.5, 0.0)).others
    assert other.cores == 1.5
    live(steered, 12, since=4)
    assert actuator.cores.wanted == 1.5 and not told


def test_nothing_is_decided_before_the_job_has_its_first_cores(tmp_path: Path) -> None:
    class Silent(QuotaFile):
        def take(self, ask: Ask) -> "Future[Lease]":
            return Future()

    steered, actuator = whole(Running(), tmp_path, Silent("team", tmp_path / "book", lambda: 0.0), first_cores=1.5)
    live(steered, 20)
    status = steered.scaling_status()
    assert actuator.cores.wanted is None and status is not None and status.reason == UNKNOWN


def test_a_job_asks_again_for_its_first_cores_where_the_book_could_not_be_had(tmp_path: Path) -> None:
    class Away(QuotaFile):
        refuses = 2

        def take(self, ask: Ask) -> "Future[Lease]":
            self.refuses -= 1
            if self.refuses >= 0:
                raise OptionError("the book is not to be had")
            return super().take(ask)

    steered, actuator = whole(Running(), tmp_path, Away("team", tmp_path / "book", lambda: 0.0), first_cores=1.5)
    live(steered, 8)
    assert actuator.cores.wanted == 1.5


def test_a_head_that_follows_goes_on_with_the_cores_of_the_lease(tmp_path: Path) -> None:
    running, now = Running(), [0.0]
    book = QuotaFile("team", tmp_path / "book", lambda: now[0])
    book.renew(Lease("shop", 1.7, 0.0))
    steered, actuator = whole(running, tmp_path, book, first_cores=1.0)
    live(steered, 4, running.turn)
    assert actuator.cores.wanted == 1.7


def test_what_state_may_take_must_be_said_for_sage(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="sizes the memory of state, which has no bound here"):
        started(Control(scale="sage"), tmp_path)
    assert not (tmp_path / "actions.jsonl").exists()


class Broken(QuotaFile):
    """A quota whose book is not to be had."""

    def renew(self, lease: Lease) -> QuotaView:
        raise OptionError("the book is not to be had")


def test_nothing_is_decided_while_it_is_not_known_what_others_have(tmp_path: Path) -> None:
    running = Running()
    steered, actuator = whole(running, tmp_path, Broken("team", tmp_path / "book"), first_cores=1.0)
    live(steered, 10, running.turn)
    status = steered.scaling_status()
    assert status is not None and "the book is not to be had" in status.sentence()
    assert actuator.cores.wanted is None and not running.asked


def test_what_was_done_is_looked_at_once_task_managers_have_read_it(tmp_path: Path) -> None:
    """A look a second after it may see memory as it was, which would be held for in vain; they read when they can."""
    item = scaler(Control(scale="sage", parameters={"windows": 1 / 60}))
    loop = JobLoop((item,), None).loop
    assert (loop.cool_down_s, loop.looked_at_s) == (1.0, LOOKED_AT_S)
    memory = ApplicationColumns(("shop",), memory_bytes=np.array([4e6]))
    asked = RescalePlan("", applications=(ApplicationSize(0, memory_bytes=8e6),))
    state = loop.start(0.0)
    for second, held in ((1.0, 4e6), (4.0, 4e6), (LOOKED_AT_S + 3.0, 8e6)):
        seen = ClusterSnapshot(int(second), second, 1.0, replace(memory, memory_bytes=np.array([held])))
        if second == 1.0:
            result, state = loop._allowed(item, seen, asked, second, state)
            assert result.acts and [it.expected for it in result.expectations] == [8e6]
            state = ended(state, state.busy, second, is_done=True)
        else:
            _, effects, state = loop.judge("sage", seen, NoChange(""), second, state)
            assert [effect.observed for effect in effects] == ([(8e6,)] if held == 8e6 else [])
    assert not state.fruitless


def test_what_the_control_of_the_plan_before_did_not_come_to_has_failed() -> None:
    """It had asked for it, was refused, and was replaced before it could say so: nobody would ever end the action."""
    running = Running()
    after = WholeJob(GRAPH, Control("qod"), running.actuator(), None, print)
    assert after.turn(0) == ScaleResult(None, "the job was changed meanwhile")


def test_who_gets_what_of_the_work_is_no_question_of_a_quota(tmp_path: Path) -> None:
    """It would have been tried in vain where the book cannot be had."""
    actuator, share = Running().actuator(), QuotaShare(QuotaFile("team", tmp_path), "shop", 0, 4.0, None)
    after = WholeJob(GRAPH, Control("qod"), actuator, share, print)
    after.begin(RescalePlan("key groups lie unevenly"), job(), 0)
    assert not actuator.is_idle and not share.is_asking
