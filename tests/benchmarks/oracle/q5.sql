-- Which auctions had the most bids in the last 10 s, asked every 2 s?
WITH counts AS (
    SELECT
        auction,
        time_bucket(INTERVAL 2 SECOND, "dateTime", TIMESTAMP '1970-01-01')
            - hops * INTERVAL 2 SECOND + INTERVAL 10 SECOND AS ends,
        count(*) AS num
    FROM bid, range(5) AS earlier(hops)
    GROUP BY auction, ends
)
SELECT auction, num
FROM counts
WHERE ends <= (SELECT time FROM watermark)
QUALIFY num = max(num) OVER (PARTITION BY ends)
