"""The launcher on a real cluster: places that are not to be had, endings, and what is forgotten."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pytest

from penstock.engine.core.clock import ManualClock, SystemClock
from penstock.engine.executors.ray.actor import ActorSettings
from penstock.engine.executors.ray.control_listener import ControlListener
from penstock.engine.executors.ray.launcher import FULL_NS, PLACES_NS, RayLauncher
from penstock.engine.executors.ray.outliving import Outliving, job_title, left_places, survivors
from penstock.engine.executors.ray.worker_home import home_here
from penstock.engine.plan.resources import RankNeeds
from penstock.model.errors import RetryableError, UserError
from tests.contracts.executors.metered import until
from tests.ray_cluster import CPUS, GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

TOKEN = bytes(32)


@contextmanager
def launched(
    count: int,
    clock: ManualClock,
    needs: Sequence[Mapping[str, float]] = (),
    run: int = 1,
    outliving: Outliving | None = None,
) -> Iterator[RayLauncher]:
    listener = ControlListener(TOKEN, run, "127.0.0.1", SystemClock())
    home, alone_s = home_here(), 0.0 if outliving is None else outliving.alone_s
    launcher = RayLauncher(
        f"shop, run {run}" if outliving is None else job_title("shop", run),
        count,
        "PACK",
        listener,
        lambda name: ActorSettings(name, "shop", run, listener.address, TOKEN, home, alone_s),
        clock,
        outliving,
        RankNeeds(needs, "'score' at shop.py:7"),
    )
    try:
        yield launcher
    finally:
        launcher.close(0)
        listener.close()


def test_those_that_have_what_instances_need_come_first_and_are_followed_by_their_like(on_ray: RayCluster) -> None:
    clock = ManualClock()
    with launched(3, clock, [{"lens": 1.0}, {"lens": 1.0}]) as launcher:
        for name in ("tm-0", "tm-1", "tm-2"):
            launcher.start(name)
        assert [launcher.rank(f"tm-{number}") for number in range(3)] == [0, 1, None]
        until(lambda: len(on_ray.task_managers()) == 3)
        launcher.forget("tm-1")
        launcher.start("tm-3")
        assert launcher.rank("tm-3") == 1


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
        used_ns = sum(processes["penstock tm-0"].cpu_times()[:2]) * 1e9
        assert 0 < launcher.cpu_ns("tm-0") <= used_ns
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
