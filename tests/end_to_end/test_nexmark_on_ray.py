"""Every Nexmark query on two task managers of a Ray cluster, whose head is an actor, equals DuckDB's answer."""

from pathlib import Path

import pytest

from penstock.benchmarks.nexmark.events import Events
from penstock.benchmarks.nexmark.queries import load
from penstock.chaos.compared_outputs import Difference, difference
from penstock.dsl.job import Job
from penstock.engine.jobs.ledger import check_ledger
from tests.benchmarks.oracle import QUERIES
from tests.chaos.kafka_outputs import committed_rows, oracle_rows
from tests.end_to_end.nexmark_support import DataSets
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

EVENTS = 100_000


@pytest.mark.long("every query on Ray; test_nexmark_on_managers.py has those that cross most")
@pytest.mark.parametrize("query", QUERIES)
def test_two_task_managers_on_ray(data_sets: DataSets, tmp_path: Path, on_ray: RayCluster, query: str) -> None:
    directory = data_sets.directory("midnight", shuffled=True, events=EVENTS)
    job = Job()
    stream = load(query)(Events(job, directory))
    mode = "changelog" if stream.updating else "append"
    stream.write_json(tmp_path / "out", mode=mode)
    metrics = job.run(query, directory=tmp_path / "job", executor="ray", task_managers=2, parallelism=2)
    check_ledger(metrics.ledger, ended=True)
    lines = [line for file in (tmp_path / "out").glob("part-*") for line in file.read_bytes().splitlines()]
    expected = oracle_rows(query, directory)
    rows = expected.total()
    assert difference(expected, committed_rows(mode, [(None, line) for line in lines])) == Difference(rows)
