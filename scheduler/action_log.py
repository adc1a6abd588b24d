"""The action log: snapshots, the decisions on them and what came of each, in order, one JSON object a line (Sage, 4.3).

It is only appended to, and every line is on the disk before the action it tells of begins. The simulated
cluster writes it; ``penstock decide`` reads it again.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from penstock.model.errors import UserError
from penstock.model.plan import Decision, as_dict
from penstock.model.snapshot import ClusterSnapshot

FORMAT = 1


class LogError(UserError):
    """A log cannot be read; the message names the line."""


class Kind(StrEnum):
    """What a line tells."""

    LOG = "log"
    POLICY = "policy"
    SNAPSHOT = "snapshot"
    DECISION = "decision"
    RESULT = "result"


_KEYS = {
    Kind.LOG: {"format"},
    Kind.POLICY: {"policy", "parameters"},
    Kind.SNAPSHOT: {"content"},
    Kind.DECISION: {"snapshot", "policy", "decision"},
    Kind.RESULT: {"snapshot", "policy", "outcome", "detail"},
}


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of a log, without its kind."""

    line: int
    kind: Kind
    content: Mapping[str, Any]


class ActionLog:
    """Appends to a log; a last line that a crash has torn is cut off when it is opened."""

    def __init__(self, path: Path) -> None:
        """Open or create the log.

        Raises:
            LogError: the file is no log of this format.
        """
        self._file = path.open("a+b")
        self._file.seek(0)
        whole = 0
        for number, line in enumerate(self._file, start=1):
            if not line.endswith(b"\n"):
                break
            if number == 1:
                _entry(path, number, line)
            whole += len(line)
        self._file.truncate(whole)
        if not whole:
            self._append(Kind.LOG, format=FORMAT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def policy(self, name: str, parameters: Mapping[str, Any]) -> None:
        """Tell that a policy starts, and remembers nothing yet."""
        self._append(Kind.POLICY, policy=name, parameters=dict(parameters))

    def snapshot(self, snapshot: ClusterSnapshot) -> None:
        """Keep what the decisions that follow were taken on."""
        self._append(Kind.SNAPSHOT, content=snapshot.as_dict())

    def decision(self, snapshot: ClusterSnapshot, policy: str, decision: Decision) -> None:
        """Keep a decision; what it asks for may begin when this returns."""
        self._append(Kind.DECISION, snapshot=snapshot.number, policy=policy, decision=as_dict(decision))

    def result(self, snapshot: ClusterSnapshot, policy: str, outcome: str, detail: Mapping[str, Any]) -> None:
        """Keep what came of the decision on a snapshot: done, clipped to a limit, or failed."""
        self._append(Kind.RESULT, snapshot=snapshot.number, policy=policy, outcome=outcome, detail=dict(detail))

    def _append(self, kind: Kind, **content: Any) -> None:
        line = json.dumps({"kind": kind, **content}, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())


def read_log(path: Path) -> Iterator[Entry]:
    """Yield the lines of a log.

    Raises:
        LogError: a line is no whole JSON object, or not of this format; it names the line.
    """
    with path.open("rb") as file:
        number = 0
        for number, line in enumerate(file, start=1):
            yield _entry(path, number, line)
    if number == 0:
        raise LogError(f"{path} is empty, so it is no action log")


def snapshot_of(path: Path, entry: Entry) -> ClusterSnapshot:
    """Return the snapshot that a line holds.

    Raises:
        LogError: it has another schema.
    """
    try:
        return ClusterSnapshot.from_dict(entry.content["content"])
    except (ValueError, TypeError, AttributeError) as error:
        raise LogError(f"{path}:{entry.line}: {error}") from error


def _entry(path: Path, number: int, line: bytes) -> Entry:
    where = f"{path}:{number}"
    if not line.endswith(b"\n"):
        raise LogError(f"{where}: the line is cut off; the log ends before it")
    try:
        content = json.loads(line)
    except ValueError as error:
        raise LogError(f"{where}: not JSON ({error})") from error
    kind = _kind(content)
    if kind is None:
        raise LogError(f"{where}: not a line of an action log of format {FORMAT}")
    if number == 1 and kind != Kind.LOG:
        raise LogError(f"{where}: an action log begins with its format")
    if kind == Kind.LOG and content["format"] != FORMAT:
        raise LogError(f"{where}: the log has format {content['format']!r}; this version reads {FORMAT}")
    return Entry(number, kind, content)


def _kind(content: Any) -> Kind | None:
    """Take the kind out of a line's object; None if it is nothing of a log."""
    name = content.pop("kind", None) if isinstance(content, dict) else None
    kind = next((kind for kind in Kind if kind == name), None)
    return kind if kind is not None and content.keys() == _KEYS[kind] else None
