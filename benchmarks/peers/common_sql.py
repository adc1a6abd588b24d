"""The Nexmark queries that both SQL engines answer fastest in the same words; used by both ``_queries`` modules."""

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
