"""The state of a job is freed when the job is let go, not when Python's collector next comes along."""

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.engine.dataflow.instance import Instance
from tests.contracts.executors.workload import outputs, read_both, write_inputs


@pytest.fixture(autouse=True)
def before() -> Iterator[list[Instance]]:
    """What other tests have left in memory; the collector stands still meanwhile.

    Instances are known by their type: `isinstance` asks a weak proxy for the class of what may be gone.
    """
    gc.collect()
    gc.disable()
    yield [item for item in gc.get_objects() if issubclass(type(item), Instance)]
    gc.enable()


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


def new_instances(before: list[Instance]) -> list[str]:
    return [
        item.name
        for item in gc.get_objects()
        if issubclass(type(item), Instance) and not any(item is other for other in before)
    ]


@pytest.mark.parametrize("options", [{}, {"parallelism": 2}, {"state_bytes": 200_000}], ids=str)
def test_a_run_leaves_no_instance_in_memory(
    inputs: Path, tmp_path: Path, before: list[Instance], options: dict[str, Any]
) -> None:
    job = ps.Job()
    results = {name: stream.collect() for name, stream in outputs(inputs, job).items()}
    metrics = job.run("every kind", directory=tmp_path, max_dead_letters="any", **options)
    assert metrics.instances and results["totals"].table().num_rows
    assert new_instances(before) == []


@pytest.mark.parametrize("fails", [False, True])
def test_a_run_with_checkpoints_leaves_none(inputs: Path, tmp_path: Path, before: list[Instance], fails: bool) -> None:
    def tax(row: dict[str, Any]) -> dict[str, Any]:
        if fails:
            raise SystemError("the machine is broken")
        return {"key": row["key"]}

    job = ps.Job()
    orders, _ = read_both(inputs, job)
    taxed = orders.map(tax, {"key": int}, on_error="fail").name("taxed")
    result = taxed.key_by("key").agg(n=ps.count()).name("counted").collect().name("out")
    options: dict[str, Any] = {"checkpoint_dir": tmp_path / "checkpoints", "checkpoint_interval": "10ms"}
    if fails:
        with pytest.raises(ps.PenstockError):
            job.run("failing", directory=tmp_path, restarts=1, restart_delay=0, **options)
        # An error and the frames that it passed hold each other.
        gc.collect()
    else:
        job.run("counting", directory=tmp_path, **options)
        assert result.table().num_rows
    del result, job, orders, taxed
    assert new_instances(before) == []
