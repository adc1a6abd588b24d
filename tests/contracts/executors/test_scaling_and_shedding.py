"""Who sheds bridges the time until who scales has acted: then nothing is shed, and all that is offered comes in."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.plan.recut import instances_by_name
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import HIGH, LOW, PARAMETERS, ROW_S, Steps, lag, waited

SEEN_S = 60.0
"""So long it is looked whether anything is shed, once nothing was for a while.

What was counted is known up to a second late, which is less than a fiftieth of it.
"""

PHASES = ((12.0, LOW), (400.0, HIGH))
"""The load rises and stays, until the test ends the job."""

SHARE = 0.98
"""Of what is offered, and so of what a job takes that nobody sheds."""


def passed(handle: Handle) -> tuple[float, int, int]:
    """Return a time, and how many rows were counted until then, and shed."""
    metrics = handle.metrics()
    rows = {line.operator: line.rows_in for line in metrics.ledger.operators}
    return time.monotonic(), rows["counts"], metrics.ledger.shed


def rates(handle: Handle) -> Mapping[str, float]:
    """Return the keep rates of sources, none while nothing was decided."""
    shedding = handle.metrics().shedding
    return {} if shedding is None else dict(shedding.sources)


@pytest.mark.long("two and a half minutes each; tests/benchmarks/papers/test_policies_together.py simulates the same")
@pytest.mark.parametrize("scaler", ["ds2", "justin", "flink-er"])
def test_once_the_scaler_has_acted_nothing_is_shed(tmp_path: Path, scaler: str) -> None:
    job = ps.Job()
    rows = ps.read(Steps(tmp_path, PHASES), time="at", job=job).name("steps").map_batches(waited).name("waited")
    counts = rows.key_by("key").window(ps.tumbling("1s")).agg(n=ps.count()).name("counts")
    counts.write_parquet(tmp_path / "out").name("out").with_min_accuracy(0.3).with_priority(1)
    handle = job.start(
        "steps",
        executor="processes",
        task_managers=1,
        parallelism=1,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="500ms",
        batch_rows=50,
        control=ps.Control(shed="qod", scale=scaler, mode="act", cores=3, parameters=PARAMETERS.get(scaler, {})),
        action_log=tmp_path / "actions.jsonl",
    )
    steered = running(handle)
    until(lambda: lag(handle) >= 0, handle)
    until(lambda: instances_by_name(steered.graph)["waited"] > 1, handle)
    until(lambda: (done := handle.metrics().scaling) is not None and done.changes > 0, handle)
    until(lambda: 0 <= lag(handle) < HIGH, handle)
    until(lambda: all(rate == 1.0 for rate in rates(handle).values()), handle)
    began_s, before, shed_before = passed(handle)
    until(lambda: time.monotonic() - began_s >= SEEN_S, handle)
    ended_s, after, shed_after = passed(handle)
    assert shed_after == shed_before
    # What one instance takes is less than what is offered.
    assert (after - before) / (ended_s - began_s) >= SHARE * HIGH > 1 / ROW_S
    handle.stop()
