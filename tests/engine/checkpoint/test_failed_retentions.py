"""Old checkpoints that cannot be deleted: the job goes on, and says so."""

from pathlib import Path

import pytest

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.events import RetainCheckpoints
from penstock.engine.checkpoint.metrics import read_checkpoints
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import ManifestMaker
from penstock.engine.core.background import BackgroundThread
from penstock.engine.core.clock import ManualClock
from penstock.model.config import CheckpointOptions
from penstock.model.errors import RetryableError
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import RetentionResult, SkippedCheckpoint
from penstock.state.files.local_files import LocalFiles


def test_failed_retentions_are_counted_and_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = CheckpointRepository(LocalFiles(tmp_path))
    background = BackgroundThread("retention", lambda: None)
    told: list[str] = []
    session = CheckpointSession(
        CheckpointCoordinator(CheckpointOptions(directory=str(tmp_path))),
        repository,
        ManifestMaker("job", 16, "1", lambda: 0),
        background,
        ManualClock(),
        told.append,
    )
    answers: list[RetentionResult | Exception] = [
        RetentionResult((1,), 2),
        RetryableError("the disk is away"),
        RetryableError("the disk is away"),
        RetentionResult(unreadable=(SkippedCheckpoint(3, "it is torn."),)),
        RetentionResult((2,), 1),
    ]

    def retain(count: int) -> RetentionResult:
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
