"""Commands on a Ray cluster that is there: the user's folder goes along, Ctrl-C stops, and a kill leaves nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import psutil
import pyarrow.parquet as pq
import pytest

from tests.contracts.executors.metered import LONG_S, PARTITIONS, MeteredJob, until
from tests.contracts.executors.test_commands import GONE_WITHIN_S, Command
from tests.contracts.executors.ways import RAY
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

PROGRAM = """
    import sys
    import penstock as ps
    from engine import tax
    from model import RATE
    from state import NAME

    def taxed(row):
        return {"id": row["id"], "tax": tax(row["id"], RATE), "of": NAME + sys.argv[1]}

    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=2_000)).select(id="auction")
    rows.map(taxed, schema={"id": int, "tax": int, "of": str}).write_parquet("out")
    ps.run("taxes")
"""


@pytest.mark.long("a command on Ray; test_a_command_is_stopped_and_killed stays")
def test_a_program_with_folders_named_as_ours_runs_on_a_cluster(tmp_path: Path, ray_cluster: RayCluster) -> None:
    folder = tmp_path / "program"
    for name, text in {
        "engine/__init__.py": "from .taxes import tax\n",
        "engine/taxes.py": "def tax(amount, rate):\n    return amount * rate\n",
        "model/__init__.py": "RATE = 3\n",
        "state/__init__.py": "NAME = 'kept '\n",
        "pipeline.py": dedent(PROGRAM),
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "penstock", "run", "pipeline.py", "friday", "--executor", "ray"]
    ran = subprocess.run(
        [*command, f"--address={ray_cluster.address}", "--task-managers=2"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    assert ran.returncode == 0, ran.stderr
    rows = pq.read_table(folder / "out").to_pylist()
    assert rows and all(row["tax"] == 3 * row["id"] and row["of"] == "kept friday" for row in rows)


def test_a_command_is_stopped_and_killed_and_its_actors_end(
    tmp_path: Path, ray_cluster: RayCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", ray_cluster.address)
    job = MeteredJob(tmp_path)
    job.give(1_000)
    with Command(job, RAY) as command:
        command.until_committed(job, 1_000)
        assert len(ray_cluster.task_managers()) == 2
        os.killpg(command.process.pid, signal.SIGINT)
        assert command.process.wait(LONG_S) == 0
        until(lambda: ray_cluster.task_managers() == [])
    job.check(1_000, closed=False)
    job.give(2_000)
    with Command(job, RAY) as command:
        command.until_committed(job, 2_000)
        managers = ray_cluster.task_managers()
        assert len(managers) == 2
        command.process.kill()
        assert psutil.wait_procs(managers, GONE_WITHIN_S)[1] == []
    assert job.table_rows() >= PARTITIONS * 2_000


@pytest.mark.long("begins a cluster of its own; test_a_command_is_stopped_and_killed has the rest")
def test_a_command_without_a_cluster_begins_one_and_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    job = MeteredJob(tmp_path)
    job.give(1_000)
    with Command(job, RAY) as command:
        command.until_committed(job, 1_000)
        managers = [process for process in command.seen if process.name().startswith("penstock tm-")]
        assert len(managers) == 2
        command.process.kill()
        assert psutil.wait_procs(managers, GONE_WITHIN_S)[1] == []
        # Ray's own processes end when they see that nobody is there.
        assert psutil.wait_procs(command.seen, LONG_S)[1] == []
