"""``penstock nexmark``: its output for machines, its files, its exit codes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.benchmarks.nexmark.chart import draw
from penstock.benchmarks.nexmark.dataset import write_dataset
from penstock.engine.connectors.nexmark.config import NexmarkConfig
from tests.benchmarks.oracle import assert_same_rows, expected
from tests.command_line import penstock

FIELDS = [
    *("query", "events", "seconds", "events_per_s", "rows", "peak_rss_mb", "parallelism"),
    *("executor", "task_managers", "transport"),
]


def test_one_json_line_a_query_and_the_results_as_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_dataset(data, NexmarkConfig(events=20_000))
    options = ["--source", str(data), "--out", str(out), "--parallelism", "2", "--batch-rows", "3000", "--json"]
    assert penstock("nexmark", "--queries", "q3,q17", *options) == 0
    lines = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    assert [list(line) for line in lines] == [FIELDS, FIELDS]
    for line in lines:
        result = pq.read_table(out / f"{line['query']}.parquet")
        assert (line["events"], line["parallelism"], line["rows"]) == (20_000, 2, result.num_rows)
        assert (line["executor"], line["task_managers"], line["transport"]) == ("embedded", None, None)
        assert line["events_per_s"] == pytest.approx(line["events"] / line["seconds"])
        assert_same_rows(result, expected(line["query"], data))


def test_the_table_names_every_query(capfd: pytest.CaptureFixture[str]) -> None:
    assert penstock("nexmark", "--queries", "q0,q22", "--events", "5_000") == 0
    printed = capfd.readouterr().out
    assert "q0" in printed
    assert "q22" in printed


PROCESSES = ["--parallelism", "2", "--executor", "processes", "--task-managers", "2", "--transport", "tcp"]


@pytest.mark.long("queries on processes; test_two_task_managers runs some")
def test_queries_run_on_task_managers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    data, out = tmp_path / "data", tmp_path / "out"
    write_dataset(data, NexmarkConfig(events=20_000))
    options = ["--source", str(data), "--out", str(out), "--batch-rows", "3000", "--json"]
    assert penstock("nexmark", "--queries", "q3", *options, *PROCESSES) == 0
    line = json.loads(capfd.readouterr().out)
    assert [line[field] for field in FIELDS[-4:]] == [2, "processes", 2, "tcp"]
    assert_same_rows(pq.read_table(out / "q3.parquet"), expected("q3", data))
    assert line["rows"] and line["events_per_s"] == pytest.approx(line["events"] / line["seconds"])


def test_the_table_names_the_executor(capfd: pytest.CaptureFixture[str]) -> None:
    assert penstock("nexmark", "--queries", "q0", "--events", "5_000", *PROCESSES) == 0
    assert "executor processes with 2 task managers" in " ".join(capfd.readouterr().out.split())


def test_wrong_words_are_usage_errors(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert penstock("nexmark", "--queries", "q0,q99") == 2
    assert "no query 'q99'" in capfd.readouterr().err
    assert penstock("nexmark", "--source", str(tmp_path / "nowhere")) == 2
    assert "there is no directory" in capfd.readouterr().err


def test_a_failing_query_is_told_and_fails_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"auction": [1]}), tmp_path / "bid.parquet")
    assert penstock("nexmark", "--queries", "q0", "--source", str(tmp_path), "--json") == 1
    said = capfd.readouterr()
    assert said.out == ""
    assert "q0 failed" in said.err


def test_the_chart_is_drawn_to_scale() -> None:
    picture = draw([("q0", {"penstock": 10.0, "other": 1.0}), ("q1", {"penstock": 100.0, "other": 0.0})])
    assert picture.count("<title>") == 3
    assert "q0 penstock: 10.00 M events/s" in picture
