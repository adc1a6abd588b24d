"""The Nexmark queries that join tables, each as DataFusion answers it fastest; used by ``datafusion_queries``."""

from penstock.benchmarks.peers.common_sql import BIDS_WITH_AUCTIONS

JOINS: dict[str, str] = {
    "q4": """
        WITH best AS (
            SELECT auction.id, max(category) AS category, max(price) AS final
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY auction.id
        )
        SELECT category AS id, sum(final) / count(*) AS final
        FROM best
        GROUP BY category
    """,
    "q6": """
        WITH closed AS (
            SELECT auction.id, max(seller) AS seller, max(expires) AS expires, max(price) AS final
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY auction.id
        ), placed AS (
            SELECT
                seller,
                final,
                row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) AS place
            FROM closed
        )
        SELECT seller, sum(final) / count(*) AS avg_price
        FROM placed
        WHERE place <= 10
        GROUP BY seller
    """,
    # Only bids of the highest price are sorted.
    "q9": """
        WITH tops AS (
            SELECT
                id,
                max(auction."dateTime") AS opens,
                max(expires) AS expires,
                max(price) AS top
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY id
        ), placed AS (
            SELECT
                bid.*,
                row_number() OVER (PARTITION BY auction ORDER BY "dateTime", bidder, extra) AS place
            FROM bid JOIN tops
                ON auction = id AND price = top AND "dateTime" BETWEEN opens AND expires
        )
        SELECT
            auction.*,
            auction,
            bidder,
            price,
            placed."dateTime" AS "bid_dateTime",
            placed.extra AS bid_extra
        FROM auction JOIN placed ON id = auction
        WHERE place = 1
    """,
    "q13": """
        SELECT auction, bidder, price, "dateTime", side_input.value
        FROM side_input JOIN bid ON auction % 10000 = key
    """,
    "q20": BIDS_WITH_AUCTIONS.format(joined="auction JOIN bid"),
}
