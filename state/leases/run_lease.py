"""The lease of a folder: one run at a time may publish there (docs/decisions/0033-one-run-at-a-time.md).

Object stores have no atomic create, so writing cannot be prevented: a lease decides which run counts, and every
published name contains its run. A publisher checks the lease before and afterwards: if it still has it afterwards, it
published before the next run read the folder.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from penstock.model.errors import BugError, FencedError, InUseError
from penstock.model.failpoints import failpoint
from penstock.model.sink_context import RunMark
from penstock.state.files.durable_files import DurableFiles, join_path
from penstock.state.leases.lease_states import (
    Acquisition,
    LeaseFolderView,
    LookAgain,
    RefuseStart,
    TakeLease,
    WithdrawClaim,
    WriteClaim,
)
from penstock.state.leases.run_records import (
    RUNS,
    Claim,
    Owner,
    RunNames,
    RunRecord,
    decode_record,
    encode_record,
    held_name,
    read_names,
)

LEASE_S = 15.0
"""After so long without a heartbeat a lease lapses, for those who cannot see the process of its owner."""

HEARTBEAT_S = 3.0
"""The interval at which a lease is renewed."""

LOOK_AGAIN_S = 0.25
"""The wait of a start before it reads the folder again."""

RECORD_BYTES = 1 << 16
"""The longest record that is read."""


class RunLease:
    """The lease of one folder for one run. `check` and `beat` may be called from any thread, once it is held."""

    def __init__(
        self,
        files: DurableFiles,
        where: str,
        owner: Owner,
        is_alive: Callable[[Owner], bool],
        monotonic_ns: Callable[[], int],
        draw: Callable[[], str],
        lease_s: float = LEASE_S,
    ) -> None:
        """Nothing is touched yet. ``where`` names the folder in messages; ``draw`` makes tokens of 16 hex digits.

        ``is_alive`` tells whether the process of an owner on the same machine lives.
        """
        self.number = 0
        """The run, from 1; 0: the lease was never held."""
        self.token = ""
        self.where = where
        self._files, self._owner, self._is_alive = files, owner, is_alive
        self._monotonic_ns, self._draw, self._lease_s = monotonic_ns, draw, lease_s
        self._record = RunRecord(owner=owner)
        self._writing = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process has no lease: it writes as the run that has it, and checks nothing.
        return RunMark, (self.number, self.token)

    def acquire(self, pause: Callable[[float], None], say: Callable[[str], None], *, take_over: bool = False) -> None:
        """Acquire the lease and fence its previous owner. ``pause`` waits that many seconds, and may raise.

        Raises:
            InUseError: another run lives, and was not to be taken over.
            RetryableError: the storage failed.
        """
        asking = Acquisition(self._owner.machine, self._is_alive, round(self._lease_s * 1e9), take_over=take_over)
        is_announced = False
        try:
            while True:
                match step := asking.next(self._look(), self._monotonic_ns()):
                    case WriteClaim():
                        asking.claim = Claim(step.run, self._draw())
                        self._files.write(join_path(RUNS, asking.claim.name), encode_record(self._record))
                    case WithdrawClaim():
                        self._withdraw(asking)
                    case LookAgain():
                        if not is_announced:
                            is_announced = True
                            say(self._waiting(step))
                        pause(LOOK_AGAIN_S)
                    case RefuseStart():
                        raise InUseError(self._refusal(step))
                    case TakeLease():
                        assert asking.claim is not None
                        self._hold(asking.claim)
                        return
        finally:
            # Also when it is held: the record counts from then on.
            self._withdraw(asking)

    def check(self) -> None:
        """Check that no other run has the lease, by one listing of a small folder.

        Raises:
            FencedError: another one has.
            RetryableError: the storage failed.
        """
        if not self.number:
            raise BugError(f"the lease of {self.where} is checked before it is held")
        names = self._names()
        if not names.held or names.held[-1] != self.number:
            raise FencedError(self._fenced(names))

    def beat(self) -> None:
        """Renew the lease.

        Raises:
            FencedError: another run has it.
            RetryableError: the storage failed; the next beat may succeed.
        """
        self.check()
        with self._writing:
            if not self._record.released:
                self._write(RunRecord(owner=self._owner, beat=self._record.beat + 1))

    def release(self, *, forget: bool = False) -> None:
        """Release the lease; its number stays in use unless ``forget``. Does nothing if it is not held.

        Raises:
            RetryableError: the storage failed; the lease lapses by itself.
        """
        if not self.number:
            return
        with self._writing, suppress(FencedError):
            self.check()
            self._write(RunRecord(owner=self._owner, beat=self._record.beat, released=True))
            if forget:
                self._files.delete_folder(RUNS)

    def _hold(self, claim: Claim) -> None:
        failpoint("lease.before_hold")
        self.number, self.token = claim.run, claim.token
        with self._writing:
            self._write(self._record)
        failpoint("lease.held")
        self.check()
        names = self._names()
        old = [held_name(run) for run in names.held if run < self.number]
        old += [other.name for other in names.claims if other.run < self.number]
        self._files.delete(*(join_path(RUNS, name) for name in old))
        self._files.clear_unfinished(RUNS)

    def _withdraw(self, asking: Acquisition) -> None:
        claim, asking.claim = asking.claim, None
        if claim is not None:
            self._files.delete(join_path(RUNS, claim.name))

    def _look(self) -> LeaseFolderView:
        while True:
            names = self._names()
            run = names.held[-1] if names.held else 0
            claims = {claim: self._read(claim.name) for claim in names.claims}
            read = {claim: data for claim, data in claims.items() if data is not None}
            record = self._read(held_name(run)) if run else None
            # What vanished after it was listed stands for something that the listing did not show yet.
            if len(read) == len(claims) and (record is not None or not run):
                return LeaseFolderView(run, record, read, names.greatest)

    def _names(self) -> RunNames:
        return read_names(self._files.list(RUNS))

    def _read(self, name: str) -> bytes | None:
        try:
            return self._files.read(join_path(RUNS, name), RECORD_BYTES)
        except FileNotFoundError:
            return None

    def _write(self, record: RunRecord) -> None:
        self._record = record
        self._files.write(join_path(RUNS, held_name(self.number)), encode_record(record))

    def _waiting(self, step: LookAgain) -> str:
        who = "a run whose record cannot be read" if step.owner is None else step.owner.describe()
        return (
            f"WAITING: {self.where} is held by {who}; its process cannot be seen from here, so its lease is watched "
            f"for {step.left_ns / 1e9:.0f} s: if no heartbeat comes, this run begins."
        )

    def _refusal(self, step: RefuseStart) -> str:
        who = "a run whose record cannot be read" if step.owner is None else step.owner.describe()
        is_on_this_machine = step.owner is not None and step.owner.machine == self._owner.machine
        lapse = "when its process ends" if is_on_this_machine else f"{self._lease_s:.0f} s after its last heartbeat"
        return (
            f"{self.where} is in use by {who} (run {step.run}): wait for its end, stop it, or take over with "
            f"--take-over (take_over=True), which ends it; its lease lapses {lapse}"
        )

    def _fenced(self, names: RunNames) -> str:
        data = self._read(held_name(names.held[-1])) if names.held else None
        record = None if data is None else decode_record(data)
        if names.held and names.held[-1] > self.number:
            who = f"run {names.held[-1]}" + ("" if record is None else f": {record.owner.describe()}")
            return (
                f"another run has taken over {self.where} ({who}): this one, run {self.number}, ends; what it has "
                "committed stands, and nothing else of it is visible"
            )
        return (
            f"another run has taken over {self.where} and ended, or the record of this one, run {self.number}, was "
            "deleted there: this one ends; what it has committed stands"
        )
