"""A leaderboard of a game that is right at every moment, and the two ways to write a result that changes.

A changelog says which rows come and which are taken back; upserts say what is in each place now.
Run it with ``penstock run examples/leaderboard.py`` or ``python examples/leaderboard.py``.
"""

from io import StringIO

import penstock as ps
from penstock import col, lit, sum_

PLAYERS = ["ann", "bob", "eve", "joe", "kim", "lou"]
ROUNDS = [[10, 30, 20, 0, 5, 5], [25, 0, 5, 60, 0, 5], [5, 10, 40, 0, 5, 0], [0, 40, 5, 0, 0, 10]]
"""The points of every player in each round."""

rows = [{"player": player, "points": points} for won in ROUNDS for player, points in zip(PLAYERS, won, strict=True)]
scores = ps.read_memory(rows)
totals = scores.key_by("player").emit(every=0).agg(points=sum_("points")).name("totals")
board = (
    totals.key_by(game=lit("chess"))
    .emit(every=0)
    .top(3, by=[col("points").desc(), "player"], rank="place")
    .select("place", "player", "points")
    .name("board")
)
changes, places = StringIO(), StringIO()
board.print(mode="changelog", file=changes)
board.print(mode="upsert", key="place", file=places)
standing = board.collect()

if __name__ == "__main__":
    # One round a batch: of all that changes within one, only what differs in the end is put out.
    ps.run("leaderboard", batch_rows=len(PLAYERS))
    print(f"as a changelog\n{changes.getvalue()}\nas upserts\n{places.getvalue()}\nin the end")
    for row in sorted(standing.rows(), key=lambda row: row["place"]):
        print(f"{row['place']}. {row['player']} {row['points']}")
