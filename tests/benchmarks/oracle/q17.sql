-- How many bids did each auction get on each day, in which price ranks, and at what prices?
-- The mean of integers is an integer in the reference: the fraction is cut off.
SELECT
    auction,
    strftime("dateTime", '%Y-%m-%d') AS day,
    count(*) AS total_bids,
    count(*) FILTER (price < 10000) AS rank1_bids,
    count(*) FILTER (price >= 10000 AND price < 1000000) AS rank2_bids,
    count(*) FILTER (price >= 1000000) AS rank3_bids,
    min(price) AS min_price,
    max(price) AS max_price,
    CAST(sum(price) // count(*) AS BIGINT) AS avg_price,
    CAST(sum(price) AS BIGINT) AS sum_price
FROM bid
GROUP BY auction, day
