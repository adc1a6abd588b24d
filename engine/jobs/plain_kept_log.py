"""The log of what was kept by a job without checkpoints: a file that grows while it runs."""

from collections.abc import Sequence
from pathlib import Path

from penstock.shedding.kept_log import Stretch, encode_kept_log, encode_stretch

FILE = "kept.jsonl"
"""Its name, in the folder of the job's files."""


class PlainKeptLog:
    """Written once a second, and when the job ends; not there as long as nothing was armed."""

    def __init__(self, directory: Path, job: str, seed: int) -> None:
        """Remove what a run before has left."""
        self._path, self._job, self._seed = directory / FILE, job, seed
        self._begun = False
        self._path.unlink(missing_ok=True)

    def add(self, stretches: Sequence[Stretch]) -> None:
        """Append what was read."""
        if not stretches:
            return
        if not self._begun:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("ab") as file:
            if not self._begun:
                self._begun = True
                file.write(encode_kept_log(self._job, self._seed, ()))
            file.write(b"".join(map(encode_stretch, stretches)))
