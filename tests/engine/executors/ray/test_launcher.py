"""The launcher on a real cluster: places that are not to be had, endings, and what is forgotten."""

import os
import signal
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest
import ray
from ray.exceptions import ActorUnavailableError
from ray.util.placement_group import placement_group_table

from penstock.engine.core.clock import ManualClock, SystemClock
from penstock.engine.executors.ray import launcher as ray_launcher
from penstock.engine.executors.ray.actor import ActorSettings
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.endings import NODE_LOST
from penstock.engine.executors.ray.launcher import FULL_NS, RayLauncher
from penstock.engine.executors.ray.outliving import Outliving, job_title, left_places, survivors
from penstock.engine.executors.ray.reserved_places import PLACES_NS, Wanted
from penstock.engine.executors.ray.worker_home import home_here
from penstock.engine.plan.resources import RankNeeds
from penstock.model.errors import RetryableError, UserError
from tests.contracts.executors.metered import until
from tests.ray_cluster import CPUS, GROUP, LENSES, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

TOKEN = bytes(32)


@pytest.fixture(autouse=True)
def all_is_free(on_ray: RayCluster) -> None:
    """Ray gives back what tests before had a moment after these have ended."""

    def is_free() -> bool:
        free = ray.available_resources()
        return (free.get("CPU"), free.get("lens")) == (CPUS, LENSES)

    until(is_free)


@contextmanager
def launched(
    count: int,
    clock: ManualClock,
    needs: Sequence[Mapping[str, float]] = (),
    run: int = 1,
    outliving: Outliving | None = None,
    *,
    goes_on: bool = False,
) -> Iterator[RayLauncher]:
    listener = ControlListener(TOKEN, run, "127.0.0.1", SystemClock())
    home, alone_s = home_here(), 0.0 if outliving is None else outliving.alone_s
    title = f"shop, run {run}" if outliving is None else job_title("shop", run)
    launcher = RayLauncher(
        Wanted(title, count, "PACK", RankNeeds(needs, "'score' at shop.py:7")),
        listener,
        lambda name: ActorSettings(name, "shop", run, listener.address, TOKEN, home, alone_s),
        clock,
        outliving,
        goes_on=goes_on,
    )
    try:
        yield launcher
    finally:
        launcher.close(0)
        listener.close()


def test_those_that_have_what_instances_need_come_first_and_are_followed_by_their_like(on_ray: RayCluster) -> None:
    clock = ManualClock()
    with launched(3, clock, [{"lens": 1.0}, {"lens": 1.0}]) as launcher:
        ends = [launcher.start(f"tm-{number}").result(60) for number in range(3)]
        assert [launcher.rank(f"tm-{number}") for number in range(3)] == [0, 1, None]
        launcher.forget("tm-1")
        ends.append(launcher.start("tm-3").result(60))
        assert launcher.rank("tm-3") == 1
        for end in ends:
            end.close()


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        ([{"nowhere": 1.0}], "1 nowhere asked of Ray for 'score' at shop.py:7, and 0 of its 0 are free after 30 s"),
        ([{"lens": 2.0}] * 2, "4 lens asked of Ray for 'score' at shop.py:7, and 2 of its 2 are free after 30 s"),
    ],
)
def test_what_no_node_has_is_refused_since_instances_cannot_do_without(
    on_ray: RayCluster, needs: Sequence[Mapping[str, float]], words: str
) -> None:
    clock = ManualClock()
    with launched(2, clock, needs) as launcher:
        for name in ("tm-0", "tm-1"):
            launcher.start(name)
        assert launcher.ended("tm-0") is None
        clock.advance_ns(PLACES_NS)
        with pytest.raises(UserError, match=words):
            launcher.ended("tm-0")


def test_as_many_are_placed_as_the_cluster_has_room_for(on_ray: RayCluster) -> None:
    clock, names = ManualClock(), [f"tm-{number}" for number in range(CPUS + 2)]
    with launched(len(names), clock) as launcher:
        ends = {name: launcher.start(name) for name in names}
        assert [launcher.ended(name) for name in names] == [None] * len(names)
        clock.advance_ns(PLACES_NS)
        ended = {name: launcher.ended(name) for name in names}
        words = f"{CPUS + 2} CPUs were asked of Ray for task managers, and {CPUS} of its {CPUS} are free after 30 s"
        assert [reason for reason in ended.values() if reason is not None] == [words] * 2
        with pytest.raises(RetryableError, match="CPUs were asked"):
            launcher.start("tm-more")
        for name, reason in ended.items():
            if reason is not None:
                launcher.forget(name)
                assert ends[name].cancelled()
        placed = [name for name, reason in ended.items() if reason is None]
        # Whoever has a place connects, and is known by name.
        for end in (ends[name].result(60) for name in placed):
            end.close()
        clock.advance_ns(FULL_NS)
        late = launcher.start("tm-late")
        assert launcher.ended("tm-late") is None and not late.done()
        # The place of one that is gone is taken by the next.
        launcher.forget(placed[0])
        launcher.start("tm-next").result(60).close()
    until(lambda: on_ray.task_managers() == [])


def test_an_ending_is_told_in_words(on_ray: RayCluster) -> None:
    with launched(3, ManualClock()) as launcher:
        ends = [launcher.start(name).result(60) for name in ("tm-0", "tm-1", "tm-2")]
        processes = {process.name(): process for process in on_ray.task_managers()}
        assert set(processes) == {"penstock tm-0", "penstock tm-1", "penstock tm-2"}
        assert launcher.ended("tm-0") is None
        until(lambda: launcher.cpu_ns("tm-0") is not None)
        # What was told is of an earlier moment.
        told_ns = launcher.cpu_ns("tm-0")
        used_ns = round(sum(processes["penstock tm-0"].cpu_times()[:2]) * 1e9)
        assert told_ns is not None and 0 < told_ns <= used_ns
        os.kill(processes["penstock tm-0"].pid, signal.SIGKILL)
        assert launcher.ended("tm-0", 60) is not None and "process has died" in str(launcher.ended("tm-0"))
        # The link to its head is all that holds a task manager.
        ends[1].close()
        assert launcher.ended("tm-1", 60) is not None
        assert launcher.ended("tm-2") is None
        for end in (ends[0], ends[2]):
            end.close()


def test_who_was_taken_for_lost_and_wakes_up_ends_nothing(on_ray: RayCluster) -> None:
    with launched(
        1, ManualClock(), outliving=Outliving("shop", 60.0, TOKEN, follows=False, leads=lambda: False)
    ) as slept:
        end = slept.start("tm-0").result(60)
        until(lambda: slept.cpu_ns("tm-0") is not None)
        slept.close(0)
        assert list(survivors("shop")) == ["tm-0"] and len(list(left_places("shop"))) == 1
        # It has no task manager yet, and so nothing that another could lead.
        follower = Outliving("shop", 60.0, TOKEN, follows=True, leads=lambda: True)
        with launched(1, ManualClock(), run=2, outliving=follower) as launcher:
            (offered,) = launcher.survivors().values()
            offered.result(60).close()
            assert launcher.ended("tm-0", 60) is not None
            launcher.forget("tm-0")
            # Its place is taken over.
            launcher.start("tm-1").result(60).close()
        end.close()
    assert not survivors("shop") and not list(left_places("shop"))
    until(lambda: on_ray.task_managers() == [])


def test_a_head_that_goes_on_does_not_wait_for_nodes_that_are_not_there(on_ray: RayCluster) -> None:
    names = [f"tm-{number}" for number in range(CPUS + 2)]
    with launched(len(names), ManualClock(), goes_on=True) as launcher:
        ends = [launcher.start(name) for name in names]
        words = f"{CPUS + 2} CPUs were asked of Ray, which has {CPUS} now"
        assert [launcher.ended(name) for name in names] == [None] * CPUS + [words] * 2
        with pytest.raises(RetryableError, match=words):
            launcher.start("tm-more")
        for end in ends[:CPUS]:
            end.result(60).close()


def test_one_that_was_to_begin_on_a_node_that_is_lost_begins_elsewhere(
    on_ray: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, home = ControlListener(TOKEN, 1, "127.0.0.1", SystemClock()), home_here()
    # Nobody is there for the first that is begun, which ends at once.
    addresses = iter(["127.0.0.1:1", listener.address])
    monkeypatch.setattr(ray_launcher, "ending_of", lambda call: f"{NODE_LOST}: it has missed too many heartbeats")
    launcher = RayLauncher(
        Wanted("shop, run 1", 1, "PACK"),
        listener,
        lambda name: ActorSettings(name, "shop", 1, next(addresses), TOKEN, home),
        SystemClock(),
    )
    try:
        end = launcher.start("tm-0")
        until(lambda: launcher.ended("tm-0") is None and end.done())
        end.result().close()
    finally:
        launcher.close(0)
        listener.close()


class NobodyJoins:
    """A place where nobody is awaited in earnest."""

    def expect(self, name: str) -> "Future[socket.socket]":
        return Future()

    def dismiss(self, name: str) -> None:
        pass


class Holder:
    """An actor that has asked for all places, as a head actor does."""

    def __init__(self) -> None:
        self._goes_on = ray.get_runtime_context().was_current_actor_reconstructed
        self.launcher = RayLauncher(
            Wanted("shop, run 1", CPUS, "PACK"), NobodyJoins(), print, SystemClock(), goes_on=self._goes_on
        )
        self.launcher._reserve_all()

    def close(self) -> None:
        """Give the places back: Ray may keep those of an actor that was started anew and is then killed."""
        self.launcher.close(0)

    def groups(self) -> tuple[int, bool, list[str]]:
        """Return the number of this process, whether it follows another, and the states of groups that are there."""
        table: dict[str, dict[str, Any]] = placement_group_table()
        states = [group["state"] for group in table.values() if "shop, run 1" in group["name"]]
        return os.getpid(), self._goes_on, [state for state in states if state != "REMOVED"]


def test_a_head_that_goes_on_gets_the_places_of_the_one_before(on_ray: RayCluster) -> None:
    actor: Any = ray.remote(Holder).options(num_cpus=0, max_restarts=1, max_task_retries=0).remote()

    def groups() -> tuple[int, bool, list[str]]:
        try:
            found: tuple[int, bool, list[str]] = ray.get(actor.groups.remote())
        except ActorUnavailableError:
            return 0, False, []
        return found

    until(lambda: groups()[2] == ["CREATED"])
    os.kill(groups()[0], signal.SIGKILL)
    until(lambda: groups()[1:] == (True, ["CREATED"]))
    ray.get(actor.close.remote())
    ray.kill(actor)
