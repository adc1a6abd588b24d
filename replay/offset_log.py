"""A log of which offsets of topics a stream has kept: read line by line and checked (docs/reference/validation.md).

``--kept`` names one; `source_reading` asks what it left of each range of a replay. Logs with rates are `kept_log`'s.
Spark is not needed here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.model.errors import UserError
from penstock.replay import kept_log
from penstock.replay.kafka_slices import OffsetRange, split
from penstock.replay.kept_log import KeptLog, LineError, stretches_of
from penstock.shedding.kept_log import standing_parts
from penstock.state.files.arrow_files import open_files
from penstock.state.files.durable_files import DurableFiles

VERSION = 1

_OF_A_JOB = re.compile(r"\d{10}-\d{10}(-\d{10})?\.jsonl")
"""The names of a job's files, see `standing_parts`."""

_HEAD: Mapping[str, type] = {"version": int, "topics": list}
"""Fields of the first line."""

_LINE: Mapping[str, type] = {"topic": str, "partition": int, "from": int, "to": int}
"""Fields of every other line: messages from one offset up to, not including, another."""

_MEANT = {int: "whole number", str: "text", list: "list"}


@dataclass(frozen=True, slots=True)
class OffsetLog:
    """A log's content. Of ``topics`` only the offsets in ``ranges`` were kept; of others it says nothing: all were.

    ``ranges`` are (start, stop) by topic and partition, ascending and apart.
    """

    path: str
    topics: frozenset[str]
    ranges: Mapping[tuple[str, int], Sequence[tuple[int, int]]]

    def kept_of(self, item: OffsetRange) -> tuple[list[OffsetRange], int]:
        """Return what of a range was kept, and how many offsets were not."""
        if item.topic not in self.topics:
            return [item], 0
        kept, left_out = split(item, self.ranges.get((item.topic, item.partition), ()))
        return kept, sum(part.offsets for part in left_out)


def read_offset_log(path: str | Path) -> OffsetLog | KeptLog:
    """Read a log of either version; of a folder, as a job has one beside its checkpoints, all that is in it.

    Raises:
        UserError: it cannot be read, or a line is none of a log's, overlaps one before it or is out of order; the
            message has the number of the line.
    """
    name = str(path)
    if "://" in name or Path(path).is_dir():
        files = open_files(name)
        log = kept_log_in(files, name)
        if log is None:
            raise UserError(f"there is no log of what was kept in {name!r}")
        return log
    try:
        with Path(path).open("rb") as file:
            return _read(name, file)
    except OSError as error:
        raise UserError(f"the log of kept offsets {name!r} cannot be read: {error.strerror or error}") from None


def kept_log_in(files: DurableFiles, name: str, folder: str = "") -> KeptLog | None:
    """Return the log whose parts are in a folder, None if there are none; ``name`` is its name in errors.

    Raises:
        UserError: a part is no log of version 2 or of another job, or two parts are about the same offsets.
    """
    logs = []
    for part, data in _read_parts(files, folder).items():
        log = _read(f"{name}/{part}", iter(data.splitlines()))
        if not isinstance(log, KeptLog):
            raise UserError(
                f"{name}/{part} is of version {VERSION}, but the parts of a folder are of {kept_log.VERSION}"
            )
        logs.append(log)
    return kept_log.joined(name, logs) if logs else None


def _read_parts(files: DurableFiles, folder: str) -> Mapping[str, bytes]:
    """Return the files of a folder that count. A job that runs may merge some meanwhile: then all are read again."""
    while True:
        parts = _parts([item for item in files.list(folder) if item.endswith(".jsonl")])
        try:
            return {part: files.read(f"{folder}/{part}" if folder else part) for part in parts}
        except FileNotFoundError:
            continue


def _parts(names: Sequence[str]) -> Sequence[str]:
    """Return the files of a folder that count: all, unless their names are those that a job gives."""
    return standing_parts(names) if all(map(_OF_A_JOB.fullmatch, names)) else sorted(names)


def _read(name: str, lines: Iterator[bytes]) -> OffsetLog | KeptLog:
    ranges: dict[tuple[str, int], list[tuple[int, int]]] = {}
    number = 1
    try:
        head = _object(next(lines, b""))
        if type(head) is dict and head.get("version") == kept_log.VERSION:
            _check_fields(head, kept_log.HEAD)
            objects = [(count, _object_at(count, line)) for count, line in enumerate(lines, 2)]
            by_sic = any(item.get("sic") is True for _, item in objects)
            return KeptLog(name, head["job"], head["seed"], stretches_of(objects), by_sic)
        topics = _topics(_check_fields(head, _HEAD))
        for line in lines:
            number += 1
            _add(ranges, _check_fields(_object(line), _LINE), topics)
    except LineError as error:
        raise UserError(f"{name}, line {error.number}: {error}") from None
    except ValueError as error:
        raise UserError(f"{name}, line {number}: {error}") from None
    return OffsetLog(name, frozenset(topics), ranges)


def _object_at(number: int, line: bytes) -> Any:
    try:
        item = _object(line)
        if type(item) is not dict:
            raise ValueError("the line is to be an object")
    except ValueError as error:
        raise LineError(number, str(error)) from None
    return item


def _object(line: bytes) -> Any:
    """Return the JSON of a line."""
    if not line.strip():
        raise ValueError("the line is empty")
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
        raise ValueError(f"this is no JSON ({reason})") from None


def _check_fields(item: Any, types: Mapping[str, type]) -> dict[str, Any]:
    """Return the fields of a line, which has all that are wanted and no other."""
    names = ", ".join(types)
    if not isinstance(item, dict) or item.keys() != types.keys():
        raise ValueError(f"the line is to be an object with the fields {names}, and no others")
    for name, kind in types.items():
        if type(item[name]) is not kind:
            raise ValueError(f"{name} is {item[name]!r}, which is no {_MEANT[kind]}")
    return item


def _topics(head: Mapping[str, Any]) -> list[str]:
    if head["version"] != VERSION:
        raise ValueError(
            f"the log is of version {head['version']}, but this Penstock reads {VERSION} and {kept_log.VERSION}: use a "
            "newer one"
        )
    topics: list[str] = head["topics"]
    if not all(isinstance(topic, str) for topic in topics):
        raise ValueError("topics is to be a list of names")
    return topics


def _add(ranges: dict[tuple[str, int], list[tuple[int, int]]], item: Mapping[str, Any], topics: Sequence[str]) -> None:
    """Add a line to those before it."""
    topic, partition, start, stop = (item[name] for name in _LINE)
    span = f"{topic}/{partition} from {start} up to {stop}"
    if topic not in topics:
        raise ValueError(f"topic {topic!r} is none of those that the first line names")
    if min(partition, start) < 0:
        raise ValueError("partitions and offsets are not negative")
    if start >= stop:
        raise ValueError(f"{span} is no range: the first must be less")
    merged = ranges.setdefault((topic, partition), [])
    if not merged or start > merged[-1][1]:
        merged.append((start, stop))
        return
    first, last = merged[-1]
    if stop <= first:
        raise ValueError(f"{span} comes behind {first} up to {last}: lines of a partition must be in order")
    if start < last:
        raise ValueError(f"{span} overlaps {first} up to {last}, which stands before it")
    merged[-1] = (first, stop)
