"""Events as server-sent messages and back: what ``/v1/events`` says and the client reads.

A message has the kind of the event, an id ``RUN-NUMBER`` and JSON. What is only of the moment, as metrics, has no id.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from penstock.engine.core import job_events as je
from penstock.engine.jobs.metrics import JobMetrics
from penstock.http_api.event_log import LoggedEvent


@dataclass(frozen=True, slots=True)
class Missed:
    """Events that whoever comes back did not get; null: its last id is of another run, so they cannot be counted."""

    events: int | None


KINDS: Mapping[str, type] = {
    "state_changed": je.StateChanged,
    "checkpoint_committed": je.CheckpointCommitted,
    "checkpoint_failed": je.CheckpointFailed,
    "restarted": je.Restarted,
    "task_manager_joined": je.TaskManagerJoined,
    "task_manager_lost": je.TaskManagerLost,
    "stuck": je.Stuck,
    "well_again": je.WellAgain,
    "notice": je.Notice,
    "metrics": JobMetrics,
    "missed": Missed,
}
"""The kinds of messages, and what each says."""

_NAMES = {kind: name for name, kind in KINDS.items()}

Event = je.JobEvent | JobMetrics | Missed


@dataclass(frozen=True, slots=True)
class EventMessage:
    """A message as it is received; ``at_us`` is when it was told, ``id`` None: it is not kept."""

    kind: str
    id: str | None
    at_us: int
    event: Event


class _Data(msgspec.Struct, frozen=True):
    at_us: int
    event: Any


class _Raw(msgspec.Struct, frozen=True):
    at_us: int
    event: msgspec.Raw


def event_id(run: str, number: int) -> str:
    """Return the id of an event of a run."""
    return f"{run}-{number}"


def resumed_number(run: str, last_id: str) -> int | None:
    """Return the number of the event that ``last_id`` names; None: it is none of this run.

    ``0`` stands for the time before the first event of any run.
    """
    if last_id == "0":
        return 0
    named, _, number = last_id.rpartition("-")
    return int(number) if named == run and number.isascii() and number.isdecimal() and len(number) < 16 else None


def encode_message(event: Event, at_us: int, message_id: str | None = None) -> bytes:
    """Return an event as a message."""
    lines = [] if message_id is None else [f"id: {message_id}".encode()]
    data = msgspec.json.encode(_Data(at_us, event))
    return b"\n".join([*lines, f"event: {_NAMES[type(event)]}".encode(), b"data: " + data, b"", b""])


def encode_logged(run: str, logged: LoggedEvent) -> bytes:
    """Return a kept event as a message."""
    return encode_message(logged.event, logged.at_us, event_id(run, logged.number))


def decode_message(kind: str, message_id: str | None, data: bytes) -> EventMessage | None:
    """Return a message; None: it is of a kind that is not known here.

    Raises:
        msgspec.DecodeError: it is not what its kind says.
    """
    expected = KINDS.get(kind)
    if expected is None:
        return None
    raw = msgspec.json.decode(data, type=_Raw)
    return EventMessage(kind, message_id, raw.at_us, msgspec.json.decode(raw.event, type=expected))
