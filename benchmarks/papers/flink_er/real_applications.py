"""WordCount and the Yahoo benchmark as jobs that run: rows from Kafka, 2 ms of blocking work a row, counts by key.

WordCount splits lines and counts words; its state is what it holds of each of many words. The Yahoo benchmark keeps
views, finds the campaign of an ad, and counts by campaign and time bucket. What each row has done to a count is
written, with when and by which instance.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import numpy as np

import penstock as ps
from penstock.benchmarks.papers.real.application import Application, Counted, Setting, under_contract
from penstock.dsl.job import Job
from penstock.model.process import OpenContext

_MODULE = "penstock.benchmarks.papers.flink_er.real_applications"
WORD_COUNT, YAHOO = f"{_MODULE}:word_count", f"{_MODULE}:yahoo"
LINES = {0.0: f"{_MODULE}:even_lines", 0.5: f"{_MODULE}:uneven_lines", 1.0: f"{_MODULE}:zipf_lines"}
"""What makes lines, by the exponent of how often words come."""

EVENTS = f"{_MODULE}:events"
HELD = {True: f"{_MODULE}:every_word_large", False: f"{_MODULE}:every_word"}
"""What makes lines with every word once, 1 GB of state or a tenth."""

QUERY, IN_ALL = "counts", "line counts"
COUNT = "count"
"""What the operator is called that counts, and waits."""

READERS = 2
"""Instances that read, so that what counts is a task of its own while it has one."""

ROW_S = 0.002
"""So long a row waits, as for an answer, which takes no core."""

WORDS, LARGE_WORDS = 10_000, 100_000
HELD_BYTES = 10_000
"""Of each word, beside its count."""

LINE_WORDS = 4
CAMPAIGNS, ADS_PER_CAMPAIGN = 100, 10
BUCKET_MS = 10_000

_HELD_A_LINE = 100
_LINES = 20_000
_EVENTS = 20_000
_KINDS = ("view", "click", "purchase")
_SEED = 24
_COUNTED = {"key": str, "bucket": int, "n": int, "late_ms": int, "at_ns": int, "owner": int, "owners": int}


def even_lines() -> list[bytes]:
    """Return lines of words that all come as often."""
    return _lines(0.0)


def uneven_lines() -> list[bytes]:
    """Return lines of words that come by Zipf 0.5."""
    return _lines(0.5)


def zipf_lines() -> list[bytes]:
    """Return lines of words that come by Zipf 1."""
    return _lines(1.0)


def every_word() -> list[bytes]:
    """Return lines in which every word comes once, to be held and not counted."""
    return held(WORDS)


def every_word_large() -> list[bytes]:
    """Return the same of ten times as many words."""
    return held(LARGE_WORDS)


def events() -> list[bytes]:
    """Return events of ads, a third of which are views."""
    random = np.random.default_rng(_SEED)
    ads = random.integers(0, CAMPAIGNS * ADS_PER_CAMPAIGN, _EVENTS).tolist()
    kinds = random.integers(0, len(_KINDS), _EVENTS).tolist()
    return [json.dumps({"ad": ad, "kind": _KINDS[kind]}).encode() for ad, kind in zip(ads, kinds, strict=True)]


def _lines(zipf: float) -> list[bytes]:
    """Return lines of words of which the r-th comes in proportion to r ** -zipf."""
    random = np.random.default_rng(_SEED)
    weights = np.arange(1, WORDS + 1, dtype=np.float64) ** -zipf
    drawn = random.choice(WORDS, (_LINES, LINE_WORDS), p=weights / weights.sum()).tolist()
    return [json.dumps({"line": " ".join(map(_word, words)), "is_first": False}).encode() for words in drawn]


def held(words: int) -> list[bytes]:
    """Return lines with so many words, each once, which are to be held."""
    return [
        json.dumps({"line": " ".join(map(_word, range(begin, begin + _HELD_A_LINE))), "is_first": True}).encode()
        for begin in range(0, words, _HELD_A_LINE)
    ]


def _word(number: int) -> str:
    return f"w{number:07}"


def split(row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return the words of a line."""
    for word in row["line"].split():
        yield {"key": word, "bucket": 0, "is_first": row["is_first"], "sent_ms": _ms(row["at"]), "at": row["at"]}


def of_campaign(row: dict[str, Any]) -> dict[str, Any]:
    """Return the campaign of a view, and the bucket of its time."""
    sent_ms = _ms(row["at"])
    campaign = f"campaign {row['ad'] // ADS_PER_CAMPAIGN}"
    bucket = sent_ms // BUCKET_MS
    return {"key": campaign, "bucket": bucket, "is_first": False, "sent_ms": sent_ms, "at": row["at"]}


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1_000)


class Count(ps.Process):
    """Counts rows of a key by bucket; each waits for ``wait_s``, and those that come first are only held."""

    wait_s = ROW_S
    counts = ps.map_state(int, int)
    held = ps.value_state(bytes)

    def open(self, context: OpenContext) -> None:
        """Note who counts."""
        self._owner, self._owners = context.instance, context.parallelism

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any] | None:
        """Return what the count is now, when, and who counted."""
        if row["is_first"]:
            self.held.set(row["key"].encode().ljust(HELD_BYTES, b"."))
            return None
        time.sleep(self.wait_s)
        late_ms = time.time_ns() // 1_000_000 - row["sent_ms"]
        count = (self.counts.get(row["bucket"]) or 0) + 1
        self.counts.put(row["bucket"], count)
        return {
            "key": row["key"], "bucket": row["bucket"], "n": count, "late_ms": late_ms,
            "at_ns": time.monotonic_ns(), "owner": self._owner, "owners": self._owners,
        }  # fmt: skip


def counter(wait_s: float) -> type[Count]:
    """Return what counts rows that wait for so long."""

    class Waits(Count):
        pass

    Waits.wait_s = wait_s
    return Waits


def word_count(setting: Setting) -> Application:
    """Return WordCount; options: ``counting`` and ``readers``, how many instances count and read, and ``contracts``.

    The last are as of `under_contract`. ``wait_s``: how long a word waits; `ROW_S` if it is not said. With a contract
    for `IN_ALL` there is such a query, too: how many lines there are in ten seconds, of which a part says how many all
    are. What counts words says nothing of words that it does not have.
    """
    job = ps.Job()
    readers = setting.options.get("readers", READERS)
    lines = _read_lines(setting.kafka, setting.topics, setting.until, job, readers)
    _write(_words(lines, readers), setting)
    if IN_ALL in setting.options.get("contracts", {}):
        in_all = lines.window(ps.tumbling("10s")).agg(n=ps.count()).name("all lines")
        under_contract(in_all.write_parquet(setting.folder / IN_ALL), setting, IN_ALL)
    return Application(job, {QUERY: Counted(COUNT, setting.topics)})


def yahoo(setting: Setting) -> Application:
    """Return the Yahoo benchmark, with the options of `word_count`."""
    job = ps.Job()
    _write(_views(setting.kafka, setting.topics, setting.until, job), setting)
    return Application(job, {QUERY: Counted(COUNT, setting.topics)})


def _read_lines(kafka: str, topics: Sequence[str], until: Any, job: Job, readers: int = READERS) -> ps.Stream:
    return _read(topics[0], {"line": str, "is_first": bool}, kafka, until, job).name("lines").parallelism(readers)


def _words(lines: ps.Stream, readers: int = READERS) -> ps.Stream:
    return lines.flat_map(split, _row_types(lines)).name("split").parallelism(readers)


def _views(kafka: str, topics: Sequence[str], until: Any, job: Job) -> ps.Stream:
    read = _read(topics[0], {"ad": int, "kind": str}, kafka, until, job).name("events").parallelism(READERS)
    views = read.filter(ps.col("kind") == "view").name("views").parallelism(READERS)
    return views.map(of_campaign, _row_types(read)).name("campaigns").parallelism(READERS)


def exact_words(kafka: str, topics: Sequence[str]) -> list[list[Any]]:
    """Return how often each word was offered: lines read again, nothing waits, none is held."""
    job = ps.Job()
    words = _words(_read_lines(kafka, topics, "latest", job))
    return _counted_again(words.filter(~ps.col("is_first")), job)


def exact_views(kafka: str, topics: Sequence[str]) -> list[list[Any]]:
    """Return how many views of each campaign and bucket were offered."""
    job = ps.Job()
    return _counted_again(_views(kafka, topics, "latest", job), job)


def _counted_again(rows: ps.Stream, job: Job) -> list[list[Any]]:
    found = rows.select("key", "bucket").collect()
    job.run("exact")
    table = found.table()
    counts = Counter(zip(table.column("key").to_pylist(), table.column("bucket").to_pylist(), strict=True))
    return [[key, bucket, count] for (key, bucket), count in sorted(counts.items())]


def _row_types(read: ps.Stream) -> dict[str, Any]:
    return {"key": str, "bucket": int, "is_first": bool, "sent_ms": int, "at": read.schema.field("at").type}


def _read(topic: str, fields: dict[str, Any], kafka: str, until: Any, job: Job) -> ps.Stream:
    """Read a topic, dated by the times at which its messages were written."""
    return ps.read_kafka(
        topic, kafka=kafka, schema=fields, metadata={"timestamp": "at"}, time="at", watermark="500ms", until=until,
        job=job,
    )  # fmt: skip


def _write(rows: ps.Stream, setting: Setting) -> None:
    counted = (
        rows.key_by("key").process(counter(setting.options.get("wait_s", ROW_S)), _COUNTED, order="arrival").name(COUNT)
    )
    instances = setting.options.get("counting")
    counted = counted if instances is None else counted.parallelism(instances)
    under_contract(counted.write_parquet(setting.folder / QUERY), setting, QUERY)
