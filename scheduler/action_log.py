"""The action log: snapshots, decisions and their results in order, one JSON object per line (Sage, 4.3).

It is append-only, and every line is on disk before the action that it describes begins. The simulated
cluster writes it, and the head of a job; ``penstock decide`` reads it again.
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


class ActionLogError(UserError):
    """An action log cannot be read; the message names the line."""


class EntryKind(StrEnum):
    """The kinds of log lines."""

    LOG = "log"
    POLICY = "policy"
    SNAPSHOT = "snapshot"
    DECISION = "decision"
    RESULT = "result"


GOES_ON = "goes_on"
"""What the line of a policy has, as true, whose memory goes on from the job's plan before."""

_OPTIONAL: Mapping[EntryKind, set[str]] = {EntryKind.POLICY: {GOES_ON}}
_KEYS = {
    EntryKind.LOG: {"format"},
    EntryKind.POLICY: {"policy", "parameters"},
    EntryKind.SNAPSHOT: {"content"},
    EntryKind.DECISION: {"snapshot", "policy", "decision"},
    EntryKind.RESULT: {"snapshot", "policy", "outcome", "detail"},
}


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One line of a log, without its kind."""

    line: int
    kind: EntryKind
    content: Mapping[str, Any]


class ActionLog:
    """Appends to a log; a last line that a crash has torn is cut off when it is opened.

    One that is not ``durable`` is on disk when `sync` returns: for decisions on which nobody acts.
    """

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        """Open or create the log.

        Raises:
            ActionLogError: the file is no log of this format.
        """
        self._durable = durable
        self._file = path.open("a+b")
        try:
            self._begin(path)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _begin(self, path: Path) -> None:
        """Cut off what is torn, and write the first line unless there is one."""
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
            self._append(EntryKind.LOG, format=FORMAT)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def sync(self) -> None:
        """Bring all lines to disk."""
        self._file.flush()
        os.fsync(self._file.fileno())

    @property
    def size(self) -> int:
        """The bytes of the file."""
        return os.fstat(self._file.fileno()).st_size

    def policy(self, name: str, parameters: Mapping[str, Any], *, goes_on: bool = False) -> None:
        """Record that a policy starts with an empty memory, or ``goes_on`` over another plan of its job."""
        said = {GOES_ON: True} if goes_on else {}
        self._append(EntryKind.POLICY, policy=name, parameters=dict(parameters), **said)

    def snapshot(self, snapshot: ClusterSnapshot) -> None:
        """Record the snapshot on which the following decisions are based."""
        self._append(EntryKind.SNAPSHOT, content=snapshot.as_dict())

    def decision(self, snapshot: ClusterSnapshot, policy: str, decision: Decision) -> None:
        """Record a decision; its actions may begin once this returns."""
        self._append(EntryKind.DECISION, snapshot=snapshot.number, policy=policy, decision=as_dict(decision))

    def result(self, snapshot: ClusterSnapshot, policy: str, outcome: str, detail: Mapping[str, Any]) -> None:
        """Record the result of a decision on a snapshot: done, clipped to a limit, or failed."""
        self._append(EntryKind.RESULT, snapshot=snapshot.number, policy=policy, outcome=outcome, detail=dict(detail))

    def _append(self, kind: EntryKind, **content: Any) -> None:
        line = json.dumps({"kind": kind, **content}, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        if self._durable:
            self.sync()
        else:
            self._file.flush()


def read_log(path: Path) -> Iterator[LogEntry]:
    """Yield the lines of a log.

    Raises:
        ActionLogError: a line is no whole JSON object, or not of this format; it names the line.
    """
    with path.open("rb") as file:
        number = 0
        for number, line in enumerate(file, start=1):
            yield _entry(path, number, line)
    if number == 0:
        raise ActionLogError(f"{path} is empty, so it is no action log")


def snapshot_of(path: Path, entry: LogEntry) -> ClusterSnapshot:
    """Return the snapshot in a line.

    Raises:
        ActionLogError: it has another schema.
    """
    try:
        return ClusterSnapshot.from_dict(entry.content["content"])
    except (ValueError, TypeError, AttributeError) as error:
        raise ActionLogError(f"{path}:{entry.line}: {error}") from error


def _entry(path: Path, number: int, line: bytes) -> LogEntry:
    where = f"{path}:{number}"
    if not line.endswith(b"\n"):
        raise ActionLogError(f"{where}: the line is cut off; the log ends before it")
    try:
        content = json.loads(line)
    except ValueError as error:
        raise ActionLogError(f"{where}: not JSON ({error})") from error
    kind = _kind(content)
    if kind is None:
        raise ActionLogError(f"{where}: not a line of an action log of format {FORMAT}")
    if number == 1 and kind != EntryKind.LOG:
        raise ActionLogError(f"{where}: an action log begins with its format")
    if kind == EntryKind.LOG and content["format"] != FORMAT:
        raise ActionLogError(f"{where}: the log has format {content['format']!r}; this version reads {FORMAT}")
    return LogEntry(number, kind, content)


def _kind(content: Any) -> EntryKind | None:
    """Remove and return the kind of a line's object; None if the object is not a log line."""
    name = content.pop("kind", None) if isinstance(content, dict) else None
    kind = next((kind for kind in EntryKind if kind == name), None)
    if kind is None or not _KEYS[kind] <= content.keys() <= _KEYS[kind] | _OPTIONAL.get(kind, set()):
        return None
    return kind
