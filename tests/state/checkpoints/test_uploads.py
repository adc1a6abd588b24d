"""Files of checkpoints that another process adds while this one publishes, retains and abandons."""

import threading

import pytest

from penstock.model import failpoints
from penstock.model.errors import CheckpointError, RetryableError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import Traffic
from penstock.state.checkpoints.uploads import CheckpointUploads, uploading_runs
from penstock.state.files.local_files import LocalFiles
from tests.state.checkpoints.checkpoint_support import manifest_of, restored
from tests.state.checkpoints.uploading import elsewhere

BASE = b"the same in every checkpoint" * 50


def began(folder, run):
    """Return the repository of a run that has begun."""
    repository = CheckpointRepository(LocalFiles(folder))
    repository.begin_run(run)
    return repository


def publish(repository, other, epoch, *contents):
    """Take a checkpoint whose files another process adds; return its files and its traffic."""
    repository.begin(epoch, elsewhere=True)
    entries = [other.add_file(epoch, f"{number}.sst", content) for number, content in enumerate(contents)]
    repository.add_traffic(epoch, other.hand_over(epoch))
    return entries, repository.publish(manifest_of(epoch, entries))


def test_files_of_another_process_are_published_here(tmp_path):
    head = began(tmp_path, 7)
    with elsewhere(head.files, 7) as other:
        entries, traffic = publish(head, other, 1, BASE, b"first")
        assert [entry.run for entry in entries] == [7, 7]
        assert traffic == Traffic(2, len(BASE) + 5)
        assert restored(head, head.latest()) == {"0.sst": BASE, "1.sst": b"first"}
        _, traffic = publish(head, other, 2, BASE, b"second")
        assert traffic == Traffic(1, 6, 1, len(BASE))


def test_nothing_but_files_is_written_or_listed_elsewhere(tmp_path, monkeypatch):
    head = began(tmp_path, 3)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    files = LocalFiles(tmp_path)
    monkeypatch.setattr(files, "list", lambda folder: pytest.fail(f"lists {folder}"))
    monkeypatch.setattr(files, "delete", lambda *paths: pytest.fail(f"deletes {paths}"))
    uploads = CheckpointUploads(files)
    uploads.join_run(3, {})
    entry = uploads.add_file(1, "x", b"1")
    after = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file())
    assert [str(path) for path in after if path not in before] == [f"files/{entry.stored}"]
    assert head.latest() is None


def test_what_did_not_change_since_the_checkpoint_is_not_uploaded_again(tmp_path):
    with elsewhere(LocalFiles(tmp_path), 7) as other:
        publish(began(tmp_path, 7), other, 1, BASE, b"first")
    head = began(tmp_path, 8)
    loaded = uploading_runs(head.latest().manifest)
    with elsewhere(head.files, 8, loaded) as other:
        entries, traffic = publish(head, other, 2, BASE, b"second")
        assert [entry.run for entry in entries] == [7, 8]
        assert traffic == Traffic(1, 6, 1, len(BASE))
    # Without word of what was loaded nothing of another run is trusted.
    with elsewhere(head.files, 8) as other:
        head.begin(3, elsewhere=True)
        assert other.add_file(3, "x", BASE).run == 8


def test_retention_and_an_abandoned_epoch_take_nothing_from_one_in_progress(tmp_path):
    head = began(tmp_path, 1)
    with elsewhere(head.files, 1) as other:
        publish(head, other, 1, b"a")
        publish(head, other, 2, b"b")
        head.begin(3, elsewhere=True)
        # It is in the first checkpoint only, which goes now.
        reused = other.add_file(3, "x", b"a")
        given_up = other.add_file(3, "y", b"y")
        assert head.retain(1).epochs == (1,)
        assert {reused.stored, given_up.stored} <= set(head.files.list("files"))
        head.abandon(3)
        head.begin(4, elsewhere=True)
        entries = [other.add_file(4, "x", b"a"), other.add_file(4, "z", b"z")]
        assert entries[0] == reused
        assert head.retain(1).files == 0
        head.publish(manifest_of(4, entries))
        other.hand_over(4)
        assert restored(head, head.latest()) == {"x": b"a", "z": b"z"}
        assert head.retain(1).files == 2
        assert head.files.list("files") == sorted(entry.stored for entry in entries)
        assert given_up.stored not in head.files.list("files")


def test_retention_that_is_under_way_stops_at_an_epoch_of_others(tmp_path):
    head = began(tmp_path, 1)
    for epoch in range(1, 4):
        head.publish(manifest_of(epoch, [head.add_file(epoch, "x", f"only {epoch}".encode())]))
    reached, go_on = threading.Event(), threading.Event()

    def wait(name):
        if name == "checkpoint.retain.manifest_deleted":
            reached.set()
            assert go_on.wait(30)

    failpoints.arm(wait)
    try:
        retention = threading.Thread(target=head.retain, args=(1,))
        retention.start()
        assert reached.wait(30)
        head.begin(4, elsewhere=True)
        uploads = CheckpointUploads(LocalFiles(tmp_path))
        uploads.join_run(1, {})
        entry = uploads.add_file(4, "x", b"only 1")
        go_on.set()
        retention.join()
    finally:
        failpoints.arm(None)
    newest = head.load(3).manifest.instances[0].files[0]
    head.publish(manifest_of(4, [entry]))
    # What retention has left is gone, but for what the checkpoint needs.
    assert head.files.list("files") == sorted([entry.stored, newest.stored])
    assert restored(head, head.latest()) == {"x": b"only 1"}
    assert head.retain(1).files == 1


def test_files_that_cannot_be_deleted_do_not_harm_a_checkpoint(tmp_path, monkeypatch):
    head = began(tmp_path, 1)
    for epoch in (1, 2):
        head.publish(manifest_of(epoch, [head.add_file(epoch, "x", f"only {epoch}".encode())]))
    head.begin(3, elsewhere=True)
    entry = head.add_file(3, "x", b"only 3")
    assert head.retain(1).epochs == (1,)

    def refuse(*paths):
        raise RetryableError("the storage is away")

    monkeypatch.setattr(head.files, "delete", refuse)
    assert head.publish(manifest_of(3, [entry])).uploaded_files == 1
    monkeypatch.undo()
    assert head.latest().manifest.epoch == 3
    assert head.retain(1).files == 2


def test_who_coordinates_keeps_what_it_hands_over_to_itself(tmp_path):
    head = began(tmp_path, 1)
    head.begin(1, elsewhere=True)
    entry = head.add_file(1, "x", b"1")
    head.add_traffic(1, head.hand_over(1))
    assert head.retain(1).files == 0
    assert head.publish(manifest_of(1, [entry])) == Traffic(1, 1)


def test_files_of_a_run_that_was_overtaken_never_count(tmp_path):
    old = began(tmp_path, 1)
    with elsewhere(old.files, 1) as zombie:
        publish(old, zombie, 1, BASE)
        head = began(tmp_path, 2)
        loaded = uploading_runs(head.latest().manifest)
        late = zombie.add_file(2, "late", b"new")
        old.publish(manifest_of(2, [late]))
        assert head.epochs() == [1]
        with elsewhere(head.files, 2, loaded) as other:
            entries, traffic = publish(head, other, 2, BASE, b"new")
            assert [entry.run for entry in entries] == [1, 2]
            assert traffic.uploaded_files == 1
            assert restored(head, head.latest()) == {"0.sst": BASE, "1.sst": b"new"}
            head.sweep()
            assert late.stored not in head.files.list("files")
            assert restored(head, head.latest()) == {"0.sst": BASE, "1.sst": b"new"}


def test_damaged_files_are_uploaded_again_elsewhere(tmp_path):
    head = began(tmp_path, 5)
    with elsewhere(head.files, 5) as other:
        publish(head, other, 1, b"whole")
        [entry], _ = publish(head, other, 2, b"harmed")
    (tmp_path / "files" / entry.stored).write_bytes(b"HARMED")
    assert head.latest().manifest.epoch == 1
    assert head.damaged == {entry.stored}
    with elsewhere(head.files, 5, {}, tuple(head.damaged)) as other:
        _, traffic = publish(head, other, 3, b"harmed")
        assert traffic == Traffic(1, 6)
    assert head.damaged == frozenset()
    assert head.latest().manifest.epoch == 3
    assert head.retain(1).epochs == (1, 2)


def test_a_file_that_nobody_has_added_is_not_published(tmp_path):
    head = began(tmp_path, 1)
    with elsewhere(LocalFiles(tmp_path / "other"), 1) as other:
        head.begin(1, elsewhere=True)
        with pytest.raises(CheckpointError, match="is not in the repository"):
            head.publish(manifest_of(1, [other.add_file(1, "x", b"1")]))
