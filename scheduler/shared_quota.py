"""Leases of several jobs on one quota of cores and memory, by priority. Pure: who keeps the book has the clock.

A job renews its lease again and again; one that was not renewed for its term is void, and others may take what it had.
What a job wants and does not get is kept for it from those of lower priority; nobody is made to give anything up.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

Book = Mapping[str, "Lease"]
"""Leases by the name of their job."""


@dataclass(frozen=True, slots=True)
class Lease:
    """What a job has, and what it wants to have if that is more; ``term_s`` after its last renewal it is void.

    ``priority``: larger goes first, among equals who has wanted longer. ``wants_since_s`` is infinite where it has all.
    ``follows``: who renews it does not know yet what a head before it had, and gives nothing of that back.
    """

    job: str
    cores: float
    memory_bytes: float
    priority: int = 0
    term_s: float = 10.0
    wants_cores: float = 0.0
    wants_memory_bytes: float = 0.0
    renewed_s: float = 0.0
    wants_since_s: float = inf
    follows: bool = False

    @property
    def is_short(self) -> bool:
        """Whether it wants more than it has."""
        return self.wants_cores > self.cores or self.wants_memory_bytes > self.memory_bytes


@dataclass(frozen=True, slots=True)
class Ask:
    """What a job asks for, in all, within the quota of all jobs as it knows it; infinite: it knows none."""

    job: str
    cores: float
    memory_bytes: float
    most_cores: float = inf
    most_memory_bytes: float = inf


@dataclass(frozen=True, slots=True)
class OtherHolding:
    """What another job on the same quota has, or waits for with precedence, by the name of that job."""

    name: str
    cores: float
    memory_bytes: float


def renewed(book: Book, lease: Lease, now_s: float) -> Book:
    """Return the book with a job's lease renewed, without those whose term is over."""
    alive = _alive(book, now_s)
    before = alive.get(lease.job)
    since_s = inf
    if lease.is_short:
        since_s = now_s if before is None or before.wants_since_s == inf else before.wants_since_s
    if lease.follows and before is not None:
        cores, memory = max(lease.cores, before.cores), max(lease.memory_bytes, before.memory_bytes)
        lease = replace(lease, cores=cores, memory_bytes=memory)
    return {**alive, lease.job: replace(lease, renewed_s=now_s, wants_since_s=since_s, follows=False)}


def others_of(book: Book, job: str) -> tuple[OtherHolding, ...]:
    """Return what others have, by their names; of those with precedence what they want to have."""
    own = book.get(job)
    found = []
    for name, lease in sorted(book.items()):
        if name == job:
            continue
        first = lease.is_short and (own is None or _rank(lease) < _rank(own))
        cores = max(lease.cores, lease.wants_cores) if first else lease.cores
        memory = max(lease.memory_bytes, lease.wants_memory_bytes) if first else lease.memory_bytes
        found.append(OtherHolding(name, cores, memory))
    return tuple(found)


def taken(book: Book, ask: Ask, now_s: float) -> Book:
    """Return the book with as much of what a job asks for as there is, and never less than it has.

    Raises:
        KeyError: it has no lease.
    """
    alive = _alive(book, now_s)
    own = alive[ask.job]
    others = others_of(alive, ask.job)
    cores = _granted(ask.cores, own.cores, ask.most_cores - sum(item.cores for item in others))
    room = ask.most_memory_bytes - sum(item.memory_bytes for item in others)
    memory = _granted(ask.memory_bytes, own.memory_bytes, room)
    return {**alive, ask.job: replace(own, cores=cores, memory_bytes=memory, renewed_s=now_s)}


def without(book: Book, job: str) -> Book:
    """Return the book without a job's lease."""
    return {name: lease for name, lease in book.items() if name != job}


def _alive(book: Book, now_s: float) -> Book:
    return {name: lease for name, lease in book.items() if now_s - lease.renewed_s <= lease.term_s}


def _rank(lease: Lease) -> tuple[int, float, str]:
    return -lease.priority, lease.wants_since_s, lease.job


def _granted(asked: float, has: float, room: float) -> float:
    """Return what of an amount is granted: less than before is always there."""
    return asked if asked <= has else max(has, min(asked, room))
