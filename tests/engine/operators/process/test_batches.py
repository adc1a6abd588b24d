"""State in columns and timers of vectorised process functions."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.core.elements import Batch
from tests.engine.operators.process.process_support import S, at, batch, clock_at, opened, seconds
from tests.engine.support import Collected, Rejected, collect

OUT = {"k": str, "what": str}

Call = Callable[[Any, pa.RecordBatch, Any], Any]


def vector(*calls: Call, fired: Call | None = None) -> type[ps.BatchProcess]:
    """Return a class whose calls are these, in turn."""

    class Scripted(ps.BatchProcess):
        one = ps.value_state(int, default=7)
        bare = ps.value_state(str)
        many = ps.list_state(int)
        brief = ps.value_state(int, ttl="5s")
        trail = ps.list_state(int, ttl="5s")

        def __init__(self) -> None:
            self.calls = list(calls)

        def process(self, batch: pa.RecordBatch, context: Any) -> Any:
            return self.calls.pop(0)(self, batch, context)

        def on_timer(self, timers: Any, context: Any) -> Any:
            return None if fired is None else fired(self, timers, context)

    return Scripted


def shown(*columns: pa.Array) -> str:
    """Return columns as text."""
    return str([column.to_pylist() for column in columns])


def run(*calls: Call, rows: list[Any] | None = None) -> tuple[list[Any], Rejected]:
    """Make calls a second apart, each with a row of a and one of b, or with ``rows``; return what they return."""
    seen: list[Any] = []

    def keeping(call: Call) -> Call:
        def keep(this: Any, batch: pa.RecordBatch, context: Any) -> None:
            seen.append(call(this, batch, context))

        return keep

    operator = opened(vector(*map(keeping, calls)), OUT)
    for second in range(len(calls)):
        steps = rows[second] if rows else [("a", second, second), ("b", second, second)]
        collect(operator, [batch(steps), (second + 1) * S], end=False)
    rejected = operator.context.dead_letters
    assert isinstance(rejected, Rejected)
    return seen, rejected


def test_values_are_columns_with_the_default_where_there_is_none() -> None:
    def first(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        before = shown(this.one.gather(), this.bare.gather())
        this.one.scatter([1, 2], mask=[False, True])
        this.bare.scatter(pa.array(["x", None]))
        return before + shown(this.one.gather(), this.bare.gather())

    def second(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        before = shown(this.one.gather(), this.bare.gather(), context.keys["k"])
        this.one.clear()
        return before + shown(this.one.gather())

    def third(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        return shown(context.state.one.gather(), pa.array(context.groups))

    seen, rejected = run(first, second, third)
    assert not rejected.errors
    assert seen[0] == "[[7, 7], [None, None]][[7, 2], ['x', None]]"
    assert seen[1] == "[[7, 2], ['x', None], ['a', 'b']][[7, 7]]"
    assert seen[2] == "[[7, 7], [0, 1]]"


def test_lists_are_list_columns() -> None:
    def first(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        this.many.append_at([1, 0, 1], [1, 2, 3])
        this.many.append_at(context.groups, batch["x"])
        return shown(this.many.gather())

    def second(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        before = shown(this.many.gather())
        this.many.append_at([0, 1], [8, 9])
        this.many.scatter([[5, 6], None], mask=[True, False])
        this.many.append_at([0, 1], [10, 11])
        return before + shown(this.many.gather())

    def third(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        before = shown(this.many.gather())
        this.many.clear()
        return before + shown(this.many.gather())

    seen, rejected = run(first, second, third)
    assert not rejected.errors
    assert seen[0] == "[[[2, 0], [1, 3, 0]]]"
    assert seen[1] == "[[[2, 0], [1, 3, 0]]][[[5, 6, 10], [1, 3, 0, 9, 11]]]"
    assert seen[2] == "[[[5, 6, 10], [1, 3, 0, 9, 11]]][[[], []]]"


def test_what_a_failed_call_wrote_is_not_kept() -> None:
    def fails(this: Any, batch: pa.RecordBatch, context: Any) -> None:
        this.one.scatter([1, 1])
        this.many.append_at([0], [1])
        context.timers.at([at(1), None])
        raise ValueError("no")

    seen, rejected = run(fails, lambda this, batch, context: shown(this.one.gather(), this.many.gather()))
    assert seen == ["[[7, 7], [[], []]]"]
    assert [row["k"] for row in rejected.rows] == ["a", "b"]


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda this, batch, context: this.one.scatter([1]), "a value for each of context.keys: 2, not 1"),
        (lambda this, batch, context: this.one.scatter(["x", "y"]), "value state 'one' is int64"),
        (lambda this, batch, context: this.many.append_at([2], [1]), "numbers context.keys, 0 to 1"),
        (lambda this, batch, context: this.many.append_at([0, 1], [1]), "a group for each value"),
        (lambda this, batch, context: this.one.get(), "gather.*are for a BatchProcess"),
        (lambda this, batch, context: context.timers.at([at(1)]), "each of context.keys: 2, not 1"),
    ],
)
def test_what_does_not_fit_is_an_error_of_the_call(call: Call, says: str) -> None:
    _, rejected = run(call)
    assert len(rejected.errors) == 2
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(rejected.errors[0])


def test_a_time_to_live_counts_from_the_last_row_to_the_first() -> None:
    def put(this: Any, batch: pa.RecordBatch, context: Any) -> str:
        before = shown(this.brief.gather(), this.trail.gather())
        this.brief.scatter([1] * len(context.keys))
        this.trail.append_at(context.groups, batch["x"])
        return before

    rows = [[("a", 0, 0), ("a", 0.5, 1)], [("a", 5, 2)], [("a", 10, 3), ("a", 30, 4)]]
    seen: list[str] = []

    def keep(this: Any, batch: pa.RecordBatch, context: Any) -> None:
        seen.append(put(this, batch, context))

    operator = opened(vector(keep, keep, keep), OUT)
    for steps, watermark in zip(rows, (1, 6, 31), strict=True):
        collect(operator, [batch(steps), watermark * S], end=False)  # type: ignore[arg-type]
    assert seen == ["[[None], [[]]]", "[[1], [[0, 1]]]", "[[None], [[]]]"]
    assert operator.peek_state("trail") == {"a": [3, 4]}


def test_timers_by_both_clocks_can_be_set_and_cancelled() -> None:
    def first(this: Any, batch: pa.RecordBatch, context: Any) -> None:
        context.timers.at([at(5), at(6)])
        context.timers.at(pa.array([at(7), None]))
        context.timers.cancel([None, at(6)])
        context.timers.at_processing([at(101), at(102)])
        context.timers.cancel_processing([at(101), None])

    def fired(this: Any, timers: Any, context: Any) -> Any:
        kind = "clock" if timers.processing else "event"
        return {"k": context.keys["k"], "what": [f"{kind} {seconds(time)}" for time in timers.times.to_pylist()]}

    clock = clock_at(100)
    operator = opened(vector(first, fired=fired), OUT, clock=clock)
    collected = Collected()
    collected.add(operator.process(0, Batch(batch([("a", 0, 0), ("b", 0, 0)]))))
    collected.add(operator.on_watermark(S))
    assert [(key, timer.processing) for key, timer in operator.peek_timers()] == [("a", False)] * 2 + [("b", True)]
    clock.advance_us(2 * S)
    collected.add(operator.on_timer(clock.monotonic_ns()))
    collected.add(operator.on_watermark(7 * S))
    assert [row["what"] for row in collected.rows()] == ["clock 102.0", "event 5.0", "event 7.0"]
