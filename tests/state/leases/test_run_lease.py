"""The lease: who gets it, who is refused, who is fenced; and runs whose every file operation is interleaved."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model.errors import FencedError, InUseError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.visible_checkpoints import manifest_name, visible
from penstock.state.files.simulated_files import SimulatedDisk, SimulatedFiles
from penstock.state.leases.run_lease import RunLease
from penstock.state.leases.run_records import Owner, Seal, decode_seal, encode_seal
from tests.state.checkpoints.checkpoint_support import checkpoint, content, is_whole, manifest_of
from tests.state.leases.interleaved_runs import Stepping

LEASE_S = 15.0


class World:
    """A disk, a clock, and who lives on machine ``here``."""

    def __init__(self):
        self.files = SimulatedFiles(SimulatedDisk(np.random.default_rng(0)))
        self.now_ns = 0
        self.living = set()
        self.said = []
        self._tokens = 0

    def lease(self, pid, machine="here", files=None):
        self.living.add(pid)
        owner = Owner(
            job="shops", user="ann", host=machine, machine=machine, pid=pid, process_start="1", since_us=1_700_000_000
        )
        return RunLease(
            files or self.files,
            "the checkpoint directory 'd'",
            owner,
            lambda other: other.pid in self.living,
            lambda: self.now_ns,
            self._token,
            LEASE_S,
        )

    def begin(self, pid, machine="here", *, take_over=False):
        lease = self.lease(pid, machine)
        lease.acquire(self.pause, self.said.append, take_over=take_over)
        return lease

    def pause(self, seconds):
        self.now_ns += round(seconds * 1e9)

    def _token(self):
        self._tokens += 1
        return f"{self._tokens * 7919 % 65_536:016x}"


def test_the_second_run_is_refused_with_who_holds_it_and_since_when():
    world = World()
    world.begin(1)
    with pytest.raises(InUseError) as refused:
        world.begin(2)
    for part in ("'d' is in use by", "job 'shops' of ann on here, process 1, since 1970-01-01", "--take-over"):
        assert part in str(refused.value)
    assert world.said == []


def test_a_run_that_was_killed_or_has_ended_holds_nobody_up():
    world = World()
    first = world.begin(1)
    world.living.discard(1)
    second = world.begin(2)
    second.release()
    third = world.begin(3)
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert world.now_ns == 0


def test_who_has_no_heartbeat_on_another_machine_is_waited_for_once_and_bounded():
    world = World()
    world.begin(1, "there")
    assert world.begin(2).number == 2
    assert LEASE_S <= world.now_ns / 1e9 < LEASE_S + 1
    (said,) = world.said
    assert "WAITING" in said and "process 1" in said and "15 s" in said


def test_a_heartbeat_that_is_seen_refuses_whatever_the_clocks_say():
    world = World()
    first = world.begin(1, "there")
    second = world.lease(2)

    def pause(seconds):
        world.pause(seconds)
        if world.now_ns > 5e9:
            first.beat()

    with pytest.raises(InUseError, match="15 s after its last heartbeat"):
        second.acquire(pause, world.said.append)
    assert world.now_ns / 1e9 < 6


def test_a_run_that_is_taken_over_is_told_by_whom_and_its_heartbeat_does_not_bring_it_back():
    world = World()
    first = world.begin(1)
    second = world.begin(2, take_over=True)
    for act in (first.check, first.beat):
        with pytest.raises(FencedError, match=r"another run has taken over .*\(run 2: job 'shops' .* process 2"):
            act()
    first.release()
    second.check()
    second.release()
    assert world.begin(3).number == 3


def test_a_damaged_record_is_watched_like_one_of_another_machine():
    world = World()
    world.begin(1)
    world.files.write("runs/0000000001.json", b"{")
    assert world.begin(2).number == 2
    assert world.now_ns / 1e9 >= LEASE_S


@pytest.mark.parametrize(
    "stray", ["9999999999.json", "9999999999-0123456789abcdef.claim", "5000000000-after-0000000001.seal"]
)
def test_a_file_with_a_number_that_no_run_comes_to_holds_nobody_up(stray):
    world = World()
    world.begin(1).release()
    world.files.write(f"runs/{stray}", b"what")
    second = world.begin(2)
    second.check()
    assert (second.number, world.said) == (2, [])
    assert stray in world.files.list("runs")


def test_what_was_published_after_the_seal_is_not_seen():
    names = [manifest_name(7, 0), manifest_name(8, 3), manifest_name(9, 3), manifest_name(9, 4), manifest_name(12, 2)]
    seal = Seal(4, 8)
    assert visible(names, None, None) == {7: names[0], 8: names[1], 9: names[3], 12: names[4]}
    assert visible(names, seal, {names[0], names[1]}) == {7: names[0], 8: names[1], 9: names[3]}
    assert visible(names, seal, None) == {7: names[0], 8: names[1], 9: names[3]}
    assert visible([names[2], names[4]], seal, None) == {}
    assert decode_seal(encode_seal(names)) == set(names)
    assert decode_seal(encode_seal(names)[:-1]) is None


def test_a_checkpoint_without_a_run_in_its_name_is_taken_over():
    world = World()
    before = CheckpointRepository(world.files)
    checkpoint(before, 1)
    repository = CheckpointRepository(world.files)
    repository.begin_run(world.begin(1).number)
    checkpoint(repository, 2)
    assert is_whole(repository, repository.load(1))
    assert CheckpointRepository(world.files).latest().manifest.epoch == 2
    assert world.files.list("checkpoints") == ["0000000001.json", "0000000002-0000000001.json"]


def test_no_run_deletes_a_file_that_a_later_one_needs():
    """The first run sleeps between the choice of files to delete and their deletion."""
    world = World()
    first = CheckpointRepository(world.files)
    first.begin_run(world.begin(1).number)
    for epoch in (1, 2, 3):
        checkpoint(first, epoch)
    doomed = []
    first._held.free = lambda stored, delete: doomed.extend(stored) or 0
    first.retain(1)
    second = CheckpointRepository(world.files)
    second.begin_run(world.begin(2, take_over=True).number)
    assert second.latest().manifest.epoch == 3
    checkpoint(second, 4)
    for number, epoch in ((5, 1), (6, 2)):
        # What epochs 1 and 2 held is needed again.
        second.begin(number)
        entries = [second.add_file(number, name, data) for name, data in content(epoch).items()]
        second.publish(manifest_of(number, entries))
    assert doomed
    world.files.delete(*(f"files/{name}" for name in doomed))
    assert CheckpointRepository(world.files).latest().skipped == ()


class Published:
    """What two or three runs did: the epochs that each may count as committed, by run, and where each began."""

    def __init__(self):
        self.committed = {}
        self.began_at = {}


def live(world, published, pid, machine, take_over, most):
    """Begin, go on from the latest checkpoint, and take some more, as a job does."""

    def run(stepping, files):
        lease = world.lease(pid, machine, files)
        lease.acquire(world.pause, world.said.append, take_over=take_over)
        repository = CheckpointRepository(files)
        repository.begin_run(lease.number)
        lease.check()
        loaded = repository.latest()
        epoch = 0 if loaded is None else loaded.manifest.epoch
        assert lease.number not in published.began_at
        published.began_at[lease.number] = epoch
        published.committed[lease.number] = []
        for _ in range(most):
            epoch = max([epoch, *repository.epochs()]) + 1
            entries = [
                repository.add_file(epoch, name, data)
                for name, data in {"s": b"%d" % epoch, "run": b"run %d" % lease.number}.items()
            ]
            lease.check()
            repository.publish(manifest_of(epoch, entries))
            lease.check()
            published.committed[lease.number].append(epoch)
            repository.retain(2)
        lease.release()

    return run


@settings(max_examples=150, deadline=None)
@given(
    order=st.lists(st.integers(0, 2), min_size=20, max_size=400),
    take_over=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    killed=st.sampled_from([None, 0, 1, 2]),
    kill_at=st.integers(0, 60),
    apart=st.booleans(),
)
def test_of_interleaved_runs_none_publishes_after_another_has_taken_over_and_no_checkpoint_is_lost(
    order, take_over, killed, kill_at, apart
):
    """Runs ``apart`` cannot see each other's processes, and none has a heartbeat: leases of the living lapse."""
    world = World()
    published = Published()
    runs = [
        Stepping(world.files, live(world, published, pid, f"m{pid * apart}", take_over[pid], most=3))
        for pid in range(len(take_over))
    ]
    for count, index in enumerate([*order, *[0, 1, 2] * 400]):
        if index == killed and count >= kill_at:
            world.living.discard(index)
            runs[index].kill()
        runs[index].step()
    for run in runs:
        assert run.ended, "a run waits for ever"
        assert run.error is None or isinstance(run.error, FencedError | InUseError), run.error
    if not any(take_over) and not apart:
        assert not any(isinstance(run.error, FencedError) for run in runs)
    # Of what a run may call committed, a later run knows it all: it went on from there.
    numbers = sorted(published.committed)
    for earlier in numbers:
        for later in (number for number in numbers if number > earlier):
            done = published.committed[earlier]
            assert max(done, default=0) <= published.began_at[later]
    # Readers see one history, of ascending epochs and runs, with the newest committed checkpoint in it.
    repository = CheckpointRepository(world.files)
    loaded = repository.latest()
    committed = [epoch for done in published.committed.values() for epoch in done]
    if committed:
        assert loaded is not None and loaded.skipped == () and loaded.manifest.epoch >= max(committed)
    if loaded is not None:
        made_by = [file.run for file in loaded.manifest.files().values() if file.name == "run"]
        greatest = max(numbers)
        assert made_by[0] == greatest or not published.committed[greatest]
