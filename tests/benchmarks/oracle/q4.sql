-- At what price do auctions of each category close on average?
-- The reference's mean is a BIGINT: truncated.
WITH best AS (
    SELECT auction.id, auction.category, max(bid.price) AS final
    FROM auction JOIN bid
        ON auction.id = bid.auction
        AND bid."dateTime" BETWEEN auction."dateTime" AND auction.expires
    GROUP BY auction.id, auction.category
)
SELECT category AS id, CAST(sum(final) // count(*) AS BIGINT) AS final
FROM best
GROUP BY category
