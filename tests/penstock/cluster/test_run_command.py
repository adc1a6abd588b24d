"""The command that a job of Ray carries out, as a line for its shell."""

import shlex

from penstock.cluster.ray_jobs import RunCommand


def test_the_file_and_options_come_first_and_its_own_arguments_behind_two_dashes() -> None:
    command = RunCommand("shops.py", ("--day", "2026-01-01; rm x"), {"--name": "my shops", "--task-managers": "3"})
    words = shlex.split(command.line())
    assert words == [
        *("penstock", "run", "--name=my shops", "--task-managers=3", "--executor=ray"),
        *("shops.py", "--", "--day", "2026-01-01; rm x"),
    ]


def test_without_arguments_there_are_no_dashes() -> None:
    assert RunCommand("shops.py").line() == "penstock run --executor=ray shops.py"
