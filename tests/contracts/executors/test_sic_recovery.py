"""Shedding by SIC through the loss of a task manager: what is written is what the log says was kept."""

from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.checkpoint.kept_files import read_kept_files
from penstock.engine.jobs.ledger import check_ledger
from penstock.model.connectors import Reader
from penstock.state.checkpoints.manifest import LAST_EPOCH
from penstock.state.files.local_files import LocalFiles
from tests.contracts.executors.metered import PARTITIONS, ROWS, Metered, MeteredJob, MeteredReader, task_managers, until
from tests.contracts.executors.test_overload import dear
from tests.contracts.executors.test_recovery import kill
from tests.contracts.executors.ways import PROCESSES, RAY
from tests.long_cases import but_for

WAYS = {"processes": PROCESSES, "ray": RAY}
SHEDDERS = ["fair", "random"]
AT_ONCE = 2
"""So many rows of each partition come at each look of the test, up to half of them: far more than can be worked off."""


class _Waiting(MeteredReader):
    def behind(self) -> int:
        return self.left()

    def appended(self) -> int:
        return self.position() + self.left()


class Waiting(Metered):
    """Rows of which is known how many wait."""

    def open(self, partition: str, position: Any | None) -> Reader:
        return _Waiting(self.meter, int(partition), position or 0)


class SicJob(MeteredJob):
    """Rows that take four milliseconds each, as they are."""

    def start_shedding(self, shedder: Any, **options: Any) -> Handle:
        job = ps.Job()
        numbers = ps.read(Waiting(self.folder / "meter"), time="at", job=job).name("numbers")
        worked = numbers.map_batches(partial(dear, row_ns=4_000_000)).name("worked").select("id", "key")
        worked.write_parquet(self.folder / "out" / "rows").name("rows").with_min_accuracy(0.05)
        control = ps.Control(shed="sic", mode="act", shedder=shedder, shed_backlog=True, period_s=1)
        given = {"checkpoint_interval": "200ms", "batch_rows": 20, "control": control, **options}
        return job.start("metered", **self._options(given))


@pytest.mark.parametrize(
    ("shedder", "way"),
    but_for(
        [(shedder, way) for way in WAYS for shedder in SHEDDERS],
        [("random", "processes")],
        "the fair one, whose admissions are others of the same form; on Ray, where task managers are the same",
    ),
)
def test_what_is_written_is_what_the_log_says_though_a_task_manager_is_lost(
    tmp_path: Path, shedder: str, way: str, request: pytest.FixtureRequest
) -> None:
    if way == "ray":
        request.getfixturevalue("on_ray")
    job = SicJob(tmp_path)
    job.give(0)
    handle = job.start_shedding(shedder, parallelism=2, **WAYS[way])
    given = 0

    def is_shed() -> bool:
        nonlocal given
        given = min(ROWS // 2, given + AT_ONCE)
        job.give(given)
        return handle.metrics().ledger.shed > 50 and job.table_rows() > 0

    until(is_shed, handle)
    kill(task_managers()[0].pid)
    job.give(ROWS)
    metrics = handle.wait()
    assert metrics.checkpoints is not None and metrics.checkpoints.restarts == 1

    log = read_kept_files(LocalFiles(tmp_path / "checkpoints" / "metered"), LAST_EPOCH)
    assert {item.keep for item in log} == {0.0, 1.0} and any(item.sic for item in log)
    dropped = {
        row * PARTITIONS + int(item.partition)
        for item in log
        if item.keep == 0.0
        for row in range(item.start, item.stop)
    }
    files = (tmp_path / "out" / "rows").glob("*.parquet")
    written = [row for path in files for row in pq.read_table(path, columns=["id"]).column("id").to_pylist()]
    assert sorted(written) == sorted(set(range(PARTITIONS * ROWS)) - dropped)
    check_ledger(metrics.ledger, ended=True)
    assert metrics.source_rows == PARTITIONS * ROWS and metrics.ledger.shed == len(dropped)
