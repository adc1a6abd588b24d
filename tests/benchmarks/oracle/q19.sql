-- Which are the ten highest bids of every auction?
-- Bids of one price are ordered by their columns, left to right.
SELECT
    auction, bidder, price, channel, url, "dateTime", extra,
    row_number() OVER (
        PARTITION BY auction
        ORDER BY price DESC, bidder, channel, url, "dateTime", extra
    ) AS rank_number
FROM bid
QUALIFY rank_number <= 10
