"""The state machine of acquiring a lease, from views of the folder to steps (docs/decisions/0033-one-run-at-a-time.md).

Pure: `run_lease` reads the folder and carries out the steps. A claim is written before rivals are looked up, so of two
starts the later writer sees the other. An owner is alive if its process is, where that is visible from this machine;
otherwise it is dead once its record stayed the same for the lease's duration by this run's own clock: clocks of
different machines are never compared.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.state.leases.run_records import Claim, Owner, RunRecord, decode_record

PATIENCE = 4
"""After so many times of the lease a start that still waits is refused."""


class Life(Enum):
    """The liveness of a run."""

    LIVES = "its process or its record moves"
    UNKNOWN = "it is on another machine, and its record was not watched long enough"
    GONE = "it has ended, or its lease has lapsed"


@dataclass(frozen=True, slots=True)
class LeaseFolderView:
    """A view of the lease's folder: bytes of the greatest run's record and of all claims; None: just deleted."""

    run: int
    record: bytes | None
    claims: Mapping[Claim, bytes]
    greatest: int


@dataclass(frozen=True, slots=True)
class WriteClaim:
    """Write a claim for this run, then read the folder again."""

    run: int


@dataclass(frozen=True, slots=True)
class WithdrawClaim:
    """Delete the claim, then read the folder again."""


@dataclass(frozen=True, slots=True)
class TakeLease:
    """Write the record of the claimed run: it has the lease."""


@dataclass(frozen=True, slots=True)
class LookAgain:
    """Read the folder again a little later; ``owner`` is the run waited for, None if its record is unreadable."""

    owner: Owner | None
    left_ns: int


@dataclass(frozen=True, slots=True)
class RefuseStart:
    """Refuse to start: a live run has the lease."""

    run: int
    owner: Owner | None


Step = WriteClaim | WithdrawClaim | TakeLease | LookAgain | RefuseStart


class Acquisition:
    """The acquisition of a lease at one start: `next` takes a view of the folder and returns a step."""

    def __init__(
        self, machine: str, is_alive: Callable[[Owner], bool], lease_ns: int, *, take_over: bool = False
    ) -> None:
        """``is_alive`` decides for owners on the same ``machine``. ``take_over`` ignores the present owner."""
        self.claim: Claim | None = None
        self._machine = machine
        self._is_alive = is_alive
        self._lease_ns = lease_ns
        self._take_over = take_over
        self._first: dict[int | Claim, tuple[bytes, int]] = {}
        self._began_ns: int | None = None

    def next(self, view: LeaseFolderView, now_ns: int) -> Step:
        """Return the next step; ``now_ns`` is monotonic."""
        if self._began_ns is None:
            self._began_ns = now_ns
        holder = Life.GONE
        if view.record is not None and not self._take_over:
            holder = self._judge(view.run, view.record, now_ns)
        rivals = {claim: data for claim, data in view.claims.items() if claim != self.claim}
        lives = {claim: self._judge(claim, data, now_ns) for claim, data in rivals.items()}
        if self.claim is not None:
            if holder is not Life.GONE or view.run >= self.claim.run:
                return WithdrawClaim()
            return self._next_claimed(self.claim, view, lives, now_ns)
        if holder is Life.LIVES or (holder is Life.UNKNOWN and self._is_impatient(now_ns)):
            return RefuseStart(view.run, _owner(view.record))
        if holder is Life.UNKNOWN:
            assert view.record is not None
            return self._wait(view.run, view.record, now_ns)
        return self._next_unclaimed(view, lives, now_ns)

    def _next_claimed(self, mine: Claim, view: LeaseFolderView, lives: Mapping[Claim, Life], now_ns: int) -> Step:
        # One that sleeps may wake and hold what it claimed: its run must not be ours.
        if any(rival > mine or (rival.run == mine.run and life is Life.GONE) for rival, life in lives.items()):
            return WithdrawClaim()
        rival = _first_living(lives)
        if rival is None:
            return TakeLease()
        return WithdrawClaim() if self._is_impatient(now_ns) else self._wait(rival, view.claims[rival], now_ns)

    def _next_unclaimed(self, view: LeaseFolderView, lives: Mapping[Claim, Life], now_ns: int) -> Step:
        rival = _first_living(lives)
        if rival is None:
            return WriteClaim(view.greatest + 1)
        if self._is_impatient(now_ns):
            return RefuseStart(rival.run, _owner(view.claims[rival]))
        return self._wait(rival, view.claims[rival], now_ns)

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

    def _wait(self, what: int | Claim, data: bytes, now_ns: int) -> LookAgain:
        since_ns = self._first.get(what, (data, now_ns))[1]
        return LookAgain(_owner(data), max(0, self._lease_ns - (now_ns - since_ns)))

    def _is_impatient(self, now_ns: int) -> bool:
        assert self._began_ns is not None
        return now_ns - self._began_ns >= PATIENCE * self._lease_ns


def _first_living(lives: Mapping[Claim, Life]) -> Claim | None:
    return next((claim for claim, life in lives.items() if life is not Life.GONE), None)


def _owner(data: bytes | None) -> Owner | None:
    record: RunRecord | None = None if data is None else decode_record(data)
    return None if record is None else record.owner
