"""R3: a job that writes exactly once is killed at every point around a commit, and nothing is lost or there twice."""

from collections.abc import Iterator
from itertools import cycle
from pathlib import Path

import pytest

from penstock.chaos.child import Child, Start
from penstock.engine.core.failpoint_settings import VARIABLE
from tests.chaos.fork_server import ForkServer
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import ids_in
from tests.kafka.sink_job import READ_ROWS

JOB = Path(__file__).parent / "sink_job.py"
POINTS = [
    "checkpoint.before_commit",
    "kafka.transaction.before",
    "kafka.transaction.delivered",
    "kafka.transaction.sent",
    "kafka.transaction.committed",
    "kafka.kept.before_delete",
    "kafka.kept.deleted",
    "checkpoint.between_commits",
    "checkpoint.after_commit",
    "kafka.kept.before_write",
    "kafka.kept.written",
    "checkpoint.manifest.published",
    "kafka.id.opened",
    "kafka.recover.taken",
    "kafka.recover.settled",
]
ROWS = 20_000
LAST_READ = ROWS - READ_ROWS
PATIENCE_S = 60.0


@pytest.fixture(scope="module")
def start(kafka: str) -> Iterator[Start]:
    """Starts lives, each a process of its own, with the imports of the job done."""
    with ForkServer(JOB, [kafka, "nowhere", "400", "0", "400"]) as server:
        yield server.start


def life(
    start: Start, folder: Path, kafka: str, topic: str, parallelism: int, failpoints: str, waits_at: int = ROWS
) -> Child:
    arguments = ["run", str(JOB), f"--parallelism={parallelism}", f"--checkpoint-dir={folder / 'checkpoints'}"]
    arguments += ["--checkpoint-interval=50ms", "--json", "--", kafka, topic, str(ROWS), "3", str(waits_at)]
    return start(arguments, {VARIABLE: failpoints}, folder / "out.json")


def ended(child: Child) -> int:
    while not child.ended:
        assert child.next_point(PATIENCE_S) is not None or child.ended, "a life hangs"
    return child.wait()


@pytest.mark.slow
@pytest.mark.long("a kill at each of fifteen points; test_between_complete_and_commit has three")
@pytest.mark.parametrize("nth", [1, 3])
def test_every_point(start: Start, kafka: str, topic: MakeTopic, tmp_path: Path, nth: int) -> None:
    """One job, a life for each point, at changing parallelism."""
    name = topic(3)
    parallelism = cycle([1, 3, 2])
    unreached = []
    for point in POINTS:
        code = ended(life(start, tmp_path, kafka, name, next(parallelism), f"{point}:{nth}"))
        if code != -9:
            unreached.append(point)
    assert unreached == [] or nth > 1
    last = life(start, tmp_path, kafka, name, 2, "")
    assert ended(last) == 0, "\n".join(last.said)
    assert ids_in(kafka, name) == list(range(2 * ROWS))
    assert list((tmp_path / "checkpoints").rglob("kept/*/*.arrow")) == []


def test_between_complete_and_commit(start: Start, kafka: str, topic: MakeTopic, tmp_path: Path) -> None:
    """Until a life is killed its source waits with its last rows: however slow checkpoints are, it has not ended."""
    name = topic(2)
    for point in ("checkpoint.before_commit:2", "kafka.transaction.sent:3", "kafka.transaction.committed:3"):
        assert ended(life(start, tmp_path, kafka, name, 2, point, LAST_READ)) == -9
    assert ended(life(start, tmp_path, kafka, name, 1, "")) == 0
    assert ids_in(kafka, name) == list(range(2 * ROWS))
