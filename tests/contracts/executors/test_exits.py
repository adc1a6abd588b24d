"""A program that is told to end by the user's own code ends so on every executor."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

WAYS: Mapping[str, Mapping[str, Any]] = {
    "embedded": {},
    "processes": {"executor": "processes", "task_managers": 2, "parallelism": 2},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_program_ends_with_the_status_that_a_function_gives(way: str, tmp_path: Path) -> None:
    def leave_at_a_zero(row: dict[str, int]) -> dict[str, int]:
        if not row["value"]:
            sys.exit(7)
        return row

    job = ps.Job()
    rows = ps.read_memory([{"value": value} for value in (2, 1, 0)], schema={"value": "int64"}, job=job).name("rows")
    rows.map(leave_at_a_zero).write_json(tmp_path / "out").name("out")
    with pytest.raises(SystemExit) as raised:
        # An order to end is no failure after which the job begins again.
        job.run("leaving", directory=tmp_path / "job", checkpoint_dir=str(tmp_path / "kept"), **WAYS[way])
    assert raised.value.code == 7
