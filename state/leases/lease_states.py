"""How a run comes to the lease: from what the folder shows to the next step (docs/decisions/0033-one-run-at-a-time.md).

Pure: `run_lease` looks and does. A claim is written before it is looked who else claims, so of two starts the one that
wrote later sees the other. Whether somebody lives is told by his process if it can be seen from here; otherwise by his
record, which must have stayed the same for the lease's time by this run's own clock: clocks are never compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.state.leases.run_records import Claim, Owner, RunRecord, decode_record

PATIENCE = 4
"""After so many times of the lease a start that still waits is refused."""


class Life(Enum):
    """Whether a run lives."""

    LIVES = "its process or its record moves"
    UNKNOWN = "it is on another machine, and its record was not watched long enough"
    GONE = "it has ended, or its lease has lapsed"


@dataclass(frozen=True, slots=True)
class Seen:
    """What is in the folder: the bytes of the greatest run's record, and of all claims; None: gone meanwhile."""

    run: int
    record: bytes | None
    claims: Mapping[Claim, bytes]
    greatest: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Write a claim for this run, then look again."""

    run: int


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Delete the claim, then look again."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Write the record of the claimed run: it has the lease."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Look again a little later; ``owner`` is who is waited for, None if he cannot be read."""

    owner: Owner | None
    left_ns: int


@dataclass(frozen=True, slots=True)
class Refuse:
    """Somebody who lives has the lease."""

    run: int
    owner: Owner | None


Step = Ask | Withdraw | Hold | Wait | Refuse


class Acquisition:
    """One start. `next` is told what is seen, and returns what to do."""

    def __init__(
        self, machine: str, is_alive: Callable[[Owner], bool], lease_ns: int, *, take_over: bool = False
    ) -> None:
        """``is_alive`` is asked for owners on the same ``machine``. ``take_over`` does not ask who has the lease."""
        self.claim: Claim | None = None
        self._machine = machine
        self._is_alive = is_alive
        self._lease_ns = lease_ns
        self._take_over = take_over
        self._first: dict[int | Claim, tuple[bytes, int]] = {}
        self._began_ns: int | None = None

    def next(self, seen: Seen, now_ns: int) -> Step:
        """Return the next step; ``now_ns`` is monotonic."""
        if self._began_ns is None:
            self._began_ns = now_ns
        holder = Life.GONE
        if seen.record is not None and not self._take_over:
            holder = self._judge(seen.run, seen.record, now_ns)
        rivals = {claim: data for claim, data in seen.claims.items() if claim != self.claim}
        lives = {claim: self._judge(claim, data, now_ns) for claim, data in rivals.items()}
        if self.claim is not None:
            if holder is not Life.GONE or seen.run >= self.claim.run:
                return Withdraw()
            return self._next_claimed(self.claim, seen, lives, now_ns)
        if holder is Life.LIVES or (holder is Life.UNKNOWN and self._is_impatient(now_ns)):
            return Refuse(seen.run, _owner(seen.record))
        if holder is Life.UNKNOWN:
            assert seen.record is not None
            return self._wait(seen.run, seen.record, now_ns)
        return self._next_unclaimed(seen, lives, now_ns)

    def _next_claimed(self, mine: Claim, seen: Seen, lives: Mapping[Claim, Life], now_ns: int) -> Step:
        for rival, life in lives.items():
            if rival > mine or (rival.run == mine.run and life is Life.GONE):
                # One that sleeps may wake and hold what it claimed: its run must not be ours.
                return Withdraw()
        for rival, life in lives.items():
            if life is not Life.GONE:
                if self._is_impatient(now_ns):
                    return Withdraw()
                return self._wait(rival, seen.claims[rival], now_ns)
        return Hold()

    def _next_unclaimed(self, seen: Seen, lives: Mapping[Claim, Life], now_ns: int) -> Step:
        for rival, life in lives.items():
            if life is not Life.GONE:
                if self._is_impatient(now_ns):
                    return Refuse(rival.run, _owner(seen.claims[rival]))
                return self._wait(rival, seen.claims[rival], now_ns)
        return Ask(seen.greatest + 1)

    def _judge(self, what: int | Claim, data: bytes, now_ns: int) -> Life:
        record = decode_record(data)
        if record is not None and record.released:
            return Life.GONE
        if record is not None and record.owner.machine == self._machine:
            return Life.LIVES if self._is_alive(record.owner) else Life.GONE
        first, since_ns = self._first.setdefault(what, (data, now_ns))
        if first != data:
            return Life.LIVES
        return Life.GONE if now_ns - since_ns >= self._lease_ns else Life.UNKNOWN

    def _wait(self, what: int | Claim, data: bytes, now_ns: int) -> Wait:
        since_ns = self._first.get(what, (data, now_ns))[1]
        return Wait(_owner(data), max(0, self._lease_ns - (now_ns - since_ns)))

    def _is_impatient(self, now_ns: int) -> bool:
        assert self._began_ns is not None
        return now_ns - self._began_ns >= PATIENCE * self._lease_ns


def _owner(data: bytes | None) -> Owner | None:
    record: RunRecord | None = None if data is None else decode_record(data)
    return None if record is None else record.owner
