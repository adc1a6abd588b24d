"""Old checkpoints that cannot be deleted: the job goes on, and says so."""

from pathlib import Path

import pytest

from penstock.engine.background import BackgroundThread
from penstock.engine.checkpoint_events import RetainCheckpoints
from penstock.engine.checkpoint_metrics import read_checkpoints
from penstock.engine.checkpoint_session import CheckpointSession
from penstock.engine.checkpointing import CheckpointCoordinator
from penstock.engine.clock import ManualClock
from penstock.engine.snapshots import Snapshots
from penstock.model.config import CheckpointOptions
from penstock.model.errors import RetryableError
from penstock.state.checkpoint import CheckpointRepository
from penstock.state.checkpoint_values import Retained, Skipped
from penstock.state.local_files import LocalFiles


def test_failed_retentions_are_counted_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = CheckpointRepository(LocalFiles(tmp_path))
    background = BackgroundThread("retention", lambda: None)
    told: list[str] = []
    session = CheckpointSession(
        CheckpointCoordinator(CheckpointOptions(directory=str(tmp_path))),
        repository,
        Snapshots(repository, "job", 16, "1", lambda: 0, tmp_path / "uploads"),
        background,
        ManualClock(),
        told.append,
    )
    answers: list[Retained | Exception] = [
        Retained((1,), 2),
        RetryableError("the disk is away"),
        RetryableError("the disk is away"),
        Retained(unreadable=(Skipped(3, "it is torn."),)),
        Retained((2,), 1),
    ]

    def retain(count: int) -> Retained:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(repository, "retain", retain)
    for _ in range(5):
        session._do(RetainCheckpoints(1, 2))
    background.close()
    background.collect()
    metrics = read_checkpoints(session, 0, ())
    assert metrics.failed_retentions == 3
    assert metrics.last_failed_retention == "no file is deleted while a manifest cannot be read. Epoch 3: it is torn."
    stay = "OLD CHECKPOINTS STAY: they could not be deleted, which is tried again."
    assert told == [
        f"{stay} the disk is away",
        f"{stay} no file is deleted while a manifest cannot be read. Epoch 3: it is torn.",
        "OLD CHECKPOINTS GO AGAIN: those that stayed are deleted",
    ]
