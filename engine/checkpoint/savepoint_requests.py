"""Savepoints that were asked for, from any thread, and what became of them; `checkpoint.session` takes them."""

from concurrent.futures import Future
from threading import Lock

from penstock.engine.checkpoint.step_retries import retry_until_known
from penstock.model.errors import OptionError, PenstockError
from penstock.state.checkpoints.manifest import CheckpointManifest
from penstock.state.checkpoints.repository import CheckpointRepository


class SavepointRequests:
    """Names on their way. Every method may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = Lock()
        self._new: list[str] = []
        self._waiting: dict[str, Future[int]] = {}
        self._saved: dict[str, int] = {}
        self._closed: PenstockError | None = None
        self.unheard: BaseException | None = None
        """Why a savepoint failed that nobody waits for."""

    def ask(self, name: str) -> "Future[int]":
        """Ask for a savepoint; the result is its epoch, once that is committed.

        Raises:
            OptionError: it was asked for before.
            PenstockError: the job is over.
        """
        with self._lock:
            if self._closed is not None:
                raise self._closed
            if name in self._waiting:
                raise OptionError(f"the savepoint {name!r} is being taken already: choose another name.")
            self._new.append(name)
            waiting = self._waiting[name] = Future()
            return waiting

    def take(self) -> list[str]:
        """Return what was asked for since the last call."""
        with self._lock:
            new, self._new = self._new, []
            return new

    def is_saved(self, name: str) -> bool:
        """Return whether the savepoint was written, committed or not."""
        return name in self._saved

    def write(self, repository: CheckpointRepository, name: str, manifest: CheckpointManifest) -> None:
        """Write a savepoint; what goes wrong is for whoever asked for it, as the checkpoint is there all the same."""

        def write_once() -> None:
            if name not in repository.savepoints() or repository.savepoint(name).manifest != manifest:
                repository.save(name, manifest)

        try:
            retry_until_known(write_once)
        except PenstockError as error:
            self.failed(name, error)
        else:
            self.saved(name, manifest.epoch)

    def saved(self, name: str, epoch: int) -> None:
        """Take in that a savepoint was written."""
        self._saved[name] = epoch

    def failed(self, name: str, error: BaseException) -> None:
        """Take in that a savepoint could not be written."""
        with self._lock:
            waiting = self._waiting.pop(name, None)
        if waiting is None:
            self.unheard = error
        else:
            waiting.set_exception(error)

    def committed(self, epoch: int) -> None:
        """Take in that all sinks have committed up to an epoch."""
        with self._lock:
            names = [name for name in self._waiting if name in self._saved and self._saved[name] <= epoch]
            done = [(self._waiting.pop(name), self._saved[name]) for name in names]
        for waiting, saved in done:
            waiting.set_result(saved)

    def close(self, error: PenstockError) -> None:
        """Take in that the job is over: ``error`` is for all that wait, and for those that come."""
        with self._lock:
            self._closed = error
            waiting, self._waiting = list(self._waiting.values()), {}
        for item in waiting:
            item.set_exception(error)
