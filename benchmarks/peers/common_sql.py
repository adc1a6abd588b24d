"""The Nexmark queries that both SQL engines answer fastest in the same words; used by both ``_queries`` modules.

Functions have their names in DataFusion; a session of DuckDB has macros of these names.
"""

COMMON: dict[str, str] = {
    "q0": """
        SELECT auction, bidder, price, "dateTime", extra FROM bid
    """,
    "q2": """
        SELECT auction, price FROM bid WHERE auction % 123 = 0
    """,
    # Read at once, all bids fall into one window of processing time, whose bounds are left out.
    "q12": """
        SELECT bidder, count(*) AS bid_count FROM bid GROUP BY bidder
    """,
    "q3": """
        SELECT name, city, state, auction.id
        FROM auction JOIN person ON seller = person.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')
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
                lag("dateTime") OVER ordered AS last_time,
                CAST(row_number() OVER ordered AS BIGINT) AS place
            FROM bid
            WINDOW ordered AS (PARTITION BY bidder ORDER BY "dateTime")
        ), firsts AS (
            SELECT * FROM steps WHERE last_time IS NULL OR time - last_time > INTERVAL '10 seconds'
        ), bidders AS (
            SELECT bidder, count(*) AS bids, max("dateTime") AS last_time FROM bid GROUP BY bidder
        )
        SELECT
            firsts.bidder,
            coalesce(lead(place) OVER ordered, bids + 1) - place AS bid_count,
            time AS starttime,
            coalesce(lead(firsts.last_time) OVER ordered, bidders.last_time)
                + INTERVAL '10 seconds' AS endtime
        FROM firsts JOIN bidders ON firsts.bidder = bidders.bidder
        WINDOW ordered AS (PARTITION BY firsts.bidder ORDER BY time)
    """,
    "q23": """
        SELECT
            bid.bidder,
            bid.price,
            bid.channel,
            bid.url,
            bid.extra AS bid_extra,
            person.id AS person_id,
            person.name,
            person."emailAddress",
            person."creditCard",
            person.city,
            person.state,
            person.extra AS person_extra,
            auction."itemName",
            auction.description,
            auction."initialBid",
            auction.reserve,
            auction."dateTime" AS "auction_dateTime",
            auction.expires,
            auction.seller,
            auction.category,
            auction.extra AS auction_extra
        FROM bid
        JOIN person ON person.id = bid.bidder
        JOIN auction ON auction.seller = bid.bidder
    """,
}

BIDS_WITH_AUCTIONS = """
    SELECT
        bid.auction,
        bid.bidder,
        bid.price,
        bid.channel,
        bid.url,
        bid."dateTime" AS "bid_dateTime",
        bid.extra AS bid_extra,
        auction."itemName",
        auction.description,
        auction."initialBid",
        auction.reserve,
        auction."dateTime" AS "auction_dateTime",
        auction.expires,
        auction.seller,
        auction.category,
        auction.extra AS auction_extra
    FROM {joined} ON bid.auction = auction.id
    WHERE auction.category = 10
"""
"""Query 20 but for which table comes first."""

# Once per bidder and once per auction, then counted: no set of distinct values.
_RANKS = """
    WITH bidders AS (
        SELECT
            {channel}
            {day} AS day,
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
            {day} AS day,
            auction,
            {ranks}
        FROM bid
        GROUP BY {places}, {last}
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
            count(*) FILTER (WHERE {has_rank1}) AS rank1_auctions,
            count(*) FILTER (WHERE {has_rank2}) AS rank2_auctions,
            count(*) FILTER (WHERE {has_rank3}) AS rank3_auctions
        FROM auctions
        GROUP BY {places}
    )
    SELECT
        {texts},
        total_bids, rank1_bids, rank2_bids, rank3_bids,
        total_bidders, rank1_bidders, rank2_bidders, rank3_bidders,
        total_auctions, rank1_auctions, rank2_auctions, rank3_auctions
    FROM b JOIN a USING ({channel} day)
"""
_DAY, _MINUTE = "to_char(day, '%Y-%m-%d') AS day", "to_char(minute, '%H:%M') AS minute"
_BY_DAY = {"channel": "", "latest": "", "minute": "", "places": "1", "last": "2", "texts": _DAY}
_BY_CHANNEL = {
    "channel": "channel,",
    "latest": 'max("dateTime") AS minute,',
    "minute": "max(minute) AS minute,",
    "places": "1, 2",
    "last": "3",
    "texts": f"channel, {_DAY}, {_MINUTE}",
}


def rank_queries(**words: str) -> dict[str, str]:
    """Return queries 15 and 16 in an engine's own words for what it answers fastest.

    ``day`` of a bid, ``ranks`` that are kept of an auction, and by them ``has_rank1`` to ``has_rank3``.
    """
    return {name: _RANKS.format(**by, **words) for name, by in (("q15", _BY_DAY), ("q16", _BY_CHANNEL))}
