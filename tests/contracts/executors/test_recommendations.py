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


def decisions(log: Path, policy: str = "qod") -> list[Mapping[str, Any]]:
    """Return what a policy has recommended so far."""
    lines = [json.loads(line) for line in log.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    return [line["decision"] for line in lines if line["kind"] == "decision" and line["policy"] == policy]


@pytest.mark.long("tests/engine/control/test_source_logs.py decides the same by readings made by hand")
@pytest.mark.parametrize(
    ("rows_per_s", "kind", "reason"),
    [(3_000, "ShedPlan", "1 of 1 queries shed"), (50, "NoChange", "all queries at full accuracy")],
)
def test_shedding_is_recommended_to_a_job_that_cannot_keep_up_alone(
    rows_per_s: int, kind: str, reason: str, tmp_path: Path
) -> None:
    job, log = ps.Job(), tmp_path / "actions.jsonl"
    rows = ps.read(SteadySource(rows_per_s, keys=1), job=job).name("due")
    # Batches are small, or a reading would come in the middle of a step.
    rows.map_batches(dear).name("dear").write_black_hole().name("sink").with_min_accuracy(0.05)
    options: Any = {"executor": "processes", "task_managers": 1, "batch_rows": 50, "directory": tmp_path}
    handle = job.start("steady", action_log=log, **options)

    def is_recommended() -> bool:
        """Return whether it was said of instances that are warm."""
        return any(
            decision["kind"] == kind and decision["reason"].startswith(reason) and "warming" not in decision["reason"]
            for decision in decisions(log)
        )

    until(is_recommended, handle)
    handle.stop()
    handle.wait()
    assert all(each.same for each in redecide(log, "qod", {}))
    last = decisions(log)[-1]
    assert (last["kind"], last.get("source_keep", {}).get("0", 1.0) < 1.0) == (kind, kind == "ShedPlan")


@pytest.mark.long("tests/engine/control/test_scale_control.py decides the same by readings made by hand")
@pytest.mark.parametrize("options", [{"executor": "processes", "task_managers": 1}, {"executor": "embedded"}])
def test_instances_are_recommended_to_a_task_that_cannot_keep_up(options: Mapping[str, Any], tmp_path: Path) -> None:
    job, log = ps.Job(), tmp_path / "actions.jsonl"
    rows = ps.read(SteadySource(3_000, keys=1), job=job).name("due").rebalance()
    rows.map_batches(dear).name("dear").write_black_hole().name("sink")
    control = ps.Control(scale="ds2", cores=64, parameters={"pace": {"interval_s": 5}})
    given: Any = {"parallelism": 1, "batch_rows": 50, "directory": tmp_path, **options}
    handle = job.start("steady", action_log=log, control=control, **given)

    def grown() -> list[Mapping[str, Any]]:
        return [plan for plan in decisions(log, "ds2") if plan["kind"] == "RescalePlan"]

    until(lambda: bool(grown()), handle)
    handle.stop()
    handle.wait()
    (size,) = grown()[0]["tasks"]
    # A row takes a core for a millisecond at least, so that three instances are needed, and a step is at most three.
    assert (size["task"], size["parallelism"]) == (1, 3)
    assert all(each.same for each in redecide(log, "ds2", {}))
