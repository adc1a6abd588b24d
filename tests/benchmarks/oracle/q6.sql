-- What is the mean closing price of each seller's last 10 closed auctions?
-- An auction closes when the watermark passes its last millisecond; auctions that close together are ordered by id.
WITH closed AS (
    SELECT auction.id, auction.seller, auction.expires, max(bid.price) AS final
    FROM auction JOIN bid
        ON auction.id = bid.auction
        AND bid."dateTime" BETWEEN auction."dateTime" AND auction.expires
    WHERE auction.expires < (SELECT time FROM watermark)
    GROUP BY auction.id, auction.seller, auction.expires
), last AS (
    SELECT seller, final
    FROM closed
    QUALIFY row_number() OVER (PARTITION BY seller ORDER BY expires DESC, id DESC) <= 10
)
SELECT seller, CAST(sum(final) // count(*) AS BIGINT) AS avg_price
FROM last
GROUP BY seller
