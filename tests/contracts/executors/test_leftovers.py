"""Nothing of a job is left once it is over, however it ended: processes, threads, descriptors, files, memory."""

import gc
import tempfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.errors import BadRecordError
from tests.contracts.executors.metered import refuse, task_managers, until
from tests.contracts.executors.ways import PROCESSES, TCP


@dataclass(frozen=True)
class Held:
    """What this process holds."""

    descriptors: int
    threads: int
    processes: int
    shared_memory: int


def held() -> Held:
    gc.collect()
    maps = Path("/proc/self/maps").read_text().splitlines()
    return Held(
        len([*Path("/proc/self/fd").iterdir()]),
        threading.active_count(),
        len(psutil.Process().children(recursive=True)),
        sum("/memfd:" in line or "/dev/shm/" in line for line in maps),
    )


def well(job: ps.Job, folder: Path, **options: Any) -> None:
    rows = ps.read_memory(pa.table({"id": range(1_000)}), job=job).name("rows")
    totals = rows.key_by(rest=ps.col("id") % 7).agg(n=ps.count()).name("totals").collect().name("kept")
    rows.write_parquet(folder / "out").name("out")
    job.run("over", directory=folder / "job", parallelism=2, **options)
    assert sum(row["n"] for row in totals.rows()) == 1_000


def failing(job: ps.Job, folder: Path, **options: Any) -> None:
    rows = ps.read_memory(pa.table({"id": range(1_000)}), job=job).name("rows")
    rows.map(refuse(500), on_error="fail").name("refusing").write_parquet(folder / "out").name("out")
    with pytest.raises(BadRecordError):
        job.run("over", directory=folder / "job", parallelism=2, **options)


def not_begun(job: ps.Job, folder: Path, **options: Any) -> None:
    lock = threading.Lock()
    rows = ps.read_memory(pa.table({"id": range(1_000)}), job=job).name("rows")
    rows.map(lambda row: row if lock else None).name("locking").write_parquet(folder / "out").name("out")
    with pytest.raises(ps.PlanError, match="lock"):
        job.run("over", directory=folder / "job", parallelism=2, **options)


End = Callable[..., None]


def check_nothing_is_left(
    folder: Path, monkeypatch: pytest.MonkeyPatch, ends: list[End], options: Mapping[str, Any]
) -> None:
    """Run jobs one after the other in this process; from the first on, nothing may come to it."""
    first: Held | None = None
    temporary = folder / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(tempfile, "tempdir", None)
    for number, end in enumerate(ends):
        run = folder / str(number)
        end(ps.Job(), run, checkpoint_dir=run / "checkpoints", **options)
        first = first or held()
        # What ends with a job may do so a moment after it.
        until(lambda before=first: held() == before)
        assert task_managers() == []
        assert list(temporary.iterdir()) == []
        left = {path.relative_to(run).as_posix() for path in (run / "job").rglob("*") if path.is_file()}
        assert left <= {"dead_letters.jsonl"}, left


def test_nothing_is_left_of_jobs_on_processes_that_end_well_or_badly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_nothing_is_left(tmp_path, monkeypatch, [well, failing, not_begun], PROCESSES)


@pytest.mark.long("twenty jobs in one process; three stand in test_nothing_is_left_of_jobs_on_processes")
@pytest.mark.parametrize("options", [{}, PROCESSES, TCP], ids=["embedded", "processes", "tcp"])
def test_nothing_is_left_after_twenty_runs_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: Mapping[str, Any]
) -> None:
    check_nothing_is_left(tmp_path, monkeypatch, [well, failing] * 10, options)
