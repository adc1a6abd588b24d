"""Jobs on Ray whose head is an actor: drivers and heads are killed, and every row is there once."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.cluster.head_actor import check_action_log
from penstock.cluster.heads import Head, HeadAwayError, find_head, heads
from penstock.cluster.job_order import HeadState
from penstock.engine.control.decision_replay import redecide
from penstock.model.errors import OptionError, UserError, WorkerLostError
from penstock.scheduler.action_log import EntryKind, read_log
from tests.contracts.executors.metered import until
from tests.penstock.cluster.programs import HALF, PROGRAM, ROWS, Program, ended, written_program
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


@pytest.fixture
def program(on_ray: RayCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Program]:
    """Return a program whose job ends with the test."""
    with written_program(tmp_path, request.node.name, on_ray.address) as program:
        yield program


def kill_head(head: Head) -> None:
    """Kill a head's process, and wait until Ray has started it anew."""
    process = head.pid()
    os.kill(process, signal.SIGKILL)

    def is_back() -> bool:
        try:
            return head.pid() != process
        except HeadAwayError:
            return False

    until(is_back)


def test_a_job_outlives_its_driver_is_not_started_twice_and_stops_by_its_name(program: Program) -> None:
    driver = program.start()
    program.await_half()
    driver.kill()
    ended(driver)
    code, _, err = ended(program.start())
    assert code == 1
    assert f"job '{program.name}' runs on this Ray cluster since 20" in err
    program.await_committed()
    code, _, err = ended(program.penstock("stop", program.name, "--savepoint", "friday", "--address", program.address))
    assert code == 0, err
    assert program.name not in [head.job for head in heads()]
    assert (program.folder / "checkpoints" / program.name / "savepoints" / "friday").is_dir()
    program.go()
    code, _, err = ended(program.start())
    assert code == 0, err
    assert program.numbers() == list(range(ROWS))


def test_a_job_whose_head_is_killed_goes_on_with_its_task_managers(program: Program) -> None:
    driver = program.start("--action-log", "actions.jsonl")
    head = program.await_half()
    program.await_committed()
    kill_head(head)
    program.go()
    code, _, err = ended(driver)
    assert code == 0, err
    assert f"HEAD RESTARTED: head 2 of '{program.name}'" in err
    assert f"ADOPTED: '{program.name}' goes on with 1 task manager of the run before (attempt 1)" in err
    assert program.numbers() == list(range(ROWS))
    assert len((program.folder / "begun").read_text().split()) == 1
    # The head is in the driver's folder, as both see it. The second one goes on with the log if it lives to its first
    # look at the job, which is a second after its start.
    log = program.folder / "actions.jsonl"
    policies = [entry.content["policy"] for entry in read_log(log) if entry.kind is EntryKind.POLICY]
    assert policies.count("placement") in (1, 2)
    decisions = list(redecide(log, "placement", {}))
    assert decisions and all(decision.same for decision in decisions)
    code, out, err = ended(program.penstock("decide", "actions.jsonl", "--policy", "placement"))
    assert code == 0 and f"{len(decisions)} of {len(decisions)} as recorded" in out, err


def test_an_action_log_that_would_lie_in_a_folder_of_rays_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"'actions\.jsonl' would lie on another host, in a folder that Ray deletes"):
        check_action_log(Path("actions.jsonl"), is_shared=False)
    check_action_log(Path("actions.jsonl"), is_shared=True)
    check_action_log(tmp_path / "actions.jsonl", is_shared=False)


@pytest.mark.long("a head actor each; test_a_job_whose_head_is_killed_goes_on stays")
def test_a_job_without_checkpoints_fails_with_its_head_and_says_so(program: Program) -> None:
    driver = program.start(checkpoints=False)
    # The next head ends at once.
    os.kill(program.await_half().pid(), signal.SIGKILL)
    code, _, err = ended(driver)
    assert code == 1
    assert "it takes no checkpoints from which another could go on" in err


@pytest.mark.long("a head actor each; test_a_job_whose_head_is_killed_goes_on stays")
def test_sigterm_is_handed_to_the_head_which_finishes_alone(program: Program) -> None:
    driver = program.start()
    program.await_half()
    driver.terminate()
    assert driver.stderr is not None
    for line in driver.stderr:
        if line.startswith("STOPPING"):
            break
    driver.kill()
    ended(driver)
    until(lambda: find_head(program.name).report().state is HeadState.STOPPED)
    assert program.numbers() == list(range(HALF))


@pytest.mark.long("a head actor each; test_a_job_whose_head_is_killed_goes_on stays")
def test_when_all_jobs_are_stopped_no_head_is_left(program: Program) -> None:
    driver = program.start()
    program.await_half()
    code, _, err = ended(program.penstock("stop", "--all", "--address", program.address))
    assert code == 0, err
    assert not list(heads())
    with pytest.raises(UserError, match=f"no job '{program.name}' runs"):
        find_head(program.name)
    assert ended(driver)[0] == 0


def test_what_is_bound_to_the_driver_is_refused_before_anything_begins(program: Program) -> None:
    lines = PROGRAM.replace('stream.write_json(here / "out").name("out")', "stream.collect()")
    (program.folder / "program.py").write_text(lines)
    code, _, err = ended(program.start(checkpoints=False))
    assert code == 1
    assert "is bound to the process that builds the pipeline" in err
    assert not list(heads())


@pytest.mark.long("a head actor each; test_a_job_whose_head_is_killed_goes_on stays")
def test_a_head_that_was_killed_for_good_is_gone(program: Program) -> None:
    driver = program.start()
    head = program.await_half()
    head.kill()
    code, _, err = ended(driver)
    assert code == 1
    assert f"the head of job '{program.name}' is gone" in err
    with pytest.raises(WorkerLostError):
        head.report()
