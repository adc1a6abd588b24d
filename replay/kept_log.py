"""The log of what a stream has kept at which rate, version 2: read line by line and checked. Spark is not needed here.

The engine writes it beside a job's checkpoints (docs/reference/validation.md has the format). Of every record it says
whether the record stayed, together with the sample of `sample_steps`; called by `offset_log`, which tells the versions
apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from penstock.model.errors import UserError
from penstock.model.keep_rates import STEPS, steps_of
from penstock.model.strata import STRATA
from penstock.replay.kafka_slices import OffsetRange
from penstock.shedding.kept_log import Dealing
from penstock.shedding.offset_sampling import sample_steps

VERSION = 2

HEAD: Mapping[str, type] = {"version": int, "job": str, "seed": int}
"""Fields of the first line."""

_FIELDS = ("source", "topic", "partition", "from", "to", "keep", "branches")
"""Fields of every other line."""

_STRATA_FIELDS = ("strata", "since")
"""Fields of a line of which records drew their steps by strata."""

_AT_ONCE = 1 << 20

Partition = tuple[str, str | None, int | str]
"""A source's operator, its topic (None: it is no topic) and one of its partitions."""


@dataclass(frozen=True, slots=True)
class StretchRates:
    """The keep rates of a stretch in (0, 1]: of its source, and of branches by ``PRODUCER>CONSUMER``."""

    keep: float = 1.0
    branches: Mapping[str, float] = field(default_factory=dict)


ALL_KEPT = StretchRates()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records from offset ``start`` up to, not including, ``stop``, and the rates that held for them.

    ``dealing``: None where steps follow from offsets alone.
    """

    start: int
    stop: int
    rates: StretchRates
    dealing: Dealing | None = None


@dataclass(frozen=True, slots=True)
class KeptLog:
    """A log's content: of each partition its stretches, ascending and apart; neighbours have different rates.

    A record stayed if its step is below the keep rate of its stretch in steps; beyond a branch, if it is below the
    branch's. All records stayed that lie in no stretch.
    """

    path: str
    job: str
    seed: int
    stretches: Mapping[Partition, Sequence[Stretch]]
    by_sic: bool = False
    """Whether some records were dropped by source information content, which results do not weigh."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics that it is about."""
        return frozenset(topic for _, topic, _ in self.stretches if topic is not None)

    @property
    def sources(self) -> frozenset[str]:
        """The operators that it is about."""
        return frozenset(source for source, _, _ in self.stretches)

    @property
    def branches(self) -> frozenset[str]:
        """The branches that it has rates of."""
        return frozenset(name for parts in self.stretches.values() for part in parts for name in part.rates.branches)

    def rates(self) -> tuple[StretchRates, ...]:
        """Return the different rates that held, that of records which lie in no stretch first."""
        rates = [ALL_KEPT]
        for parts in self.stretches.values():
            rates += [part.rates for part in parts if part.rates not in rates]
        return tuple(rates)

    def has_strata(self, source: str) -> bool:
        """Return whether records of a source drew their steps by strata."""
        return any(
            part.dealing is not None
            for (operator, _, _), parts in self.stretches.items()
            for part in parts
            if operator == source
        )

    def left_out(self, source: str, item: OffsetRange) -> int | None:
        """Return how many offsets of a range of a source's topic did not stay, nor would for any branch.

        None: that follows from the messages.
        """
        if self.has_strata(source):
            return None
        number = 0
        for part in self.stretches.get((source, item.topic, item.partition), ()):
            start = max(part.start, item.start.offset)
            stop = min(part.stop, item.start.offset + item.offsets)
            for first in range(start, stop, _AT_ONCE) if part.rates.keep < 1.0 else ():
                offsets = np.arange(first, min(first + _AT_ONCE, stop), dtype=np.int64)
                number += int((sample_steps(self.seed, item.name, offsets) >= steps_of(part.rates.keep)).sum())
        return number


def stretches_of(items: Iterable[tuple[int, Mapping[str, Any]]]) -> dict[Partition, list[Stretch]]:
    """Return the stretches of lines that were parsed, each with its number; neighbours of equal rates are joined.

    Raises:
        ValueError: a line is none of a log's, overlaps one before it or is out of order, see `LineError`.
    """
    stretches: dict[Partition, list[Stretch]] = {}
    for number, item in items:
        try:
            _add(stretches, item)
        except ValueError as error:
            raise LineError(number, str(error)) from None
    return stretches


def joined(name: str, logs: Sequence[KeptLog]) -> KeptLog:
    """Return logs of one job as one.

    Raises:
        UserError: they are of several jobs or samples, or two are about the same records.
    """
    first, stretches = logs[0], dict[Partition, list[Stretch]]()
    for log in logs:
        if (log.job, log.seed) != (first.job, first.seed):
            raise UserError(
                f"{log.path} is of job {log.job!r} with the seed {log.seed}, {first.path} of {first.job!r} with "
                f"{first.seed}: keep the logs of one job in a folder"
            )
        for partition, parts in log.stretches.items():
            stretches.setdefault(partition, []).extend(parts)
    for partition, parts in stretches.items():
        parts.sort(key=lambda part: part.start)
        merged: list[Stretch] = []
        for part in parts:
            if merged and part.start < merged[-1].stop:
                raise UserError(f"two files of the log in {name} are about offset {part.start} of {partition}")
            follows = merged and _continues(part, merged[-1])
            merged.append(replace(part, start=merged.pop().start) if follows else part)
        stretches[partition] = merged
    return KeptLog(name, first.job, first.seed, stretches, any(log.by_sic for log in logs))


class LineError(ValueError):
    """A line that cannot be right."""

    def __init__(self, number: int, why: str) -> None:
        """Keep the number of the line."""
        super().__init__(why)
        self.number = number


def _add(stretches: dict[Partition, list[Stretch]], item: Mapping[str, Any]) -> None:
    """Add a line to those before it."""
    _check(item)
    dealing = Dealing(item["strata"], item["since"]) if "strata" in item else None
    part = Stretch(item["from"], item["to"], StretchRates(float(item["keep"]), _branches(item)), dealing)
    merged = stretches.setdefault((item["source"], item["topic"], item["partition"]), [])
    if merged:
        last = merged[-1]
        span = f"{_name(item)} from {part.start} up to {part.stop}"
        if part.stop <= last.start:
            raise ValueError(f"{span} comes behind {last.start} up to {last.stop}: lines of a partition are in order")
        if part.start < last.stop:
            raise ValueError(f"{span} overlaps {last.start} up to {last.stop}, which stands before it")
        if _continues(part, last):
            merged[-1] = replace(part, start=last.start)
            return
    merged.append(part)


def _continues(part: Stretch, last: Stretch) -> bool:
    return (part.start, part.rates, part.dealing) == (last.stop, last.rates, last.dealing)


def _check(item: Mapping[str, Any]) -> None:
    if item.keys() - {"sic", *_STRATA_FIELDS} != set(_FIELDS) or type(item.get("sic", False)) is not bool:
        raise ValueError(f"the line is to be an object with the fields {', '.join(_FIELDS)}, and no others")
    topic, partition = item["topic"], item["partition"]
    if type(item["source"]) is not str:
        raise ValueError(f"source is {item['source']!r}, which is no text")
    if topic is not None and type(topic) is not str:
        raise ValueError(f"topic is {topic!r}, which is neither text nor null")
    if type(partition) is not (str if topic is None else int):
        raise ValueError(f"partition is {partition!r}: a whole number of a topic, else a name")
    for name in ("from", "to"):
        if type(item[name]) is not int:
            raise ValueError(f"{name} is {item[name]!r}, which is no whole number")
    if item["from"] < 0 or (type(partition) is int and partition < 0):
        raise ValueError("partitions and offsets are not negative")
    if item["from"] >= item["to"]:
        raise ValueError(f"{_name(item)} from {item['from']} up to {item['to']} is no range: the first must be less")
    _check_rate("keep", item["keep"])
    if item.keys() & set(_STRATA_FIELDS):
        strata, since = item.get("strata"), item.get("since")
        if strata not in STRATA or type(since) is not int or not 0 <= since < item["to"]:
            raise ValueError(
                f"strata are {' or '.join(map(repr, STRATA))}, dealt since an offset below {item['to']}, not "
                f"{strata!r} since {since!r}"
            )
    if type(item["branches"]) is not dict:
        raise ValueError(f"branches is {item['branches']!r}, which is no object of rates by branch")
    for name, rate in item["branches"].items():
        if ">" not in name:
            raise ValueError(f"the branch {name!r} is to be PRODUCER>CONSUMER")
        _check_rate(f"the rate of branch {name!r}", rate)
        if rate > item["keep"]:
            raise ValueError(
                f"branch {name!r} keeps {rate} of the records, more than its source, which keeps {item['keep']}"
            )


def _check_rate(what: str, rate: Any) -> None:
    if type(rate) not in (int, float) or not 0 <= rate <= 1 or rate * STEPS != steps_of(rate):
        raise ValueError(f"{what} is {rate!r}, which is no multiple of 1/{STEPS} from 0 to 1")


def _branches(item: Mapping[str, Any]) -> Mapping[str, float]:
    """Return the rates of branches that differ from their source's, by name."""
    return {name: float(rate) for name, rate in sorted(item["branches"].items()) if rate != item["keep"]}


def _name(item: Mapping[str, Any]) -> str:
    return str(item["partition"]) if item["topic"] is None else f"{item['topic']}/{item['partition']}"
