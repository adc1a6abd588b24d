"""Session windows of a replay: rows of a key with no more than a gap between neighbours."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from penstock.replay.operators.prepared import AT, over, quoted

SESSION = "$session"
"""The number of a row's session among those of its key."""

_BEGINS = "$begins"


def in_sessions(rows: DataFrame, keys: Sequence[str], gap_us: int) -> DataFrame:
    """Number the sessions of every key by the times in `AT`; a row exactly one gap after the last still joins."""
    at = quoted(AT)
    previous = f"lag({at}) {over(keys, [at])}"
    begins = rows.selectExpr("*", f"CASE WHEN {at} - {previous} <= {gap_us}L THEN 0L ELSE 1L END AS {quoted(_BEGINS)}")
    # Rows of one time are peers: the number of a session does not depend on their order.
    number = f"sum({quoted(_BEGINS)}) {over(keys, [at], 'RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW')}"
    return begins.selectExpr("*", f"{number} AS {quoted(SESSION)}")
