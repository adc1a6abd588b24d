"""Exact and weighted parts in checkpoints: cut while rows are shed, dealt out anew, laid out for other aggregates."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.core.contract import OperatorContext, RowCounters
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from penstock.engine.operators.aggregates.aggregate_descriptor import AGGREGATE
from penstock.engine.operators.descriptor import PlanContext
from penstock.engine.restore.meaning_changes import compare
from penstock.engine.restore.state_migration import adapt_to
from penstock.model.aggregates import AggregateCall
from penstock.model.errors import UserError
from penstock.model.expressions import col
from penstock.model.ids import OperatorId
from penstock.model.job_graph import AggregateSpec, OperatorNode
from penstock.model.key_groups import assign, key_groups_at
from penstock.model.schema import StreamSchema, TimeColumn
from penstock.model.windows import Hopping, Session, Tumbling, Window, Windowing
from penstock.state.checkpoints.operator_meaning import OperatorMeaning
from penstock.state.keys.batch_keys import KeyCodec
from penstock.state.stores.memory_store import MemoryStore
from penstock.state.tables.image import EMPTY, StoreDump, StoreImage, dump_of
from tests.engine.support import ManualClock, Rejected

FIELDS = pa.schema({"k": pa.int64(), "v": pa.int64(), "t": pa.timestamp("us")})
ROWS = StreamSchema(FIELDS, TimeColumn("t"))
GROUPS = 16
COUNT, TOTAL = ("n", AggregateCall("count")), ("total", AggregateCall("sum", (col("v"),)))
MEAN, TOP = ("usual", AggregateCall("mean", (col("v"),))), ("top", AggregateCall("max", (col("v"),)))
BIG = ("big", AggregateCall("count").filter(col("v") > 50))


def spec_of(*calls: Any, window: Window | None = None, estimates: bool = True) -> AggregateSpec:
    windowing = Windowing(Tumbling(100) if window is None else window)
    return AggregateSpec((("k", col("k")),), calls, windowing, estimates=estimates)


@dataclass
class Instance:
    """One instance of an aggregate, over what an image holds."""

    spec: AggregateSpec
    image: StoreImage = EMPTY

    def __post_init__(self) -> None:
        self.store = MemoryStore("agg", image=self.image)
        self.operator = AGGREGATE.make(self.spec, [ROWS], "agg")
        self.operator.open(
            OperatorContext(
                name="agg",
                instance=0,
                parallelism=1,
                clock=ManualClock(),
                state=self.store,
                counters=RowCounters(),
                dead_letters=Rejected(),
                key_groups=np.zeros(GROUPS, np.int32),
                batch_rows=1_000,
                seed=0,
            )
        )
        self.store.forget_image()

    def fold(self, batches: Sequence[Batch]) -> "Instance":
        for batch in batches:
            assert not list(self.operator.process(0, batch))
        return self

    def part(self) -> StoreDump:
        dump = dump_of(self.store.contents())
        assert dump is not None
        return dump

    def shown(self) -> list[dict[str, Any]]:
        emissions = [*self.operator.on_watermark(END_OF_TIME_US), *self.operator.on_end()]
        return [row for _, batch in emissions for row in batch.rows.to_pylist()]


def batches(seed: int, keeps: Sequence[float]) -> list[Batch]:
    """Return batches of 200 rows over 12 keys, each at its keep rate."""
    generator = np.random.default_rng(seed)
    columns = [(generator.integers(0, 12, 200), generator.integers(0, 100, 200)) for _ in keeps]
    times = pa.array(np.arange(200), pa.timestamp("us"))
    return [
        Batch(pa.RecordBatch.from_arrays([pa.array(k), pa.array(v), times], schema=FIELDS), keep)
        for (k, v), keep in zip(columns, keeps, strict=True)
    ]


def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: (row["k"], row["window_start"]))


def by_owner(batch: Batch, owners: np.ndarray, instance: int) -> Batch:
    """Return the rows of a batch whose keys an instance owns."""
    hashes = KeyCodec([pa.int64()]).hash([batch.rows.column("k")], batch.rows.num_rows)
    mine = owners[key_groups_at((hashes >> np.uint64(32)).astype(np.uint32), GROUPS)] == instance
    return batch.with_rows(batch.rows.filter(pa.array(mine)))


BEFORE, AFTER = batches(1, [1.0, 0.5, 0.25]), batches(2, [0.25, 1.0, 0.75])


@pytest.mark.parametrize("window", [Tumbling(100), Hopping(100, 40), Session(5)], ids=str)
def test_a_checkpoint_while_rows_are_shed_goes_on_at_another_parallelism(window: Window) -> None:
    spec = spec_of(COUNT, TOTAL, MEAN, TOP, BIG, window=window)
    undisturbed = ordered(Instance(spec).fold([*BEFORE, *AFTER]).shown())
    assert any(row["$accuracy"] < 1.0 for row in undisturbed)
    parts = [Instance(spec).fold(BEFORE).part()]
    for parallelism in (2, 3, 1):
        owners = assign(GROUPS, parallelism)
        instances = [
            Instance(spec, StoreImage(parts, lambda at, o=owners, i=number: o[key_groups_at(at, GROUPS)] == i))
            for number in range(parallelism)
        ]
        parts = [instance.part() for instance in instances]
    for number, instance in enumerate(instances):
        instance.fold([by_owner(batch, owners, number) for batch in AFTER])
    found = ordered([row for instance in instances for row in instance.shown()])
    assert [{**row, "usual": None} for row in found] == [{**row, "usual": None} for row in undisturbed]
    assert [row["usual"] for row in found] == pytest.approx([row["usual"] for row in undisturbed], rel=1e-9)


def meaning(spec: AggregateSpec) -> OperatorMeaning:
    return AGGREGATE.meaning(spec, PlanContext("agg", (ROWS,), (tuple(key for _, key in spec.keys),), (("s",),)))


def moved(before: AggregateSpec, now: AggregateSpec, rows: Sequence[Batch], by_name: bool = False) -> Instance:
    """Return an instance that goes on from what another one kept of rows."""
    node = OperatorNode(OperatorId("agg"), "agg", now, (), {})
    assert not compare(meaning(before), meaning(now)).changes
    adapt = adapt_to(meaning(before), meaning(now), node, ROWS, by_name=by_name)
    part = Instance(before).fold(rows).part()
    return Instance(now, StoreImage([part if adapt is None else adapt(part)]))


def test_aggregates_that_stay_keep_both_parts_whatever_comes_and_goes_beside_them() -> None:
    before, now = spec_of(COUNT, TOTAL, TOP, BIG), spec_of(BIG, MEAN, TOP, TOTAL, COUNT)
    expected = ordered(Instance(now).fold(BEFORE).shown())
    found = ordered(moved(before, now, BEFORE).shown())
    stay = [name for name in found[0] if "usual" not in name]
    assert [[row[name] for name in stay] for row in found] == [[row[name] for name in stay] for row in expected]


@pytest.mark.parametrize("calls", [(COUNT, TOTAL), ()], ids=["aggregates", "keys alone"])
@pytest.mark.parametrize("window", [Tumbling(100), Session(5)], ids=str)
def test_estimates_may_come_and_go_while_nothing_is_shed(calls: Any, window: Window) -> None:
    plain, estimating = (spec_of(*calls, window=window, estimates=flag) for flag in (False, True))
    exact = [Batch(batch.rows) for batch in BEFORE]
    assert ordered(moved(plain, estimating, exact).shown()) == ordered(Instance(estimating).fold(exact).shown())
    assert ordered(moved(estimating, plain, exact).shown()) == ordered(Instance(plain).fold(exact).shown())


def test_estimates_that_come_go_on_from_the_exact_part() -> None:
    plain, estimating = spec_of(COUNT, TOTAL, estimates=False), spec_of(COUNT, TOTAL)
    exact = [Batch(batch.rows) for batch in BEFORE]
    expected = ordered(Instance(estimating).fold([*exact, *AFTER]).shown())
    assert ordered(moved(plain, estimating, exact).fold(AFTER).shown()) == expected


def test_rows_that_stand_for_others_are_not_lost_silently() -> None:
    plain, estimating = spec_of(COUNT, TOTAL, estimates=False), spec_of(COUNT, TOTAL)
    with pytest.raises(UserError, match="'agg' holds rows that stand for others") as refusal:
        moved(estimating, plain, BEFORE)
    for way_out in ("with_min_accuracy", "drop_state='agg'", "accept_changed='agg'"):
        assert way_out in str(refusal.value)
    exact = ordered(Instance(plain).fold(BEFORE[:1]).shown())
    # All rows are counted still, for the operator must know which groups there are; sums are of the exact part.
    assert [row["total"] for row in ordered(moved(estimating, plain, BEFORE, by_name=True).shown())] == [
        row["total"] for row in exact
    ]
