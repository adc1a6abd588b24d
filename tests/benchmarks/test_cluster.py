"""The benchmark of several task managers: every part gives figures, and the tables have them."""

import json
from pathlib import Path

import pytest

from penstock.benchmarks.cluster import throughput
from penstock.benchmarks.cluster.__main__ import main
from penstock.benchmarks.cluster.settings import EMBEDDED, ONE, TWO

EVENTS = 5_000


def test_throughput_stands_beside_that_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(throughput, "QUERIES", ("q11",))
    monkeypatch.setattr(throughput, "SETTINGS", (EMBEDDED, ONE, TWO))
    given = ["--only", "throughput", "--events", str(EVENTS), "--runs", "1", "--directory", str(tmp_path)]
    assert main([*given, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["throughput"]
    assert [(line["query"], line["setting"]) for line in lines] == [
        ("q11", setting.name) for setting in (EMBEDDED, ONE, TWO)
    ]
    assert [lines[1]["over_one"], lines[0]["over_embedded"]] == [1.0, 1.0]
    assert all(line["cpu_s"] > 0 and line["seconds"] > 0 for line in lines)


@pytest.mark.long("minutes of task managers; test_throughput_stands_beside_that_of_one has one part")
def test_latency_recovery_and_idleness_have_figures(capsys: pytest.CaptureFixture[str]) -> None:
    parts = ["--only", "latency", "--only", "recovery", "--only", "idle"]
    assert main([*parts, "--kills", "2", "--seconds", "1", "--rows-per-s", "2000"]) == 0
    printed = capsys.readouterr().out
    assert [line for line in printed.splitlines() if line.startswith("## ")] == ["## Latency", "## Recovery", "## Idle"]
    assert TWO.name in printed and "480" in printed
