-- What are the highest bids of every 10 s?
-- The reference lists price and bidder in each other's place; here each value is under its name.
-- Its BETWEEN is kept: a bid at the very end of a window that equals the window's top joins too.
WITH tops AS (
    SELECT
        time_bucket(INTERVAL 10 SECOND, "dateTime", TIMESTAMP '1970-01-01')
            + INTERVAL 10 SECOND AS ends,
        max(price) AS price
    FROM bid
    GROUP BY ends
)
SELECT bid.auction, bid.bidder, bid.price, bid."dateTime", bid.extra
FROM bid JOIN tops
    ON bid.price = tops.price
    AND bid."dateTime" BETWEEN tops.ends - INTERVAL 10 SECOND AND tops.ends
WHERE tops.ends <= (SELECT time FROM watermark)
