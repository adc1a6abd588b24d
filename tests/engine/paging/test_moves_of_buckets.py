"""Every kind of keyed operator gives while its buckets go from instance to instance what it gives alone."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import Batch, Reroute
from penstock.engine.paging import paged_operator
from penstock.engine.paging.bucket import Bucket, swept_us
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.model.ids import TaskId
from penstock.model.key_groups import moved
from tests.engine.paging.counting import counts, everything, paged, rows, spread
from tests.engine.paging.driving import KEY_GROUPS, Paged, Plain, do, finish, steps_of, tiny
from tests.engine.paging.kinds import KINDS, Kind, batch_of
from tests.engine.paging.test_every_kind import batches, same
from tests.engine.paging.test_frozen_buckets import work_off
from tests.long_cases import but_for

INSTANCES = 3
CASES = list(product(KINDS, ["pages", "memory", "slices"]))


class Moving(Paged):
    """Three instances whose key groups move; what one gives is under way until `deliver`."""

    def __init__(self, kind: Kind, clock: ManualClock, directory: Path) -> None:
        super().__init__(kind, clock, directory)
        self.under_way: list[tuple[int, tuple[GivenBucket, ...]]] = []
        self.moves = 0
        self._open(INSTANCES, None)

    def begin_all_in_memory(self, options: PagingOptions | None = None) -> None:
        self.options = options or PagingOptions()
        self._open(INSTANCES, None)

    def move(self, rng: random.Random) -> None:
        """Let groups move that are drawn; each instance keeps one."""
        if self.under_way:
            return
        super().upload()
        owners = self._owners.copy()
        groups = []
        for group in rng.sample(range(len(owners)), rng.randint(1, 5)):
            giver, taker = int(owners[group]), rng.randrange(INSTANCES)
            if taker != giver and (self._owners == giver).sum() > sum(one == giver for _, one, _ in groups) + 1:
                groups.append((group, giver, taker))
        self.moves += 1
        reroute, is_last = Reroute(self.moves, TaskId(0), tuple(groups)), rng.random() < 0.7
        for driven, operator in zip(self.instances, self.operators, strict=True):
            while not operator.takes_reroute(reroute, is_last=is_last):
                driven.timers()
            driven._pass(operator.released_watermark())
            with _nothing_pending_is_cut(operator):
                driven._take(operator.on_reroute(reroute))
            self.under_way += [(taker, tuple(buckets)) for taker, buckets in operator.take_given().items()]
        self._owners = moved(self._owners, groups)
        rng.shuffle(self.under_way)

    def deliver(self) -> None:
        """Let all that is under way arrive."""
        for taker, buckets in self.under_way:
            self.operators[taker].install(buckets)
        self.under_way = []

    def upload(self) -> None:
        super().upload()
        self.deliver()


@contextmanager
def _nothing_pending_is_cut(operator: PagedOperator) -> Iterator[None]:
    """Watch that each bucket that is given or cut has put out what it kept for a quiet moment."""
    cutter = operator._moves.cutter
    take_out = cutter.take_out

    def watched(bucket: Bucket) -> Any:
        assert not bucket.operator.has_pending()
        return take_out(bucket)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cutter, "take_out", watched)
        yield


@pytest.mark.parametrize(
    ("name", "where"), but_for(CASES, CASES[::5], "ninety cases; every fifth of test_moves_change_nothing")
)
def test_moves_change_nothing(name: str, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In slices every step works a single bucket's share off, so rows wait at nearly every marker."""
    kind, rng = KINDS[name], random.Random(f"{name} {where}")
    steps = steps_of(rng, kind, batches)
    clocks = ManualClock(), ManualClock()
    plain, moving = Plain(kind, clocks[0]), Moving(kind, clocks[1], tmp_path)
    if where == "memory":
        moving.begin_all_in_memory()
    elif where == "slices":
        monkeypatch.setattr(paged_operator, "SLICE_NS", 0)
        bounds = tiny(kind)
        moving.begin_all_in_memory(PagingOptions(None, bounds.bucket_bytes, bounds.least_bucket_bytes))
    for step in steps:
        for clock in clocks:
            if step[0] == "pass":
                clock.advance_us(step[1])
        do(plain, step)
        do(moving, step)
        drawn = rng.random()
        if drawn < 0.4:
            moving.move(rng)
        elif drawn < 0.7:
            moving.deliver()
        elif drawn < 0.85:
            moving.upload()
            for driven in moving.instances:
                while not driven.operator.takes_barrier():
                    driven.timers()
            moving.barrier()
    # What is due in the end is done at once.
    monkeypatch.undo()
    same(finish(moving, clocks[1]), finish(plain, clocks[0]), kind)
    assert moving.moves > 0


def test_one_bucket_is_dealt_out_to_several_and_nothing_is_lost(tmp_path: Path) -> None:
    kind = KINDS["group of changes"]
    rng = random.Random(5)
    steps = [step for step in steps_of(rng, kind, batches) if step[0] == "rows"]
    clocks = ManualClock(), ManualClock()
    plain, moving = Plain(kind, clocks[0]), Moving(kind, clocks[1], tmp_path)
    moving.begin_all_in_memory()
    for step in steps[: len(steps) // 2]:
        do(plain, step)
        do(moving, step)
    owned = [int(group) for group in (moving._owners == 0).nonzero()[0]]
    groups = tuple((group, 0, 1 + place % 2) for place, group in enumerate(owned[:-1]))
    reroute = Reroute(1, TaskId(0), groups)
    for driven, operator in zip(moving.instances, moving.operators, strict=True):
        while not operator.takes_reroute(reroute, is_last=False):
            driven.timers()
        driven._take(operator.on_reroute(reroute))
        moving.under_way += [(taker, tuple(buckets)) for taker, buckets in operator.take_given().items()]
    moving._owners = moved(moving._owners, groups)
    assert sorted(taker for taker, _ in moving.under_way) == [1, 2]
    for step in steps[len(steps) // 2 :]:
        do(plain, step)
        do(moving, step)
    assert any(operator.unanswered() for operator in moving.operators)
    moving.deliver()
    same(finish(moving, clocks[1]), finish(plain, clocks[0]), kind)


def test_a_bucket_that_goes_whole_is_given_as_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = KINDS["group"]
    moving = Moving(kind, ManualClock(), tmp_path)
    moving.begin_all_in_memory()
    for step in steps_of(random.Random(3), kind, batches):
        if step[0] == "rows":
            do(moving, step)
    giver = moving.operators[0]
    owned = [int(group) for group in (moving._owners == 0).nonzero()[0]]
    (bucket,) = giver._stores.buckets
    bytes_before = bucket.bytes
    made: list[object] = []
    monkeypatch.setattr(giver._stores, "hold", lambda *given: made.append(given))
    moving.instances[0]._take(giver.on_reroute(Reroute(1, TaskId(0), tuple((group, 0, 1) for group in owned))))
    (given,) = giver.take_given()[1]
    assert made == [] and bytes_before > 0 and 0 < given.bytes <= bytes_before


def test_what_stays_keeps_what_it_kept_for_a_quiet_moment(tmp_path: Path) -> None:
    kind = KINDS["group"]
    moving = Moving(kind, ManualClock(), tmp_path)
    moving.options = PagingOptions(None, 2_000, 1_000)
    moving._open(INSTANCES, None)
    for step in steps_of(random.Random(3), kind, batches):
        if step[0] == "rows":
            do(moving, step)
    giver = moving.operators[0]
    assert len(giver._stores.buckets) > 2 and giver.has_pending()
    reroute = Reroute(1, TaskId(0), ((int((moving._owners == 0).nonzero()[0][0]), 0, 1),))
    assert giver.takes_reroute(reroute, is_last=False)
    moving.instances[0]._take(giver.on_reroute(reroute))
    assert len(giver.take_given()[1]) == 1 and giver.has_pending()


def _pairs(rows: pa.RecordBatch) -> Iterator[tuple[str, int]]:
    return zip(rows.column("key_0").to_pylist(), rows.column("n").to_pylist(), strict=True)


def test_a_marker_waits_for_the_rows_of_what_moves_and_for_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is the watermark behind other rows passed on with it, though what moves has come to it."""
    monkeypatch.setattr(paged_operator, "SLICE_NS", 0)
    giver = paged(PagingOptions(None, 2_000, 1_000))
    stores = spread(giver)
    work_off(giver)
    before, buckets = counts(giver), len(stores.buckets)
    assert before == everything(3)
    for _ in range(2):
        list(giver.process(0, Batch(batch_of(rows(400)))))
        assert not list(giver.on_watermark(7)) and giver.output_watermark(7) < 7
    span = stores.buckets[buckets // 2].span
    reroute = Reroute(1, TaskId(0), ((span.low * KEY_GROUPS >> 32, 0, 1),))
    assert not giver.takes_reroute(reroute, is_last=False)
    assert giver.takes_reroute(reroute, is_last=True)
    worked_off = len(list(giver.on_reroute(reroute)))
    (given,) = giver.take_given()[1]
    moved_away = [batch for part in given.parts for batch in part.batches["counts"]]
    found = {key: n for batch in moved_away for key, n in _pairs(batch)}
    assert found and set(found.values()) == {5} and {swept_us(notes) for notes in given.notes} == {7}
    assert worked_off < 400 and giver.unanswered() and giver.output_watermark(7) < 7
    assert not giver.takes_barrier()
    work_off(giver)
    assert giver.takes_barrier() and giver.output_watermark(7) == 7
    assert counts(giver) == Counter({key: 5 for key in before if key not in found})
    assert counts(giver).keys() | found.keys() == before.keys()
