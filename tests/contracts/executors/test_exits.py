"""A program that is told to end by the user's own code ends so on every executor."""

import sys
from pathlib import Path

import pytest

import penstock as ps
from tests.contracts.executors.ways import CASES, EXECUTORS


@pytest.mark.parametrize("executor", CASES)
def test_the_program_ends_with_the_status_that_a_function_gives(executor: str, tmp_path: Path) -> None:
    def leave_at_a_zero(row: dict[str, int]) -> dict[str, int]:
        if not row["value"]:
            sys.exit(7)
        return row

    options = {"parallelism": 2, **EXECUTORS[executor]} if EXECUTORS[executor] else {}
    job = ps.Job()
    rows = ps.read_memory([{"value": value} for value in (2, 1, 0)], schema={"value": "int64"}, job=job).name("rows")
    rows.map(leave_at_a_zero).write_json(tmp_path / "out").name("out")
    with pytest.raises(SystemExit) as raised:
        # An order to end is no failure after which the job begins again.
        job.run("leaving", directory=tmp_path / "job", checkpoint_dir=str(tmp_path / "kept"), **options)
    assert raised.value.code == 7
