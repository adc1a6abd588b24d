"""The Nexmark queries over bids alone, each in the form that DuckDB answers fastest; used by ``duckdb_queries``."""

from penstock.benchmarks.peers.common_sql import rank_queries

BIDS: dict[str, str] = {
    **rank_queries(
        day='CAST("dateTime" AS DATE)',
        ranks="""
            bool_or(price < 10000) AS rank1,
            bool_or(price >= 10000 AND price < 1000000) AS rank2,
            bool_or(price >= 1000000) AS rank3
        """,
        has_rank1="rank1",
        has_rank2="rank2",
        has_rank3="rank3",
    ),
    "q1": """
        SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, "dateTime", extra
        FROM bid
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
    # Only bids of one bidder, auction and time are sorted.
    "q18": """
        WITH last AS MATERIALIZED (
            SELECT bidder, auction, max("dateTime") AS "dateTime" FROM bid GROUP BY bidder, auction
        ), pairs AS MATERIALIZED (
            SELECT bidder, auction, "dateTime", count(*) AS bids
            FROM bid JOIN last USING (bidder, auction, "dateTime")
            GROUP BY ALL
        ), newest AS (
            SELECT bid.*, bids FROM bid JOIN pairs USING (bidder, auction, "dateTime")
        ), first AS (
            SELECT * EXCLUDE (bids)
            FROM newest
            WHERE bids > 1
            QUALIFY row_number() OVER (
                PARTITION BY bidder, auction
                ORDER BY price DESC, channel DESC, url DESC, extra DESC
            ) = 1
        )
        SELECT * EXCLUDE (bids) FROM newest WHERE bids = 1 UNION ALL SELECT * FROM first
    """,
    # The ten least rows of each auction, so that no bid is sorted among more than ten.
    "q19": """
        WITH tops AS (
            SELECT
                auction,
                min(struct_pack(price := -price, bidder, channel, url, "dateTime", extra), 10) AS bids
            FROM bid
            GROUP BY auction
        ), rows AS (
            SELECT
                auction,
                unnest(bids) AS bid,
                CAST(generate_subscripts(bids, 1) AS BIGINT) AS rank_number
            FROM tops
        )
        SELECT
            auction,
            bid.bidder,
            -bid.price AS price,
            bid.channel,
            bid.url,
            bid."dateTime",
            bid.extra,
            rank_number
        FROM rows
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
