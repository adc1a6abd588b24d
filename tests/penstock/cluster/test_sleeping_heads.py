"""Nodes with the head actor stand still and wake up: what they do then counts for nothing if another has the job."""

import threading
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, until
from tests.penstock.cluster.test_lost_raylets import Rounds, begun, finish, has_manager
from tests.raylets import Raylet, Raylets, raylets

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("raylets")]

NODES = 2
SLEEPS_S = (26.0, 2.0, 60.0, 1.0, 12.0, 5.0)
LOST_S = 6.0
"""A node that sleeps so long is lost to Ray, see `DEATH_IS_SEEN`, and its head actor begins elsewhere."""


@dataclass
class Watched:
    """The rounds of a job whose output is looked at all the time: no row may be there twice, at any moment."""

    rounds: Rounds
    rows: int = 0

    def give(self) -> None:
        """Give the job the rows of the next round."""
        self.rounds.done += 1
        self.rows = ROWS * self.rounds.done // (self.rounds.count + 1)
        self.rounds.job.give(self.rows)

    def await_rows(self) -> None:
        """Wait until all that were given are in the output for good."""
        until(self._are_there)

    def _are_there(self) -> bool:
        written = self.rounds.job.table_rows()
        assert written <= PARTITIONS * self.rows
        return written == PARTITIONS * self.rows


def node_with_head(cluster: Raylets, nodes: list[Raylet]) -> Raylet:
    """Return the node that has the head actor; one that is beside the control store begins anew until it is on another.

    Ray draws the node of an actor that asks for no CPU.
    """
    while True:
        until(lambda: len(cluster.heads()) == 1)
        for node in nodes:
            if node.has_head():
                return node
        (head,) = cluster.heads()
        head.kill()
        await_another(cluster, head)


def are_up(cluster: Raylets, nodes: list[Raylet]) -> bool:
    """Return whether each node has a task manager; others join for those that are lost, be it for a busy machine."""
    nodes[:] = [node for node in nodes if node.lives()]
    while len(nodes) < NODES:
        nodes.append(cluster.add())
    return all(map(has_manager, nodes))


def await_another(cluster: Raylets, head: psutil.Process) -> None:
    """Wait until a head actor lives that is not this one."""
    until(lambda: any(other.pid != head.pid for other in cluster.heads()))


def sleep(watched: Watched, cluster: Raylets, node: Raylet, sleep_s: float) -> bool:
    """Let a node with the head actor sleep; return whether another head had the job by then.

    The rows that are given meanwhile are read by the node, too, as soon as it wakes.
    """
    (head,) = node.workers("HeadActor")
    with node.asleep():
        watched.give()
        threading.Event().wait(sleep_s)
        followed = sleep_s > LOST_S
        if followed:
            watched.await_rows()
    watched.await_rows()
    watched.give()
    watched.await_rows()
    if followed:
        # It has seen that the job is another's, or its raylet that the node is lost.
        until(lambda: not head.is_running())
    return followed


@pytest.mark.long("six sleeps of up to a minute; test_one_run.py has a run that sleeps while another has its job")
def test_a_head_that_slept_writes_nothing_that_counts(tmp_path: Path) -> None:
    """Prints how long each slept, and whether another head had the job by then."""
    with raylets() as cluster:
        nodes: list[Raylet] = [cluster.add() for _ in range(NODES)]
        watched = Watched(Rounds(MeteredJob(tmp_path), 2 * len(SLEEPS_S) + 1))
        watched.rounds.job.give(0)
        with begun(watched.rounds.job, cluster) as driver:
            watched.give()
            watched.await_rows()
            for sleep_s in SLEEPS_S:
                until(lambda: are_up(cluster, nodes))
                node = node_with_head(cluster, nodes)
                followed = sleep(watched, cluster, node, sleep_s)
                print(f"asleep for {sleep_s:.1f} s, {'followed' if followed else 'alone'}", flush=True)
                node.kill(whole=True)
            finish(watched.rounds, driver)
