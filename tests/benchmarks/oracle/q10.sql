-- Every bid, with the day and the minute of the log file it belongs to.
SELECT
    auction,
    bidder,
    price,
    "dateTime",
    extra,
    strftime("dateTime", '%Y-%m-%d') AS dt,
    strftime("dateTime", '%H:%M') AS hm
FROM bid
