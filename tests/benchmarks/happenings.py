"""What happens in a data set that joins, rankings and distinct counts must get right, counted with DuckDB.

Called by the tests of the data sets; ``data_sets.coverage`` does the same for windows and branches.
"""

from pathlib import Path

import duckdb

from penstock.engine.connectors.nexmark.generator import KINDS
from tests.benchmarks.data_sets import DELAY_MS

_VIEWS = f"""
CREATE TABLE pair AS
    SELECT id, seller, category, auction."dateTime" AS opens, expires, bidder, price, bid."dateTime" AS time
    FROM auction JOIN bid ON id = auction;
CREATE VIEW valid AS FROM pair WHERE time BETWEEN opens AND expires;
CREATE VIEW closed AS
    FROM valid
    WHERE expires < (
        SELECT least((SELECT max("dateTime") FROM auction), (SELECT max("dateTime") FROM bid))
            - {DELAY_MS} * INTERVAL 1 MILLISECOND
    );
CREATE VIEW best AS FROM valid QUALIFY price = max(price) OVER (PARTITION BY id);
CREATE VIEW last AS FROM bid QUALIFY "dateTime" = max("dateTime") OVER (PARTITION BY bidder, auction);
CREATE VIEW ranked AS
    SELECT *, rank() OVER prices AS rank, row_number() OVER prices AS place
    FROM bid
    WINDOW prices AS (PARTITION BY auction ORDER BY price DESC);
"""

JOINS: dict[str, str] = {
    "bids before their auction": "FROM pair WHERE time < opens",
    "bids after their auction": "FROM pair WHERE time > expires",
    "bids at an end of their auction": "FROM pair WHERE time IN (opens, expires)",
    "categories": "SELECT DISTINCT category FROM valid",
    "closed auctions": "SELECT DISTINCT id FROM closed",
    "sellers with more than 10 closed auctions": (
        "SELECT seller FROM closed GROUP BY ALL HAVING count(DISTINCT id) > 10"
    ),
    "auctions that close together": "SELECT seller FROM closed GROUP BY seller, expires HAVING count(DISTINCT id) > 1",
    "bids on category 10": "FROM pair WHERE category = 10",
    "bids on other categories": "FROM pair WHERE category <> 10",
    "bidders who sell": "FROM person WHERE id IN (SELECT bidder FROM bid) AND id IN (SELECT seller FROM auction)",
    "bidders who sell twice": (
        "SELECT seller FROM auction SEMI JOIN bid ON bidder = seller GROUP BY ALL HAVING count(*) > 1"
    ),
    "bidders who sell nothing": "SELECT DISTINCT bidder FROM bid ANTI JOIN auction ON bidder = seller",
}
"""By name, a query with a row for each: q4, q6, q9, q20 and q23."""

RANKINGS: dict[str, str] = {
    "days": 'SELECT DISTINCT CAST("dateTime" AS DATE) FROM bid',
    "days with several channels": (
        'SELECT CAST("dateTime" AS DATE) AS day FROM bid GROUP BY ALL HAVING count(DISTINCT channel) > 1'
    ),
    "bidders in all ranks": (
        "SELECT bidder FROM bid GROUP BY ALL HAVING min(price) < 10000 AND max(price) >= 1000000 "
        "AND bool_or(price BETWEEN 10000 AND 999999)"
    ),
    "bidders who come back": "SELECT bidder FROM bid GROUP BY bidder, auction HAVING count(*) > 1",
    "last bids at one time": "SELECT bidder FROM last GROUP BY bidder, auction HAVING count(*) > 1",
    "auctions with more than 10 bids": "FROM ranked WHERE place = 11",
    "auctions with fewer than 10 bids": "SELECT auction FROM bid GROUP BY ALL HAVING count(*) < 10",
    "equal prices among the 10 highest": "FROM ranked WHERE place <= 10 AND rank < place",
    "equal prices at the tenth place": "FROM ranked WHERE place = 11 AND rank < 11",
}
"""By name, a query with a row for each: q15, q16, q18 and q19."""

TIES: dict[str, str] = {
    "best bids of one price": "SELECT id FROM best GROUP BY ALL HAVING count(*) > 1",
    "best bids of one price and time": "SELECT id FROM best GROUP BY id, time HAVING count(*) > 1",
    "last bids of one time and price": "SELECT bidder FROM last GROUP BY bidder, auction, price HAVING count(*) > 1",
    "equal bids": (
        'SELECT auction, bidder, price, channel, url, "dateTime", extra FROM bid GROUP BY ALL HAVING count(*) > 1'
    ),
}
"""By name, a query with a row for each; only the data set of ties has them."""


def happenings(directory: str | Path) -> dict[str, int]:
    """How often each of ``JOINS``, ``RANKINGS`` and ``TIES`` happens in a data set."""
    with duckdb.connect() as con:
        for kind in KINDS:
            con.register(kind, con.read_parquet(str(Path(directory) / f"{kind}.parquet")))
        con.execute(_VIEWS)
        questions = {**JOINS, **RANKINGS, **TIES}
        return {
            name: int(con.execute(f"SELECT count(*) FROM ({question})").fetchall()[0][0])
            for name, question in questions.items()
        }
