"""``penstock simulate``: seeds and faults as text, reports for people and for programs, exit codes."""

import json
import re

import pytest

import penstock as ps
from penstock.chaos.simulation import SimulateOptions, parse_faults, parse_seeds, print_report, simulate
from penstock.commands.cli import main
from penstock.engine.executors.simulation.faults import Faults
from penstock.model.errors import OptionError

PIPELINE = """
import penstock as ps
from penstock import count

rows = ps.read_memory([{"key": number % 5, "value": number} for number in range(60)]).name("rows")
rows.key_by("key").agg(n=count()).name("counts").write_json("never.jsonl", mode="changelog").name("out")
ps.run("small")
"""


@pytest.fixture(autouse=True)
def own_default_job(monkeypatch):
    """Keep what the files put into the default job from whatever this process runs next."""
    monkeypatch.setattr("penstock.dsl.job._default_job", ps.Job())


def test_seeds_are_one_or_a_range():
    assert parse_seeds("7") == range(7, 8)
    assert parse_seeds("1..200") == range(1, 201)
    for wrong in ("", "x", "5..1", "-1"):
        with pytest.raises(OptionError, match=r"1\.\.200"):
            parse_seeds(wrong)


def test_faults_are_all_some_or_none():
    assert parse_faults(None) == Faults()
    assert parse_faults("crash,cut") == Faults(delay=False, disk=False)
    assert not parse_faults("none").any()


def test_the_command_runs_a_file_and_writes_nothing(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "pipeline.py", "--seeds", "1..3", "--json"])
    assert ended.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["seeds"], report["rows"]) == ("same", 3, 60)
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.py"]


def test_little_memory_lets_keyed_operators_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "pipeline.py", "--seeds", "1..2", "--state-bytes", "2000", "--json"])
    assert ended.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["seeds"]) == ("same", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.py"]


def test_operators_need_no_names(tmp_path, capsys, monkeypatch):
    """The program does not change between two runs, so that positions serve, also where the job takes checkpoints."""
    monkeypatch.chdir(tmp_path)
    unnamed = re.sub(r'\.name\("\w+"\)', "", PIPELINE).replace('run("small"', 'run("small", checkpoint_dir="kept"')
    assert ".name(" not in unnamed
    (tmp_path / "pipeline.py").write_text(unnamed)
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "pipeline.py", "--seeds", "1..3", "--json"])
    assert ended.value.code == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["status"], report["seeds"]) == ("same", 3)
    assert [path.name for path in tmp_path.iterdir()] == ["pipeline.py"]


def test_a_budget_is_at_least_a_byte():
    with pytest.raises(OptionError, match="state_bytes"):
        SimulateOptions(range(1), state_bytes=0)


def test_the_first_seed_that_differs_is_told_with_its_history(capsys):
    job = ps.Job()
    calls = []

    def numbered(row):
        calls.append(row)
        return {"call": len(calls)}

    ps.read_memory([{"key": 1}] * 20, job=job).map(numbered, schema={"call": "int64"}).collect().name("out")
    report = simulate(job, SimulateOptions(parse_seeds("4..9")))
    assert report.failed is not None
    assert (report.failed.seed, report.seeds) == (4, 1)
    print_report(report, as_json=False)
    printed = capsys.readouterr().out
    assert "seed 4 differs: sink 'out': 20 rows are missing and 20 are too many" in printed
    assert "attempt 1 begins from nothing" in printed
