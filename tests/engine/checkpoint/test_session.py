"""What instances say too late: of a checkpoint that was given up, or after they are gone."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.local_cuts import LocalCuts
from penstock.engine.checkpoint.notices import STOP_COMMIT_NS
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import CutWriter, ManifestMaker
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.engine.dataflow.attempt_start import AttemptStart
from penstock.engine.dataflow.checkpoint_port import BarrierGivenUp, Contribution, InstanceReport, Participants
from penstock.engine.dataflow.cut import InstanceCut, OperatorCut
from penstock.engine.executors.simulation.background import SimulatedBackground
from penstock.engine.executors.simulation.dice import Dice
from penstock.model.config import CheckpointOptions
from penstock.model.errors import BugError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from tests.engine.support import ManualClock

MS = 1_000_000


class Member:
    """An instance of one operator, as far as a session knows it: its name, and what was asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.barriers: list[int] = []
        self.say: Callable[[InstanceReport], None]

    def cut(self, buckets: Any = None, *, epoch: int | None = None, ended: bool = False) -> InstanceCut:
        """Say that the barrier passed, or that it ended; return the cut."""
        passed = self.barriers[-1] if epoch is None else epoch
        part = OperatorCut(self.name, 0, {}, {}, buckets=buckets, receipt=f"{self.name} at {passed}")
        made = InstanceCut(self.name, passed, (part,), ended)
        self.say(made)
        return made


@dataclass
class Pages:
    """Counts how often it was let go of."""

    released: int = 0

    def release(self) -> None:
        self.released += 1


class Turning:
    """A session over members, whose clock and storage are the test's; it is the port that reaches them."""

    def __init__(self, *members: Member) -> None:
        self.clock = ManualClock()
        repository = CheckpointRepository(SimulatedFiles(SimulatedDisk(Dice(1))))
        manifests = ManifestMaker("job", 8, "0", self.clock.wall_us)
        self.cuts = LocalCuts(CutWriter(repository, Path("unused")), self.flush)
        options = CheckpointOptions(interval_ms=10, timeout_ms=100, directory="disk")
        self.background = SimulatedBackground(self.clock, Dice(1))
        coordinator = CheckpointCoordinator(options)
        self.session = CheckpointSession(coordinator, repository, manifests, self.background, self.clock)
        self.members: dict[str, Member] = {}
        self.ended: list[str] = []
        self.flushed = 0
        self.start(1, *members)

    def start(self, attempt: int, *members: Member) -> None:
        for member in members:
            self.members[member.name] = member
            member.say = partial(self.hear, attempt)
        names = frozenset(member.name for member in members)
        sinks = {name: MemorySink() for name in names}
        self.session.started(self, Participants(names, names, sinks=sinks), AttemptStart(attempt))

    def inject(self, epoch: int, names: Collection[str], *, last: bool) -> None:
        for name in names:
            self.members[name].barriers.append(epoch)

    def end_sources(self, names: Collection[str]) -> None:
        self.ended += sorted(names)

    def hear(self, attempt: int, report: InstanceReport) -> None:
        self.session.report(attempt, self.cuts.take(report) if isinstance(report, InstanceCut) else report)

    def flush(self) -> None:
        self.flushed += 1

    def begin_upload(self, epoch: int) -> Callable[[], Sequence[Contribution]]:
        return self.cuts.begin_upload(epoch)

    def give_up(self, epoch: int) -> None:
        self.cuts.give_up(epoch)

    def later(self, step_ms: int) -> None:
        self.clock.advance_ns(step_ms * MS)
        self.session.turn()


def test_a_cut_of_a_checkpoint_that_was_given_up_is_let_go_of_and_its_receipt_kept() -> None:
    slow, quick = Member("slow"), Member("quick")
    turning = Turning(slow, quick)
    turning.later(10)
    early, late = Pages(), Pages()
    quick.cut(early)
    turning.later(100)
    assert early.released == 1
    assert slow.barriers[:1] == [1]
    slow.cut(late, epoch=1)
    assert late.released == 1, "nobody will ever write it"
    assert turning.session._receipts.pending() == {"slow": ((1, "slow at 1"),), "quick": ((1, "quick at 1"),)}


def test_the_other_region_keeps_what_it_prepared_and_the_dead_one_is_not_heard() -> None:
    struck, other = Member("struck"), Member("other")
    turning = Turning(struck, other)
    turning.later(10)
    pages = Pages()
    other.cut()
    turning.session.failed("it broke", ["struck"])
    assert turning.session.halted()
    assert turning.session.statistics().aborted == 1
    again = Member("struck")
    turning.start(2, again)
    struck.cut(pages)
    assert pages.released == 1
    assert turning.session._receipts.pending()["other"] == ((1, "other at 1"),)
    assert turning.session._receipts.pending()["struck"] == ()
    turning.later(10)
    assert (other.barriers, again.barriers, struck.barriers) == ([1, 2], [2], [1])
    other.cut()
    again.cut()
    assert turning.session.coordinator.state.name == "UPLOADING"


def test_letters_are_safe_before_an_upload_and_sources_end_by_name() -> None:
    one, other = Member("one"), Member("other")
    turning = Turning(one, other)
    turning.later(10)
    one.cut()
    turning.later(1)
    assert turning.flushed == 0
    other.cut()
    turns(turning)
    assert turning.flushed == 1
    turning.session.drain()
    assert turning.ended == ["one", "other"]


def test_a_barrier_that_an_instance_gives_up_ends_its_epoch_unless_the_instance_is_gone() -> None:
    one, other = Member("one"), Member("other")
    turning = Turning(one, other)
    turning.later(10)
    turning.session.report(0, BarrierGivenUp("one", 1))
    turning.session.report(1, BarrierGivenUp("nobody", 1))
    assert turning.session.statistics().aborted == 0
    turning.session.report(1, BarrierGivenUp("one", 1))
    assert "instance one got something else" in (turning.session.statistics().last_abort or "")


def test_what_an_ended_instance_holds_is_not_let_go_of() -> None:
    ended, other = Member("ended"), Member("other")
    turning = Turning(ended, other)
    turning.later(10)
    pages = Pages()
    ended.cut(pages, ended=True)
    turning.later(100)
    assert turning.session.statistics().aborted == 1
    assert pages.released == 0


def test_a_bug_in_an_upload_ends_the_attempt_and_other_failures_only_the_checkpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for error, text in ((OSError("the store is gone"), None), (BugError("the ledger is not JSON"), "the ledger")):
        member = Member("only")
        turning = Turning(member)
        turning.later(10)
        monkeypatch.setattr(turning.cuts._writer, "upload", Raises(error))
        member.cut()
        if text is None:
            turns(turning)
            assert "the store is gone" in (turning.session.statistics().last_abort or "")
        else:
            with pytest.raises(BugError, match=text):
                turns(turning)


def test_a_job_told_to_stop_does_not_wait_for_ever_for_sinks_that_hang() -> None:
    member = Member("only")
    turning = Turning(member)
    turning.later(10)
    member.cut()
    turns(turning)
    turns(turning)
    assert turning.session.coordinator.state.name == "COMMITTING"
    turning.later(60_000)
    assert turning.session.take_failure() is None, "nobody wants it to stop"
    turning.session.request(then_stop=True)
    turning.later(STOP_COMMIT_NS // MS - 1)
    assert turning.session.take_failure() is None
    turning.later(2)
    failure = turning.session.take_failure()
    assert failure is not None and failure.sink is None and turning.session.hangs
    assert "the next start commits it" in str(failure.error)
    turning.later(10_000)
    assert turning.session.take_failure() is None, "it is said once"


def turns(turning: Turning) -> None:
    """Let what happens in the background end."""
    turning.background.proceed()
    turning.later(1)


class Raises:
    """Called with anything, raises."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *given: object) -> None:
        raise self.error
