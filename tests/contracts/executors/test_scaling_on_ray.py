"""Scalers act on a job on Ray: a blocking function gets another instance under load, and gives it back."""

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.dsl.handle import Handle
from penstock.engine.control import job_loop
from tests.contracts.executors.metered import LONG_S, until
from tests.contracts.executors.test_scaling import HIGH, Phases, Steps, check, end, waited
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

COOL_DOWN_S, LOOKED_AT_S = 3.0, 1.0
"""Instead of half a minute, so that the test is short."""

LITTLE = 50.0
"""The load at last, of which one instance takes ten times as much."""

LONGER_S = 1e5
"""Longer than any load lasts."""


class Turned(Steps):
    """Much comes until there is a file `low`, and little then."""

    def loads(self) -> Phases:
        high_s = LONGER_S
        with suppress(FileNotFoundError):
            high_s = (self.folder / "low").stat().st_mtime - (self.folder / "begun").stat().st_mtime
        return ((high_s, HIGH), (LONGER_S, LITTLE))


OFTEN = {"pace.interval_s": 2.0, "pace.warm_up_s": 0.0}
JUSTIN = {f"ds2.{name}": value for name, value in OFTEN.items()}


def started(folder: Path, policy: str, parameters: Mapping[str, Any], *, attached: bool) -> Handle:
    job = ps.Job()
    rows = ps.read(Turned(folder), time="at", job=job).name("steps").map_batches(waited).name("waited")
    counts = rows.key_by("key").window(ps.tumbling("1s")).agg(n=ps.count()).name("counts")
    counts.write_parquet(folder / "out").name("out")
    return job.start(
        "turned",
        executor="ray",
        attached=attached,
        task_managers=1,
        parallelism=1,
        directory=folder / "job",
        checkpoint_dir=folder / "checkpoints",
        checkpoint_interval="500ms",
        batch_rows=50,
        # Who chooses memory needs a bound of it.
        state_bytes=128 << 20,
        control=ps.Control(scale=policy, mode="act", cores=2, parameters=parameters),
        action_log=folder / "actions.jsonl",
    )


def until_changed(handle: Handle, changes: int, instances: int) -> None:
    """Wait until the scaler has changed something so often, and the blocking function has so many instances."""
    until(lambda: (done := handle.metrics().scaling) is not None and done.changes == changes, handle)
    assert sum("waited" in name for name in handle.places()) == instances


def goes_up(handle: Handle, on_ray: RayCluster) -> None:
    until_changed(handle, 1, instances=2)
    assert len({*handle.places().values()}) == 2 == len(on_ray.task_managers())


def goes_up_and_down(handle: Handle, folder: Path, on_ray: RayCluster) -> None:
    goes_up(handle, on_ray)
    (folder / "low").touch()
    until_changed(handle, 2, instances=1)
    ends(handle, folder, "ds2", changes=2)


def ends(handle: Handle, folder: Path, policy: str, changes: int) -> None:
    end(folder)
    handle.wait(LONG_S)
    check(folder, Turned(folder).loads())
    entries = [json.loads(line) for line in (folder / "actions.jsonl").read_text().splitlines()]
    outcomes = [entry["outcome"] for entry in entries if entry["kind"] == "result" and entry["policy"] == policy]
    assert [outcome for outcome in outcomes if outcome != "recommended"] == ["begun", "applied"] * changes


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the cool-down be short of a job whose head is in this process."""
    monkeypatch.setattr(job_loop, "COOL_DOWN_S", COOL_DOWN_S)
    monkeypatch.setattr(job_loop, "LOOKED_AT_S", LOOKED_AT_S)


@pytest.mark.usefixtures("soon")
def test_a_blocking_function_is_scaled_up_and_down_on_ray(tmp_path: Path, on_ray: RayCluster) -> None:
    goes_up_and_down(started(tmp_path, "ds2", OFTEN, attached=True), tmp_path, on_ray)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize(
    ("policy", "parameters"), [("flink-er", {}), ("memory-choice", JUSTIN)], ids=["flink-er", "memory-choice"]
)
def test_others_scale_it_up_on_ray(
    tmp_path: Path, on_ray: RayCluster, policy: str, parameters: Mapping[str, Any]
) -> None:
    handle = started(tmp_path, policy, parameters, attached=True)
    goes_up(handle, on_ray)
    ends(handle, tmp_path, policy, changes=1)


@pytest.mark.long("two cool-downs of half a minute; the test above has them short, with the head in its process")
def test_a_head_actor_scales_up_and_down(tmp_path: Path, on_ray: RayCluster) -> None:
    goes_up_and_down(started(tmp_path, "ds2", OFTEN, attached=False), tmp_path, on_ray)
