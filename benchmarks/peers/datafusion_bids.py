"""The Nexmark queries over bids alone, each as DataFusion answers it fastest; used by ``datafusion_queries``."""

# Once per bidder and once per auction, then counted: no set of distinct values.
_RANKS = """
    WITH bidders AS (
        SELECT
            {channel}
            date_trunc('day', "dateTime") AS day,
            bidder,
            {latest}
            count(*) AS bids,
            count(*) FILTER (WHERE price < 10000) AS rank1,
            count(*) FILTER (WHERE price >= 1000000) AS rank3
        FROM bid
        GROUP BY {places}, {last}
    ), auctions AS (
        SELECT
            {channel}
            date_trunc('day', "dateTime") AS day,
            auction,
            count(*) AS bids,
            count(*) FILTER (WHERE price < 10000) AS rank1,
            count(*) FILTER (WHERE price >= 1000000) AS rank3
        FROM bid
        GROUP BY {places}, {last}
    ), b AS (
        SELECT
            {channel}
            day,
            {minute}
            sum(bids) AS total_bids,
            sum(rank1) AS rank1_bids,
            sum(bids - rank1 - rank3) AS rank2_bids,
            sum(rank3) AS rank3_bids,
            count(*) AS total_bidders,
            count(*) FILTER (WHERE rank1 > 0) AS rank1_bidders,
            count(*) FILTER (WHERE bids > rank1 + rank3) AS rank2_bidders,
            count(*) FILTER (WHERE rank3 > 0) AS rank3_bidders
        FROM bidders
        GROUP BY {places}
    ), a AS (
        SELECT
            {channel}
            day,
            count(*) AS total_auctions,
            count(*) FILTER (WHERE rank1 > 0) AS rank1_auctions,
            count(*) FILTER (WHERE bids > rank1 + rank3) AS rank2_auctions,
            count(*) FILTER (WHERE rank3 > 0) AS rank3_auctions
        FROM auctions
        GROUP BY {places}
    )
    SELECT
        {texts},
        total_bids, rank1_bids, rank2_bids, rank3_bids,
        total_bidders, rank1_bidders, rank2_bidders, rank3_bidders,
        total_auctions, rank1_auctions, rank2_auctions, rank3_auctions
    FROM b JOIN a ON {same_channel} b.day = a.day
"""
_DAY, _MINUTE = "to_char(b.day, '%Y-%m-%d') AS day", "to_char(minute, '%H:%M') AS minute"
_BY_DAY = {"channel": "", "latest": "", "minute": "", "places": "1", "last": "2", "texts": _DAY, "same_channel": ""}
_BY_CHANNEL = {
    "channel": "channel,",
    "latest": 'max("dateTime") AS minute,',
    "minute": "max(minute) AS minute,",
    "places": "1, 2",
    "last": "3",
    "texts": f"b.channel, {_DAY}, {_MINUTE}",
    "same_channel": "b.channel = a.channel AND",
}

BIDS: dict[str, str] = {
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
    "q15": _RANKS.format(**_BY_DAY),
    "q16": _RANKS.format(**_BY_CHANNEL),
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
