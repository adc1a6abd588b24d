-- Which channel id does each bid have, by its channel's name or else by its URL?
WITH found AS (
    SELECT
        *,
        CASE
            WHEN regexp_matches(url, '(&|^)channel_id=([^&]*)')
            THEN regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)
        END AS id_in_url
    FROM bid
)
SELECT
    auction,
    bidder,
    price,
    channel,
    CASE lower(channel)
        WHEN 'apple' THEN '0'
        WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2'
        WHEN 'baidu' THEN '3'
        ELSE id_in_url
    END AS channel_id
FROM found
WHERE id_in_url IS NOT NULL OR lower(channel) IN ('apple', 'google', 'facebook', 'baidu')
