"""The leases that a run needs: of its checkpoints and of every output that one run at a time may write.

All are held before anything is read or written, renewed by a thread of their own, and given back at the end.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from penstock.engine.core.contract import Clock
from penstock.engine.jobs.process_identity import is_alive, this_process
from penstock.model.connectors import Sink
from penstock.model.errors import FencedError, RetryableError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.files.durable_files import DurableFiles
from penstock.state.files.local_files import LocalFiles
from penstock.state.leases.run_lease import HEARTBEAT_S, RunLease
from penstock.state.leases.run_records import Owner

OUTPUT_RUNS = "_penstock"
"""The folder of an output directory in which its lease lies."""

LONGEST_RELEASE_S = 5.0
"""How long the end of a run waits until its leases are given back."""


@dataclass(frozen=True, slots=True)
class OutputLease:
    """The lease of the output at ``path``, kept in ``folder``, and the sinks that write there."""

    lease: RunLease
    sinks: tuple[Sink, ...]
    path: Path
    folder: Path


class Leases:
    """All leases of one run of a job. `check` may be called from any thread."""

    def __init__(
        self,
        checkpoints: RunLease | None,
        outputs: Sequence[OutputLease],
        *,
        take_over: bool = False,
        heartbeat_s: float | None = HEARTBEAT_S,
    ) -> None:
        """Nothing is touched yet. ``heartbeat_s`` None: nobody renews them, in a world without threads."""
        self.fenced: FencedError | None = None
        """Set once another run was seen to have taken over."""
        self._checkpoints = checkpoints
        self._outputs = tuple(outputs)
        self._take_over = take_over
        self._heartbeat_s = heartbeat_s
        self._held: list[RunLease] = []
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def acquire(
        self,
        repository: CheckpointRepository | None,
        pause: Callable[[float], None],
        say: Callable[[str], None],
        wake: Callable[[], None],
    ) -> None:
        """Come to hold all that are not held; ``wake`` is called, from another thread, when one is lost.

        Raises:
            InUseError: another run lives.
            RetryableError: a storage failed; call again.
        """
        if self._checkpoints is not None:
            self._take(self._checkpoints, pause, say)
            if repository is not None:
                repository.begin_run(self._checkpoints.number)
        for output in self._outputs:
            if output.lease not in self._held:
                self._make(output)
                self._take(output.lease, pause, say)
            for sink in output.sinks:
                sink.begin_run(output.lease)
        if self._thread is None and self._heartbeat_s is not None and self._held:
            self._thread = threading.Thread(target=self._renew, args=(wake,), name="penstock-lease", daemon=True)
            self._thread.start()

    def check(self) -> None:
        """Make sure that this run still has the lease of its checkpoints, before something of it is published.

        Without checkpoints, that of its outputs.

        Raises:
            FencedError: another one has taken over.
            RetryableError: the storage failed.
        """
        if self.fenced is not None:
            raise self.fenced
        try:
            for lease in self._held[:1] if self._checkpoints is not None else self._held:
                lease.check()
        except FencedError as error:
            self.fenced = error
            raise

    def release(self) -> None:
        """Give all back, but for those that were lost; one that cannot be given back lapses.

        A storage that does not answer is not waited for long.
        """
        self._over.set()
        if self._thread is None:
            self._give_back()
        else:
            self._thread.join(LONGEST_RELEASE_S)

    def _give_back(self) -> None:
        for lease in self._held:
            with suppress(RetryableError):
                lease.release(forget=self._checkpoints is None)
        if self._checkpoints is None:
            for output in self._outputs:
                with suppress(OSError):
                    output.folder.rmdir()
        self._held.clear()

    def _make(self, output: OutputLease) -> None:
        """Make a folder with the rights that the user's other folders have."""
        try:
            output.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            kind = UserError if self._checkpoints is None else RetryableError
            raise kind(f"cannot write {str(output.path)!r}: {error.strerror or error}") from None

    def _take(self, lease: RunLease, pause: Callable[[float], None], say: Callable[[str], None]) -> None:
        if lease not in self._held:
            lease.acquire(pause, say, take_over=self._take_over)
            self._held.append(lease)

    def _renew(self, wake: Callable[[], None]) -> None:
        while not self._over.wait(self._heartbeat_s):
            for lease in self._held if self.fenced is None else ():
                try:
                    lease.beat()
                except FencedError as error:
                    self.fenced = self.fenced or error
                    wake()
                except RetryableError:
                    # The next beat may come through; whoever needs the storage for more says that it fails.
                    continue
        self._give_back()


class MakeLeases(Protocol):
    """Returns the leases of a run."""

    def __call__(
        self,
        job: str,
        graph: ExecutionGraph,
        clock: Clock,
        checkpoints: DurableFiles | None,
        where: str,
        /,
        *,
        take_over: bool,
    ) -> Leases:
        """Return them as `make_leases` does."""


def make_leases(
    job: str,
    graph: ExecutionGraph,
    clock: Clock,
    checkpoints: DurableFiles | None,
    where: str,
    *,
    take_over: bool = False,
) -> Leases:
    """Return the leases of a run in this process; ``where`` names the folder of its ``checkpoints`` in messages."""
    owner = this_process(job, clock.wall_us())
    sinks: dict[Path, list[tuple[Path, Sink]]] = {}
    for node in graph.graph.operators.values():
        if isinstance(node.spec, SinkSpec) and (path := node.spec.sink.exclusive()) is not None:
            sinks.setdefault(path.resolve(), []).append((path, node.spec.sink))
    outputs = []
    for path, writing in sorted(sinks.items()):
        folder = lease_folder(path)
        lease = _lease(LocalFiles(folder), f"the output {str(path)!r}", owner, clock)
        outputs.append(OutputLease(lease, tuple(sink for _, sink in writing), writing[0][0], folder))
    held = None if checkpoints is None else _lease(checkpoints, f"the checkpoint directory {where!r}", owner, clock)
    return Leases(held, outputs, take_over=take_over)


def lease_folder(path: Path) -> Path:
    """Return the folder in which the lease of an output lies: in its directory, or beside its file."""
    return path.with_name(f".{path.name}.penstock") if path.suffix else path / OUTPUT_RUNS


def _lease(files: DurableFiles, where: str, owner: Owner, clock: Clock) -> RunLease:
    return RunLease(files, where, owner, is_alive, clock.monotonic_ns, lambda: uuid4().hex[:16])
