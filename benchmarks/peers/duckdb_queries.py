"""The Nexmark queries on DuckDB with one thread, each in the form that DuckDB answers fastest.

Called by ``runner.py`` in a process of its own.
"""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa

_BATCH_ROWS = 100_000
_EVENTS = ("person", "auction", "bid")

QUERIES: dict[str, str] = {
    "q0": """
        SELECT auction, bidder, price, "dateTime", extra FROM bid
    """,
    "q1": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, "dateTime", extra
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
            SELECT
                auction,
                time_bucket(INTERVAL 2 SECOND, "dateTime") - hops * INTERVAL 2 SECOND AS starts,
                count(*) AS num
            FROM bid, range(5) AS earlier(hops)
            GROUP BY ALL
        ), tops AS (
            SELECT starts, max(num) AS num FROM counts GROUP BY starts
        )
        SELECT auction, num FROM counts JOIN tops USING (starts, num)
    """,
    "q5_panes": """
        WITH panes AS (
            SELECT auction, time_bucket(INTERVAL 2 SECOND, "dateTime") AS pane, count(*) AS num
            FROM bid
            GROUP BY ALL
        ), counts AS (
            SELECT auction, pane - hops * INTERVAL 2 SECOND AS starts, sum(num)::BIGINT AS num
            FROM panes, range(5) AS earlier(hops)
            GROUP BY ALL
        ), tops AS (
            SELECT starts, max(num) AS num FROM counts GROUP BY starts
        )
        SELECT auction, num FROM counts JOIN tops USING (starts, num)
    """,
    "q7": """
        WITH tops AS (
            SELECT time_bucket(INTERVAL 10 SECOND, "dateTime") AS starts, max(price) AS price
            FROM bid
            GROUP BY starts
        )
        SELECT auction, bidder, bid.price, "dateTime", extra
        FROM bid JOIN tops
            ON bid.price = tops.price
            AND "dateTime" BETWEEN starts AND starts + INTERVAL 10 SECOND
    """,
    "q8": """
        WITH people AS (
            SELECT DISTINCT id, name, time_bucket(INTERVAL 10 SECOND, "dateTime") AS stime
            FROM person
        ), sellers AS (
            SELECT DISTINCT seller, time_bucket(INTERVAL 10 SECOND, "dateTime") AS stime
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
            strftime("dateTime", '%Y-%m-%d') AS dt,
            strftime("dateTime", '%H:%M') AS hm
        FROM bid
    """,
    # Sessions from their first bids alone: no running sum and no group over every bid.
    "q11": """
        WITH steps AS (
            SELECT
                bidder,
                "dateTime" AS time,
                lag("dateTime") OVER ordered AS last_time,
                row_number() OVER ordered AS place
            FROM bid
            WINDOW ordered AS (PARTITION BY bidder ORDER BY "dateTime")
        ), firsts AS (
            SELECT * FROM steps WHERE last_time IS NULL OR time - last_time > INTERVAL 10 SECOND
        ), bidders AS (
            SELECT bidder, count(*) AS bids, max("dateTime") AS last_time FROM bid GROUP BY bidder
        )
        SELECT
            bidder,
            coalesce(lead(place) OVER ordered, bids + 1) - place AS bid_count,
            time AS starttime,
            coalesce(lead(firsts.last_time) OVER ordered, bidders.last_time)
                + INTERVAL 10 SECOND AS endtime
        FROM firsts JOIN bidders USING (bidder)
        WINDOW ordered AS (PARTITION BY bidder ORDER BY time)
    """,
    "q14": """
        SELECT
            auction,
            bidder,
            CAST(0.908 * price AS DECIMAL(23, 3)) AS price,
            CASE
                WHEN hour("dateTime") BETWEEN 8 AND 18 THEN 'dayTime'
                WHEN hour("dateTime") <= 6 OR hour("dateTime") >= 20 THEN 'nightTime'
                ELSE 'otherTime'
            END AS "bidTimeType",
            "dateTime",
            extra,
            strlen(extra) - strlen(replace(extra, 'c', '')) AS c_counts
        FROM bid
        WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000
    """,
    "q17": """
        WITH days AS (
            SELECT
                auction,
                CAST("dateTime" AS DATE) AS day,
                count(*) AS total_bids,
                count(*) FILTER (price < 10000) AS rank1_bids,
                count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
                count(*) FILTER (price >= 1000000) AS rank3_bids,
                min(price) AS min_price,
                max(price) AS max_price,
                CAST(sum(price) // count(*) AS BIGINT) AS avg_price,
                CAST(sum(price) AS BIGINT) AS sum_price
            FROM bid
            GROUP BY ALL
        )
        SELECT * REPLACE (strftime(day, '%Y-%m-%d') AS day) FROM days
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
                    ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')
                END AS channel_id
            FROM bid
        )
        SELECT * FROM found WHERE channel_id IS NOT NULL
    """,
    "q22": """
        WITH parts AS (SELECT *, string_split(url, '/') AS part FROM bid)
        SELECT auction, bidder, price, channel, part[4] AS dir1, part[5] AS dir2, part[6] AS dir3
        FROM parts
    """,
}


def connect(directory: Path) -> duckdb.DuckDBPyConnection:
    """A session with one thread and the three files as views."""
    session = duckdb.connect(config={"threads": 1})
    for kind in _EVENTS:
        file = str(directory / f"{kind}.parquet").replace("'", "''")
        session.execute(f"CREATE VIEW {kind} AS SELECT * FROM read_parquet('{file}')")
    return session


def answer(session: duckdb.DuckDBPyConnection, query: str) -> Iterator[pa.RecordBatch]:
    """All rows of a query, as they come out of DuckDB."""
    yield from session.sql(QUERIES[query]).to_arrow_reader(_BATCH_ROWS)
