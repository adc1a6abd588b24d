"""Heads on Ray are killed while rows flow: their task managers go on, and the heads that follow adopt them."""

import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray

from penstock.cluster.heads import Head, HeadAwayError, find_head, heads
from penstock.engine.executors.ray.outliving import left_places, survivors
from penstock.model.errors import WorkerLostError
from tests.contracts.executors.metered import until
from tests.penstock.cluster.test_head_actor import PROGRAM, Program, ended
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

FLOWING = PROGRAM.replace(
    """        yield {"number": number, "word": WORD}
""",
    """        (here / "read").write_text(str(number))
        for _ in range(PAUSES):
            yield None
        yield {"number": number, "word": WORD}
    while not (here / "end").exists():
        yield None
""",
).replace("from words import WORD", "from words import WORD, PAUSES, ROWS")
FLOWING = re.sub(r"range\(\d+\)", "range(ROWS)", FLOWING, count=1)

ADOPTED = re.compile(r"^ADOPTED: ", re.MULTILINE)


class Flowing(Program):
    """A program that reads a row every few milliseconds, and ends once it may."""

    def read(self) -> int:
        """Return how many rows it has read, about."""
        try:
            return int((self.folder / "read").read_text() or "0")
        except FileNotFoundError:
            return 0

    def processes(self) -> set[str]:
        """Return the processes in which its source was begun."""
        return set((self.folder / "begun").read_text().split())

    def lines(self) -> str:
        """Return what its head has said so far."""
        try:
            return "\n".join(find_head(self.name).report().lines)
        except (HeadAwayError, WorkerLostError):
            return ""


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
        return report.head > heads_before and any(line.startswith("ADOPTED: ") for line in report.lines)

    until(is_adopted)


@pytest.mark.parametrize("kill", [kill_by_signal, kill_by_ray])
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
    (flowing.folder / "end").touch()
    head = find_head(flowing.name)
    code, _, err = ended(flowing.penstock("stop", flowing.name, "--address", flowing.address))
    assert code == 0, err
    numbers = flowing.numbers()
    assert numbers == list(range(len(numbers)))
    assert len(flowing.processes()) == 1
    ended(driver)
    assert not survivors(flowing.name) and not list(left_places(flowing.name))
