"""The two data sets on which the Nexmark queries are held against the oracle, and what they cover.

Called by the tests of the queries; ``coverage`` proves that the data makes every query work.
"""

from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow.parquet as pq

from penstock.engine.connectors.nexmark.generator import NexmarkConfig
from tests.benchmarks.oracle import ReadSoFar, expected

DELAY_MS = 4000
"""Watermark delay of the reference."""

DATA_SETS: dict[str, NexmarkConfig] = {
    # 100 s that begin at 23:59:00 on 2024-01-01.
    "midnight": NexmarkConfig(1_000_000, start=1_704_153_540_000_000),
    # 28 hours at 10 events per second.
    "day": NexmarkConfig(1_000_000, rate_per_s=10),
}


@dataclass(frozen=True)
class Coverage:
    """What happens in a data set; windows count if they close while the stream still runs."""

    closed_windows: dict[str, int]
    """Windows with results, by query (q5, q7, q8), and sessions (q11)."""
    broken_sessions: int
    """Bidders with more than one session."""
    exact_gaps: int
    """Bids exactly one session gap after the bidder's last one."""
    bid_time_types: set[str]
    """Branches of q14's CASE that rows pass."""
    price_sides: set[str]
    """Sides of q14's price range, and the inside, where bids lie."""
    days: int
    split_auctions: int
    """Auctions with bids on more than one day."""
    channel_ids: set[str] = field(default_factory=set)
    """Branches of q21: the hot channels' ids, ``url`` and ``none``."""


def coverage(directory: str | Path, rows: dict[str, int]) -> Coverage:
    """Look at a data set of ``rows`` rows of each kind with the oracle's eyes."""
    upto = ReadSoFar(rows, DELAY_MS)
    with duckdb.connect() as con:
        for query in ("q7", "q8", "q11", "q14"):
            con.register(query, expected(query, directory, upto=upto))
        con.register("bid", pq.read_table(Path(directory) / "bid.parquet"))

        def number(question: str) -> int:
            return int(con.execute(question).fetchall()[0][0])

        def names(question: str) -> set[str]:
            return {str(row[0]) for row in con.execute(question).fetchall()}

        watermark = f'(SELECT max("dateTime") - INTERVAL {DELAY_MS} MILLISECOND FROM bid)'
        return Coverage(
            closed_windows={
                "q5": number(
                    "SELECT count(DISTINCT bucket) FROM (SELECT time_bucket(INTERVAL 2 SECOND, "
                    f'"dateTime") AS bucket FROM bid) WHERE bucket + INTERVAL 10 SECOND <= '
                    f"{watermark}"
                ),
                "q7": number('SELECT count(DISTINCT time_bucket(INTERVAL 10 SECOND, "dateTime")) FROM q7'),
                "q8": number("SELECT count(DISTINCT stime) FROM q8"),
                "q11": number("SELECT count(*) FROM q11"),
            },
            broken_sessions=number("SELECT count(*) FROM (SELECT bidder FROM q11 GROUP BY bidder HAVING count(*) > 1)"),
            exact_gaps=number(
                "SELECT count(*) FROM (SELECT bidder FROM bid "
                'QUALIFY "dateTime" - lag("dateTime") OVER '
                '(PARTITION BY bidder ORDER BY "dateTime") = INTERVAL 10 SECOND)'
            ),
            bid_time_types=names('SELECT DISTINCT "bidTimeType" FROM q14'),
            price_sides=names(
                "SELECT DISTINCT CASE WHEN 0.908 * price <= 1000000 THEN 'below' "
                "WHEN 0.908 * price < 50000000 THEN 'inside' ELSE 'above' END FROM bid"
            ),
            days=number('SELECT count(DISTINCT "dateTime"::DATE) FROM bid'),
            split_auctions=number(
                "SELECT count(*) FROM (SELECT auction FROM bid GROUP BY auction "
                'HAVING count(DISTINCT "dateTime"::DATE) > 1)'
            ),
            channel_ids=names(
                "SELECT DISTINCT CASE WHEN channel NOT LIKE 'channel-%' THEN channel "
                "WHEN contains(url, '&channel_id=') THEN 'url' ELSE 'none' END FROM bid"
            ),
        )
