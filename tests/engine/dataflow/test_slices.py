"""Work that takes long is cut: the loop goes on in between, and what comes out is what would have come at once."""

from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.dsl.process import process_spec
from penstock.engine.core.contract import SLICE_NS, Operator
from penstock.engine.core.elements import Barrier, Batch, EndOfStream
from penstock.engine.dataflow.accounting import Activity
from penstock.engine.dataflow.worker import Done, Ran, Worker
from penstock.engine.operators.functions.row_function import RowFunction
from penstock.engine.operators.process.process import Process
from penstock.model.expressions import col
from penstock.model.job_graph import RowFunctionSpec
from penstock.model.schema import StreamSchema
from tests.engine.loop import channel, forward, instance
from tests.engine.support import ManualClock

FIELDS = pa.schema({"x": pa.int64()})
STREAM = StreamSchema(FIELDS)
ROW_NS = 2_000_000
LOOK_ROWS = 4

Make = Callable[[ManualClock], Operator]


def function_of(clock: ManualClock, cost_ns: int, *, keeps: bool = True) -> ps.Process:
    class Slow(ps.Process):
        total = ps.value_state(int, default=0)

        def process(self, row: dict[str, Any], context: Any) -> Any:
            clock.advance_ns(cost_ns)
            self.total.set(self.total.get() + row["x"])
            return {"x": self.total.get()} if keeps else None

    return Slow()


def processing(clock: ManualClock, cost_ns: int = ROW_NS, *, keeps: bool = True) -> Operator:
    function = function_of(clock, cost_ns, keeps=keeps)
    spec = process_spec((("x", col("x") % 3),), FIELDS, function, {"x": int}, None, "arrival", "dead_letter")
    return Process(spec, STREAM, "op")


def calling(kind: str) -> Make:
    def make(clock: ManualClock) -> Operator:
        def slow(x: int) -> Any:
            clock.advance_ns(ROW_NS)
            return {"map": {"x": x + 1}, "flat_map": [{"x": x}, {"x": x + 1}], "filter": x % 2 == 0}[kind]

        return RowFunction(RowFunctionSpec(kind, slow, FIELDS, ("x",)), STREAM, "op")

    return make


def batch(count: int) -> Batch:
    return Batch(pa.record_batch({"x": range(count)}, FIELDS))


def steps_of(clock: ManualClock, worker: Worker) -> list[int]:
    """Run until nothing can; return how long each step took."""
    took, began_ns = [], clock.monotonic_ns()
    while isinstance(worker.step(), Ran):
        took.append(clock.monotonic_ns() - began_ns)
        began_ns = clock.monotonic_ns()
    return took


def values(receiver: Any) -> list[int]:
    taken = [receiver.take() for _ in range(len(receiver))]
    return [x for element in taken if isinstance(element, Batch) for x in element.rows.column("x").to_pylist()]


def totals(xs: Iterable[int]) -> list[int]:
    kept, found = [0, 0, 0], []
    for x in xs:
        kept[x % 3] += x
        found.append(kept[x % 3])
    return found


@pytest.mark.parametrize("keeps", [True, False])
def test_a_batch_of_slow_rows_takes_several_steps(keeps: bool) -> None:
    clock = ManualClock()
    inbound, outbound = channel(elements=[batch(64), Barrier(1), batch(5), EndOfStream()]), channel()
    one = instance("one", processing(clock, keeps=keeps), clock, [inbound], forward(outbound))
    took = steps_of(clock, Worker([one], clock))
    # The first part is sent in the step that begins it.
    assert max(took) <= 2 * (SLICE_NS + LOOK_ROWS * ROW_NS)
    assert sum(took) == 69 * ROW_NS
    assert one.done
    # Two batches and the end: load shedding takes steps for what fewer rows do not save.
    assert len(took) > 5 and one.accounting.steps == 3
    counters = one.nodes[0].counters
    assert (counters.rows_in, counters.passed, counters.folded) == (69, 69, 0)
    assert values(outbound.receiver) == (totals([*range(64), *range(5)]) if keeps else [])


def test_others_go_first_between_the_parts_of_a_batch() -> None:
    clock = ManualClock()
    slow = instance("slow", processing(clock), clock, [channel(elements=[batch(64)])])
    quick = instance("quick", processing(clock, 0), clock, [channel(elements=[batch(1)])])
    worker = Worker([slow, quick], clock)
    ran = []
    while isinstance(outcome := worker.step(), Ran):
        ran.append(outcome.instance)
    assert 0 < ran.index(quick.name) < len(ran) - 2


def test_an_instance_in_the_middle_of_a_batch_can_go_on() -> None:
    clock = ManualClock()
    slow = instance("slow", processing(clock), clock, [channel(elements=[batch(64)])])
    worker = Worker([slow], clock)
    worker.step()
    assert slow.activity(clock.monotonic_ns()) is Activity.CORE_WAIT
    assert slow.patient_until_ns(clock.monotonic_ns()) is None
    assert not slow.has_pending()


def test_quick_rows_are_worked_off_in_one_step() -> None:
    clock = ManualClock()
    inbound, outbound = channel(elements=[batch(5_000)]), channel()
    one = instance("one", processing(clock, 1_000), clock, [inbound], forward(outbound))
    assert len(steps_of(clock, Worker([one], clock))) == 1
    assert values(outbound.receiver) == totals(range(5_000))


@pytest.mark.parametrize("kind", ["map", "flat_map", "filter"])
def test_slow_functions_are_called_for_some_rows_at_a_time(kind: str) -> None:
    clock = ManualClock()
    # By the first batch it is known how long a call takes.
    inbound, outbound = channel(elements=[batch(10)]), channel()
    one = instance("one", calling(kind)(clock), clock, [inbound], forward(outbound))
    worker = Worker([one], clock)
    steps_of(clock, worker)
    values(outbound.receiver)
    inbound.sender.put(batch(100))
    inbound.sender.put(EndOfStream())
    took = steps_of(clock, worker)
    assert max(took) <= 2 * SLICE_NS
    assert sum(took) == 100 * ROW_NS
    expected = {
        "map": [x + 1 for x in range(100)],
        "flat_map": [y for x in range(100) for y in (x, x + 1)],
        "filter": list(range(0, 100, 2)),
    }
    assert values(outbound.receiver) == expected[kind]
    counters = one.nodes[0].counters
    assert (counters.rows_in, counters.passed + counters.filtered) == (110, 110)
    assert isinstance(worker.step(), Done)
