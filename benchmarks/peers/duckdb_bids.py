"""The Nexmark queries over bids alone, each in the form that DuckDB answers fastest; used by ``duckdb_queries``."""

# Once per bidder and once per auction, then counted: no set of distinct values.
_RANKS = """
    WITH bidders AS (
        SELECT
            {channel}
            CAST("dateTime" AS DATE) AS day,
            bidder,
            {latest}
            count(*) AS bids,
            count(*) FILTER (price < 10000) AS rank1,
            count(*) FILTER (price >= 1000000) AS rank3
        FROM bid
        GROUP BY ALL
    ), auctions AS (
        SELECT
            {channel}
            CAST("dateTime" AS DATE) AS day,
            auction,
            bool_or(price < 10000) AS rank1,
            bool_or(price >= 10000 AND price < 1000000) AS rank2,
            bool_or(price >= 1000000) AS rank3
        FROM bid
        GROUP BY ALL
    ), b AS (
        SELECT
            {channel}
            day,
            {minute}
            CAST(sum(bids) AS BIGINT) AS total_bids,
            CAST(sum(rank1) AS BIGINT) AS rank1_bids,
            CAST(sum(bids - rank1 - rank3) AS BIGINT) AS rank2_bids,
            CAST(sum(rank3) AS BIGINT) AS rank3_bids,
            count(*) AS total_bidders,
            count(*) FILTER (rank1 > 0) AS rank1_bidders,
            count(*) FILTER (bids > rank1 + rank3) AS rank2_bidders,
            count(*) FILTER (rank3 > 0) AS rank3_bidders
        FROM bidders
        GROUP BY ALL
    ), a AS (
        SELECT
            {channel}
            day,
            count(*) AS total_auctions,
            count(*) FILTER (rank1) AS rank1_auctions,
            count(*) FILTER (rank2) AS rank2_auctions,
            count(*) FILTER (rank3) AS rank3_auctions
        FROM auctions
        GROUP BY ALL
    )
    SELECT
        b.* REPLACE ({texts}),
        a.* EXCLUDE ({channel} day)
    FROM b JOIN a USING ({channel} day)
"""
_DAY, _MINUTE = "strftime(day, '%Y-%m-%d') AS day", "strftime(minute, '%H:%M') AS minute"
_BY_CHANNEL = {"channel": "channel,", "latest": 'max("dateTime") AS minute,', "minute": "max(minute) AS minute,"}

BIDS: dict[str, str] = {
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
    "q15": _RANKS.format(channel="", latest="", minute="", texts=_DAY),
    "q16": _RANKS.format(**_BY_CHANNEL, texts=f"{_DAY}, {_MINUTE}"),
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
