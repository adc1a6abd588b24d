"""Options by their types: a misspelt one is an error before anything runs, and all lists of options agree."""

import subprocess
import sys
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import typer

import penstock as ps
from penstock.commands import cli
from penstock.commands.run_start import RunOverrides
from penstock.model import option_literals
from penstock.model.config import LoopOptions
from penstock.runs.cores import usable_cores
from penstock.runs.job_options import JobOptions
from penstock.runs.run_options import RunOptions, make_options
from tests.docs.pages import ROOT

OPTIONS = set(get_type_hints(JobOptions))
OF_THE_COMMAND = {"file", "arguments", "name", "sinks_into", "generated_names", "as_json", "debug", "help"}
"""What ``penstock run`` takes that is no option of a job."""


def test_the_command_line_has_options_of_jobs_under_their_names() -> None:
    run = typer.main.get_command(cli.app).commands["run"]
    given = {item.name for item in run.params} - OF_THE_COMMAND
    # What these and `--control` say is one option of a job.
    of_control = {"shed", "scale", "placement", "cores", "first_cores", "memory", "quota", "priority", "parameters"}
    assert given - OPTIONS == of_control
    assert {"checkpoint_dir", "checkpoint_interval", "metrics_host", "metrics_token", "metrics_port"} <= given
    assert given == set(RunOverrides.__dataclass_fields__) - {"name", "sinks_into", "generated_names"}


def test_options_reach_what_they_set() -> None:
    assert set(LoopOptions.__dataclass_fields__) - OPTIONS == {"emit_interval_us"}
    assert make_options("job", {"emit_interval": "50ms"}).loop.emit_interval_us == 50_000
    kept = {"parallelism", "directory", "savepoint_on_stop", "metrics_port", "metrics_host", "metrics_token"}
    kept |= {"action_token", "executor", "task_managers", "transport", "address", "spread"}
    assert kept <= set(RunOptions.__dataclass_fields__) & OPTIONS
    chosen = make_options("job", {"metrics_port": 7, "batch_rows": 5, "savepoint_on_stop": "friday"})
    assert (chosen.metrics_port, chosen.loop.batch_rows, chosen.savepoint_on_stop) == (7, 5, "friday")


def test_each_task_manager_has_an_instance_unless_a_number_is_given() -> None:
    def instances(overrides: RunOverrides | None = None, **options: Any) -> int:
        chosen = make_options("job", options)
        return (chosen if overrides is None else overrides.apply(chosen)).instances

    there = {"executor": "processes", "task_managers": 3}
    assert instances() == instances(parallelism="auto") == 1
    assert instances(**there) == instances(**there, parallelism="auto") == 3
    assert instances(executor="processes") == usable_cores()
    assert instances(**there, key_groups=2) == 2
    assert instances(**there, parallelism=1) == 1
    assert instances(RunOverrides(executor="processes", task_managers=3)) == 3
    assert instances(RunOverrides(executor="processes", task_managers=3), parallelism=2) == 2
    assert instances(RunOverrides(parallelism="auto", executor="processes", task_managers=3), parallelism=2) == 3
    assert instances(RunOverrides(executor="embedded"), executor="processes") == 1


def test_a_cluster_is_for_the_executor_that_has_one() -> None:
    assert make_options("job", {"executor": "ray", "address": "host:6379", "spread": True}).address == "host:6379"
    for option, value in {"address": "host:6379", "spread": True}.items():
        with pytest.raises(ps.OptionError, match=f"{option} needs executor='ray'"):
            make_options("job", {"executor": "processes", option: value})
    with pytest.raises(ps.OptionError, match="executor is 'embedded', 'processes' or 'ray', not 'spark'"):
        make_options("job", {"executor": "spark"})


def test_every_option_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "running.md").read_text(encoding="utf-8")
    assert [name for name in sorted(OPTIONS) if f"`{name}`" not in page] == []


def test_a_misspelt_option_names_the_one_that_was_meant() -> None:
    with pytest.raises(ps.OptionError, match=r"unknown option 'checkpoint_directory'; did you mean 'checkpoint_dir'\?"):
        make_options("job", {"checkpoint_directory": "x"})


WRONG = {
    'ps.run(checkpoint_directory="x")': 'Unexpected keyword argument "checkpoint_directory"',
    'ps.start(parallelism="2")': "incompatible type \"Literal['2']\"; expected \"int | Literal['auto']\"",
    'ps.Job().run(restart_delays="1s")': 'Unexpected keyword argument "restart_delays"',
    'ps.read_csv("x.csv", on_error="drop")': "Literal['dead_letter', 'skip', 'fail']",
    's.join(s, "a", how="outer")': "Literal['inner', 'left', 'right', 'full']",
    's.write_csv("x", mode="overwrite")': "Literal['append', 'changelog', 'upsert']",
    's.write_kafka("t", kafka="h:1", guarantee="at_most_once")': "Literal['at_least_once', 'exactly_once']",
    'ps.tumbling("1s", clock="wall")': "Literal['event', 'processing']",
    's.map_batches(len, format="arrow")': "Literal['pyarrow', 'polars', 'pandas', 'numpy']",
    's.key_by("a").deduplicate("newest")': "Literal['first', 'last']",
}
RIGHT = ['ps.run("job", checkpoint_dir="x", checkpoint_interval="1 minute", restarts=None)', "ps.run()"]


@pytest.mark.long("mypy from nothing; make type, and test_type_checkers_see_the_same_names of imports")
def test_a_type_checker_knows_options_and_modes(tmp_path: Path) -> None:
    lines = ["import penstock as ps", 's = ps.read_csv("x.csv")', *WRONG, *RIGHT]
    file = tmp_path / "pipeline.py"
    file.write_text("\n".join(lines) + "\n")
    check = [sys.executable, "-m", "mypy", "--no-incremental", "--config-file", str(ROOT / "setup.cfg"), str(file)]
    ran = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, check=False)
    found = {line.split(":")[1]: line for line in ran.stdout.splitlines() if ": error: " in line}
    assert set(found) == {str(number) for number, _ in enumerate(WRONG, 3)}, ran.stdout
    for number, said in enumerate(WRONG.values(), 3):
        assert said in found[str(number)]


@pytest.mark.parametrize("name", [name for name in vars(option_literals) if name[0].isupper() and name != "Literal"])
def test_modes_are_words(name: str) -> None:
    words = get_args(getattr(option_literals, name))
    assert len(words) >= 2 and len(set(words)) == len(words) and all(isinstance(word, str) for word in words)
