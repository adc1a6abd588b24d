"""Heads on Ray are killed while rows flow: their task managers go on, and the heads that follow adopt them."""

import os
import re
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from penstock.cluster.head_actor import ALONE_S
from penstock.cluster.heads import Head, HeadAwayError, find_head, heads
from penstock.engine.executors.ray.outliving import left_places, survivors
from penstock.model.errors import WorkerLostError
from tests.contracts.executors.metered import until
from tests.long_cases import but_for
from tests.penstock.cluster.test_head_actor import PROGRAM, Program, ended
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

FLOWING = PROGRAM.replace(
    """        yield {"number": number, "word": WORD}
""",
    """        with (here / "read").open("a") as file:
            file.write(".")
        for _ in range(PAUSES):
            yield None
        yield {"number": number, "word": WORD}
    while not (here / "end").exists():
        yield None
""",
).replace("from words import WORD", "from words import WORD, PAUSES, ROWS")
FLOWING = re.sub(r"range\(\d+\)", "range(ROWS)", FLOWING, count=1)


LEAVING_S = 60
"""How long the end may take of those that have no head."""


class Flowing(Program):
    """A program that reads a row every few milliseconds, and ends once it may."""

    def read(self) -> int:
        """Return how many rows it has read, about."""
        return (self.folder / "read").stat().st_size

    def processes(self) -> set[str]:
        """Return the processes in which its source was begun."""
        return set((self.folder / "begun").read_text().split())


@pytest.fixture
def flowing(on_ray: RayCluster, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Flowing]:
    """Return a program whose job ends with the test."""
    (tmp_path / "program.py").write_text(FLOWING)
    (tmp_path / "words.py").write_text("WORD, PAUSES, ROWS = 'word', 2, 1_000_000\n")
    (tmp_path / "go").touch()
    name = request.node.name.replace("[", "-").rstrip("]")
    yield Flowing(tmp_path, name, on_ray.address)
    for head in heads():
        if head.job == name:
            head.kill()


def begun(program: Flowing) -> Head:
    """Wait until the job has committed rows; return its head."""
    until(lambda: len(program.numbers()) > 0)
    return find_head(program.name)


def kill_by_signal(head: Head) -> None:
    os.kill(head.pid(), signal.SIGKILL)


def kill_by_ray(head: Head) -> None:
    ray.kill(head._actor, no_restart=False)


def await_adoption(program: Flowing, heads_before: int) -> None:
    """Wait until a later head has adopted what runs."""

    def is_adopted() -> bool:
        try:
            report = find_head(program.name).report()
        except (HeadAwayError, WorkerLostError):
            return False
        assert not any(line.startswith("NOT ADOPTED") for line in report.lines), report.lines
        return report.head > heads_before and any(line.startswith("ADOPTED: ") for line in report.lines)

    until(is_adopted)


@pytest.mark.parametrize(
    "kill", but_for([kill_by_signal, kill_by_ray], [kill_by_signal], "the other way of losing a head; a signal stays")
)
def test_rows_flow_while_there_is_no_head_and_the_next_commits_them(flowing: Flowing, kill) -> None:
    driver = flowing.start()
    head = begun(flowing)
    committed, read, killed_s = len(flowing.numbers()), flowing.read(), time.monotonic()
    kill(head)
    # Without a head nothing is committed; rows are read all the same.
    until(lambda: flowing.read() > read + 20)
    read_alone = flowing.read() - read
    await_adoption(flowing, 1)
    adopted_s = time.monotonic() - killed_s
    until(lambda: len(flowing.numbers()) > committed + read_alone)
    print(
        f"{read_alone} rows read alone, adopted after {adopted_s:.1f} s, committed {time.monotonic() - killed_s:.1f} s"
    )
    assert len(flowing.processes()) == 1
    stop(flowing)
    assert len(flowing.processes()) == 1
    ended(driver)


def stop(program: Flowing) -> None:
    """Stop the job, and hold its output to what it is: every row once, as far as it has come. Nothing of it is left."""
    code, _, err = ended(program.penstock("stop", program.name, "--address", program.address))
    assert code == 0, err
    numbers = program.numbers()
    assert numbers == list(range(len(numbers)))
    until(lambda: not survivors(program.name) and not list(left_places(program.name)))


def await_committed(program: Flowing, rows: int) -> None:
    """Wait until more rows than these are in the output for good."""
    until(lambda: len(program.numbers()) > rows)


@pytest.mark.long("ten heads, a minute and a half; one head of each way stays")
def test_ten_heads_are_killed_and_every_row_is_there_once(flowing: Flowing) -> None:
    driver = flowing.start()
    begun(flowing)
    waits = []
    for number in range(1, 11):
        committed = len(flowing.numbers())
        killed_s = time.monotonic()
        (kill_by_signal if number % 2 else kill_by_ray)(find_head(flowing.name))
        await_adoption(flowing, number)
        read = flowing.read()
        await_committed(flowing, max(committed, read))
        waits.append(time.monotonic() - killed_s)
    print(f"kill to next commit, s: {[round(wait, 1) for wait in waits]}")
    assert max(waits) < 15
    stop(flowing)
    assert len(flowing.processes()) == 1
    ended(driver)


@pytest.mark.long("a driver, a head and a task manager; heads that are killed beside their drivers stay")
def test_without_its_driver_a_new_task_manager_finds_the_modules_of_the_user(flowing: Flowing) -> None:
    driver = flowing.start()
    head = begun(flowing)
    driver.kill()
    ended(driver)
    kill_by_signal(head)
    await_adoption(flowing, 1)
    (process,) = flowing.processes()
    os.kill(int(process), signal.SIGKILL)
    until(lambda: len(flowing.processes()) == 2)
    read = flowing.read()
    until(lambda: flowing.read() > read + 50)
    stop(flowing)


@pytest.mark.long("a minute without a head")
def test_who_is_never_found_by_a_head_ends_and_leaves_nothing(flowing: Flowing, on_ray: RayCluster) -> None:
    driver = flowing.start()
    head = begun(flowing)
    driver.kill()
    ended(driver)
    ray.kill(head._actor, no_restart=True)
    read = flowing.read()
    until(lambda: flowing.read() > read + 50)
    assert survivors(flowing.name) and list(left_places(flowing.name))
    until_s = time.monotonic() + ALONE_S + LEAVING_S
    while survivors(flowing.name) or list(left_places(flowing.name)):
        assert time.monotonic() < until_s
        threading.Event().wait(1)
    until(lambda: on_ray.task_managers() == [])
    numbers = flowing.numbers()
    assert numbers == list(range(len(numbers)))
