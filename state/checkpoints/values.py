"""What the checkpoint repository answers: plain frozen values, for the coordinator to decide on and to log."""

from dataclasses import dataclass

from penstock.state.checkpoints.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Skipped:
    """A checkpoint that cannot be restored, and why."""

    epoch: int
    reason: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint every byte of which was checked, or a savepoint, by its name.

    ``skipped`` are newer checkpoints that cannot be restored, the newest first.
    """

    manifest: Manifest
    skipped: tuple[Skipped, ...] = ()
    savepoint: str | None = None

    def warning(self) -> str | None:
        """Say what was skipped, for the log and the terminal; None if nothing was."""
        if not self.skipped:
            return None
        return f"CHECKPOINTS SKIPPED: the job goes back to epoch {self.manifest.epoch}. {told(self.skipped)}"


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a checkpoint brought to the repository and what it found there, of the files added in this process."""

    uploaded_files: int = 0
    uploaded_bytes: int = 0
    reused_files: int = 0
    reused_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Retained:
    """What retention deleted: checkpoints by epoch, and how many files.

    Nobody knows the files of an ``unreadable`` manifest, so while one stays no file goes.
    """

    epochs: tuple[int, ...] = ()
    files: int = 0
    unreadable: tuple[Skipped, ...] = ()


def told(skipped: "tuple[Skipped, ...] | list[Skipped]") -> str:
    """Return a sentence for each."""
    return " ".join(f"Epoch {found.epoch}: {found.reason}" for found in skipped)
