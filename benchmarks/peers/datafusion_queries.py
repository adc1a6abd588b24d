"""The Nexmark queries on DataFusion with one partition, each in the form it answers fastest.

Called by ``runner.py`` in a process of its own, which sets ``TOKIO_WORKER_THREADS`` first.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

_EVENTS = ("person", "auction", "bid")

QUERIES: dict[str, str] = {
    "q0": """
        SELECT auction, bidder, price, "dateTime", extra FROM bid
    """,
    "q1": """
        SELECT
            auction,
            bidder,
            CAST(CAST(0.908 AS DECIMAL(3, 3)) * CAST(price AS DECIMAL(19, 0)) AS DECIMAL(23, 3))
                AS price,
            "dateTime",
            extra
        FROM bid
    """,
    "q2": """
        SELECT auction, price FROM bid WHERE auction % 123 = 0
    """,
    "q3": """
        SELECT name, city, state, auction.id
        FROM auction JOIN person ON seller = person.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
    """,
    "q5": """
        WITH counts AS (
            SELECT auction, CAST("dateTime" AS BIGINT) / 2000 - hops AS starts, count(*) AS num
            FROM bid CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS earlier(hops)
            GROUP BY 1, 2
        ), ranked AS (
            SELECT auction, num, max(num) OVER (PARTITION BY starts) AS top FROM counts
        )
        SELECT auction, num FROM ranked WHERE num = top
    """,
    "q5_panes": """
        WITH panes AS (
            SELECT auction, CAST("dateTime" AS BIGINT) / 2000 AS pane, count(*) AS num
            FROM bid
            GROUP BY 1, 2
        ), counts AS (
            SELECT auction, pane - hops AS starts, sum(num) AS num
            FROM panes CROSS JOIN (VALUES (0), (1), (2), (3), (4)) AS earlier(hops)
            GROUP BY 1, 2
        ), ranked AS (
            SELECT auction, num, max(num) OVER (PARTITION BY starts) AS top FROM counts
        )
        SELECT auction, num FROM ranked WHERE num = top
    """,
    "q7": """
        WITH tops AS (
            SELECT date_bin(INTERVAL '10 seconds', "dateTime") AS starts, max(price) AS price
            FROM bid
            GROUP BY 1
        )
        SELECT auction, bidder, bid.price, "dateTime", extra
        FROM bid JOIN tops ON bid.price = tops.price
        WHERE "dateTime" BETWEEN starts AND starts + INTERVAL '10 seconds'
    """,
    "q8": """
        WITH people AS (
            SELECT DISTINCT id, name, date_bin(INTERVAL '10 seconds', "dateTime") AS stime
            FROM person
        ), sellers AS (
            SELECT DISTINCT seller, date_bin(INTERVAL '10 seconds', "dateTime") AS stime
            FROM auction
        )
        SELECT id, name, people.stime
        FROM people JOIN sellers ON id = seller AND people.stime = sellers.stime
    """,
    "q10": """
        SELECT
            auction,
            bidder,
            price,
            "dateTime",
            extra,
            to_char("dateTime", '%Y-%m-%d') AS dt,
            to_char("dateTime", '%H:%M') AS hm
        FROM bid
    """,
    # Sessions from their first bids alone: no running sum and no group over every bid.
    "q11": """
        WITH steps AS (
            SELECT
                bidder,
                "dateTime" AS time,
                lag("dateTime") OVER (PARTITION BY bidder ORDER BY "dateTime") AS last_time,
                CAST(row_number() OVER (PARTITION BY bidder ORDER BY "dateTime") AS BIGINT) AS place
            FROM bid
        ), firsts AS (
            SELECT * FROM steps
            WHERE last_time IS NULL OR time - last_time > INTERVAL '10 seconds'
        ), bidders AS (
            SELECT bidder, count(*) AS bids, max("dateTime") AS last_time FROM bid GROUP BY bidder
        )
        SELECT
            firsts.bidder,
            coalesce(
                lead(place) OVER (PARTITION BY firsts.bidder ORDER BY time), bids + 1
            ) - place AS bid_count,
            time AS starttime,
            coalesce(
                lead(firsts.last_time) OVER (PARTITION BY firsts.bidder ORDER BY time),
                bidders.last_time
            ) + INTERVAL '10 seconds' AS endtime
        FROM firsts JOIN bidders ON firsts.bidder = bidders.bidder
    """,
    "q14": """
        WITH euros AS (
            SELECT
                auction,
                bidder,
                CAST(CAST(0.908 AS DECIMAL(3, 3)) * CAST(price AS DECIMAL(19, 0)) AS DECIMAL(23, 3))
                    AS price,
                date_part('hour', "dateTime") AS hour,
                "dateTime",
                extra
            FROM bid
        )
        SELECT
            auction,
            bidder,
            price,
            CASE
                WHEN hour BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour <= 6 OR hour >= 20 THEN 'nightTime'
                ELSE 'otherTime'
            END AS "bidTimeType",
            "dateTime",
            extra,
            CAST(octet_length(extra) - octet_length(replace(extra, 'c', '')) AS BIGINT) AS c_counts
        FROM euros
        WHERE price > 1000000 AND price < 50000000
    """,
    "q17": """
        WITH days AS (
            SELECT
                auction,
                date_trunc('day', "dateTime") AS day,
                count(*) AS total_bids,
                count(*) FILTER (WHERE price < 10000) AS rank1_bids,
                count(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
                count(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
                min(price) AS min_price,
                max(price) AS max_price,
                sum(price) / count(*) AS avg_price,
                sum(price) AS sum_price
            FROM bid
            GROUP BY 1, 2
        )
        SELECT
            auction,
            to_char(day, '%Y-%m-%d') AS day,
            total_bids,
            rank1_bids,
            rank2_bids,
            rank3_bids,
            min_price,
            max_price,
            avg_price,
            sum_price
        FROM days
    """,
    "q21": """
        WITH found AS (
            SELECT
                auction,
                bidder,
                price,
                channel,
                CASE lower(channel)
                    WHEN 'apple' THEN '0'
                    WHEN 'google' THEN '1'
                    WHEN 'facebook' THEN '2'
                    WHEN 'baidu' THEN '3'
                    ELSE (regexp_match(url, '(&|^)channel_id=([^&]*)'))[2]
                END AS channel_id
            FROM bid
        )
        SELECT * FROM found WHERE channel_id IS NOT NULL
    """,
    "q22": """
        SELECT
            auction,
            bidder,
            price,
            channel,
            split_part(url, '/', 4) AS dir1,
            split_part(url, '/', 5) AS dir2,
            split_part(url, '/', 6) AS dir3
        FROM bid
    """,
}


def connect(directory: Path) -> SessionContext:
    """A session with one partition and the three files as tables."""
    session = SessionContext(SessionConfig().with_target_partitions(1))
    for kind in _EVENTS:
        session.register_parquet(kind, str(directory / f"{kind}.parquet"))
    return session


def answer(session: SessionContext, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query, as they come out of DataFusion."""
    for batch in session.sql(QUERIES[query]).execute_stream():
        yield batch.to_pyarrow()
