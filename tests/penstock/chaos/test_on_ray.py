"""What of a job on Ray can be attacked from here, and what cannot."""

import os
import subprocess
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

import penstock as ps
from penstock.chaos import trials
from penstock.chaos.child import Child
from penstock.chaos.experiment import ChaosOptions, ChaosReport
from penstock.chaos.head_trials import HeadChaos, chaos_of
from penstock.chaos.manager_trials import ManagerChaos
from penstock.chaos.trials import BEGUN, COMPLETE, Chaos
from penstock.engine.core.failpoint_settings import SAID, VARIABLE
from penstock.model.errors import OptionError


def small_job(*, bound: bool = False) -> ps.Job:
    job = ps.Job()
    source = ps.read_memory([{"a": 1}], job=job) if bound else ps.read_nexmark("bid", ps.NexmarkConfig(10), job=job)
    source.write_json("out").name("out")
    return job


ON_RAY = ChaosOptions(1, executor="ray", task_managers=2, address="127.0.0.1:6379", patience_s=20.0)
HEAD_ON_RAY = ChaosOptions(1, executor="ray", task_managers=2, kill_head=True, patience_s=20.0)


def test_the_head_of_a_job_on_ray_is_an_actor_unless_it_is_bound_to_the_command() -> None:
    assert chaos_of(HEAD_ON_RAY, small_job().graph) is HeadChaos
    assert chaos_of(HEAD_ON_RAY, small_job(bound=True).graph) is Chaos
    assert chaos_of(ON_RAY, small_job(bound=True).graph) is ManagerChaos
    assert chaos_of(ChaosOptions(1, executor="processes", kill_head=True), small_job().graph) is Chaos


def test_an_address_is_for_ray() -> None:
    with pytest.raises(OptionError, match="address"):
        ChaosOptions(address="127.0.0.1:6379")


@dataclass
class Life:
    """A command that says its lines, and then nothing until it is killed."""

    lines: Sequence[str]
    arguments: Sequence[str] = ()
    armed: str = ""

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], stdout: Path) -> Child:
        """Begin."""
        self.arguments, self.armed = arguments, environment[VARIABLE]
        out, into = os.pipe()
        os.write(into, "".join(f"{line}\n" for line in self.lines).encode())
        process = subprocess.Popen(["sleep", "600"], stdout=into)
        os.close(into)
        return Child(process.pid, os.fdopen(out, "rb"), process.wait)


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Return the names and addresses of jobs that were ended, instead of ending them."""
    calls: list[str | None] = []
    monkeypatch.setattr(trials, "end_job", lambda job, address: calls.extend([job, address]))
    return calls


def attacked(kind: type[Chaos], options: ChaosOptions, folder: Path, life: Life) -> ChaosReport:
    return kind(folder / "pipeline.py", small_job(), options, folder, life.start, expected={"out": Counter()}).run()


def test_task_managers_on_other_hosts_are_named_and_not_killed(tmp_path: Path, ended: list[str | None]) -> None:
    joined = [f"(tm-{number} pid=1, ip=10.0.0.{number}) {SAID}tm-{number}/manager.joined say" for number in (1, 2)]
    lines = [*joined, *[f"(HeadActor pid=1) {SAID}head/{point} say" for point in (BEGUN, COMPLETE)]]
    life = Life(lines)
    report = attacked(ManagerChaos, ON_RAY, tmp_path, life)
    assert report.failure is not None and report.kills == 0
    assert "tm-1 on 10.0.0.1, tm-2 on 10.0.0.2" in report.failure and "run penstock chaos on a node" in report.failure
    assert "--address=127.0.0.1:6379" in life.arguments and "--attached" not in life.arguments
    assert ended[1] == ON_RAY.address and f"--name={ended[0]}" in life.arguments
    assert f"head/{COMPLETE}:1:say" in life.armed and "tm-*/manager.joined:1:say" in life.armed


def test_a_head_actor_on_another_host_is_named_and_not_killed(tmp_path: Path, ended: list[str | None]) -> None:
    lines = [f"(HeadActor pid=1, ip=10.0.0.9) {SAID}head/{point} say" for point in (BEGUN, COMPLETE)]
    lines += [f"(tm-{number} pid=1, ip=10.0.0.9) {SAID}tm-{number}/manager.joined say" for number in (1, 2)]
    report = attacked(HeadChaos, HEAD_ON_RAY, tmp_path, Life(lines))
    assert report.failure == "the head actor is on 10.0.0.9, and cannot be killed from here: run penstock chaos there"
    assert report.killed == {} and ended
