"""Writers of files whose committing process is gone, or sleeps, at any step: another commits what they have staged."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from penstock.engine.connectors.files.sinks import JsonLinesSink
from penstock.model.connectors import Sink, Writer
from penstock.model.errors import FatalError, FencedError
from penstock.model.failpoints import arm
from penstock.model.sink_context import RunMark
from tests.engine.connectors.committing import INSTANCES, SCHEMA, Death, up_to, write
from tests.engine.connectors.files.test_run_staging import Lease

COMMIT_STEPS = 16


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


class Scene:
    """A sink that commits, and one that writes elsewhere, as of another process."""

    def __init__(self, path: Path) -> None:
        self.path, self.receipts = path, {}
        self.sink = self.begin()
        self.sink.recover(None, [])
        self.writing = JsonLinesSink(path).with_checkpoints()
        mark = self.lease
        self.writing.begin_run(RunMark(mark.number, mark.token))
        self.writers: list[Writer] = [self.writing.open(SCHEMA, instance, INSTANCES) for instance in range(INSTANCES)]

    def begin(self) -> Sink:
        """Return a sink of another run, which has the lease."""
        self.lease = Lease()
        sink = JsonLinesSink(self.path).with_checkpoints()
        sink.begin_run(self.lease)
        return sink

    def prepare(self, epoch: int) -> list[object]:
        write(self.writers, epoch)
        self.receipts[epoch] = json.loads(json.dumps([writer.prepare(epoch) for writer in self.writers]))
        return self.receipts[epoch]

    def adopt(self, epoch: int, later: list[object]) -> Sink:
        heir = self.begin()
        heir.adopt(epoch, [*self.receipts.get(epoch, []), *later], self.writing.claim())
        return heir

    def visible(self) -> list[int]:
        return sorted(
            json.loads(line)["a"] for path in self.path.glob("*.jsonl") for line in path.read_text().splitlines()
        )


def die_at(step: int) -> None:
    steps = iter(range(step))

    def pass_by(name: str) -> None:
        if next(steps, None) is None:
            raise Death

    arm(pass_by)


@pytest.mark.parametrize("step", range(COMMIT_STEPS))
def test_a_commit_that_was_broken_off_is_finished_by_who_adopts(tmp_path: Path, step: int) -> None:
    scene = Scene(tmp_path / "out")
    scene.sink.commit(1, scene.prepare(1))
    receipts = scene.prepare(2)
    die_at(step)
    with suppress(Death):
        scene.sink.commit(2, receipts)
    arm(None)
    # What follows is staged while nobody commits, and of an epoch that is given up.
    given_up = scene.prepare(3)
    heir = scene.adopt(2, given_up)
    heir.commit(2, receipts)
    assert scene.visible() == up_to(2)
    heir.commit(4, [*given_up, *scene.prepare(4)])
    assert scene.visible() == up_to(4)


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("step", range(COMMIT_STEPS))
def test_who_wakes_up_in_a_commit_changes_nothing(tmp_path: Path, step: int, at_once: bool) -> None:
    scene = Scene(tmp_path / "out")
    scene.sink.commit(1, scene.prepare(1))
    receipts = scene.prepare(2)
    heirs: list[Sink] = []
    steps = iter(range(step))

    def take_over(name: str) -> None:
        if heirs or next(steps, None) is not None:
            return
        arm(None)
        heirs.append(scene.adopt(2, []))
        if at_once:
            go_on()

    def go_on() -> None:
        heirs[0].commit(2, receipts)
        heirs[0].commit(3, scene.prepare(3))

    arm(take_over)
    with suppress(FencedError, FatalError):
        scene.sink.commit(2, receipts)
    arm(None)
    if heirs and not at_once:
        go_on()
    if heirs:
        assert scene.visible() == up_to(3)
        heirs[0].commit(4, scene.prepare(4))
        assert scene.visible() == up_to(4)


def test_who_has_adopted_stays_with_the_writers_until_it_recovers(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out")
    scene.sink.commit(1, scene.prepare(1))
    heir = scene.adopt(1, [])
    # Another region has restarted: the run begins again, and these writers live.
    heir.begin_run(scene.lease)
    heir.commit(2, scene.prepare(2))
    heir.recover(2, scene.receipts[2])
    own = [path.name for path in (tmp_path / "out" / "_staging").iterdir()]
    assert own == [f"run-{scene.lease.number:010d}-{scene.lease.token}"]
    assert scene.visible() == up_to(2)


def test_a_staged_file_that_is_gone_is_no_adoption(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out")
    scene.sink.commit(1, scene.prepare(1))
    later = scene.prepare(3)
    for path in (tmp_path / "out" / "_staging").rglob("part-*"):
        path.unlink()
    with pytest.raises(FatalError, match="is gone"):
        scene.adopt(1, later)


def test_output_behind_the_checkpoint_is_no_adoption(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out")
    for epoch in (1, 2):
        scene.sink.commit(epoch, scene.prepare(epoch))
    with pytest.raises(FatalError, match="other output"):
        scene.adopt(1, [])


def test_who_has_lost_the_lease_adopts_nobody(tmp_path: Path) -> None:
    scene = Scene(tmp_path / "out")
    scene.sink.commit(1, scene.prepare(1))
    heir = scene.begin()
    scene.begin()
    with pytest.raises(FencedError):
        heir.adopt(1, scene.receipts[1], scene.writing.claim())
