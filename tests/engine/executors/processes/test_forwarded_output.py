"""What task managers print while something stands in for the head's standard output, as in a notebook."""

import os
import subprocess
import sys
import threading
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import penstock as ps
from tests.engine.executors.processes.started import started

ROOT = Path(__file__).resolve().parents[4]


def descriptors() -> set[str]:
    return {path.name for path in Path("/proc/self/fd").iterdir()}


def test_what_they_print_comes_to_what_stands_in_for_the_heads_output_in_whole_lines() -> None:
    threads, lines, length = 4, 50, 9_000
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as errors:
        before = descriptors(), set(threading.enumerate())
        with started("tm-0", "tm-1") as each:
            for name in ("tm-0", "tm-1"):
                each.say(name, "print", threads, lines, length)
            for name in ("tm-0", "tm-1"):
                each.listen(name)
        assert (descriptors(), set(threading.enumerate())) == before
    printed = Counter(tuple(line.split(" ")) for file in (out, errors) for line in file.getvalue().splitlines())
    pids = {words[0] for words in printed}
    assert len(pids) == 2 and str(os.getpid()) not in pids
    expected = [
        (pid, str(thread), str(line), "x" * length)
        for pid in pids
        for thread in range(threads)
        for line in range(lines)
    ]
    assert printed == Counter(expected)


def test_a_line_that_does_not_end_comes_while_the_task_manager_lives() -> None:
    class Heard(StringIO):
        def write(self, text: str) -> int:
            heard.set()
            return super().write(text)

    heard = threading.Event()
    with redirect_stdout(Heard()) as out, started("tm-0") as each:
        each.ask("tm-0", "print begun", "half an é")
        each.ask("tm-0", "flush")
        assert heard.wait(60)
        assert out.getvalue() == "half an é"


def test_what_a_closed_stand_in_does_not_take_goes_to_the_descriptor() -> None:
    program = """
import sys
from contextlib import redirect_stdout
from io import StringIO
from tests.engine.executors.processes.started import started
with redirect_stdout(StringIO()) as other:
    launched = started("tm-0")
    each = launched.__enter__()
other.close()
each.ask("tm-0", "print begun", "late\\n")
launched.__exit__(None, None, None)
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "late\n"


def test_a_program_that_outlives_its_task_manager_does_not_hold_up_the_end() -> None:
    with redirect_stdout(StringIO()) as out:
        with started("tm-0") as each:
            pid = each.ask("tm-0", "leave behind")
        assert out.getvalue() == ""
    os.kill(pid, 9)


@pytest.mark.parametrize("count", [1, 2])
def test_a_job_prints_where_its_caller_prints(count: int) -> None:
    def show(row: dict[str, int]) -> dict[str, int]:
        print("row", row["value"])
        return row

    job = ps.Job()
    ps.read_memory([{"value": value} for value in range(5)], job=job).map(show).write_black_hole()
    with redirect_stdout(StringIO()) as out:
        job.run("printing", executor="processes", task_managers=count, parallelism=count)
    assert sorted(out.getvalue().splitlines()) == [f"row {value}" for value in range(5)]
