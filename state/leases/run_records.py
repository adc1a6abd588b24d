"""The folder ``runs`` of a lease: names and contents of its files (docs/decisions/0033-one-run-at-a-time.md).

``<run>.json`` is the record of a run that has, or had, the lease; ``<run>-<token>.claim`` of one that asks for it;
``<run>-after-<epoch>.seal`` lists the checkpoints that a run took over from those before it. The names alone decide who
has the lease: the greatest run.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

import msgspec

RUNS = "runs"

LAST_RUN = 9_999_999_999
"""The greatest number that ten digits name."""

LAST_REAL_RUN = 4_999_999_999
"""No job comes to a later run: what has the name of one is nobody's, and would hold up all that begin."""

Run = Annotated[int, msgspec.Meta(ge=0, le=LAST_RUN)]

_HELD = re.compile(r"(\d{10})\.json\Z")
_CLAIM = re.compile(r"(\d{10})-([0-9a-f]{16})\.claim\Z")
_SEAL = re.compile(r"(\d{10})-after-(\d{10})\.seal\Z")


class Owner(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a run. ``since_us`` is in microseconds since 1970 UTC by the owner's own clock.

    ``machine`` is the same only for processes that can see each other by ``pid``; ``process_start`` tells two processes
    apart that had the same ``pid``.
    """

    job: str
    user: str
    host: str
    machine: str
    pid: int
    process_start: str
    since_us: int

    def describe(self) -> str:
        """Return a phrase with the owner, its machine and its start."""
        since = datetime.fromtimestamp(self.since_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        return f"job {self.job!r} of {self.user} on {self.host}, process {self.pid}, since {since}"


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The record of a run: ``beat`` grows as long as it lives, ``released`` is set at its clean end."""

    owner: Owner
    beat: int = 0
    released: bool = False


@dataclass(frozen=True, slots=True, order=True)
class Claim:
    """A claim to a run number; of two claims to one number the greater token counts."""

    run: int
    token: str

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.run:010d}-{self.token}.claim"


@dataclass(frozen=True, slots=True, order=True)
class Seal:
    """A run took over the checkpoints that were complete before it, up to epoch ``last_epoch``."""

    run: int
    last_epoch: int

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"{self.run:010d}-after-{self.last_epoch:010d}.seal"


@dataclass(frozen=True, slots=True)
class RunNames:
    """The runs, claims and seals by the names in the folder, each kind ascending."""

    held: Sequence[int]
    claims: Sequence[Claim]
    seals: Sequence[Seal]

    @property
    def greatest(self) -> int:
        """The greatest run that was ever claimed; 0: none."""
        return max([0, *self.held, *(claim.run for claim in self.claims), *(seal.run for seal in self.seals)])


def read_names(names: Iterable[str]) -> RunNames:
    """Sort the names of a folder; others, and those of runs that no job comes to, are passed over."""
    sorted_names = list(names)
    return RunNames(
        sorted(int(match[1]) for match in _matches(_HELD, sorted_names)),
        sorted(Claim(int(match[1]), match[2]) for match in _matches(_CLAIM, sorted_names)),
        sorted(Seal(int(match[1]), int(match[2])) for match in _matches(_SEAL, sorted_names)),
    )


def _matches(pattern: re.Pattern[str], names: Iterable[str]) -> list[re.Match[str]]:
    return [match for match in map(pattern.match, names) if match and int(match[1]) <= LAST_REAL_RUN]


def held_name(run: int) -> str:
    """Return the name of the record of a run."""
    return f"{run:010d}.json"


def encode_record(record: RunRecord) -> bytes:
    """Return the bytes of a record."""
    return msgspec.json.encode(record)


def decode_record(data: bytes) -> RunRecord | None:
    """Return the record in a file's bytes, None if they are damaged."""
    try:
        return msgspec.json.decode(data, type=RunRecord)
    except (msgspec.MsgspecError, ValueError):
        return None


def encode_seal(manifests: Sequence[str]) -> bytes:
    """Return the bytes of a seal: the names of the manifests that were taken over."""
    body = msgspec.json.encode(manifests)
    return _digest(body) + body


def decode_seal(data: bytes) -> frozenset[str] | None:
    """Return the names in a seal, None if it is damaged."""
    body = data[64:]
    if data[:64] != _digest(body):
        return None
    return frozenset(msgspec.json.decode(body, type=list[str]))


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=32).hexdigest().encode()
