"""A process function with state and timers against a model of one key at a time, however the input is cut."""

import heapq
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

import penstock as ps
from penstock.engine.core.elements import Batch
from penstock.model.errors import PlanError
from tests.engine.operators.process.process_support import (
    Row,
    S,
    at,
    batch,
    clock_at,
    instances,
    opened,
    restarting,
    seconds,
)
from tests.engine.restarts import CUTS
from tests.engine.support import Collected, Rejected, collect

OUT = {"k": str, "what": str}

rows = st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 20), st.integers(-3, 6)), max_size=25)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[list[Row], list[pa.RecordBatch | int]]:
    """Rows, and steps that bring them in any order that watermarks allow."""
    taken = draw(rows)
    left = draw(st.permutations(taken))
    steps: list[pa.RecordBatch | int] = []
    watermark = 0
    while left:
        count = draw(st.integers(1, 6))
        steps.append(batch(left[:count]))
        left = left[count:]
        watermark = max(watermark, min([row[1] for row in left], default=21) - draw(st.integers(0, 4)))
        if draw(st.booleans()):
            steps.append(watermark * S)
    return list(taken), steps


class Machine(ps.Process):
    """Uses every kind of state and timer, and fails now and then after it has changed them."""

    count = ps.value_state(int, default=0)
    texts = ps.value_state(list[str])
    log = ps.list_state(int)
    seen = ps.map_state(int, str)
    most = ps.reducing_state(int, max)
    brief = ps.value_state(int, ttl="3s")
    trail = ps.list_state(int, ttl="4s")
    lately = ps.map_state(int, int, ttl="4s")

    def process(self, row: dict[str, Any], context: Any) -> Any:
        x = row["x"]
        self.count.set(self.count.get() + 1)
        self.log.append(x)
        self.most.add(x)
        self.trail.append(x)
        self.texts.set([*(self.texts.get() or []), str(x)][-2:])
        shown = (self.count.get(), self.most.get(), self.brief.get(), self.trail.get(), self.texts.get())
        shown += (self.lately.items(), self.seen.items())
        self.brief.set(x)
        self.lately.put(x, row["x"] + 1)
        self.seen.delete(x - 1)
        if x == 0:
            self.log.clear()
            self.texts.clear()
        if x == 1:
            self.seen.clear()
        self.seen.put(x, f"{self.count.get()}")
        if x >= 2:
            context.timers.after(f"{x}s")
        if x == -1:
            context.timers.at(at(seconds(row["at"]) - 5))
        if x == -2:
            context.timers.cancel(at(seconds(row["at"]) + 2))
        if x == -3:
            raise ValueError("minus three")
        yield {"k": context.key, "what": f"{seconds(context.time)} {x} {shown}"}

    def on_timer(self, timer: Any, context: Any) -> Any:
        self.count.set(self.count.get() + 10)
        self.log.append(100)
        if len(self.log) > 8:
            raise ValueError("a long log")
        if seconds(timer.time) % 3 == 0:
            context.timers.after(1)
        if 4 in self.seen:
            self.seen.put(3, "three")
        shown = (self.count.get(), self.log.get(), self.seen.items(), self.brief.get(), self.lately.get(2))
        return {"k": context.key, "what": f"timer {seconds(timer.time)} {shown}"}


class Kept:
    """The state of one key in the model: plain values, with the second each was written where it has a time to live."""

    def __init__(self) -> None:
        self.count = 0
        self.texts: list[str] = []
        self.log: list[int] = []
        self.seen: dict[int, str] = {}
        self.most: int | None = None
        self.brief: tuple[int, float] | None = None
        self.trail: list[tuple[int, float]] = []
        self.lately: dict[int, tuple[int, float]] = {}
        self.timers: list[float] = []

    def copy(self) -> "Kept":
        other = Kept()
        for name, value in vars(self).items():
            setattr(other, name, value.copy() if isinstance(value, list | dict) else value)
        return other

    def live(self, now: float) -> tuple[int | None, list[int], dict[int, int]]:
        brief = self.brief[0] if self.brief and self.brief[1] + 3 > now else None
        trail = [x for x, when in self.trail if when + 4 > now]
        return brief, trail, {x: y for x, (y, when) in self.lately.items() if when + 4 > now}

    def row(self, k: str | None, time: int, x: int) -> str:
        self.count += 1
        self.log.append(x)
        self.most = x if self.most is None else max(self.most, x)
        self.trail.append((x, time))
        self.texts = [*self.texts, str(x)][-2:]
        brief, trail, lately = self.live(time)
        shown = (self.count, self.most, brief, trail, self.texts.copy(), list(lately.items()), list(self.seen.items()))
        self.brief = (x, time)
        if x not in lately:
            self.lately.pop(x, None)
        self.lately[x] = (x + 1, time)
        self.seen.pop(x - 1, None)
        if x == 0:
            self.log, self.texts = [], []
        if x == 1:
            self.seen = {}
        self.seen[x] = f"{self.count}"
        if x >= 2:
            self.arm(time + x)
        if x == -1:
            self.arm(time - 5)
        if x == -2 and time + 2 in self.timers:
            self.timers.remove(time + 2)
            heapq.heapify(self.timers)
        if x == -3:
            raise ValueError
        return f"{float(time)} {x} {shown}"

    def timer(self, time: float, now: float) -> str:
        self.count += 10
        self.log.append(100)
        if len(self.log) > 8:
            raise ValueError
        if time % 3 == 0:
            self.arm(time + 1)
        if 4 in self.seen:
            self.seen[3] = "three"
        brief, _, lately = self.live(now)
        return f"timer {float(time)} {(self.count, self.log, list(self.seen.items()), brief, lately.get(2))}"

    def arm(self, time: float) -> None:
        if time not in self.timers:
            heapq.heappush(self.timers, time)


def expected(taken: list[Row]) -> tuple[dict[str | None, list[str]], int]:
    """Return what comes out, key by key in order, and how many calls fail."""
    found: dict[str | None, list[str]] = {}
    failures = 0
    for k in {row[0] for row in taken}:
        kept, outputs, now = Kept(), found.setdefault(k, []), float("-inf")
        waiting: list[tuple[float, int | None]] = sorted((row[1], row[2]) for row in taken if row[0] == k)
        while waiting or kept.timers:
            trial = kept.copy()
            by_timer = bool(kept.timers) and (not waiting or kept.timers[0] <= waiting[0][0])
            try:
                if by_timer:
                    time = heapq.heappop(kept.timers)
                    trial.timers = kept.timers.copy()
                    now = max(now, time)
                    outputs.append(trial.timer(time, now))
                else:
                    time, x = waiting.pop(0)
                    now = time
                    assert x is not None
                    outputs.append(trial.row(k, int(time), x))
            except ValueError:
                failures += 1
            else:
                kept = trial
    return {k: outputs for k, outputs in found.items() if outputs}, failures


def by_key(collected: Collected) -> dict[str | None, list[str]]:
    found: dict[str | None, list[str]] = {}
    for row in collected.rows():
        found.setdefault(row["k"], []).append(row["what"])
    return found


@settings(max_examples=60)
@given(scripts(), st.sampled_from([2, 5, 1000]), CUTS)
def test_state_and_timers_are_as_if_each_key_was_alone_in_time(
    script: tuple[list[Row], list[pa.RecordBatch | int]], batch_rows: int, cuts: list[str]
) -> None:
    taken, steps = script
    operator = restarting(Machine, OUT, cuts=cuts, batch_rows=batch_rows)
    outputs, failures = expected(taken)
    collected = collect(operator, steps)
    assert by_key(collected) == outputs
    assert all(piece.num_rows <= batch_rows for piece in collected.batches.get("main", []))
    rejected = operator.context.dead_letters
    assert isinstance(rejected, Rejected)
    assert len(rejected.rows) == failures


class Vector(ps.BatchProcess):
    """Counts rows and remembers them, and shows both at timers."""

    count = ps.value_state(int, default=0)
    log = ps.list_state(int)

    def process(self, batch: pa.RecordBatch, context: Any) -> Any:
        counts = self.count.gather().to_numpy().copy()
        for group in context.groups.tolist():
            counts[group] += 1
        self.count.scatter(counts)
        self.log.append_at(context.groups, batch["x"])
        times = [None] * len(context.keys)
        for group, time, x in zip(
            context.groups.tolist(), batch["at"].to_pylist(), batch["x"].to_pylist(), strict=True
        ):
            if x == 6:
                times[group] = at(seconds(time) + 30)
        context.timers.at(pa.array(times, pa.timestamp("us")))

    def on_timer(self, timers: Any, context: Any) -> Any:
        logs = self.log.gather().to_pylist()
        self.log.scatter(pa.nulls(len(context.keys), pa.list_(pa.int64())))
        shown = zip(timers.times.to_pylist(), self.count.gather().to_pylist(), logs, strict=True)
        return {"k": context.keys["k"], "what": [f"{seconds(time)} {count} {log}" for time, count, log in shown]}


@settings(max_examples=60)
@given(scripts(), CUTS)
def test_batches_see_the_rows_of_a_key_in_order_and_its_timers_after_them(
    script: tuple[list[Row], list[pa.RecordBatch | int]], cuts: list[str]
) -> None:
    taken, steps = script
    found = by_key(collect(restarting(Vector, OUT, cuts=cuts), steps))
    for k in {row[0] for row in taken}:
        mine = sorted((row[1], row[2]) for row in taken if row[0] == k)
        # A call sets the timer of its key's last 6 only, so there is at most one for each 6.
        sixes = [time + 30 for time, x in mine if x == 6]
        outputs = found.get(k, [])
        assert bool(outputs) == bool(sixes)
        if sixes:
            values = [x for _, x in mine]
            assert outputs[0].endswith(f" {len(mine)} {values}")
            assert float(outputs[-1].split()[0]) == max(sixes)


def test_timers_fire_between_the_rows_of_vectorised_calls() -> None:
    class Last(ps.BatchProcess):
        def process(self, batch: pa.RecordBatch, context: Any) -> Any:
            if batch["x"][0].as_py() == 0:
                context.timers.at([at(5)] * len(context.keys))
            return {"k": batch["k"], "what": [str(x) for x in batch["x"].to_pylist()]}

        def on_timer(self, timers: Any, context: Any) -> Any:
            return {"k": context.keys["k"], "what": ["timer"] * len(context.keys)}

    steps = [batch([("a", 1, 0), ("b", 1, 0)]), 2 * S, batch([("a", 4, 4), ("a", 5, 5), ("b", 6, 6)])]
    assert by_key(collect(opened(Last, OUT), steps)) == {"a": ["0", "4", "timer", "5"], "b": ["0", "timer", "6"]}


def test_timers_in_processing_time_fire_when_the_clock_says_so() -> None:
    class Wait(ps.Process):
        def process(self, row: dict[str, Any], context: Any) -> Any:
            context.timers.after_processing(row["x"])
            if row["x"] == 3:
                context.timers.cancel_processing(context.timers.after_processing("1s"))

        def on_timer(self, timer: Any, context: Any) -> Any:
            assert timer.processing
            assert context.time is None
            if seconds(timer.time) == 101:
                context.timers.at_processing(at(104))
            return {"k": context.key, "what": str(seconds(timer.time))}

    clock = clock_at(100)
    operator = opened(Wait, OUT, order="arrival", clock=clock)
    collected = Collected()
    collected.add(operator.process(0, ps_batch([("a", 0, 1), ("b", 0, 3), ("a", 0, 1)])))
    assert operator.timer_ns() == S * 1_000
    clock.advance_us(S)
    collected.add(operator.on_timer(clock.monotonic_ns()))
    assert by_key(collected) == {"a": ["101.0"]}
    assert [(key, seconds(timer.time)) for key, timer in operator.peek_timers()] == [("b", 103), ("a", 104)]
    clock.advance_us(10 * S)
    collected.add(operator.on_timer(clock.monotonic_ns()))
    assert by_key(collected) == {"a": ["101.0", "104.0"], "b": ["103.0"]}
    assert operator.timer_ns() is None


def ps_batch(items: list[Row]) -> Batch:
    return Batch(batch(items))


def test_rows_go_at_once_by_arrival_and_timers_with_the_watermark() -> None:
    def count(row: dict[str, Any], context: Any) -> Any:
        context.state.n.set(context.state["n"].get() + 1)
        context.timers.at(at(3))
        return {
            "k": row["k"],
            "what": f"{row['x']} {context.state.n.get()} {context.watermark and seconds(context.watermark)}",
        }

    states = {"n": ps.value_state(int, default=0)}
    operator = restarting(count, OUT, cuts=["", "two", "one", "two"], order="arrival", state=states)
    steps = [batch([("a", 9, 1), ("a", 2, 2)]), 5 * S, batch([("a", 1, 3)])]
    assert by_key(collect(operator, steps)) == {"a": ["1 1 None", "2 2 None", "3 3 5.0"]}
    assert [inner.peek_state("n") for inner in instances(operator) if inner.peek_state("n")] == [{"a": 3}]


def test_late_rows_leave_and_the_end_lets_timers_fire_that_timers_set() -> None:
    class Chain(ps.Process):
        def process(self, row: dict[str, Any], context: Any) -> None:
            context.timers.after("1s")

        def on_timer(self, timer: Any, context: Any) -> Any:
            if seconds(timer.time) < 5:
                context.timers.after("1s")
            return {"k": context.key, "what": str(seconds(timer.time))}

    collected = collect(opened(Chain, OUT), [batch([("a", 1, 1)]), 3 * S, batch([("a", 1, 2)])])
    assert by_key(collected) == {"a": ["2.0", "3.0", "4.0", "5.0"]}
    assert [row["x"] for row in collected.late] == [2]


def test_an_endless_chain_of_timers_at_the_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(ps.Process):
        def process(self, row: dict[str, Any], context: Any) -> None:
            context.timers.after("1s")

        def on_timer(self, timer: Any, context: Any) -> None:
            context.timers.after("1s")

    monkeypatch.setattr("penstock.engine.operators.process.process._MOST_ROUNDS", 50)
    with pytest.raises(ps.UserError, match="set themselves again"):
        collect(opened(Endless, OUT), [batch([("a", 1, 1)])])


def test_updating_input_and_missing_event_time_are_refused() -> None:
    with pytest.raises(PlanError, match="order='arrival'"):
        opened(Machine, OUT, timed=False)
    with pytest.raises(PlanError, match="ttl_clock='processing'"):
        opened(Machine, OUT, timed=False, order="arrival")
