"""A query that wants a certain error, in a loop with a model of its job: met where it can be, and said where not."""

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import penstock as ps
from penstock.benchmarks.latency.steady import SteadySource
from penstock.engine.control.error_book import ErrorBook
from penstock.engine.control.part_reading import ERRORS, INSTANCES, RECEIVED, SENT, PartReading, no_rows
from penstock.model.control import Limits, QueryLimit
from penstock.model.errors import OptionError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.max_error import Otherwise
from penstock.shedding.result_errors import ErrorCounts, half_width_at
from tests.engine.control.simulated_stream import SimulatedStream

WINDOWS = 40
"""Rows that the query writes in a cycle."""


class Counting(SimulatedStream):
    """A count of the rows of each of `WINDOWS` keys, whose error is wanted below ``max_error``."""

    max_error = 0.1
    otherwise: Otherwise = "keep"

    def plan(self) -> ExecutionGraph:
        job = ps.Job()
        rows = ps.read(SteadySource(1, keys=1), job=job).name("due")
        counts = rows.key_by("key").agg(n=ps.count()).name("work").write_black_hole(mode="changelog").name("sink")
        counts.with_max_error(self.max_error, otherwise=self.otherwise)
        if self.minimum < 1.0:
            counts.with_min_accuracy(self.minimum)
        return job.plan(1)

    def errors(self, rate: float) -> Mapping[str, ErrorCounts]:
        if self.keep >= 1.0:
            return {}
        # A window of a key has so many rows, of which these were kept.
        kept = np.maximum(self.random.binomial(int(rate * 5.0 / WINDOWS), self.keep, WINDOWS), 1)
        widths = np.where(kept >= 50, 1.96 * np.sqrt((1.0 - self.keep) / kept), np.inf)
        return {"sink": ErrorCounts.of(widths, np.full(WINDOWS, self.keep))}


def last(stream: Counting, rate: float, cycles: int = 30) -> list[float]:
    return [stream.cycle(rate) for _ in range(cycles)][-6:]


@settings(max_examples=8, deadline=None)
@given(st.floats(1.2, 2.5), st.integers(0, 2**32 - 1), st.floats(0.0, 0.01))
def test_where_there_is_cpu_for_the_error_more_is_kept_than_it_needs(overload: float, seed: int, noise: float) -> None:
    stream = Counting(1e-4, minimum=1.0, seed=seed, noise=noise)
    rate = overload * 1e4
    keeps = last(stream, rate)
    assert max(keeps) < 1.0 and min(keeps) == pytest.approx(1.0 / overload, abs=0.06)
    assert stream.status is not None and not stream.status.missed and not stream.infeasible
    (query,) = stream.status.queries
    assert query.granted is not None and query.error is not None
    # 5 s of rows, by keys: the error of a count at the rate that is granted is the wanted one.
    unit = 1.96 / np.sqrt(rate * 5.0 / WINDOWS)
    assert 0.07 <= half_width_at(float(unit), query.granted) <= 0.1 or query.granted <= min(keeps)
    assert query.error <= 0.1 and stream.lag <= 1.5 * rate


def test_where_there_is_not_it_is_said_and_rows_are_shed_all_the_same() -> None:
    stream = Counting(1e-2, minimum=1.0)
    keeps = last(stream, 300.0)
    assert min(keeps) == pytest.approx(1 / 3, abs=0.06)
    assert stream.status is not None
    assert "'sink' would need to keep" in stream.status.missed and "error of 0.1" in stream.status.missed
    assert not stream.infeasible and stream.lag <= 1.5 * 300.0


def test_a_minimum_accuracy_holds_though_the_error_would_allow_less() -> None:
    stream = Counting(1e-4, minimum=0.7)
    keeps = last(stream, 3e4)
    assert min(keeps) == 45 / 64
    assert stream.infeasible.startswith("minimum accuracies cannot be met")


def test_another_error_holds_from_the_next_cycle_on_and_is_that_of_the_same_rows() -> None:
    stream = Counting(1e-4, minimum=1.0)
    last(stream, 2e4)
    assert stream.status is not None and stream.status.queries[0].granted is not None
    before = stream.status.queries[0].granted
    stream.shedding.change(Limits(queries={"sink": QueryLimit(max_error=0.04)}))
    stream.cycle(2e4)
    (query,) = stream.status.queries
    assert query.max_error == 0.04 and query.granted is not None and query.granted > before


def test_an_error_of_a_query_that_wants_none_or_leaves_values_out_is_not_changed() -> None:
    with pytest.raises(OptionError, match=r"query 'sink' has no with_max_error\(\) in its program"):
        SimulatedStream(1e-4).shedding.change(Limits(queries={"sink": QueryLimit(max_error=0.04)}))

    class Leaving(Counting):
        otherwise = "null"

    with pytest.raises(OptionError, match=r"leaves values out that miss an error of 0\.1"):
        Leaving(1e-4).shedding.change(Limits(queries={"sink": QueryLimit(max_error=0.04)}))


def part(counts: ErrorCounts, number: int) -> PartReading:
    rows = [
        {"query": "sink", "number": number, "place": place, "figure": counts.figures[place]}
        for place in np.flatnonzero(counts.figures).tolist()
    ]
    tables = map(no_rows, (INSTANCES, SENT, RECEIVED))
    return PartReading(0, *tables, errors=pa.Table.from_pylist(rows, ERRORS))


def test_rows_of_all_sinks_of_a_query_are_counted_once() -> None:
    book = ErrorBook()
    one, two = (ErrorCounts.of(np.full(rows, 0.1), np.full(rows, 0.5)) for rows in (3, 4))
    book.hear(part(one, 0))
    book.hear(part(two, 1))
    assert book.take()["sink"].rows == 7
    assert book.take()["sink"].rows == 0
    book.hear(part(one + two, 0))
    assert book.take()["sink"].rows == 4
    # Its instance began anew.
    book.hear(part(one, 0))
    assert book.take()["sink"].rows == 3
