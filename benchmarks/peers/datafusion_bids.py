"""The Nexmark queries over bids alone, each as DataFusion answers it fastest; used by ``datafusion_queries``."""

from penstock.benchmarks.peers.common_sql import rank_queries

BIDS: dict[str, str] = {
    **rank_queries(
        day="date_trunc('day', \"dateTime\")",
        ranks="""
            count(*) AS bids,
            count(*) FILTER (WHERE price < 10000) AS rank1,
            count(*) FILTER (WHERE price >= 1000000) AS rank3
        """,
        has_rank1="rank1 > 0",
        has_rank2="bids > rank1 + rank3",
        has_rank3="rank3 > 0",
    ),
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
        SELECT * REPLACE (to_char(day, '%Y-%m-%d') AS day) FROM days
    """,
    # Only bids of each pair's last time are sorted.
    "q18": """
        WITH last AS (
            SELECT bidder AS who, auction AS what, max("dateTime") AS newest FROM bid GROUP BY 1, 2
        ), placed AS (
            SELECT
                bid.*,
                row_number() OVER (
                    PARTITION BY bidder, auction
                    ORDER BY price DESC, channel DESC, url DESC, extra DESC
                ) AS place
            FROM bid JOIN last ON bidder = who AND auction = what AND "dateTime" = newest
        )
        SELECT auction, bidder, price, channel, url, "dateTime", extra FROM placed WHERE place = 1
    """,
    # Whole bids are sorted only from the tenth price up.
    "q19": """
        WITH placed AS (
            SELECT
                auction AS what,
                price,
                row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS place
            FROM bid
        ), least AS (
            SELECT what, min(price) AS low FROM placed WHERE place <= 10 GROUP BY what
        ), ranked AS (
            SELECT
                bid.*,
                CAST(row_number() OVER (
                    PARTITION BY auction ORDER BY price DESC, bidder, channel, url, "dateTime", extra
                ) AS BIGINT) AS rank_number
            FROM bid JOIN least ON auction = what AND price >= low
        )
        SELECT * FROM ranked WHERE rank_number <= 10
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
