-- What was each bidder's last bid on every auction?
-- Of several at one time, the greatest by its columns, left to right.
SELECT auction, bidder, price, channel, url, "dateTime", extra
FROM bid
QUALIFY row_number() OVER (
    PARTITION BY bidder, auction
    ORDER BY "dateTime" DESC, price DESC, channel DESC, url DESC, extra DESC
) <= 1
