"""Rows that wait for the watermark, row by row: which an operator has let go by now, and which came too late."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from penstock.engine.core.contract import Operator
from penstock.engine.core.elements import END_OF_TIME_US, Batch
from tests.engine.support import Collected, ManualClock

Row = dict[str, Any]
Step = list[Row] | int


@dataclass
class ReleasedRows:
    """Rows, with their time in ``at``, that are let go once the watermark less the lateness is beyond them."""

    lateness_us: int = 0
    waiting: list[Row] = field(default_factory=list)
    released: list[Row] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    passed_us: int = -(2**62)

    def take(self, step: Step) -> None:
        """Take rows or a watermark."""
        if not isinstance(step, int):
            self.late += [row for row in step if row["at"] < self.passed_us]
            self.waiting += [row for row in step if row["at"] >= self.passed_us]
            return
        self.passed_us = max(self.passed_us, step if step == END_OF_TIME_US else step - self.lateness_us)
        self.released += [row for row in self.waiting if row["at"] < self.passed_us]
        self.waiting = [row for row in self.waiting if row["at"] >= self.passed_us]


def ragged_steps(rows: Sequence[Row], cut: random.Random) -> list[Step]:
    """Cut rows into batches, with watermarks that some later rows may fall behind."""
    steps: list[Step] = []
    at, passed = 0, -1
    while at < len(rows):
        size = cut.randint(1, 8)
        steps.append(list(rows[at : at + size]))
        at += size
        watermark = max(row["at"] for row in rows[:at]) - cut.choice([0, 3, 8, 15])
        if watermark > passed and cut.random() < 0.7:
            steps.append(watermark)
            passed = watermark
    return steps


def emission_points(
    operator: Operator,
    steps: Sequence[Step],
    batch_of: Callable[[Sequence[Row]], pa.RecordBatch],
    model: ReleasedRows,
    clock: ManualClock,
    cut: random.Random,
    check: Callable[[Collected], None],
) -> Collected:
    """Run an updating operator; call ``check`` with all that came out wherever nothing is left pending.

    Every now and then the loop is idle, a barrier comes, or time passes. The end of time comes last.
    """
    collected = Collected()
    for step in [*steps, END_OF_TIME_US]:
        clock.advance_us(cut.choice([0, 400_000, 1_000_000]))
        if isinstance(step, int):
            collected.add(operator.on_watermark(step))
        else:
            collected.add(operator.process(0, Batch(batch_of(step), ingest_ns=1)))
        model.take(step)
        assert operator.context.counters.balanced(), operator.context.counters
        assert operator.has_pending() == (operator.timer_ns() is not None)
        what = cut.choice(["nothing", "idle", "barrier"])
        if what == "idle" and operator.has_pending():
            collected.add(operator.on_timer(clock.monotonic_ns()))
        elif what == "barrier":
            collected.add(operator.on_barrier(1))
        if not operator.has_pending():
            check(collected)
    assert not operator.has_pending()
    assert not list(operator.on_end())
    return collected
