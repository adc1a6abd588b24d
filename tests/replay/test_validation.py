"""A stream's files held against Spark's recomputation: alike when the engine is right, named when it is not."""

import datetime
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock import col, count, max_, mean, sum_, tumbling
from penstock.engine.operators.aggregates.window_aggregate import WindowAggregate
from penstock.model.job_graph import OperatorNode, SinkSpec
from penstock.replay.source_reading import SourceReading
from penstock.replay.validation import validate_sink
from penstock.replay.validation_result import ComparisonStatus, QueryValidation
from tests.command_line import penstock as run_command
from tests.long_cases import but_for
from tests.replay.validation_reading import from_json

START = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
SCHEMA = {"at": pa.timestamp("us", "UTC"), "shop": str, "price": float, "n": int}
ROWS = [
    {"at": START + datetime.timedelta(milliseconds=100 * n), "shop": f"s{n % 7}", "price": (n * 37) % 101 / 10, "n": n}
    for n in range(5_000)
]


def shops(folder: Path) -> ps.Job:
    job = ps.Job()
    rows = ps.read_memory(ROWS, schema=SCHEMA, time="at", watermark="5s", job=job).name("rows")
    minutes = rows.key_by("shop").window(tumbling("1m")).agg(n=count(), total=sum_("price"), mean=mean("price"))
    minutes.name("per minute").write_parquet(folder / "windows").name("windows")
    rows.filter(col("price") > 9).select("at", "shop", "n").write_json(folder / "dear").name("dear")
    totals = rows.key_by("shop").agg(n=count(), top=max_("price")).name("totals")
    totals.write_json(folder / "totals", mode="upsert", key="shop").name("upserts")
    totals.write_parquet(folder / "log", mode="changelog").name("changes")
    minutes.write_csv(folder / "text").name("text")
    return job


def under_contract(folder: Path) -> ps.Job:
    job = shops(folder)
    for key, sink in job.graph.operators.items():
        if isinstance(sink.spec, SinkSpec):
            job.change(key, spec=replace(sink.spec, min_accuracy=0.5))
    return job


def run(folder: Path, make: Callable[[Path], ps.Job] = shops) -> ps.Job:
    job = make(folder)
    job.run("shops", checkpoint_dir=folder / "checkpoints", checkpoint_interval="10ms", batch_rows=250, parallelism=2)
    return job


def sinks(job: ps.Job) -> dict[str, OperatorNode]:
    return {node.name: node for node in job.graph.operators.values() if isinstance(node.spec, SinkSpec)}


def validated(job: ps.Job, name: str, spark: Any) -> QueryValidation:
    return validate_sink(job.graph, sinks(job)[name], SourceReading(spark, tasks=2), spark)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ps.Job]:
    folder = tmp_path_factory.mktemp("shops")
    return folder, run(folder)


@pytest.mark.parametrize(
    "name",
    but_for(
        ["windows", "text", "dear", "upserts", "changes"],
        ["changes"],
        "an answer of Spark each; [changes] stays, whose rows have most columns beside the user's",
    ),
)
def test_columns_of_a_query_under_contract_are_no_difference(name: str, tmp_path: Path, spark: Any) -> None:
    job = run(tmp_path, under_contract)
    found = validated(job, name, spark)
    assert (found.why, found.status) == (None, ComparisonStatus.SAME)
    assert found.rows_exact == found.rows_stream > 0


@pytest.mark.parametrize(
    "name",
    but_for(
        ["windows", "text", "dear", "upserts", "changes"],
        ["windows"],
        "an answer of Spark each; [windows] stays, and csv and avro of test_output_formats",
    ),
)
def test_what_a_stream_wrote_is_what_spark_computes(written: tuple[Path, ps.Job], name: str, spark: Any) -> None:
    found = validated(written[1], name, spark)
    assert found.why is None
    assert found.status == ComparisonStatus.SAME
    assert found.rows_exact == found.rows_stream > 0
    assert sum(window.rows_exact for window in found.windows) == found.rows_exact
    windows = ("shop", "window_start", "window_end")
    assert found.keys == {"windows": windows, "text": windows, "dear": ()}.get(name, ("shop",))


def test_a_broken_operator_is_caught_with_its_windows(
    tmp_path: Path, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = WindowAggregate.process

    def forgetful(self: WindowAggregate, port: int, batch: Any) -> Any:
        """Lose the row of one shop that comes first in the third minute."""
        keep = pc.invert(pc.equal(batch.rows.column("n"), 1_201))
        return process(self, port, batch.with_rows(batch.rows.filter(keep)))

    monkeypatch.setattr(WindowAggregate, "process", forgetful)
    job = run(tmp_path)
    monkeypatch.undo()
    found = validated(job, "windows", spark)
    assert found.status == ComparisonStatus.DIFFERS
    assert (found.missing, found.extra, found.different) == (0, 0, 1)
    (window,) = [window for window in found.windows if window.differs]
    assert window.window_start == datetime.datetime(2024, 1, 1, 0, 2)
    (example,) = found.examples
    assert example.key["shop"] == "s4"
    assert example.stream is not None
    assert example.exact is not None
    assert example.stream["n"] < example.exact["n"]
    assert validated(job, "upserts", spark).status == ComparisonStatus.SAME


def test_rows_that_are_lost_or_come_twice_are_found(tmp_path: Path, spark: Any) -> None:
    job = run(tmp_path)
    files = [file for file in sorted((tmp_path / "windows").glob("part-*")) if pq.read_metadata(file).num_rows]
    lost, twice = files[0], files[-1]
    counts = [pq.read_metadata(file).num_rows for file in (lost, twice)]
    pq.write_table(pa.concat_tables([pq.read_table(twice)] * 2), twice)
    lost.unlink()
    found = validated(job, "windows", spark)
    assert [found.missing, found.extra, found.different] == [*counts, 0]


PROGRAM = """
from pathlib import Path
import sys
from tests.replay.test_validation import shops
folder = Path(sys.argv[1])
shops(folder).run("shops", checkpoint_dir=folder / "checkpoints")
"""


def test_the_commands(written: tuple[Path, ps.Job], tmp_path: Path, spark: Any, capsys: Any) -> None:
    folder, _ = written
    file = tmp_path / "shops.py"
    file.write_text(PROGRAM)
    out = tmp_path / "report"
    assert run_command("validate", str(file), "--out", str(out), "--sink", "windows", "--", str(folder)) == 0
    assert "same" in capsys.readouterr().out
    validation = from_json((out / "validation.json").read_text(), "validation.json")
    assert validation.status == ComparisonStatus.SAME
    assert [query.query for query in validation.queries] == ["windows"]
    assert "<html" in (out / "validation.html").read_text()
    assert run_command("replay", str(file), "--json", "--out", str(tmp_path / "exact"), "--", str(folder)) == 0
    told = json.loads(capsys.readouterr().out)
    rows = {item["sink"]: item["rows"] for item in told["sinks"]}
    assert rows["windows"] == validation.queries[0].rows_exact
    assert pq.read_table(tmp_path / "exact" / "windows").num_rows == rows["windows"]
    assert run_command("replay", str(file), "--out", str(tmp_path / "exact"), "--", str(folder)) == 1
    assert "is there already" in capsys.readouterr().err
    assert run_command("validate", str(file), "--sink", "none", "--", str(folder)) == 2
    assert "there are" in capsys.readouterr().err
