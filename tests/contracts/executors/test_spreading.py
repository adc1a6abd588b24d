"""Instances of one loop that need more than it has get loops of their own: no task gets more instances for that."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.control import job_loop
from penstock.engine.plan.recut import instances_by_name
from tests.contracts.executors.metered import LONG_S, until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import Phases, Steps, end, lag

pytestmark = pytest.mark.slow

COOL_DOWN_S, LOOKED_AT_S = 3.0, 1.0
"""Instead of half a minute, so that the test is short."""

RATE, ROW_S = 125.0, 0.004
"""Rows a second, and what each task takes for one: half of its loop, so that with a margin none has room for another.

No more than that: a task of which a row takes twice as long on a busy machine still needs one instance.
"""

STEADY: Phases = ((1e5, RATE),)


def waited(rows: pa.RecordBatch) -> pa.RecordBatch:
    time.sleep(rows.num_rows * ROW_S)
    return rows


class Waits(ps.Process):
    """A row takes so long, and goes on."""

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        time.sleep(ROW_S)
        return {"key": row["key"], "at": row["at"]}


def test_three_tasks_on_one_loop_get_one_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_loop, "COOL_DOWN_S", COOL_DOWN_S)
    monkeypatch.setattr(job_loop, "LOOKED_AT_S", LOOKED_AT_S)
    job = ps.Job()
    schema = pa.schema([("key", pa.int64()), ("at", pa.timestamp("us"))])
    rows = ps.read(Steps(tmp_path, STEADY), time="at", job=job).name("steps").map_batches(waited).name("first")
    second = rows.key_by("key").process(Waits, schema).name("second")
    third = second.with_columns(other=ps.col("key") % 7).key_by("other").process(Waits, schema).name("third")
    third.write_black_hole().name("out")
    handle = job.start(
        "spread",
        executor="processes",
        task_managers=1,
        parallelism=1,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="500ms",
        batch_rows=20,
        control=ps.Control(
            scale="ds2", mode="act", cores=8, parameters={"pace.interval_s": 3.0, "pace.warm_up_s": 0.0}
        ),
        action_log=tmp_path / "actions.jsonl",
    )
    steered = running(handle)
    assert len(steered.graph.tasks) == 3
    until(lambda: lag(handle) > 0, handle)
    until(lambda: (done := handle.metrics().scaling) is not None and done.changes > 0, handle)
    assert len(set(steered.places().values())) == 3, steered.places()
    assert set(instances_by_name(steered.graph).values()) == {1}
    # What waited is worked off.
    until(lambda: 0 <= lag(handle) < RATE, handle)
    end(tmp_path)
    handle.wait(LONG_S)
