"""Where instances of real task managers start: what tasks took before is known, and foreign programs count."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock.dsl.handle import Handle
from penstock.engine.control.job_control import JobControl, JobPlaces
from penstock.engine.control.reading_book import ReadingBook
from penstock.model.errors import OptionError
from penstock.model.snapshot import ClusterSnapshot
from penstock.scheduler.placement import TaskScheduler
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.local_files import LocalFiles
from tests.contracts.executors.metered import MeteredJob, task_managers, until
from tests.contracts.executors.ways import PROCESSES

EQUAL_PERCENT = TaskScheduler().equal_within_percent

BURN = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nprint(flush=True)\nwhile True: pass"


class Placements:
    """What heads in this process knew of CPU when they placed instances, and where these went.

    ``free`` is what was measured to be free of the cores of task managers then, in percent.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.known: list[Mapping[str, float]] = []
        self.places: list[Mapping[str, str]] = []
        self.free: list[Mapping[str, float]] = []
        place, snapshot_of = JobControl.place, ReadingBook.snapshot
        seen: list[ClusterSnapshot] = []

        def look(book: ReadingBook, *arguments: Any) -> ClusterSnapshot:
            seen.append(snapshot_of(book, *arguments))
            return seen[-1]

        def record(control: JobControl, job: JobPlaces, now_ns: int) -> Mapping[str, str]:
            self.known.append(control.measured_cpu)
            places = place(control, job, now_ns)
            machines = seen[-1].machines
            assert machines.cpu_percent is not None
            self.free.append(dict(zip(machines.name, (100.0 - machines.cpu_percent).tolist(), strict=True)))
            self.places.append(places)
            return places

        monkeypatch.setattr(ReadingBook, "snapshot", look)
        monkeypatch.setattr(JobControl, "place", record)


@pytest.fixture
def placements(monkeypatch: pytest.MonkeyPatch) -> Placements:
    return Placements(monkeypatch)


def measured(folder: Path, handle: Handle) -> Mapping[str, float]:
    """Return what the last checkpoint knows of the CPU of all tasks, once it does."""
    repository = CheckpointRepository(LocalFiles(folder / "metered"))
    found: list[Mapping[str, float]] = []

    def is_there() -> bool:
        checkpoint = repository.latest()
        if checkpoint is not None and len(checkpoint.manifest.measured_cpu) == 3:
            found.append(checkpoint.manifest.measured_cpu)
        return bool(found)

    until(is_there, handle)
    return found[-1]


@contextmanager
def burning(core: int) -> Iterator[None]:
    """Keep a core busy meanwhile."""
    burner = subprocess.Popen([sys.executable, "-c", BURN, str(core)], stdout=subprocess.PIPE)
    try:
        assert burner.stdout is not None
        burner.stdout.readline()
        yield
    finally:
        burner.kill()
        burner.communicate()


def test_what_tasks_took_is_known_to_the_next_run(tmp_path: Path, placements: Placements) -> None:
    job = MeteredJob(tmp_path)
    job.give(1_000)
    handle = job.start(parallelism=2, checkpoint_interval="100ms", **PROCESSES)
    cpu = measured(tmp_path / "checkpoints", handle)
    handle.stop()
    handle.wait()
    handle = job.start(parallelism=2, **PROCESSES)
    until(lambda: len(placements.known) == 2, handle)
    handle.stop()
    handle.wait()
    assert placements.known[0] == {} and placements.known[1].keys() == cpu.keys()
    assert all(percent >= 0 for percent in placements.known[1].values())
    # Hosts were read before the first instances were placed.
    assert set(placements.places[0].values()) == {"tm-0", "tm-1"}


def test_pinned_task_managers_have_a_core_of_their_own_and_so_have_their_successors(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(100)
    handle = job.start(parallelism=2, checkpoint_interval="100ms", pin=True, **PROCESSES)
    until(lambda: job.table_rows() >= 400, handle)
    first = task_managers()
    cores = [process.cpu_affinity() for process in first]
    assert sorted(cores) == [[core] for core in sorted(os.sched_getaffinity(0))[:2]]
    first[0].kill()
    until(lambda: len(task_managers()) == 2 and first[0] not in task_managers(), handle)
    until(lambda: sorted(process.cpu_affinity() for process in task_managers()) == sorted(cores), handle)
    handle.stop()
    handle.wait()


def test_more_pinned_task_managers_than_cores_are_refused(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(100)
    cores = len(os.sched_getaffinity(0))
    with pytest.raises(OptionError, match=f"a core for each of {cores + 1} task managers, and {cores} may be used"):
        job.run(executor="processes", task_managers=cores + 1, pin=True)
    with pytest.raises(OptionError, match="pin needs executor='processes'"):
        job.run(pin=True)


WITH_ROOM, MOST_RESTARTS = 20, 60
"""So many restarts in which the other core had room are looked at, among so many at most: others may use it, too."""


def has_room(known: Mapping[str, float], free: Mapping[str, float]) -> bool:
    """Return whether the second core has more left than the first even with all instances of two of each task."""
    return free["tm-1"] - 2 * sum(known.values()) > free["tm-0"] + EQUAL_PERCENT


@pytest.mark.long("tests/engine/control/test_job_control.py decides the same by readings made by hand")
def test_beside_a_burner_a_restarted_job_begins_on_the_other_core(tmp_path: Path, placements: Placements) -> None:
    core = min(os.sched_getaffinity(0))
    job = MeteredJob(tmp_path)
    job.give(1_000)
    options = {"parallelism": 2, "checkpoint_interval": "100ms", "pin": True, **PROCESSES}
    handle = job.start(**options)
    measured(tmp_path / "checkpoints", handle)
    handle.stop()
    handle.wait()
    with_room = 0
    with burning(core):
        for restart in range(2, MOST_RESTARTS + 2):
            handle = job.start(**options)
            until(lambda number=restart: len(placements.places) == number, handle)  # type: ignore[misc]
            handle.stop()
            handle.wait()
            known, free, places = placements.known[-1], placements.free[-1], placements.places[-1]
            assert known, "the job had been measured"
            # The burner has a half at least of the core that a task manager begins on.
            assert free["tm-0"] < 60
            if has_room(known, free):
                assert set(places.values()) == {"tm-1"}, (known, free)
                with_room += 1
            if with_room == WITH_ROOM:
                break
    assert with_room == WITH_ROOM, "something else has used the second core"
    handle = job.start(**options)
    until(lambda: len(placements.places) == restart + 1, handle)
    handle.stop()
    handle.wait()
    assert set(placements.places[-1].values()) == {"tm-0", "tm-1"}
