"""As-of joins from the front door, in two instances, against DuckDB's."""

from typing import Any

import pytest

from penstock import col
from penstock.dsl.job import Job
from tests.engine.operators.joins.test_interval_join_sql import run, sql, streams

# Rights of one time are unique in `newest`, as DuckDB may take any of them.
NEWEST = """
WITH newest AS (
    SELECT * FROM rights QUALIFY row_number() OVER (PARTITION BY key, rights."at" ORDER BY r DESC) = 1
)
"""


@pytest.mark.parametrize("how", ["left", "inner"])
@pytest.mark.parametrize("tolerance", [None, "1s"])
def test_equals_sql(how: str, tolerance: Any) -> None:
    left, right = streams(Job())
    joined = left.asof_join(right.select("key", "r", "at"), on="key", how=how, tolerance=tolerance)
    chosen = joined.select("l", "r", seen=col("at_right"))
    near = "" if tolerance is None else f"AND lefts.at - newest.at <= INTERVAL {tolerance[0]} SECOND"
    close = f"newest.r IS NOT NULL {near}"
    kept = f"WHERE {close}" if how == "inner" else ""
    expected = sql(
        f"{NEWEST} SELECT l, CASE WHEN {close} THEN r END, CASE WHEN {close} THEN newest.at END FROM lefts"
        f" ASOF LEFT JOIN newest ON lefts.key = newest.key AND lefts.at >= newest.at {kept}"
    )
    assert run(chosen, parallelism=2, batch_rows=32) == expected
