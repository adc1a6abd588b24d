"""Every kind of keyed operator gives while its buckets go from instance to instance what it gives alone."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.core.elements import Reroute
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_handover import GivenBucket
from penstock.engine.paging.options import PagingOptions
from penstock.engine.paging.paged_operator import PagedOperator
from penstock.model.ids import TaskId
from penstock.model.key_groups import moved
from tests.engine.paging.driving import Paged, Plain, do, finish, steps_of
from tests.engine.paging.kinds import KINDS, Kind
from tests.engine.paging.test_every_kind import batches, same
from tests.long_cases import but_for

INSTANCES = 3
CASES = list(product(KINDS, [False, True]))


class Moving(Paged):
    """Three instances whose key groups move; what one gives is under way until `deliver`."""

    def __init__(self, kind: Kind, clock: ManualClock, directory: Path) -> None:
        super().__init__(kind, clock, directory)
        self.under_way: list[tuple[int, tuple[GivenBucket, ...]]] = []
        self.moves = 0
        self._open(INSTANCES, None)

    def begin_all_in_memory(self) -> None:
        self.options = PagingOptions()
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
        reroute = Reroute(self.moves, TaskId(0), tuple(groups))
        for driven, operator in zip(self.instances, self.operators, strict=True):
            while not operator.takes_reroute(reroute):
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
    ("name", "in_memory"), but_for(CASES, CASES[::5], "sixty cases; every fifth of test_moves_change_nothing")
)
def test_moves_change_nothing(name: str, in_memory: bool, tmp_path: Path) -> None:
    kind, rng = KINDS[name], random.Random(f"{name} {in_memory}")
    steps = steps_of(rng, kind, batches)
    clocks = ManualClock(), ManualClock()
    plain, moving = Plain(kind, clocks[0]), Moving(kind, clocks[1], tmp_path)
    if in_memory:
        moving.begin_all_in_memory()
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
        while not operator.takes_reroute(reroute):
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
    assert giver.takes_reroute(reroute)
    moving.instances[0]._take(giver.on_reroute(reroute))
    assert len(giver.take_given()[1]) == 1 and giver.has_pending()
