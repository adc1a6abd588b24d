"""Every kind of keyed operator gives over buckets what it gives in memory, whatever is evicted, frozen or restarted."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.engine.core.clock import ManualClock
from penstock.engine.paging.options import PagingOptions
from penstock.model.failpoints import arm
from penstock.model.schema import StreamSchema
from tests.engine.paging.driving import Paged, Plain, Results, do, finish, steps_of, tiny
from tests.engine.paging.kinds import KINDS, Kind, batch_of, changes_of, rows_of
from tests.engine.paging.shelves import RocksShelves, Shelves

SEEDS = 2


def batches(rng: random.Random, schema: StreamSchema) -> Iterator[pa.RecordBatch]:
    """Yield rows in batches, of which the first has many keys: a bucket of a single one grows before it is cut."""
    count, least = 160, 30
    rows = changes_of(rng, count) if schema.changelog else [(row, 1) for row in rows_of(rng, count)]
    while rows:
        size, least = max(least, rng.choice([1, 5, 30])), 1
        some, rows = rows[:size], rows[size:]
        weights = [weight for _, weight in some] if schema.changelog else None
        yield batch_of([row for row, _ in some], weights)


def same(found: Results, expected: Results, kind: Kind) -> None:
    """Compare what is left once all is applied."""
    assert kind.shown(left(found.rows)) == kind.shown(left(expected.rows))
    assert found.late == expected.late
    assert found.counters.late == expected.counters.late
    assert found.counters.rows_in == expected.counters.rows_in
    assert found.early == 0 or expected.early


def left(rows: Counter[Any]) -> Counter[Any]:
    assert all(count >= 0 for count in rows.values())
    return +rows


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", KINDS)
def test_equals_the_plain_operator(name: str, seed: int, tmp_path: Path) -> None:
    kind, rng = KINDS[name], random.Random(seed)
    steps = steps_of(rng, kind, batches)
    clocks = ManualClock(), ManualClock()
    plain, paged = Plain(kind, clocks[0]), Paged(kind, clocks[1], tmp_path)
    jobs: tuple[Plain, Paged] = (plain, paged)
    operator = paged.operators[0]
    buckets, loads = 1, 0
    for step in steps:
        for clock in clocks:
            if step[0] == "pass":
                clock.advance_us(step[1])
        for job in jobs:
            do(job, step)
        if step[0] == "rows":
            paged.check_budget()
        if rng.random() < 0.05:
            paged.barrier()
        elif rng.random() < 0.2:
            rng.choice([paged.upload, paged.give_up])()
        if rng.random() < 0.02:
            stores = operator._stores
            change = rng.choice([stores.set_budget, stores.approach_budget])
            change(rng.choice([None, paged.options.budget_bytes, 1 << 20]))
        buckets = max(buckets, len(operator._stores.buckets))
        loads += any(not bucket.is_resident for bucket in operator._stores.buckets)
    same(finish(paged, clocks[1]), finish(plain, clocks[0]), kind)
    assert buckets > 1 and loads


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("name", KINDS)
def test_goes_on_from_a_checkpoint_at_another_parallelism(name: str, seed: int, tmp_path: Path) -> None:
    restarted(name, seed, tmp_path)


@pytest.mark.parametrize("name", ["group of changes", "hopping, late", "full join of changes", "process"])
def test_goes_on_from_files_of_rocksdb(name: str, tmp_path: Path) -> None:
    restarted(name, 7, tmp_path, RocksShelves(tmp_path / "rocks"))


@pytest.mark.parametrize("name", ["group", "group of changes", "hopping, late", "session", "custom", "count updates"])
def test_goes_on_from_images_of_buckets_in_memory(name: str, tmp_path: Path) -> None:
    little = tiny(KINDS[name])
    tiny_buckets = replace(little, budget_bytes=None, bucket_bytes=little.least_bucket_bytes, inline_bytes=0)
    passed: list[str] = []
    arm(passed.append)
    try:
        restarted(name, 3, tmp_path, options=tiny_buckets)
    finally:
        arm(None)
    assert "images.cut.written" in passed and "pages.cut.written" not in passed


def restarted(
    name: str, seed: int, directory: Path, shelves: Shelves | None = None, options: PagingOptions | None = None
) -> None:
    """Compare a run that loses what came after a checkpoint now and then with one in memory."""
    kind, rng = KINDS[name], random.Random(seed)
    steps = steps_of(rng, kind, batches)
    clocks = ManualClock(), ManualClock()
    plain, paged = Plain(kind, clocks[0]), Paged(kind, clocks[1], directory, shelves, options)
    at = cut_at = 0
    restarts = 3
    while at < len(steps):
        if steps[at][0] == "pass":
            clocks[1].advance_us(steps[at][1])
        do(paged, steps[at])
        at += 1
        chance = rng.random()
        if paged.uploaded and restarts and chance < 0.25:
            paged.restart(rng.randint(1, 3))
            at, restarts = cut_at, restarts - 1
        elif chance < 0.4:
            paged.barrier()
            cut_at = at
        elif chance < 0.8:
            paged.upload()
    for step in steps:
        if step[0] == "pass":
            clocks[0].advance_us(step[1])
        do(plain, step)
    same(finish(paged, clocks[1]), finish(plain, clocks[0]), kind)
    assert restarts < 3
