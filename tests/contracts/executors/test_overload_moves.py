"""Where minimums do not fit on a task manager, load shedding lets the instance that it names give what it has away."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock import col
from penstock.engine.jobs.recovery import RecoveringJob
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import DatedPeak
from tests.contracts.executors.ways import PROCESSES

ROW_S = 0.002
"""A row waits so long in each of two operators, as for an answer; one instance takes 500 a second at most."""

RATE = 300


class Waits(ps.BatchProcess):
    """Counts the rows of a key, and waits for each."""

    seen = ps.value_state(int)

    def process(self, batch: pa.RecordBatch, context: Any) -> dict[str, Any]:
        time.sleep(batch.num_rows * ROW_S)
        return {"rows": [batch.num_rows]}


class OneKey(DatedPeak):
    """Rows of one key, as many a second as one instance of each operator takes, and not of both."""

    def __init__(self) -> None:
        super().__init__(RATE, peak_s=1e9)

    def partitions(self, parallelism: int) -> Sequence[str]:
        return ["0"]


@pytest.mark.long("a minute of overload; tests/engine/control/test_move_control.py does the same by hand")
def test_the_instance_of_the_lower_priority_moves_and_then_both_keep_all(tmp_path: Path) -> None:
    job = ps.Job()
    keyed = ps.read(OneKey(), time="at", job=job).name("due").select(one=col("number") * 0, at="at").key_by("one")
    for name, priority in (("dear", 5), ("cheap", 1)):
        waited = keyed.process(Waits, {"rows": "int64"}, order="arrival").name(name)
        waited.write_black_hole().name(f"of {name}").with_min_accuracy(0.95).with_priority(priority)
    log = tmp_path / "actions.jsonl"
    handle = job.start(
        "moved",
        control=ps.Control(shed="qod", mode="act"),
        parallelism=2,
        batch_rows=20,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="1s",
        action_log=log,
        **PROCESSES,
    )
    running = handle._job
    assert isinstance(running, RecoveringJob)
    until(lambda: any(move.state == "done" for move in running.moves.records()), handle)
    (moved,) = (move for move in running.moves.records() if move.state == "done")
    assert moved.instance.startswith("cheap")
    metrics = handle.metrics

    def keeps_all() -> bool:
        shedding = metrics().shedding
        return shedding is not None and dict(shedding.sources).get("due", 1.0) == 1.0

    until(keeps_all, handle)
    handle.stop()
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    results = [entry for entry in entries if entry["kind"] == "result" and entry["policy"] == "qod"]
    assert [entry["outcome"] for entry in results if "moved" in entry["detail"]] == ["applied"]
