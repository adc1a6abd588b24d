"""Results of the checkpoint repository: plain frozen values, for the coordinator to decide on and to log."""

from dataclasses import dataclass

from penstock.state.checkpoints.manifest import CheckpointManifest


@dataclass(frozen=True, slots=True)
class SkippedCheckpoint:
    """A checkpoint that cannot be restored, and why."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class PublishedCheckpoint:
    """The epoch of a manifest, 0 for none, and the run that has published it, 0 if that had no lease."""

    epoch: int
    run: int


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A checkpoint, or a savepoint with its name, of which every byte was checked.

    ``skipped`` are newer checkpoints that cannot be restored, the newest first.
    """

    manifest: CheckpointManifest
    skipped: tuple[SkippedCheckpoint, ...] = ()
    savepoint: str | None = None

    def warning(self) -> str | None:
        """Return a sentence on skipped checkpoints, for the log and the terminal; None if there are none."""
        if not self.skipped:
            return None
        return (
            f"CHECKPOINTS SKIPPED: the job goes back to epoch {self.manifest.epoch}. {describe_skipped(self.skipped)}"
        )


@dataclass(frozen=True, slots=True)
class Traffic:
    """Files that a checkpoint uploaded, and files that it reused, of those that are known here."""

    uploaded_files: int = 0
    uploaded_bytes: int = 0
    reused_files: int = 0
    reused_bytes: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.uploaded_files + other.uploaded_files,
            self.uploaded_bytes + other.uploaded_bytes,
            self.reused_files + other.reused_files,
            self.reused_bytes + other.reused_bytes,
        )


@dataclass(frozen=True, slots=True)
class RetentionResult:
    """The result of retention: deleted checkpoints by epoch, and the number of deleted files.

    The files of an ``unreadable`` manifest are unknown, so while one stays no file is deleted.
    """

    epochs: tuple[int, ...] = ()
    files: int = 0
    unreadable: tuple[SkippedCheckpoint, ...] = ()


def describe_skipped(skipped: "tuple[SkippedCheckpoint, ...] | list[SkippedCheckpoint]") -> str:
    """Return one sentence per skipped checkpoint."""
    return " ".join(f"Epoch {checkpoint.epoch}: {checkpoint.reason}" for checkpoint in skipped)
