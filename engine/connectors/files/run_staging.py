"""The staging folder of one run, by which runs are kept apart (docs/decisions/0034-staging-is-the-fence.md).

Every change to an output directory is a rename out of this folder or into it. The next run takes the folder away by one
rename, so from then on whatever an earlier run still attempts finds no such file or folder: also in a process that
slept between a check and a rename. A run that adopts the writers of an earlier one leaves the folder to them: what that
one still attempts is the commit of the last checkpoint, which the two do alike.
"""

from pathlib import Path

from penstock.engine.connectors.files.finished_files import sync_folder
from penstock.model.errors import FatalError
from penstock.model.failpoints import failpoint
from penstock.model.sink_context import OutputRun, RunMark

_FOLDERS = "run-*"


class RunStaging:
    """``root`` is the staging folder of an output directory; ``run`` has its lease. None: there is but one run."""

    def __init__(self, root: Path, run: OutputRun | None) -> None:
        """Nothing is touched yet."""
        self._root = root
        self._run = run
        self._removed = 0
        self._begun = False
        self._writers: OutputRun | None = None

    @property
    def folder(self) -> Path:
        """The folder of staged files."""
        run = self._writers or self._run
        return self._root if run is None else self._root / f"run-{run.number:010d}-{run.token}"

    @property
    def mark(self) -> RunMark | None:
        """The run whose folder is written; None: there is but one."""
        run = self._writers or self._run
        return None if run is None else RunMark(run.number, run.token)

    def adopt(self, writers: RunMark | None) -> None:
        """Write in the folder of an earlier run, whose writers live, until `begin`.

        Raises:
            FencedError: another run has taken over.
            FatalError: that folder is gone.
        """
        self.check()
        self._writers = writers
        if not self.folder.is_dir():
            raise FatalError(f"the folder {str(self.folder)!r} of the writers that live is gone")

    def has_adopted(self, run: OutputRun) -> bool:
        """Return whether this run writes in the folder of an earlier one."""
        mine = self._run
        return self._writers is not None and mine is not None and (mine.number, mine.token) == (run.number, run.token)

    def begin(self) -> None:
        """Take over what earlier runs have staged; after that none of them can change the output directory any more.

        ``root`` exists. Does nothing if this run has begun.

        Raises:
            FencedError: another run has taken over.
            OSError: the folder cannot be written.
        """
        self._writers = None
        if self._run is None or self._begun:
            return
        # Listed before the check: what a later run makes is not among them.
        earlier = [path for path in sorted(self._root.iterdir()) if path != self.folder]
        self.folder.mkdir(exist_ok=True)
        sync_folder(self._root)
        self._run.check()
        failpoint("sink.staging.before_fence")
        for path in earlier:
            path.replace(self.folder / path.name)
        failpoint("sink.staging.fenced")
        for path in sorted(self.folder.rglob("*")):
            if path.is_file() and path.parent != self.folder:
                path.replace(self.folder / path.name)
        for path in sorted((path for path in self.folder.rglob(_FOLDERS) if path.is_dir()), reverse=True):
            path.rmdir()
        sync_folder(self.folder)
        sync_folder(self._root)
        self._begun = True

    def check(self) -> None:
        """Make sure that no other run has taken over.

        Raises:
            FencedError: one has.
        """
        if self._run is not None:
            self._run.check()

    def remove(self, path: Path) -> None:
        """Remove a file of the output directory.

        Raises:
            FileNotFoundError: there is no such file, or another run has taken over.
        """
        if self._run is None:
            path.unlink()
            return
        renamed = self.folder / f".{self._removed}-{path.name}"
        self._removed += 1
        path.replace(renamed)
        renamed.unlink()
