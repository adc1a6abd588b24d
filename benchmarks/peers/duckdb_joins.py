"""The Nexmark queries that join tables, each in the form that DuckDB answers fastest; used by ``duckdb_queries``."""

from penstock.benchmarks.peers.common_sql import BIDS_WITH_AUCTIONS

JOINS: dict[str, str] = {
    "q4": """
        WITH best AS (
            SELECT auction.id, category, max(price) AS final
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY auction.id, category
        )
        SELECT category AS id, CAST(sum(final) // count(*) AS BIGINT) AS final
        FROM best
        GROUP BY category
    """,
    "q6": """
        WITH closed AS (
            SELECT
                auction.id,
                any_value(seller) AS seller,
                any_value(expires) AS expires,
                max(price) AS final
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY auction.id
        ), last AS (
            SELECT seller, max_by(final, (expires, id), 10) AS finals FROM closed GROUP BY seller
        )
        SELECT seller, CAST(list_sum(finals) // len(finals) AS BIGINT) AS avg_price FROM last
    """,
    # The least row of each auction, so that no bid is sorted.
    "q9": """
        WITH best AS (
            SELECT auction, min((-price, bid."dateTime", bidder, bid.extra)) AS bid
            FROM auction JOIN bid
                ON auction.id = auction AND bid."dateTime" BETWEEN auction."dateTime" AND expires
            GROUP BY auction
        )
        SELECT
            auction.*,
            best.auction,
            bid[3] AS bidder,
            -bid[1] AS price,
            bid[2] AS "bid_dateTime",
            bid[4] AS bid_extra
        FROM auction JOIN best ON id = best.auction
    """,
    "q13": """
        SELECT auction, bidder, price, "dateTime", value
        FROM bid JOIN side_input ON auction % 10000 = key
    """,
    "q20": BIDS_WITH_AUCTIONS.format(joined="bid JOIN auction"),
}
