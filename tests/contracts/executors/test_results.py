"""Results on every executor: those of DuckDB over the same files, and an account of every row."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine.executors.simulated import Simulation, record_pipeline
from penstock.engine.jobs.ledger import check_ledger
from penstock.engine.jobs.metrics import JobMetrics
from tests.benchmarks.same_rows import assert_same_rows
from tests.contracts.executors.ways import PROCESSES, RAY, SMALL
from tests.contracts.executors.workload import ANSWERS, BROKEN, ORDERS, UNWANTED, answer, outputs, write_inputs
from tests.long_cases import but_for

WAYS: Mapping[str, Mapping[str, Any]] = {
    "embedded, 1": {},
    "embedded, 2, small": {"parallelism": 2, **SMALL},
    "processes, 1": {**PROCESSES, "parallelism": 1, "transport": "ring"},
    "processes, 2": {**PROCESSES, "parallelism": 2},
    "processes, 2, small": {**PROCESSES, "parallelism": 2, "transport": "ring", **SMALL},
    "processes, 2, small, tcp": {**PROCESSES, "parallelism": 2, "transport": "tcp", **SMALL},
    "ray, 2, small": {**RAY, "parallelism": 2, **SMALL},
    "ray, 2, tcp": {**RAY, "parallelism": 2, "transport": "tcp"},
    "processes, 3 of 5": {**PROCESSES, "parallelism": 5, "task_managers": 3, "transport": "tcp"},
}


@dataclass(frozen=True)
class Ran:
    """A run of the whole pipeline, the inputs of which are in a folder, as its files."""

    inputs: Path
    folder: Path
    tables: Mapping[str, pa.Table]
    metrics: JobMetrics = field(repr=False)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def runs() -> dict[str, Ran]:
    """Runs by their way: each is made once, in whatever order tests come."""
    return {}


@pytest.fixture(
    params=but_for(
        WAYS,
        ["embedded, 2, small", "processes, 2, small", "processes, 2, small, tcp", "ray, 2, small"],
        "the other ways; those of most difference stay",
    ),
)
def ran(
    request: pytest.FixtureRequest, runs: dict[str, Ran], inputs: Path, tmp_path_factory: pytest.TempPathFactory
) -> Ran:
    if request.param not in runs:
        if request.param.startswith("ray"):
            request.getfixturevalue("on_ray")
        runs[request.param] = run(inputs, tmp_path_factory.mktemp("ran"), WAYS[request.param])
    return runs[request.param]


def run(inputs: Path, folder: Path, options: Mapping[str, Any]) -> Ran:
    job = ps.Job()
    streams = outputs(inputs, job)
    streams["windows"].write_parquet(folder / "windows")
    streams["broken"].write_json(folder / "broken")
    results = {name: stream.collect() for name, stream in streams.items()}
    metrics = job.run("every kind", directory=folder / "job", max_dead_letters="any", **options)
    return Ran(inputs, folder, {name: result.table() for name, result in results.items()}, metrics)


@pytest.mark.parametrize("name", ANSWERS)
def test_an_output_is_what_duckdb_answers(ran: Ran, name: str) -> None:
    expected = answer(ran.inputs, name)
    assert expected.num_rows
    assert_same_rows(ran.tables[name], expected)


def test_files_have_what_the_caller_collected(ran: Ran) -> None:
    windows = pa.concat_tables([pq.read_table(path) for path in (ran.folder / "windows").glob("*.parquet")])
    assert_same_rows(windows, answer(ran.inputs, "windows"))
    texts = [text for path in (ran.folder / "broken").glob("*.jsonl") for text in path.read_text().splitlines()]
    assert sorted(json.loads(text)["text"] for text in texts) == sorted(BROKEN)


def test_dead_letters_are_rows_of_a_stream(ran: Ran) -> None:
    broken = ran.tables["broken"].to_pylist()
    assert sorted(row["text"] for row in broken) == sorted(BROKEN)
    assert {row["operator"] for row in broken} == {"refunds"} and all(row["position"] for row in broken)
    refused = ran.tables["refused"].to_pylist()
    assert refused and all(json.loads(row["text"])["amount"] == UNWANTED for row in refused)
    assert {row["error"] for row in refused} == {"ValueError: nobody wants this"}
    assert not (ran.folder / "job" / "dead_letters.jsonl").exists()


def test_every_row_is_accounted_for(ran: Ran) -> None:
    ledger = ran.metrics.ledger
    check_ledger(ledger, ended=True)
    lines = {line.operator: line for line in ledger.operators}
    assert ledger.late == 0
    assert ran.metrics.source_rows == lines["orders"].rows_in + lines["refunds"].rows_in
    assert lines["refunds"].dead_lettered == len(BROKEN)
    assert lines["map-1"].dead_lettered == ran.tables["refused"].num_rows
    rejected = {line.operator: line.rejected for line in ran.metrics.bad_records}
    assert rejected == {"refunds": len(BROKEN), "map-1": ran.tables["refused"].num_rows}
    assert len(ran.metrics.instances) == len({(item.task, item.instance) for item in ran.metrics.instances})


SIMULATED = ("filtered", "totals", "hops", "joined", "slots", "united")
"""One output of each kind, none of which depends on timing as ``distinct`` does, which passes what comes first."""


def test_a_simulation_puts_out_what_duckdb_answers_with_faults_too(inputs: Path) -> None:
    job = ps.Job()
    streams = outputs(inputs, job)
    for name in SIMULATED:
        streams[name].collect().name(name)
    simulation = Simulation(record_pipeline(job.graph, 2 * ORDERS))
    assert simulation.left_out == {} and simulation.recording.notes == ()
    for name in SIMULATED:
        assert_same_rows(simulation.expected[name], answer(inputs, name))
    result = simulation.run(3)
    assert (result.problem, result.differences) == (None, ())
    assert result.crashes and result.committed
