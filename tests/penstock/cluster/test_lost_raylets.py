"""Nodes of a Ray cluster are lost: the job goes on from its last checkpoint on what is left, and on those that join."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import penstock as ps
from tests.contracts.executors.metered import LONG_S, PARTITIONS, ROWS, MeteredJob, until
from tests.raylets import Raylet, Raylets, raylets

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("raylets")]

ROOT = Path(ps.__file__).parents[1]
PROGRAM = """
import sys
from pathlib import Path
from tests.contracts.executors.metered import MeteredJob
MeteredJob(Path(sys.argv[1])).run(
    parallelism=2, executor="ray", address=sys.argv[2], task_managers=2, spread=True, checkpoint_interval="500ms",
    idle_timeout_ms=600_000,
)
"""


@dataclass
class Rounds:
    """A job that gets a part of its rows in each of so many rounds, and how long it took to go on after each loss."""

    job: MeteredJob
    count: int
    done: int = 0
    taken_s: list[float] = field(default_factory=list)

    def next(self) -> None:
        """Give it more rows, and wait until they are in the output for good."""
        self.done += 1
        rows = ROWS * self.done // (self.count + 1)
        self.job.give(rows)
        until(lambda: self.job.table_rows() >= PARTITIONS * rows)

    def lose(self, raylet: Raylet, *, whole: bool) -> None:
        """Kill a node, and take the time until rows are in the output that came afterwards."""
        begun = time.monotonic()
        raylet.kill(whole=whole)
        self.next()
        self.taken_s.append(time.monotonic() - begun)


@contextmanager
def begun(job: MeteredJob, cluster: Raylets) -> Iterator["subprocess.Popen[str]"]:
    """Yield a command that runs the job on a cluster, in a folder of its own."""
    program = job.folder / "program" / "pipeline.py"
    program.parent.mkdir(exist_ok=True)
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), str(job.folder), cluster.address]
    driver = subprocess.Popen(
        command,
        cwd=program.parent,
        env={**cluster.environment, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield driver
    finally:
        driver.kill()
        driver.communicate(timeout=LONG_S)


def has_manager(raylet: Raylet) -> bool:
    return bool(raylet.workers("penstock tm-"))


def finish(rounds: Rounds, driver: "subprocess.Popen[str]") -> None:
    """Let the job read everything; each row is in the output once."""
    rounds.job.give(ROWS)
    _, said = driver.communicate(timeout=LONG_S)
    assert driver.returncode == 0, said
    rounds.job.check()


@pytest.mark.long("a cluster of three raylets; what a lost link and a killed head do is tested on one in make test")
def test_a_node_is_lost_and_the_job_goes_on_with_those_that_are_left(tmp_path: Path) -> None:
    with raylets() as cluster:
        nodes = [cluster.add(), cluster.add()]
        rounds = Rounds(MeteredJob(tmp_path), 2)
        rounds.job.give(0)
        with begun(rounds.job, cluster) as driver:
            rounds.next()
            # One is on each node.
            assert all(map(has_manager, nodes))
            rounds.lose(next((node for node in nodes if not node.has_head()), nodes[0]), whole=True)
            finish(rounds, driver)


LOSSES = 20


@pytest.mark.long("twenty nodes; test_a_node_is_lost_and_the_job_goes_on_with_those_that_are_left has one")
@pytest.mark.parametrize("at_once", [False, True])
def test_nodes_are_lost_in_turn_and_others_join(tmp_path: Path, *, at_once: bool) -> None:
    """Prints how long the job took to go on after each loss; every fifth time the raylet alone is lost at first.

    ``at_once``: the next is lost while the one before is not replaced, and with it the last task manager.
    """
    with raylets() as cluster:
        nodes = [cluster.add(), cluster.add()]
        rounds = Rounds(MeteredJob(tmp_path), 2 * LOSSES + 1)
        rounds.job.give(0)
        with begun(rounds.job, cluster) as driver:
            for number in range(LOSSES):
                if not at_once:
                    until(lambda: all(map(has_manager, nodes)))
                rounds.next()
                victim = nodes.pop(0)
                lost = "node with the head actor" if victim.has_head() else "node"
                rounds.lose(victim, whole=number % 5 < 4)
                nodes.append(cluster.add())
                print(f"{lost if number % 5 < 4 else 'raylet alone'}: {rounds.taken_s[-1]:.1f} s", flush=True)
            finish(rounds, driver)


@pytest.mark.long("two clusters; test_a_node_is_lost_and_the_job_goes_on_with_those_that_are_left has one")
def test_a_cluster_is_lost_and_the_next_run_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    rounds = Rounds(MeteredJob(tmp_path), 2)
    rounds.job.give(0)
    with raylets() as cluster:
        cluster.add()
        cluster.add()
        with begun(rounds.job, cluster) as driver:
            rounds.next()
            cluster.kill()
            _, said = driver.communicate(timeout=LONG_S)
            assert driver.returncode != 0
            assert "the Ray cluster of job 'metered' is gone" in said
    with raylets() as cluster:
        cluster.add()
        cluster.add()
        with begun(rounds.job, cluster) as driver:
            rounds.next()
            finish(rounds, driver)
