-- Who joined and opened an auction within the same 10 s?
WITH people AS (
    SELECT DISTINCT
        id,
        name,
        time_bucket(INTERVAL 10 SECOND, "dateTime", TIMESTAMP '1970-01-01') AS stime
    FROM person
), sellers AS (
    SELECT DISTINCT
        seller,
        time_bucket(INTERVAL 10 SECOND, "dateTime", TIMESTAMP '1970-01-01') AS stime
    FROM auction
)
SELECT people.id, people.name, people.stime
FROM people JOIN sellers ON people.id = sellers.seller AND people.stime = sellers.stime
WHERE people.stime + INTERVAL 10 SECOND <= (SELECT time FROM watermark)
