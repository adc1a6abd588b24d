"""A sink counts rows by the widest of their intervals, and leaves values out where they are too wide if it says so."""

import numpy as np
import pyarrow as pa
import pytest

from penstock.engine.operators.sink_errors import SinkErrors
from penstock.model.max_error import MaxError, Otherwise
from penstock.model.schema import WEIGHT

ROWS = {
    "n": pa.array([100, 100, 100, 100, 100]),
    "total": pa.array([10.0, 10.0, 10.0, 10.0, None]),
    "accuracy": pa.array([0.5, 0.5, 0.5, 1.0, 0.5]),
    "n_low": pa.array([95, 80, 95, 100, 95]),
    "n_high": pa.array([105, 120, 105, 100, 105]),
    "total_low": pa.array([9.5, 9.5, None, 10.0, None]),
    "total_high": pa.array([10.5, 10.5, None, 10.0, None]),
}


def written(otherwise: Otherwise, weights: list[int] | None = None) -> tuple[SinkErrors, pa.RecordBatch]:
    errors = SinkErrors(("n", "total"), MaxError(0.1, otherwise=otherwise))
    columns = ROWS if weights is None else ROWS | {WEIGHT: pa.array(weights, pa.int8())}
    return errors, errors.rows(pa.record_batch(columns))


def test_rows_are_counted_by_the_widest_of_their_intervals() -> None:
    errors, rows = written("keep")
    assert rows.equals(pa.record_batch(ROWS))
    assert (errors.counts.rows, errors.counts.unknown) == (4, 2)
    assert errors.counts.quantile(0.25) == pytest.approx(0.05, rel=0.16)
    assert errors.counts.quantile(0.5) == pytest.approx(0.2, rel=0.16)
    assert errors.counts.quantile(0.75) == np.inf


def test_values_whose_interval_is_too_wide_or_not_there_are_left_out() -> None:
    _, rows = written("null")
    assert rows["n"].to_pylist() == [100, None, 100, 100, 100]
    assert rows["total"].to_pylist() == [10.0, 10.0, None, 10.0, None]
    assert rows.drop_columns(["n", "total"]).equals(pa.record_batch(ROWS).drop_columns(["n", "total"]))


def test_a_retraction_is_the_row_that_was_inserted_and_is_not_counted_again() -> None:
    errors, rows = written("null", [1, -1, -1, -1, 1])
    assert errors.counts.rows == 2
    assert rows["n"].to_pylist() == written("null")[1]["n"].to_pylist()
