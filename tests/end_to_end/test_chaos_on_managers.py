"""Task managers, killed and stopped for real, and the command that has them: what is committed is what it should be."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.experiment import COMMAND, ChaosOptions, ChaosReport
from penstock.chaos.head_trials import chaos_of
from penstock.commands.loading import capture
from penstock.engine.core.failpoint_settings import EVERY_MANAGER, FailpointSetting
from penstock.model.failpoint_names import MEANINGS
from tests.chaos.attacks import PIPELINE
from tests.chaos.fork_server import ForkServer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("chaos")]

FEW, EVENTS, MANY = 2_000_000, 4_000_000, 12_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(PIPELINE, ["20000"]) as server:
        yield server


def attack(folder: Path, server: ForkServer, events: int, options: ChaosOptions) -> ChaosReport:
    """Attack the pipeline, whose windows go to Parquet; nothing is lost and nothing there twice."""
    job, _ = capture(PIPELINE, options.arguments)
    trials = chaos_of(options, job.graph)
    report = trials(PIPELINE, job, options, folder / "runs", server.start).run()
    assert report.failure is None, report.failure
    assert report.left_out == {}
    assert report.rows > 0
    assert (report.lost, report.duplicated) == (0, 0), report
    return report


def on_processes(events: int, kills: int, seed: int, **more: object) -> ChaosOptions:
    settings = {"checkpoint_interval": "300ms", "executor": "processes", "task_managers": 2} | more
    return ChaosOptions(kills, seed, arguments=(str(events),), **settings)  # type: ignore[arg-type]


def test_task_managers_are_killed_and_the_command_runs_on(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, EVENTS, on_processes(EVENTS, 3, seed=1))
    assert report.kills == 3
    assert COMMAND not in report.killed and sum(report.killed.values()) == 3
    assert report.restarts


@pytest.mark.long("kills at two points; test_task_managers_are_killed_and_the_command_runs_on stays")
def test_a_failpoint_strikes_the_task_manager_that_it_is_meant_for(tmp_path: Path, server: ForkServer) -> None:
    script = (
        FailpointSetting("checkpoint.file.uploaded", 1, "kill", EVERY_MANAGER),
        FailpointSetting("instance.barrier.passed", 2, "kill", "tm-1"),
    )
    report = attack(tmp_path, server, FEW, on_processes(FEW, 0, seed=1, script=script))
    assert set(report.points) == {"checkpoint.file.uploaded", "instance.barrier.passed"}
    assert report.kills == 2 and report.killed.get("tm-1") and report.runs == 1


@pytest.mark.long("one kill; test_commands_are_stopped_by_ctrl_c_and_killed kills one, too")
def test_the_command_is_killed_and_its_task_managers_end(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, FEW, on_processes(FEW, 1, seed=2, kill_head=True))
    assert report.killed == {COMMAND: 1} and report.restarts == 1


@pytest.mark.long("25 kills; test_task_managers_are_killed_and_the_command_runs_on has three")
def test_25_kills_of_task_managers(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, MANY, on_processes(MANY, 25, seed=7, checkpoint_interval="1s"))
    assert report.kills == 25 and report.after_checkpoint >= 20


@pytest.mark.long("ten kills; test_commands_are_stopped_by_ctrl_c_and_killed has one")
def test_10_kills_of_the_command(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, EVENTS, on_processes(EVENTS, 10, seed=8, kill_head=True))
    assert report.killed == {COMMAND: 10}


@pytest.mark.long("a kill at each of a dozen points; test_task_managers_are_killed has three, at any moment")
def test_a_crash_of_task_managers_at_every_point(tmp_path: Path, server: ForkServer) -> None:
    points = tuple(name for name in MEANINGS if name.startswith(INSIDE))
    report = attack(tmp_path, server, FEW, on_processes(FEW, 0, seed=2, points=points))
    assert len(report.points) >= 10
    assert set(report.points) | set(report.unreached) == set(points)


INSIDE = ("manager.", "instance.", "checkpoint.upload", "checkpoint.file.", "files.write.", "sink.stage.", "pages.cut.")


def test_stopped_task_managers_go_on_and_nothing_stale_is_seen(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, EVENTS, on_processes(EVENTS, 5, seed=3, stopped_s=(0.1, 0.5)))
    assert report.kills == 5 and report.replaced == 0


@pytest.mark.long("fifty stops for up to a minute; test_stopped_task_managers_go_on has five short ones")
def test_50_stops_of_task_managers(tmp_path: Path, server: ForkServer) -> None:
    report = attack(tmp_path, server, MANY, on_processes(MANY, 50, seed=4, stopped_s=(1.0, 60.0)))
    assert report.kills == 50 and report.replaced
