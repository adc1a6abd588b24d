"""State of process functions: every kind and type, what a failed call leaves behind, and how long it lasts."""

import dataclasses
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.model.errors import PlanError
from penstock.state.stores.memory_store import MemoryStore
from tests.engine.operators.process.process_support import (
    S,
    at,
    batch,
    clock_at,
    instances,
    opened,
    peek_state,
    restarting,
)
from tests.engine.support import Rejected, collect

OUT = {"k": str, "what": str}


@dataclasses.dataclass
class Point:
    """A place with a name."""

    x: int
    names: list[str]


VALUES: list[tuple[Any, list[Any]]] = [
    (int, [1, -(1 << 63), None]),
    (float, [1.5, float("inf"), None]),
    (bool, [True, False, None]),
    (str, ["", "straße", None]),
    (bytes, [b"\x00\xff", b"", None]),
    (datetime, [at(5), None]),
    (date, [date(2024, 2, 29), None]),
    (timedelta, [timedelta(seconds=3), None]),
    (Decimal, [Decimal("1.500000000"), None]),
    (list[int], [[1, None], [], None]),
    (list[Point], [[Point(1, ["a"])], None]),
    (Point, [Point(3, ["a", "b"]), None]),
    (int | None, [4, None]),
    (pa.int16(), [-300, None]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], None]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
def test_every_type_comes_back_as_it_was_put(kind: Any, values: list[Any]) -> None:
    seen: list[Any] = []

    def keep(row: dict[str, Any], context: Any) -> None:
        state, x = context.state, row["x"]
        seen.append((state.one.get(), state.many.get(), state.named.get(x - 1)))
        state.one.set(values[x])
        state.many.append(values[x])
        state.named.put(x, values[x])
        assert state.one.get() == values[x]

    states = {"one": ps.value_state(kind), "many": ps.list_state(kind), "named": ps.map_state(int, kind)}
    operator = restarting(keep, state=states, cuts=["", "", *["two", "restart", "one", ""] * 3])
    steps: list[Any] = []
    for x in range(len(values)):
        steps += [batch([("a", x, x)]), (x + 1) * S]
    collect(operator, steps)
    assert not operator.context.dead_letters.rows  # type: ignore[attr-defined]
    assert seen == [
        (values[x - 1] if x else None, values[:x], values[x - 1] if x else None) for x in range(len(values))
    ]
    assert peek_state(operator, "one") == {"a": values[-1]}
    assert peek_state(operator, "many") == {"a": values}
    assert peek_state(operator, "named") == {"a": dict(enumerate(values))}


def test_what_get_returns_is_the_callers_own() -> None:
    def grow(row: dict[str, Any], context: Any) -> dict[str, Any]:
        got = context.state.names.get()
        got.append("lost")
        return {"k": row["k"], "what": str(context.state.names.get())}

    state = {"names": ps.value_state(list[str], default=[])}
    found = collect(opened(grow, OUT, state=state), [batch([("a", 1, 0), ("a", 2, 0)])])
    assert [row["what"] for row in found.rows()] == ["[]", "[]"]


def test_values_that_do_not_fit_are_errors_of_their_row() -> None:
    def put(row: dict[str, Any], context: Any) -> dict[str, Any]:
        context.state.n.set({0: 1, 1: "one", 2: 1 << 70, 3: True}[row["x"]])
        return {"k": row["k"], "what": {0: "fine", 4: "none"}.get(row["x"], "never")}

    operator = opened(put, OUT, state={"n": ps.value_state(int)})
    found = collect(operator, [batch([("a", x, x) for x in range(4)])])
    assert [row["what"] for row in found.rows()] == ["fine"]
    errors = operator.context.dead_letters.errors  # type: ignore[attr-defined]
    assert all("value state 'n' is int64, which cannot hold" in error for error in errors)
    assert len(errors) == 3
    assert operator.peek_state("n") == {"a": 1}


def test_results_that_do_not_fit_undo_their_call() -> None:
    def put(row: dict[str, Any], context: Any) -> Any:
        context.state.n.set(row["x"])
        context.timers.after("1s")
        yield {"k": "before", "what": ""}
        if row["x"] == 1:
            yield {"k": "a", "waht": "typo"}
        if row["x"] == 2:
            yield {"k": 3, "what": ""}
        if row["x"] == 3:
            yield "text"

    operator = opened(put, OUT, state={"n": ps.value_state(int)})
    found = collect(operator, [batch([("a", x, x) for x in range(4)]), 10 * S], end=False)
    assert len(found.rows()) == 1
    assert operator.peek_state("n") == {"a": 0}
    rejected = operator.context.dead_letters
    assert isinstance(rejected, Rejected)
    assert [row["x"] for row in rejected.rows] == [1, 2, 3]
    assert "did you mean 'what'?" in rejected.errors[0]
    assert (operator.context.counters.passed, operator.context.counters.dead_lettered) == (1, 3)


def test_a_failed_timer_is_a_dead_letter_of_its_key_and_time() -> None:
    class Fails(ps.Process):
        n = ps.value_state(int)

        def process(self, row: dict[str, Any], context: Any) -> None:
            self.n.set(row["x"])
            context.timers.after("1s")

        def on_timer(self, timer: Any, context: Any) -> None:
            self.n.clear()
            raise ValueError("no")

    operator = opened(Fails, OUT)
    collect(operator, [batch([("a", 1, 7)])])
    assert operator.peek_state("n") == {"a": 7}
    assert operator.context.dead_letters.rows == [{"k": "a", "timer": at(2)}]  # type: ignore[attr-defined]
    assert operator.peek_timers() == []


@pytest.mark.parametrize("restarts", [(), ("", "two", "", "", "one", "restart", "")])
def test_state_with_a_time_to_live_is_bounded(restarts: tuple[str, ...]) -> None:
    class Brief(ps.Process):
        one = ps.value_state(str, ttl="5s")
        many = ps.list_state(int, ttl="5s")
        named = ps.map_state(int, str, ttl="5s")

        def process(self, row: dict[str, Any], context: Any) -> None:
            self.one.set(row["k"])
            self.many.append(row["x"])
            self.named.put(row["x"], "x")

    operator = restarting(Brief, cuts=cycle(restarts))
    sizes = []
    for second in range(60):
        rows = [(f"{second} {number}", second, number) for number in range(50)] + [("hot", second, second)]
        collect(operator, [batch(rows), (second + 1) * S], end=False)
        sizes.append(sum(inner.context.state.bytes_used() for inner in instances(operator)))
        assert len(peek_state(operator, "one")) <= 6 * 50 + 1
    assert max(sizes[20:]) <= 2 * max(sizes[:20])
    assert peek_state(operator, "many")["hot"] == list(range(56, 60))
    collect(operator, [200 * S], end=False)
    assert [peek_state(operator, name) for name in ("one", "many", "named")] == [{}, {}, {}]
    for inner in instances(operator):
        store = inner.context.state
        assert isinstance(store, MemoryStore)
        assert len([name for name in store.names() if "expiry" in name or "entries" in name]) == 5
        for name in store.names():
            kept = store._tables.get(name)
            assert kept is None or len(kept.live()) == 0, name


def test_a_time_to_live_may_count_by_the_clock() -> None:
    def count(row: dict[str, Any], context: Any) -> dict[str, Any]:
        context.state.n.add(1)
        return {"k": row["k"], "what": str(context.state.n.get())}

    clock = clock_at(1000)
    state = {"n": ps.reducing_state(int, lambda a, b: a + b, ttl="10s", ttl_clock="processing")}
    operator = opened(count, OUT, state=state, clock=clock, timed=False, order="arrival")
    found = []
    for wait in (0, 9, 9, 10):
        clock.advance_us(wait * S)
        found += collect(operator, [batch([("a", 0, 0)])], end=False).rows()
    assert [row["what"] for row in found] == ["1", "2", "3", "1"]


def test_a_map_keeps_its_order_and_reuses_its_room() -> None:
    def turn(row: dict[str, Any], context: Any) -> None:
        named = context.state.named
        if row["x"] >= 0:
            named.put(row["x"], "x")
            named.delete(row["x"] - 5)
        else:
            named.put(row["x"] + 100, "again")

    operator = opened(turn, state={"named": ps.map_state(int, str)})
    for second in range(100):
        collect(operator, [batch([("a", second, second)]), (second + 1) * S], end=False)
    assert list(operator.peek_state("named")["a"]) == [95, 96, 97, 98, 99]
    collect(operator, [batch([("a", 200, -3)]), 300 * S], end=False)
    assert operator.peek_state("named")["a"] == {95: "x", 96: "x", 97: "again", 98: "x", 99: "x"}


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda: ps.value_state(dict), "the value of a value_state cannot be stored"),
        (lambda: ps.list_state(object), "an element of a list_state cannot be stored"),
        (lambda: ps.map_state(list[int], int), "the key of a map_state cannot be"),
        (lambda: ps.reducing_state(int, 3), "a type and a function"),  # type: ignore[arg-type]
    ],
)
def test_undeclarable_types_are_one_sentence_that_names_the_line(declare: Any, says: str) -> None:
    with pytest.raises(PlanError, match=says) as caught:
        declare()
    assert "test_state.py:" in str(caught.value)


def test_bad_options_are_refused() -> None:
    with pytest.raises(ps.OptionError, match="ttl must be longer"):
        ps.value_state(int, ttl=0)
    with pytest.raises(ps.OptionError, match="'event' or 'processing'"):
        ps.value_state(int, ttl="1s", ttl_clock="wall")
    with pytest.raises(PlanError, match="default of state 'n'"):
        opened(lambda row, context: None, state={"n": ps.value_state(int, default="x")})


def test_state_outside_a_call_says_so() -> None:
    class Early(ps.Process):
        n = ps.value_state(int)

        def open(self, context: Any) -> None:
            self.n.get()

        def process(self, row: dict[str, Any], context: Any) -> None:
            """Do nothing."""

    with pytest.raises(PlanError, match="outside process"):
        opened(Early)
