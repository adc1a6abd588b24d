"""Timers that are due come before every batch, but before every other one while a signal waits behind rows."""

from collections.abc import Iterable

from penstock.engine.core.contract import Emission
from penstock.engine.core.elements import Barrier, Element, Watermark
from tests.engine.loop import Costly, channel, instance, rows
from tests.engine.support import ManualClock


class Ticking(Costly):
    """Has a timer that is always due."""

    def timer_ns(self) -> int | None:
        return 0

    def on_timer(self, now_ns: int) -> Iterable[Emission]:
        self.seen.append("timer")
        return ()


def seen(*elements: Element) -> list[str]:
    clock = ManualClock()
    operator = Ticking(clock)
    one = instance("one", operator, clock, [channel(elements=elements)])
    assert one.gate is not None
    while one.gate.has_input():
        one.step()
    return operator.seen


def test_timers_come_before_every_batch() -> None:
    assert seen(rows(1), Watermark(7), rows(1)) == ["timer", "rows 1", "timer", "watermark 7", "rows 1"]


def test_they_come_before_every_other_one_until_a_signal_is_through() -> None:
    batches = [rows(number) for number in range(1, 7)]
    assert seen(*batches[:4], Barrier(1), *batches[4:]) == [
        *("rows 1", "timer", "rows 2", "rows 3", "timer", "rows 4"),
        *("barrier 1", "rows 5", "timer", "rows 6"),
    ]


def test_timers_come_if_nothing_else_can() -> None:
    clock = ManualClock()
    operator = Ticking(clock)
    first, second = channel(elements=[Barrier(1)]), channel("second")
    one = instance("one", operator, clock, [first, second])
    one.step()
    one.step()
    one.step()
    assert operator.seen == ["timer", "timer"]
