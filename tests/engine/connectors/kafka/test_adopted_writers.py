"""Writers to a topic whose committing process is gone, or sleeps, at any step: another publishes what they keep."""

from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest

from penstock.engine.connectors.kafka.kept_epochs import EpochFile, KeptEpochs
from penstock.engine.connectors.kafka.receipts import from_claim, to_claim, to_receipt
from penstock.engine.connectors.kafka.sink_commits import SinkCommits
from penstock.model.errors import FatalError, PenstockError
from penstock.model.failpoints import arm
from tests.engine.connectors.kafka.broker_model import SCHEMA, Death, ModelTransport, World

COMMIT_STEPS = 14
IDS = ("id-0", "id-1")


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    yield
    arm(None)


class Scene:
    """A process that commits, and writers elsewhere, which have its claim."""

    def __init__(self) -> None:
        self.world = World()
        self.kept = KeptEpochs(self.world.files)
        self.commits = self.begin()
        self.commits.recover(None, [])
        self.claim = to_claim(self.commits.claim)
        self.receipts: dict[int, list[object]] = {}
        self.values: list[int] = []

    def begin(self) -> SinkCommits:
        def make(name: str) -> ModelTransport:
            return ModelTransport(self.world.broker, name, self.kept)

        return SinkCommits(IDS, make, self.kept, draw=self.world.draw)

    def prepare(self, epoch: int) -> list[object]:
        receipts: list[object] = []
        for number, name in enumerate(IDS):
            messages = EpochFile()
            values = [1_000 * epoch + 10 * number + row for row in range(2)]
            messages.add(pa.RecordBatch.from_pylist([{"value": value} for value in values], schema=SCHEMA))
            self.values += values
            receipts.append(to_receipt(self.kept.keep(from_claim(self.claim), name, epoch, messages)))
        self.receipts[epoch] = receipts
        return receipts

    def adopt(self, epoch: int) -> SinkCommits:
        heir = self.begin()
        heir.adopt(epoch, from_claim(self.claim))
        return heir

    def is_published(self) -> bool:
        return sorted(self.world.broker.values) == sorted(self.values)


@pytest.mark.parametrize("step", range(COMMIT_STEPS))
def test_a_commit_that_was_broken_off_is_finished_by_who_adopts(step: int) -> None:
    scene = Scene()
    scene.commits.commit(1, scene.prepare(1))
    receipts = scene.prepare(2)
    steps = iter(range(step))

    def pass_by(name: str) -> None:
        if next(steps, None) is None:
            raise Death

    arm(pass_by)
    with suppress(Death):
        scene.commits.commit(2, receipts)
    arm(None)
    heir = scene.adopt(2)
    heir.commit(2, receipts)
    assert scene.is_published()
    given_up = scene.prepare(3)
    heir.commit(4, [*given_up, *scene.prepare(4)])
    assert scene.is_published()


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("step", range(COMMIT_STEPS))
def test_who_wakes_up_in_a_commit_repeats_nothing(step: int, at_once: bool) -> None:
    scene = Scene()
    scene.commits.commit(1, scene.prepare(1))
    receipts = scene.prepare(2)
    heirs: list[SinkCommits] = []
    steps = iter(range(step))

    def take_over(name: str) -> None:
        if heirs or next(steps, None) is not None:
            return
        arm(None)
        heirs.append(scene.adopt(2))
        if at_once:
            go_on()

    def go_on() -> None:
        heirs[0].commit(2, receipts)
        heirs[0].commit(3, scene.prepare(3))

    arm(take_over)
    with suppress(PenstockError):
        scene.commits.commit(2, receipts)
    arm(None)
    if heirs and not at_once:
        go_on()
    if heirs:
        assert scene.is_published()
        heirs[0].commit(4, scene.prepare(4))
    assert scene.is_published()


def test_ids_that_another_start_has_taken_since_are_no_adoption() -> None:
    scene = Scene()
    scene.commits.commit(1, scene.prepare(1))
    scene.begin().recover(1, scene.receipts[1])
    with pytest.raises(FatalError, match="is not as the writers that live have left it"):
        scene.adopt(1)


def test_output_behind_the_checkpoint_is_no_adoption() -> None:
    scene = Scene()
    for epoch in (1, 2):
        scene.commits.commit(epoch, scene.prepare(epoch))
    with pytest.raises(FatalError, match="behind checkpoint 1"):
        scene.adopt(1)


def test_a_claim_of_no_kafka_sink_is_refused() -> None:
    with pytest.raises(FatalError, match="no claim of a Kafka sink"):
        from_claim(None)
