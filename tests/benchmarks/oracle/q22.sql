-- In which folders does the URL of each bid lie?
-- Parts are counted from 0 in the reference and from 1 here; a part that is not there is null.
WITH parts AS (
    SELECT *, string_split(url, '/') AS part
    FROM bid
)
SELECT auction, bidder, price, channel, part[4] AS dir1, part[5] AS dir2, part[6] AS dir3
FROM parts
