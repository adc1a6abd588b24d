"""The log of what was kept: which keep rates held for which offsets, as stretches that are merged while rates stay.

With the seed in its first line it says of every record whether it stayed (`offset_sampling`).
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from penstock.model.strata import Strata

VERSION = 2
"""The version of logs that are written."""


@dataclass(frozen=True, slots=True)
class Dealing:
    """How records of a stretch came to their steps: by these strata, dealt from offset ``since`` on.

    All records take part in it that lie in stretches of the same dealing, in order.
    """

    strata: Strata
    since: int


@dataclass(frozen=True, slots=True)
class Stretch:
    """Records of one partition of a source, from offset ``start`` up to but without ``stop``, and their keep rates.

    ``partition`` is the number of a partition of ``topic``, or the name of one that has none. ``branches`` are rates by
    ``PRODUCER>CONSUMER``; beyond a branch that is not named the source's holds. ``sic``: some rates were chosen by SIC,
    which the results say nothing of by their weights. ``dealing``: None where steps follow from offsets alone.
    """

    source: str
    topic: str | None
    partition: int | str
    start: int
    stop: int
    keep: float
    branches: Mapping[str, float] = field(default_factory=dict)
    sic: bool = False
    dealing: Dealing | None = None

    def continues(self, other: "Stretch") -> bool:
        """Return whether it is of the same partition, with the same rates, right behind another."""
        mine = (self.source, self.topic, self.partition, self.start, self.keep, self.branches, self.sic, self.dealing)
        place = (other.source, other.topic, other.partition, other.stop)
        return mine == (*place, other.keep, other.branches, other.sic, other.dealing)


class PartitionLog:
    """The stretches of one partition since they were taken last."""

    def __init__(
        self, source: str, partition: int | str, topic: str | None = None, strata: Strata | None = None
    ) -> None:
        """Begin with none; ``strata`` are those by which steps are dealt, where they are."""
        self._source, self._partition, self._topic, self._strata = source, partition, topic, strata
        self._stretches: list[Stretch] = []
        self._rates: _Rates | None = None
        self._start = 0
        self._stop: int | None = None

    def add(
        self,
        start: int,
        stop: int,
        keep: float,
        branches: Mapping[str, float],
        *,
        sic: bool = False,
        since: int | None = None,
    ) -> None:
        """Add what was read; offsets between it and what was read before it had no record.

        ``since``: steps were dealt from there on; None: they follow from offsets.
        """
        if self._stop is not None:
            start = self._stop
        if stop <= start:
            return
        rates = keep, branches, sic, since
        if rates != self._rates:
            self._end()
            self._rates, self._start = (keep, dict(branches), sic, since), start
        self._stop = stop

    def take(self) -> list[Stretch]:
        """Return the stretches and forget them."""
        self._end()
        taken, self._stretches = self._stretches, []
        return taken

    def _end(self) -> None:
        """Let the stretch end that was added to last, if there is one."""
        if self._rates is None or self._stop is None:
            return
        keep, branches, sic, since = self._rates
        dealing = None if since is None or self._strata is None else Dealing(self._strata, since)
        place = self._source, self._topic, self._partition, self._start, self._stop
        self._stretches.append(Stretch(*place, keep, branches, sic, dealing))
        self._rates = None


_Rates = tuple[float, Mapping[str, float], bool, int | None]
"""What holds of all records of a stretch: the keep rate, those of branches, whether by SIC, where dealing began."""


def merged(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches by source and partition, those that continue others joined; of each partition in order."""
    result: list[Stretch] = []
    for item in sorted(stretches, key=_place):
        if result and item.continues(result[-1]):
            item = replace(item, start=result.pop().start)
        result.append(item)
    return result


def encode_kept_log(job: str, seed: int, stretches: Sequence[Stretch]) -> bytes:
    """Return a log's bytes: JSON lines, the first with version, job and seed, then one for each stretch."""
    return b"".join((_line({"version": VERSION, "job": job, "seed": seed}), *map(encode_stretch, stretches)))


def encode_stretch(item: Stretch) -> bytes:
    """Return the line of a stretch."""
    more: dict[str, object] = {"sic": True} if item.sic else {}
    if item.dealing is not None:
        more |= {"strata": item.dealing.strata, "since": item.dealing.since}
    return _line(
        {
            "source": item.source,
            "topic": item.topic,
            "partition": item.partition,
            "from": item.start,
            "to": item.stop,
            "keep": item.keep,
            "branches": item.branches,
            **more,
        }
    )


def decode_kept_log(data: bytes) -> tuple[str, int, list[Stretch]]:
    """Return job, seed and stretches of a log that `encode_kept_log` has written.

    Raises:
        ValueError: it is none.
    """
    try:
        head, *lines = map(json.loads, data.splitlines())
        if head["version"] != VERSION:
            raise ValueError(f"a log of version {head['version']}")
        stretches = [_stretch(line) for line in lines]
        return head["job"], head["seed"], stretches
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"this is no log of what was kept: {error}") from None


def standing_parts(names: Iterable[str]) -> list[str]:
    """Return the files of a log that count, by epoch: not those that another one was merged from.

    Names are ``<epoch>-<run>.jsonl``, or ``<epoch>-<run>-<since>.jsonl`` of a file in which those of the epochs from
    ``since`` on are.
    """
    parts = sorted(names, key=lambda name: (epoch_of(name), -since_of(name)))
    standing: list[str] = []
    merged_since: float = math.inf
    for name in reversed(parts):
        if epoch_of(name) >= merged_since:
            continue
        standing.append(name)
        if _is_merged(name):
            merged_since = since_of(name)
    return standing[::-1]


def epoch_of(name: str) -> int:
    """Return the epoch of a file of a log, in whose name it is."""
    return int(name.split("-")[0])


def since_of(name: str) -> int:
    """Return the first epoch that is in a file of a log."""
    return int(name.removesuffix(".jsonl").split("-")[2]) if _is_merged(name) else epoch_of(name)


def _is_merged(name: str) -> bool:
    return name.count("-") == 2


def _stretch(line: Mapping[str, Any]) -> Stretch:
    source, topic, partition = line["source"], line["topic"], line["partition"]
    by_sic = line.get("sic", False)
    dealing = Dealing(line["strata"], line["since"]) if "strata" in line else None
    return Stretch(source, topic, partition, line["from"], line["to"], line["keep"], line["branches"], by_sic, dealing)


def _line(item: Mapping[str, object]) -> bytes:
    return json.dumps(item, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def _place(item: Stretch) -> tuple[str, str, bool, str, int, int]:
    name = item.partition
    number = name if isinstance(name, int) else -1
    return item.source, item.topic or "", isinstance(name, str), str(name) if number < 0 else "", number, item.start
