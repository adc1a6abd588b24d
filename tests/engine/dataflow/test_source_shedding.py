"""Shedding at the head of a source: rows that stay, batches, watermarks, idleness, the account, the log."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.core.contract import RowCounters
from penstock.engine.core.elements import Batch, Element, Idle, Watermark
from penstock.engine.dataflow.source_head import SourceHead
from penstock.engine.dataflow.source_options import ReadPace, SourceStart, SourceStream
from penstock.engine.dataflow.source_partition import DROPPED_NS
from penstock.model.connectors import NOTHING, Read
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.sampling import STEP, Sampled
from penstock.model.schema import TimeColumn
from penstock.model.sic import Admission
from penstock.shedding.kept_log import Stretch
from penstock.shedding.offset_sampling import sample_steps
from tests.engine.scripted import FIELDS, MS, Scripts, Step, rows
from tests.engine.support import ManualClock, Rejected

SEED = 11


def stays(partition: str, numbers: Sequence[int], keep: float) -> list[bool]:
    """Return which rows the sample keeps, by the definition."""
    steps = sample_steps(SEED, partition, np.array(numbers, np.int64))
    return [int(step) < keep * STEPS for step in steps]


class Shedding:
    """A head in the test's hands."""

    def __init__(
        self,
        steps: Mapping[str, Sequence[Step]],
        positions: Mapping[str, Any] | None = None,
        *,
        delay_us: int = 0,
        branches: tuple[str, ...] = (),
        keys: tuple[str, ...] = (),
    ) -> None:
        self.clock, self.counters, self.rejected = ManualClock(), RowCounters(), Rejected()
        source = Scripts(steps, bounded=False)
        self.head = SourceHead(
            SourceStream("source", source, TimeColumn("at"), delay_us, seed=SEED, branches=branches, keys=keys),
            SourceStart(source.partitions(1), positions),
            ReadPace(64, linger_ns=10 * MS, idle_timeout_ns=100 * MS),
            clock=self.clock,
            counters=self.counters,
            dead_letters=self.rejected,
        )

    def poll(self) -> list[Element]:
        elements = list(self.head.poll())
        assert self.counters.balanced()
        return elements

    def drain(self) -> list[Element]:
        elements: list[Element] = []
        while not self.head.ended:
            elements += self.poll()
        return elements


def xs(elements: Sequence[Element], keep: float | None = None) -> list[int]:
    """Return the values of all rows, those of one keep rate if that is given."""
    return [
        row["x"]
        for element in elements
        if isinstance(element, Batch) and keep in (None, element.keep)
        for row in element.rows.to_pylist()
    ]


def numbered(first: int, count: int) -> Step:
    """Return a read of rows that know their number."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array(range(first, first + count), pa.timestamp("us")), pa.array(range(first, first + count))],
        schema=FIELDS,
    )
    return type(NOTHING)(batch)


RATES = st.sampled_from([None, 0.0, 0.25, 0.5, 1.0])


@given(st.lists(st.tuples(st.integers(1, 12), RATES), max_size=12), st.integers(0, 12))
def test_rows_stay_by_their_numbers_and_batches_are_never_mixed(
    reads: list[tuple[int, float | None]], cut_at: int
) -> None:
    steps, first = [], 0
    for count, _ in reads:
        steps.append(numbered(first, count))
        first += count
    shedding = Shedding({"p": steps})
    expected: list[tuple[int, float]] = []
    elements: list[Element] = []
    stretches: list[Stretch] = []
    logged: dict[int, float] = {}
    keep: float | None = None
    number = 0
    for index, (count, rate) in enumerate(reads):
        if rate is not None:
            shedding.head.set_keep(rate)
            keep = rate
        elements += shedding.poll()
        if index == cut_at:
            elements += shedding.head.cut()
            stretches += shedding.head.take_stretches()
        numbers = list(range(number, number + count))
        held = 1.0 if keep is None else keep
        expected += [(n, held) for n, stay in zip(numbers, stays("p", numbers, held), strict=True) if stay]
        logged |= {} if keep is None else dict.fromkeys(numbers, keep)
        number += count
    elements += shedding.drain()
    assert xs(elements) == [n for n, _ in expected]
    for held in {held for _, held in expected}:
        assert xs(elements, held) == [n for n, rate in expected if rate == held]
    counters = shedding.counters
    assert (counters.rows_in, counters.passed, counters.shed) == (first, len(expected), first - len(expected))
    stretches += shedding.head.take_stretches()
    assert {o: item.keep for item in stretches for o in range(item.start, item.stop)} == logged
    assert all((item.source, item.topic, item.partition) == ("source", None, "p") for item in stretches)


def test_a_restored_head_goes_on_with_the_numbers_of_rows() -> None:
    one = Shedding({"p": [numbered(0, 40)]})
    one.head.set_keep(0.5)
    before = one.poll()
    before += one.head.cut()
    two = Shedding({"p": [numbered(40, 40)]}, one.head.positions())
    two.head.set_keep(0.5)
    after = two.drain()
    assert xs([*before, *after]) == [n for n, stay in enumerate(stays("p", range(80), 0.5)) if stay]
    assert [(item.start, item.stop) for item in two.head.take_stretches()] == [(40, 80)]


def test_times_of_dropped_rows_move_the_watermark_and_a_partition_with_data_is_not_idle() -> None:
    shedding = Shedding({"p": [NOTHING, rows(50), rows(60), rows(70), *[NOTHING] * 9]})
    shedding.head.set_keep(0.0)
    assert shedding.poll() == []
    for wait_ms, expected in ((99, [Watermark(50)]), (50, []), (60, [Watermark(70)])):
        # One is decoded every 100 ms, and no silence is long enough.
        shedding.clock.advance_ns(wait_ms * MS)
        assert shedding.poll() == expected
    shedding.clock.advance_ns(2 * MS)
    assert shedding.poll() == []
    shedding.clock.advance_ns(101 * MS)
    assert Idle() in shedding.poll()
    assert (shedding.counters.rows_in, shedding.counters.shed) == (3, 3)


def test_a_dropped_row_without_a_usable_time_says_nothing_and_is_no_dead_letter() -> None:
    shedding = Shedding({"p": [rows(50, None)]})
    shedding.head.set_keep(0.0)
    assert shedding.poll() == [] and shedding.rejected.raw == []
    assert shedding.counters.shed == 2


def test_dead_letters_keep_their_numbers_while_rows_are_dropped() -> None:
    keep = 0.5
    chosen = stays("p", range(64), keep)
    shedding = Shedding({"p": [rows(*[None] * 64)]})
    shedding.head.set_keep(keep)
    shedding.poll()
    assert [record.position for record in shedding.rejected.raw] == [
        f"row {n + 1}" for n, stay in enumerate(chosen) if stay
    ]
    assert steps_of(keep) == 32


BRANCHES = ("a>b", "a>c")


@given(st.lists(st.tuples(st.integers(1, 12), RATES, st.sampled_from([None, 0.0, 0.125, 0.5])), max_size=12))
def test_rows_have_their_steps_while_branches_shed_and_headers_say_how_far(
    reads: list[tuple[int, float | None, float | None]],
) -> None:
    steps, first = [], 0
    for count, _, _ in reads:
        steps.append(numbered(first, count))
        first += count
    shedding = Shedding({"p": steps}, branches=BRANCHES)
    elements: list[Element] = []
    logged: dict[int, tuple[float, Mapping[str, float]]] = {}
    held: tuple[float, Mapping[str, float]] | None = None
    number = 0
    for count, keep, branch in reads:
        if keep is not None:
            shedding.head.set_keep(keep, {} if branch is None else {"a>c": branch, "another>one": 0.0})
            held = keep, {} if branch is None or branch >= keep else {"a>c": branch}
        elements += shedding.poll()
        logged |= {} if held is None else dict.fromkeys(range(number, number + count), held)
        number += count
    elements += shedding.drain()
    for batch in (element for element in elements if isinstance(element, Batch)):
        numbers = batch.rows.column("x").to_pylist()
        rates = {str(logged.get(n, (1.0, {}))) for n in numbers}
        assert len(rates) == 1
        keep, limits = logged.get(numbers[0], (1.0, {}))
        assert batch.keep == keep
        assert batch.branches == (bytes((steps_of(keep), steps_of(limits["a>c"]))) if limits else b"")
        drawn = sample_steps(SEED, "p", np.array(numbers)).tolist()
        assert (batch.rows.column(STEP.name).to_pylist() if limits else drawn) == drawn
        assert batch.rows.schema.names[:2] == ["at", "x"] and (STEP.name in batch.rows.schema.names) == bool(limits)
    stretches = shedding.head.take_stretches()
    assert {o: (item.keep, item.branches) for item in stretches for o in range(item.start, item.stop)} == logged


def test_rates_of_keys_are_in_headers_and_in_the_log_and_rows_have_no_steps() -> None:
    shedding = Shedding({"p": [numbered(0, 4), numbered(4, 4), numbered(8, 4)]}, branches=("a>b",), keys=("a>c", "a>d"))
    elements: list[Element] = []
    for rates in ({"a>d": 0.25}, {"a>d": 0.25, "a>b": 0.5}, {}):
        shedding.head.set_keep(1.0, rates)
        elements += shedding.poll()
    batches = [element for element in elements + shedding.drain() if isinstance(element, Batch)]
    assert [(batch.keep, batch.branches, batch.keys) for batch in batches] == [
        (1.0, b"", bytes((64, 16))),
        (1.0, bytes((32,)), bytes((64, 16))),
        (1.0, b"", b""),
    ]
    assert [STEP.name in batch.rows.schema.names for batch in batches] == [False, True, False]
    assert sum(batch.rows.num_rows for batch in batches) == 12
    assert [(item.start, item.stop, item.branches) for item in shedding.head.take_stretches()] == [
        (0, 4, {"a>d": 0.25}),
        (4, 8, {"a>d": 0.25, "a>b": 0.5}),
        (8, 12, {}),
    ]


def test_rows_of_an_unusable_time_leave_and_the_others_keep_their_steps() -> None:
    times = pa.array([1, None, 3, None, 5], pa.timestamp("us"))
    read = type(NOTHING)(pa.RecordBatch.from_arrays([times, pa.array([0, 1, 2, 3, 4])], names=["at", "x"]))
    shedding = Shedding({"p": [read]}, branches=BRANCHES)
    shedding.head.set_keep(1.0, {"a>b": 0.5})
    (batch,) = [element for element in shedding.drain() if isinstance(element, Batch)]
    assert batch.rows.column("x").to_pylist() == [0, 2, 4]
    assert batch.rows.column(STEP.name).to_pylist() == sample_steps(SEED, "p", np.array([0, 2, 4])).tolist()
    assert len(shedding.rejected.raw) == 2 and not any(b"step" in item.raw for item in shedding.rejected.raw)


def dropped(first: int, count: int) -> Step:
    """Return a read of records that its reader has dropped."""
    return Read(sampled=Sampled(0.0, first, first + count, count))


def test_a_partition_is_left_alone_for_a_moment_once_all_that_was_there_is_dropped() -> None:
    head = Shedding({"0": [dropped(0, 64), dropped(64, 6), dropped(70, 5)]})
    head.head.set_keep(0.0)
    head.poll()
    # As much was dropped as was asked for, so more may be there.
    assert head.head.wake_ns() == 0
    head.poll()
    assert head.head.wake_ns() == head.clock.monotonic_ns() + DROPPED_NS
    head.poll()
    assert head.counters.shed == 70
    head.clock.advance_ns(DROPPED_NS)
    head.poll()
    assert head.counters.shed == 75


def test_what_stays_is_read_in_the_turn_in_which_what_was_before_it_is_dropped() -> None:
    head = Shedding({"0": [dropped(0, 6), numbered(6, 2), numbered(8, 2)]})
    head.head.admit({"0": [Admission(6, False), Admission(2, True)]})
    elements = head.poll()
    assert xs([*elements, *head.head.cut()]) == [6, 7]
    assert (head.counters.shed, head.head.unread(), head.head.wake_ns()) == (6, {}, None)


def test_what_was_admitted_and_is_not_read_yet_is_known() -> None:
    head = Shedding({"0": [dropped(0, 6), numbered(6, 2), numbered(8, 2)]})
    head.head.admit({"0": [Admission(6, False), Admission(4, True)]})
    assert head.head.unread() == {"0": True}
    head.poll()
    assert head.head.unread() == {"0": True}
    head.poll()
    assert head.head.unread() == {}
    head.head.admit({"0": [Admission(3, False)]})
    assert head.head.unread() == {"0": False}
