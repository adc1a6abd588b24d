"""What load shedding would do with a real job: by what its source is offered and takes, and what cores that costs."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.decision_replay import redecide
from tests.contracts.executors.metered import until

ROW_NS = 1_000_000
"""The time on a core that a row takes."""


def dear(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Use a core for as long as these rows take."""
    until_ns = time.thread_time_ns() + rows.num_rows * ROW_NS
    while time.thread_time_ns() < until_ns:
        pass
    return rows


def decisions(log: Path) -> list[Mapping[str, Any]]:
    """Return what load shedding has recommended so far."""
    lines = [json.loads(line) for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [line["decision"] for line in lines if line["kind"] == "decision" and line["policy"] == "qod"]


@pytest.mark.long("tests/engine/control/test_source_logs.py decides the same by readings made by hand")
@pytest.mark.parametrize(
    ("rows_per_s", "reason"), [(3_000, "1 of 1 queries shed"), (50, "all queries at full accuracy")]
)
def test_shedding_is_recommended_to_a_job_that_cannot_keep_up_alone(
    rows_per_s: int, reason: str, tmp_path: Path
) -> None:
    job, log = ps.Job(), tmp_path / "actions.jsonl"
    rows = ps.read(SteadySource(rows_per_s, keys=1), job=job).name("due")
    # Batches are small, or a reading would come in the middle of a step.
    rows.map_batches(dear).name("dear").write_black_hole().name("sink").with_min_accuracy(0.2)
    options: Any = {"executor": "processes", "task_managers": 1, "batch_rows": 50, "directory": tmp_path}
    handle = job.start("steady", action_log=log, **options)
    until(lambda: any(decision["reason"] == reason for decision in decisions(log)), handle)
    handle.stop()
    handle.wait()
    decided = list(redecide(log, "qod", {}))
    assert all(each.same for each in decided)
    kinds = {each.decision.reason: type(each.decision).__name__ for each in decided}
    assert kinds[reason] == ("ShedPlan" if rows_per_s == 3_000 else "NoChange")
