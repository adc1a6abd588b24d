-- How many bids did each bidder make in each session, a stay without a pause of more than 10 s?
-- A bid exactly 10 s after the last one still joins, so a session is over when the watermark has
-- passed its end, not when it has reached it.
WITH marked AS (
    SELECT
        bidder,
        "dateTime",
        coalesce(
            "dateTime" - lag("dateTime") OVER (PARTITION BY bidder ORDER BY "dateTime")
                > INTERVAL 10 SECOND,
            true
        ) AS begins
    FROM bid
), numbered AS (
    SELECT
        bidder,
        "dateTime",
        -- Bids of one instant count together: which of them comes first is not the same in both windows.
        sum(begins::INTEGER) OVER (
            PARTITION BY bidder ORDER BY "dateTime" RANGE UNBOUNDED PRECEDING
        ) AS session
    FROM marked
)
SELECT
    bidder,
    count(*) AS bid_count,
    min("dateTime") AS starttime,
    max("dateTime") + INTERVAL 10 SECOND AS endtime
FROM numbered
GROUP BY bidder, session
HAVING endtime < (SELECT time FROM watermark)
