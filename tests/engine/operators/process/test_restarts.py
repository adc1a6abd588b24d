"""What process functions wait for: timers by the clock after a restart, and the watermarks that matter."""

from typing import Any

import pytest

import penstock as ps
from penstock.engine.core.elements import Batch
from tests.engine.operators.process.process_support import S, batch, clock_at, opened, restarting, seconds
from tests.engine.support import Collected, collect

OUT = {"k": str, "what": str}


def by_key(collected: Collected) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for row in collected.rows():
        found.setdefault(row["k"], []).append(row["what"])
    return found


@pytest.mark.parametrize("down_s", [0, 100])
def test_timers_in_processing_time_fire_after_a_restart_at_their_time_or_at_once(down_s: int) -> None:
    class Wait(ps.Process):
        def process(self, row: dict[str, Any], context: Any) -> None:
            if row["x"]:
                context.timers.after_processing(row["x"])

        def on_timer(self, timer: Any, context: Any) -> Any:
            return {"k": context.key, "what": str(seconds(timer.time))}

    clock = clock_at(100)
    operator = restarting(Wait, OUT, cuts=["", "two", "one"], order="arrival", clock=clock)
    collected = Collected()
    collected.add(operator.process(0, Batch(batch([(key, 0, 5) for key in "abcdef"]))))
    for _ in range(2):
        clock.advance_us(down_s * S)
        collected.add(operator.process(0, Batch(batch([("a", 0, 0)]))))
        assert operator.timer_ns() == clock.monotonic_ns() + (0 if down_s else 5 * S * 1_000)
    clock.advance_us(5 * S)
    collected.add(operator.on_timer(clock.monotonic_ns()))
    assert by_key(collected) == {key: ["105.0"] for key in "abcdef"}
    assert operator.timer_ns() is None


def test_says_which_watermark_does_something() -> None:
    class Brief(ps.Process):
        brief = ps.value_state(int, ttl="8s")
        by_clock = ps.list_state(int, ttl="1s", ttl_clock="processing")

        def process(self, row: dict[str, Any], context: Any) -> None:
            self.brief.set(1)
            self.by_clock.append(1)
            context.timers.after("3s")

        def on_timer(self, timer: Any, context: Any) -> Any:
            return {"k": context.key, "what": "timer"}

    operator = opened(Brief, OUT)
    assert operator.due_us() is None
    for steps, due_us in (
        ([batch([("a", 9, 0), ("b", 2, 0)])], 2 * S + 1),
        ([2 * S], 2 * S + 1),
        ([2 * S + 1], 5 * S),
        ([5 * S], 9 * S + 1),
        ([9 * S + 1], 10 * S),
        ([10 * S], 12 * S),
        ([17 * S], None),
    ):
        collect(operator, steps, end=False)  # type: ignore[arg-type]
        assert operator.due_us() == due_us
    assert operator.notes() == {"watermark_us": 17 * S}
    assert not operator.peek_state("brief")
