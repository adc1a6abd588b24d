"""An output directory that another run takes over at any step: from then on the first one changes nothing in it."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.model.connectors import Sink
from penstock.model.errors import FencedError
from penstock.model.failpoints import arm
from tests.engine.connectors.committing import INSTANCES, SCHEMA, Job, up_to, write
from tests.long_cases import but_for

# A run that is fenced closes nothing here.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


class Lease:
    """The run that has the directory is the one with the greatest number."""

    greatest = 0

    def __init__(self) -> None:
        Lease.greatest += 1
        self.number = Lease.greatest
        self.token = f"{self.number:016x}"

    def check(self) -> None:
        if self.number != Lease.greatest:
            raise FencedError("another run has taken over")


class LeasedJob(Job):
    """A job whose every start is a run of its own, and goes on from what earlier ones have completed."""

    def __init__(self, path: Path, complete: dict[int, str]) -> None:
        super().__init__(path)
        self.complete = complete

    def recover(self, epoch: int | None) -> Sink:
        sink = self.kind(self.path).with_checkpoints()
        sink.begin_run(Lease())
        sink.recover(epoch, [] if epoch is None else json.loads(self.complete[epoch]))
        return sink


def files(path: Path) -> dict[str, bytes]:
    """Return what stands in the directory, and its manifest."""
    return {item.name: item.read_bytes() for folder in (path, path / "_penstock") for item in folder.glob("*.*")}


def slept(path: Path, step: int, *, anew: bool) -> bool:
    """Let a run sleep at the step-th point while another takes over, writes, and ends; return whether it came there."""
    complete: dict[int, str] = {}
    LeasedJob(path, complete).run(3)
    # One epoch has to be taken back.
    known = {} if anew else {epoch: complete[epoch] for epoch in (1, 2)}
    taken: list[dict[str, bytes]] = []
    passed = iter(range(step))

    def take_over(name: str) -> None:
        if next(passed, None) is not None:
            return
        arm(None)
        heir = LeasedJob(path, dict(known))
        heir.run(5)
        assert heir.visible() == up_to(5)
        taken.append(files(path))

    sleeper = LeasedJob(path, known)
    arm(take_over)
    with suppress(FencedError):
        sleeper.run(4)
    arm(None)
    if taken:
        assert files(path) == taken[0]
    return bool(taken)


@pytest.mark.parametrize("anew", but_for([False, True], [False], "every step once more; the run that goes on stays"))
def test_at_whatever_step_a_run_sleeps_it_changes_nothing_once_another_has_taken_over(
    tmp_path: Path, anew: bool
) -> None:
    step = 0
    while slept(tmp_path / f"{step}", step, anew=anew):
        step += 1
    assert step > 40


def test_staged_files_of_a_version_without_runs_are_taken_over(tmp_path: Path) -> None:
    old = Job(tmp_path / "out")
    old.run(2)
    sink = old.recover(2)
    writers = [sink.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]
    write(writers, 3)
    old.complete[3] = json.dumps([writer.prepare(3) for writer in writers])
    job = LeasedJob(old.path, old.complete)
    job.run(4)
    assert job.visible() == up_to(4)
    assert [path.name for path in (job.path / "_penstock").iterdir()] == ["manifest-0000000004.json"]
