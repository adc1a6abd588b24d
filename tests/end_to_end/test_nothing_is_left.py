"""Jobs on task managers leave nothing: processes, threads, descriptors, shared memory and files."""

import threading
from collections import Counter
from pathlib import Path

import psutil
import pytest

import penstock as ps
from penstock.chaos.child import spawn
from penstock.chaos.task_managers import managers_of, outliving
from penstock.chaos.trials import COMPLETE
from penstock.engine.core.failpoint_settings import VARIABLE
from tests.chaos.attacks import PIPELINE

pytestmark = [pytest.mark.slow, pytest.mark.fixed_settings]

WAIT_S = 120.0
ON_TWO = {"parallelism": 2, "executor": "processes", "task_managers": 2}


def divided(row: dict[str, int]) -> dict[str, float]:
    return {"k": 1 / (row["n"] - 3_000)}


def run_well(folder: Path) -> None:
    job = ps.Job()
    rows = ps.read_memory([{"n": number} for number in range(5_000)], job=job)
    counts = rows.key_by("n").agg(n_rows=ps.count()).collect()
    job.run("well", directory=folder, **ON_TWO)
    assert len(counts.rows()) == 5_000


def run_with_checkpoints(folder: Path) -> None:
    job = ps.Job()
    rows = ps.read_nexmark("bid", ps.NexmarkConfig(events=20_000), job=job).name("bids")
    rows.key_by("auction").agg(bids=ps.count()).name("counts").write_json(folder / "out", mode="changelog").name("out")
    job.run(
        "kept",
        directory=folder / "job",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval="20ms",
        restore="none",
        **ON_TWO,
    )


def run_into_an_error(folder: Path) -> None:
    job = ps.Job()
    rows = ps.read_memory([{"n": number} for number in range(5_000)], job=job)
    rows.map(divided, schema={"k": float}).write_black_hole()
    with pytest.raises(Exception, match="division by zero"):
        job.run("failing", directory=folder, max_dead_letters=0, **ON_TWO)


WAYS = (run_well, run_with_checkpoints, run_into_an_error)


def held() -> tuple[list[int], list[str], Counter[str], list[str]]:
    """Return what this process has: children, threads, descriptors by what they are of, names in shared memory."""
    children = [process.pid for process in psutil.Process().children(recursive=True)]
    threads = sorted(thread.name for thread in threading.enumerate())
    links = (path for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    kinds = Counter(str(path.readlink()).partition(":")[0] for path in links)
    return children, threads, kinds, sorted(path.name for path in Path("/dev/shm").glob("*penstock*"))


@pytest.mark.long("a hundred runs; test_nothing_is_left_of_jobs_on_processes has three")
def test_a_hundred_runs_leave_nothing_in_their_process(tmp_path: Path) -> None:
    for number, way in enumerate(WAYS):
        way(tmp_path / f"first-{number}")
    before = held()
    for number in range(100):
        folder = tmp_path / str(number)
        WAYS[number % len(WAYS)](folder)
        assert held() == before
        assert list(folder.rglob("scratch")) == []


def test_what_a_killed_command_leaves_is_swept_by_the_next_one(tmp_path: Path) -> None:
    given = ["run", str(PIPELINE), "--json", f"--sinks-into={tmp_path / 'out'}", "--executor=processes"]
    given += ["--task-managers=2", "--parallelism=2", "--at-end=close", "--checkpoint-interval=100ms"]
    given += [f"--checkpoint-dir={tmp_path / 'checkpoints'}", "--", "2000000"]
    first = spawn(given, {VARIABLE: f"{COMPLETE}:1:say"}, tmp_path / "summary.json")
    point = first.next_point(WAIT_S)
    managers = managers_of(first.pid)
    first.kill()
    first.wait()
    assert point is not None and len(managers) == 2
    assert outliving(managers.values()) == []
    scratch = tmp_path / "out" / "job" / "scratch"
    assert len(list(scratch.iterdir())) == 3
    assert spawn(given, {}, tmp_path / "summary.json").wait() == 0
    assert not scratch.exists()
    assert [path for path in tmp_path.rglob("*") if path.name.startswith((".", "staging")) and path.is_file()] == []
