"""Every example runs as it stands and prints what was recorded; the README shows one with its real output."""

import csv
import os
import re
import runpy
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from penstock.benchmarks.papers.real.pictures import charts
from penstock.dsl import job as job_module
from tests.long_cases import but_for

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("kafka_"))
"""Those that need no broker; ``tests/kafka`` runs the others."""
SHEDS = ROOT / "examples" / "shed_on_a_laptop.py"
RECORDED = Path(__file__).with_name("examples")


def run(*arguments: str | Path, folder: Path) -> str:
    ran = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Load an example without running its job, into a default job of its own."""
    monkeypatch.setattr(job_module, "_default_job", job_module.Job())
    return lambda name: runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name=name)


@pytest.mark.parametrize("path", [path for path in EXAMPLES if path != SHEDS], ids=lambda path: path.stem)
def test_an_example_runs_and_prints_what_was_recorded(path: Path, tmp_path: Path) -> None:
    output = run(path, folder=tmp_path)
    assert output
    recorded = RECORDED / f"{path.stem}.txt"
    if recorded.is_file():
        assert output == recorded.read_text()
    opening = path.read_text().split('"""')[1]
    assert len(opening.splitlines()) <= 6


@pytest.mark.long("a minute of overload; the tests below try what it offers and what it draws")
def test_an_overloaded_laptop_sheds_and_keeps_its_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    output = run(SHEDS, "--csv", tmp_path / "kept.csv", folder=tmp_path)
    assert len(SHEDS.read_text().split('"""')[1].splitlines()) <= 6
    with (tmp_path / "kept.csv").open(newline="") as file:
        seconds = list(csv.DictReader(file))
    with (tmp_path / "kept_windows.csv").open(newline="") as file:
        windows = list(csv.DictReader(file))
    assert len(seconds) >= 40 and len(windows) >= 14
    assert min(float(row["keep"]) for row in seconds) < 1.0, output
    # Overload ends after 35 s; what waited when it began has been read by then.
    assert max(float(row["lag_s"]) for row in seconds[31:35]) < 1.0, output
    shed = [row for row in windows if float(row["accuracy"]) < 1.0]
    covered = [float(row["low"]) - 0.01 <= float(row["offered"]) <= float(row["high"]) + 0.01 for row in windows]
    # Of 20 intervals at 95% three or more miss in 8 of 100 cases, five or more in less than one of 300.
    assert shed and covered.count(False) <= 4, output
    assert [chart.name for chart in charts(tmp_path / "kept.csv")] == ["overload-lag", "overload-totals"]


def test_the_rides_of_the_example_come_when_they_are_due(example: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = example("shed_on_a_laptop")
    rides = found["Rides"](slow=100.0, fast=400.0)
    for number in (0, 1, 999, 1_000, 5_000, 10_999, 11_000, 11_500):
        at_s = rides.at_us(number + 1) / 1e6
        monkeypatch.setattr(time, "time", lambda at_s=at_s: at_s + 1e-5)
        assert rides.due() == number + 1
    assert found["price"](rides.ride(7))["fare"] > 3


@pytest.mark.parametrize(
    "name", but_for(["leaderboard", "custom_source"], ["leaderboard"], "one more process; [leaderboard] stays")
)
def test_an_example_prints_the_same_when_the_command_runs_it(name: str, tmp_path: Path) -> None:
    output = run("-m", "penstock", "run", ROOT / "examples" / f"{name}.py", folder=tmp_path)
    assert output == (RECORDED / f"{name}.txt").read_text()


def test_every_record_is_of_an_example() -> None:
    assert {path.stem for path in RECORDED.iterdir()} <= {path.stem for path in EXAMPLES}


def test_the_word_count_is_right(example: Any) -> None:
    found = example("word_count")
    job_module.run("test")
    counts = Counter(re.findall(r"\w+", found["TEXT"].lower()))
    best = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:6]
    rows = sorted(found["result"].rows(), key=lambda row: row["place"])
    assert [(row["word"], row["times"]) for row in rows] == best


@pytest.mark.parametrize("batch_rows", [1, 5, 100])
def test_the_leaderboard_ends_the_same_whatever_the_batches(example: Any, batch_rows: int) -> None:
    found = example("leaderboard")
    job_module.run("test", batch_rows=batch_rows)
    points: Counter[str] = Counter()
    for row in found["rows"]:
        points[row["player"]] += row["points"]
    best = sorted(points.items(), key=lambda item: (-item[1], item[0]))[:3]
    rows = sorted(found["standing"].rows(), key=lambda row: row["place"])
    assert [(row["player"], row["points"]) for row in rows] == best


@pytest.mark.parametrize("batch_rows", [1, 100])
def test_alarms_do_not_depend_on_how_fast_heartbeats_are_read(example: Any, batch_rows: int) -> None:
    found = example("process_timers")
    job_module.run("test", batch_rows=batch_rows, parallelism=2)
    start = found["START"]
    alarms = set()
    for machine, seconds in found["HEARTBEATS"].items():
        for before, after in zip(seconds, [*seconds[1:], None], strict=True):
            if after is None or after - before > 30:
                alarms.add((before + 30, machine))
    rows = [row for row in found["result"].rows() if "silent" in row["text"]]
    assert {((row["at"] - start).total_seconds(), row["machine"]) for row in rows} == alarms
    assert len(rows) == len(alarms)


def test_a_reader_of_the_custom_source_goes_on_from_a_position(example: Any) -> None:
    source = example("custom_source")["Tides"](50)
    for station in source.partitions(1):
        whole = source.open(station, None).read(100).rows.to_pylist()
        reader = source.open(station, None)
        first = reader.read(17).rows.to_pylist()
        rest = source.open(station, reader.position()).read(100).rows.to_pylist()
        assert len(first) == 17 and first + rest == whole


def test_the_readme_shows_what_the_example_prints(tmp_path: Path) -> None:
    code, output = re.findall(r"```(?:python)?\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[:2]
    program = tmp_path / "readme.py"
    program.write_text(code)
    assert sorted(run(program, folder=tmp_path).splitlines()) == sorted(output.splitlines())
    assert code.strip() in (ROOT / "examples" / "hot_bids.py").read_text()
