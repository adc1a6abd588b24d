"""The benchmark of several task managers: every part gives figures, and the tables have them."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from penstock.benchmarks.cluster import ray_throughput, throughput
from penstock.benchmarks.cluster.__main__ import PARTS, main
from penstock.benchmarks.cluster.held import full_state, read_notes
from penstock.benchmarks.cluster.ray_cluster import HEAD_ACTOR, RAY, TASK_MANAGERS
from penstock.benchmarks.cluster.settings import EMBEDDED, ONE, TWO, Cores

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


@pytest.mark.long("a state that is filled twice; test_throughput_stands_beside_that_of_one stays")
@pytest.mark.slow
def test_checkpoints_hold_an_operator_on_either_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert "held" in PARTS
    assert main(["--only", "held", "--keys", "600000", "--checkpoints", "2", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["held"]
    assert [line["setting"] for line in lines] == [EMBEDDED.name, TWO.name]
    for line in lines:
        assert line["checkpoints"] == 2 and line["state_mb"] > 0
        assert 0 < line["p50_ms"] <= line["p99_ms"] <= line["longest_ms"]


@pytest.mark.long("two starts of task managers; test_throughput_stands_beside_that_of_one stays")
@pytest.mark.slow
def test_ways_to_change_a_job_stand_beside_each_other(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "rescale", "--keys", "200000", "--rows-per-s", "20000", "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["rescale"]
    assert [line["way"] for line in lines] == ["move", "rescale", "stop and start"]
    assert all(0 < line["still_s"] <= line["whole_s"] and line["state_mb"] > 0 for line in lines)


def test_cpu_seconds_are_those_since_the_beginning_though_an_older_child_ended() -> None:
    older_s = 0.3
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as older:
        while psutil.Process(older.pid).cpu_times().user < older_s:
            os.sched_yield()
        # What it would take from here to its end is its own.
        older.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, older.pid, os.WSTOPPED | os.WNOWAIT)
        cores = Cores()
        older.kill()
        older.wait()
        assert 0 < cores.cpu_s() < older_s


def test_checkpoints_of_a_state_that_still_grows_do_not_count(tmp_path: Path) -> None:
    samples = [{"bytes": size, "held_ms": 1.0} for size in (10, 60, 95, 100, 97)]
    file = tmp_path / "notes"
    file.write_text("".join(json.dumps(item) + "\n" for item in samples) + '{"byt')
    assert [item["bytes"] for item in full_state(read_notes(file))] == [95, 100, 97]
    assert full_state([]) == []


@pytest.mark.long("a Ray cluster of its own; test_throughput_stands_beside_that_of_one has a part without")
@pytest.mark.slow
def test_throughput_on_ray_stands_beside_that_of_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray_throughput, "QUERIES", ("q11",))
    given = ["--only", "ray_throughput", "--events", str(EVENTS), "--runs", "1", "--directory", str(tmp_path)]
    assert main([*given, "--json"]) == 0
    lines = json.loads(capsys.readouterr().out)["ray_throughput"]
    assert [line["setting"] for line in lines] == [TWO.name, "2 task managers on Ray, ring"]
    assert lines[0]["over_processes"] == 1.0 and lines[1]["over_processes"] > 0


@pytest.mark.long("minutes on Ray clusters; test_throughput_stands_beside_that_of_one has a part without")
@pytest.mark.slow
def test_idleness_and_times_on_ray_have_figures(capsys: pytest.CaptureFixture[str]) -> None:
    parts = ["--only", "ray_idle", "--only", "ray_times"]
    assert main([*parts, "--kills", "1", "--runs", "1", "--seconds", "2", "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    none, idle = figures["ray_idle"]
    for part in (HEAD_ACTOR, TASK_MANAGERS):
        assert none[f"{part}, % of a core"] == 0 < idle[f"{part}, % of a core"]
    assert none[f"{RAY}, % of a core"] > 0
    assert [line["what"].split()[0] for line in figures["ray_times"]] == [
        "submit",
        "task",
        "head",
        "SIGTERM",
        "SIGTERM",
        "ray",
    ]
    assert all(0 < line["p50_s"] <= line["slowest_s"] for line in figures["ray_times"])
