"""Count words while a text is read, and keep the six most frequent ones up to date.

Both steps are updating: a new count replaces the old one, and a word that is overtaken leaves the top.
Run it with ``penstock run examples/word_count.py`` or ``python examples/word_count.py``.
"""

import re
from collections.abc import Iterator

import penstock as ps
from penstock import col, count

TEXT = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of foolishness,
it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was the season of
Darkness, it was the spring of hope, it was the winter of despair, we had everything before us, we had nothing
before us, we were all going direct to Heaven, we were all going direct the other way.
"""


def words(line: str) -> Iterator[dict[str, str]]:
    for word in re.findall(r"\w+", line.lower()):
        yield {"word": word}


lines = ps.read_memory([{"line": line} for line in TEXT.strip().splitlines()])
counts = lines.flat_map(words, {"word": str}).key_by("word").agg(times=count()).name("counts")
top = counts.top(6, by=[col("times").desc(), "word"], rank="place").name("top")
result = top.collect()

if __name__ == "__main__":
    ps.run("word-count")
    for row in sorted(result.rows(), key=lambda row: row["place"]):
        print(f"{row['place']}. {row['word']:<6} {row['times']:>3}")
