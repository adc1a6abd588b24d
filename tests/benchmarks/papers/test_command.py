"""``penstock papers`` writes what it found, and ``penstock decide`` decides again what it logged."""

import csv
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from penstock.commands.cli import app
from tests.command_line import penstock


@pytest.mark.long("a whole evaluation twice; test_report writes its rows, test_simulated_logs decides again")
def test_an_evaluation_writes_rows_charts_and_logs_that_decide_the_same_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = CliRunner().invoke
    for _ in range(2):
        code = penstock("papers", "flink_er", "--draws", "1", "--out", str(tmp_path))
        assert "2 charts; try: penstock decide" in capsys.readouterr().out
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    with (tmp_path / "rows.csv").open(newline="") as table:
        assert [line["row"] for line in csv.DictReader(table)] == [row["row"] for row in rows]
    assert any(row["met"] is False for row in rows) == (code == 1)
    assert {path.suffix for path in tmp_path.glob("flink_er_lag.*")} == {".png", ".svg", ".jsonl"}

    log = str(tmp_path / "flink_er_lag.actions.jsonl")
    same = run(app, ["decide", log])
    decisions = int(same.output.split(" decisions; ")[0].split()[-1])
    assert same.exit_code == 0 and decisions > 20 and f"{decisions} of {decisions} as recorded" in same.output
    other = run(app, ["decide", log, "--policy", "flink-er", "--set", "lag_s=1000"])
    assert other.exit_code == 0 and f"{decisions} of {decisions} as recorded" not in other.output
