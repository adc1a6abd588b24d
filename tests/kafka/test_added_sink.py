"""A Kafka sink that is added to a job with checkpoints begins behind the last one, also if it is killed early."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.child import Child, Start
from penstock.engine.core.failpoint_settings import VARIABLE
from tests.chaos.fork_server import ForkServer
from tests.kafka.conftest import MakeTopic
from tests.kafka.reading import ids_in
from tests.kafka.sink_job import READ_ROWS
from tests.long_cases import but_for

JOB = Path(__file__).parent / "added_sink_job.py"
ROWS = 12_000
LAST_READ = ROWS - READ_ROWS
PATIENCE_S = 60.0
KILLED = -9


@pytest.fixture(scope="module")
def start(kafka: str) -> Iterator[Start]:
    """Starts lives, each a process of its own, with the imports of the job done."""
    with ForkServer(JOB, [kafka, "nowhere", "-", "-", "400", "0", "400"]) as server:
        yield server.start


class Lives:
    """Lives of the job, one after the other, on one checkpoint directory."""

    def __init__(self, start: Start, kafka: str, folder: Path, first: str, added: str) -> None:
        self.start, self.kafka, self.folder = start, kafka, folder
        self.first, self.added = first, added

    def begun(self) -> set[int]:
        """Live without the sink that is added later, up to a checkpoint; return what was written up to there."""
        self.live("-", "-", "checkpoint.after_commit:3", waits_at=ROWS // 2)
        written = ids_in(self.kafka, self.first)
        assert 0 < len(written) < 2 * ROWS and len(set(written)) == len(written)
        return set(written)

    def live(self, added: str, guarantee: str, failpoint: str = "", waits_at: int = LAST_READ) -> None:
        """Live to the failpoint, or to the end.

        Until it is killed the source waits with its last rows: however slow checkpoints are, the job has not ended.
        """
        arguments = ["run", str(JOB), "--parallelism=2", f"--checkpoint-dir={self.folder / 'checkpoints'}"]
        arguments += ["--checkpoint-interval=50ms", "--json", "--"]
        arguments += [self.kafka, self.first, added, guarantee, str(ROWS), "3", str(waits_at if failpoint else ROWS)]
        child = self.start(arguments, {VARIABLE: failpoint}, self.folder / "out.json")
        assert ended(child) == (KILLED if failpoint else 0), "\n".join(child.said)


def ended(child: Child) -> int:
    while not child.ended:
        assert child.next_point(PATIENCE_S) is not None or child.ended, "a life hangs"
    return child.wait()


@pytest.fixture
def lives(start: Start, kafka: str, topic: MakeTopic, tmp_path: Path) -> Lives:
    return Lives(start, kafka, tmp_path, topic(2), topic(2))


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_it_begins_behind_the_checkpoint(lives: Lives, kafka: str, guarantee: str) -> None:
    before = lives.begun()
    lives.live(lives.added, guarantee)
    assert ids_in(kafka, lives.first) == list(range(2 * ROWS))
    assert ids_in(kafka, lives.added) == sorted(set(range(2 * ROWS)) - before)


@pytest.mark.parametrize(
    "failpoint",
    but_for(
        [
            "job.sink.recovered:2",
            "kafka.kept.written:1",
            "checkpoint.manifest.published:1",
            "checkpoint.before_commit:1",
            "checkpoint.between_commits:1",
            "kafka.transaction.sent:1",
            "kafka.transaction.sent:3",
            "kafka.transaction.committed:3",
        ],
        ["kafka.transaction.sent:3"],
        "three lives for each point; one point stays",
    ),
)
def test_every_row_is_there_once_after_a_kill_around_its_first_commit(lives: Lives, kafka: str, failpoint: str) -> None:
    before = lives.begun()
    lives.live(lives.added, "exactly_once", failpoint)
    lives.live(lives.added, "exactly_once")
    assert ids_in(kafka, lives.first) == list(range(2 * ROWS))
    assert ids_in(kafka, lives.added) == sorted(set(range(2 * ROWS)) - before)


@pytest.mark.long("three lives more; test_it_begins_behind_the_checkpoint[at_least_once]")
def test_at_least_once_no_row_is_lost_by_a_kill_before_its_first_checkpoint(lives: Lives, kafka: str) -> None:
    before = lives.begun()
    lives.live(lives.added, "at_least_once", "checkpoint.manifest.published:1")
    lives.live(lives.added, "at_least_once")
    assert set(ids_in(kafka, lives.added)) == set(range(2 * ROWS)) - before
