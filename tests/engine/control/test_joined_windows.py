"""Windows that follow each other are one window, as who looks more seldom would have seen it."""

from dataclasses import fields, replace

import numpy as np
import pytest

from penstock.engine.control.joined_windows import joined
from penstock.model.columns import Floats
from penstock.model.snapshot import ServiceColumns
from tests.engine.control.recorded import second
from tests.scheduler.scaling_jobs import Job, Task, measured


def test_counts_and_times_add_up_and_the_rest_is_as_it_was_last() -> None:
    parts = [second(1, 40.0), second(2, 80.0)]
    whole = joined(parts)
    assert (whole.window_s, whole.time_s, whole.number) == (2.0, 2.0, 2)
    for name in ("records_in", "busy_ns"):
        own = [getattr(part.instances, name) for part in parts]
        np.testing.assert_allclose(getattr(whole.instances, name), own[0] + own[1])
    assert whole.outputs.records_out is not None
    assert whole.outputs.records_out.sum() == pytest.approx(120.0)
    assert joined(parts[:1]).as_dict() == parts[0].as_dict()
    with pytest.raises(ValueError, match="no window"):
        joined([])


def test_a_mean_of_rows_is_one_over_rows_and_what_was_not_measured_stays_so() -> None:
    """A second in which no row came says nothing of how long rows take, and hides nothing of the others."""
    count = len(second(1).instances)
    windows = [(30.0, 40.0, 1.0), (0.0, None, 1.0), (90.0, 8.0, None), (0.0, np.nan, 1.0)]

    def column(value: float | None) -> Floats | None:
        return None if value is None else np.full(count, value)

    parts = [
        replace(
            part,
            instances=replace(
                part.instances, records_in=column(rows), latency_ms=column(latency_ms), put_ms=column(put_ms)
            ),
        )
        for number, (rows, latency_ms, put_ms) in enumerate(windows, 1)
        for part in [second(number)]
    ]
    whole = joined(parts)
    assert whole.instances.put_ms is not None and np.isnan(whole.instances.put_ms).all()
    np.testing.assert_allclose(whole.instances.latency_ms, np.full(count, 16.0))
    assert joined(parts[1:2]).instances.latency_ms is None
    assert np.isnan(joined(parts[3:]).instances.latency_ms).all()
    unknown = replace(parts[0], instances=replace(parts[0].instances, latency_ms=np.full(count, np.nan)))
    assert np.isnan(joined([unknown, *parts[1:]]).instances.latency_ms).all()


def test_rows_that_wait_while_none_is_taken_are_as_late_as_they_are() -> None:
    """A minute in which an instance stands still, with rows before it, is no minute without rows."""
    count = len(second(1).instances)
    parts = [
        replace(
            part,
            instances=replace(
                part.instances,
                records_in=np.full(count, taken),
                queue_rows=np.full(count, 100.0),
                latency_ms=np.full(count, 1_000.0),
            ),
        )
        for number, taken in enumerate((0.0, 0.0, 50.0), 1)
        for part in [second(number)]
    ]
    # A hundred rows have waited for three seconds.
    np.testing.assert_allclose(joined(parts).instances.latency_ms, np.full(count, 3_000.0))
    np.testing.assert_allclose(joined(parts[:1]).instances.latency_ms, np.full(count, 1_000.0))


def test_a_service_is_as_slow_as_its_calls_and_figures_of_rows_are_of_rows() -> None:
    count = len(second(1).instances)
    windows = [(10.0, 5.0), (0.0, np.nan), (30.0, 1.0)]
    parts = [
        replace(
            part,
            services=ServiceColumns(("s",), np.zeros(1, np.int32), np.array([each_ms]), np.array([number_of])),
            instances=replace(
                part.instances,
                records_in=np.full(count, number_of),
                get_p90_ms=np.full(count, each_ms),
                emit_latency_ms=np.full(count, each_ms),
            ),
        )
        for number, (number_of, each_ms) in enumerate(windows, 1)
        for part in [second(number)]
    ]
    whole = joined(parts)
    assert whole.services.latency_ms is not None and whole.services.latency_ms.tolist() == [2.0]
    for figure in (whole.instances.get_p90_ms, whole.instances.emit_latency_ms):
        np.testing.assert_allclose(figure, np.full(count, 2.0))


def test_an_access_takes_what_all_took_together_whatever_windows_had_none() -> None:
    """A second in which no row came says nothing of accesses, and hides nothing of the others."""
    count = len(second(1).instances)
    windows = [(3.0, 1.0, 8.0), (0.0, 0.0, np.nan), (12.0, 0.0, 2.0)]
    parts = [
        replace(
            part,
            instances=replace(
                part.instances,
                cache_hits=np.full(count, hits), cache_misses=np.full(count, misses), get_ms=np.full(count, get_ms),
            ),
        )
        for number, (hits, misses, get_ms) in enumerate(windows, 1)
        for part in [second(number)]
    ]  # fmt: skip
    np.testing.assert_allclose(joined(parts).instances.get_ms, np.full(count, 3.5))
    assert np.isnan(joined(parts[1:2]).instances.get_ms).all()
    unknown = replace(parts[0], instances=replace(parts[0].instances, get_ms=np.full(count, np.nan)))
    assert np.isnan(joined([unknown, *parts[1:]]).instances.get_ms).all()
    blind = replace(parts[0], instances=replace(parts[0].instances, cache_hits=None))
    assert joined([blind, *parts[1:]]).instances.get_ms is None


def test_windows_before_instances_came_are_left_out() -> None:
    wide = measured(Job([Task("lines", None), Task("count", 100.0, 2)], [(0, 1, 1.0)], 50.0), 3.0, 1.0)
    assert joined([second(1), second(2), wide]).window_s == 1.0


def test_every_figure_that_counts_is_known_to_be_one() -> None:
    """A column whose name says that it counts or lasts, and which is only carried over, is a mistake."""
    zero = second(1)
    whole = joined([zero, replace(zero, time_s=2.0)])
    for group in ("instances", "outputs", "partitions"):
        for field in fields(getattr(zero, group)):
            before, after = (getattr(getattr(each, group), field.name) for each in (zero, whole))
            if before is not None and (field.name.endswith("_ns") or field.name.startswith("records")):
                np.testing.assert_allclose(after, 2 * before)
