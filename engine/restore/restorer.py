"""The start of an attempt from a checkpoint: which one, whether it fits, and what sinks do first.

The recovering job calls it before each attempt (docs/design/recovery.md 4).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penstock.engine.restore.compatibility import NOTHING_ALLOWED, AllowedChanges, fit
from penstock.engine.restore.state_assignment import RestoredState
from penstock.model.errors import UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.failpoints import failpoint
from penstock.model.ids import TaskId
from penstock.model.job_graph import JobGraph, SinkSpec, SourceSpec
from penstock.model.sink_context import SinkContext
from penstock.state.checkpoints.repository import CheckpointRepository
from penstock.state.checkpoints.results import LoadedCheckpoint, SkippedCheckpoint
from penstock.state.files.durable_files import DurableFiles
from penstock.state.files.sink_folder import SinkFolder
from penstock.state.stores.page_store import PageStores
from penstock.state.stores.rocksdb_store import RocksDbStores


@dataclass(frozen=True, slots=True)
class RestoreFrom:
    """The start of a job: ``latest`` its newest complete checkpoint if there is one, a savepoint by name, or nothing.

    ``allowed`` says which state it may leave behind, or go on with although its operator has changed,
    ``accept_duplicates`` lets its sinks go on although they have published what came after the checkpoint. ``afresh``
    lets watermarks begin anew if the run before had closed its windows. ``begun_after`` is the newest checkpoint that
    was there when the job began, if this is a later head of it: those that follow are the job's own (None: it begins).
    """

    latest: bool = True
    savepoint: str | None = None
    allowed: AllowedChanges = NOTHING_ALLOWED
    accept_duplicates: bool = False
    afresh: bool = False
    begun_after: int | None = None


LATEST = RestoreFrom()


class Beginnings:
    """Finds what each attempt of a job goes on from."""

    def __init__(
        self,
        repository: CheckpointRepository,
        restore: RestoreFrom,
        warn: Callable[[str], None],
        page_stores: PageStores | None = None,
    ) -> None:
        """``warn`` is told of checkpoints that are passed over; ``page_stores`` opens their pages (None: RocksDB)."""
        self._page_stores = page_stores
        self._repository = repository
        self._restore = restore
        self._warn = warn
        self._passed_over: int | None = None
        self._skipped: list[SkippedCheckpoint] = []
        self._last_before: int | None = None
        self._said_afresh = False

    def choose(self, graph: ExecutionGraph, key_groups: int, directory: Path) -> RestoredState | None:
        """Return the checkpoint to go on from now, verified, None: from nothing; page stores open below ``directory``.

        Raises:
            CheckpointError: there is none that is not damaged.
            UserError: it does not fit the plan.
        """
        if self._passed_over is None:
            self._repository.sweep()
            self._last_before = self._restore.begun_after
            if self._last_before is None:
                self._last_before = max(self._repository.epochs(), default=0)
        loaded = self._choose()
        if loaded is None:
            return None
        warning = loaded.warning()
        if warning is not None:
            self._warn(warning)
        restored = begin_from(
            loaded,
            self._repository,
            graph,
            key_groups,
            directory,
            allowed=self._restore.allowed,
            notice=self._warn,
            page_stores=self._page_stores,
        )
        # What this run has closed itself, it only repeats.
        if restored.epoch <= (self._last_before or 0):
            self._open_again(restored, _sources_of(graph.graph, restored.at_end()))
        return restored

    def pass_over(self) -> None:
        """Never go back to checkpoints that were damaged when one was chosen: sinks take back what came of them.

        Call it right before they do.

        Raises:
            RetryableError: the storage failed.
        """
        self._repository.pass_over(self._skipped)

    def _open_again(self, restored: RestoredState, sources: frozenset[str]) -> None:
        """Say that, or let, sources go on behind which a run before has closed the windows."""
        if not sources or not self._restore.afresh:
            restored.closed = sources
            return
        restored.begin_afresh()
        if not self._said_afresh:
            self._said_afresh = True
            self._warn(
                "FRESH WATERMARK: the run before closed all windows at its end, so this one begins with watermarks of "
                "its own; a window that was closed gets a second result if rows come for it."
            )

    def _choose(self) -> LoadedCheckpoint | None:
        """A job told to begin elsewhere passes over the checkpoints of earlier ones."""
        epochs = self._repository.epochs()
        last = epochs[-1] if epochs else 0
        if self._passed_over is None:
            elsewhere = self._restore.savepoint is not None or not self._restore.latest
            before = last if self._restore.begun_after is None else self._restore.begun_after
            self._passed_over = before if elsewhere else 0
        loaded = self._repository.latest() if last > self._passed_over else None
        skipped = () if loaded is None else loaded.skipped
        self._skipped = [item for item in skipped if item.epoch > self._passed_over]
        if loaded is not None and loaded.manifest.epoch > self._passed_over:
            return loaded
        if last > self._passed_over:
            self._warn("CHECKPOINTS SKIPPED: all since the start are damaged; the job begins where it was told to.")
        return None if self._restore.savepoint is None else self._repository.savepoint(self._restore.savepoint)


def _sources_of(graph: JobGraph, operators: Collection[str]) -> frozenset[str]:
    """Return the names of the sources whose rows come to some of these operators."""
    upstream = graph.upstream(node.id for node in graph.operators.values() if node.name in operators)
    return frozenset(node.name for node in upstream.values() if isinstance(node.spec, SourceSpec))


def begin_from(
    loaded: LoadedCheckpoint,
    repository: CheckpointRepository,
    graph: ExecutionGraph,
    key_groups: int,
    directory: Path,
    *,
    allowed: AllowedChanges = NOTHING_ALLOWED,
    notice: Callable[[str], None] = lambda text: None,
    page_stores: PageStores | None = None,
) -> RestoredState:
    """Return a checkpoint as what a plan goes on from, so far as it fits or what does not is ``allowed``.

    Page stores (by default RocksDB's) are opened below ``directory``. ``notice`` is told what did not go on as it was.

    Raises:
        UserError: it does not fit the plan.
    """
    manifest = loaded.manifest
    if manifest.key_groups != key_groups:
        raise UserError(
            f"the checkpoint of epoch {manifest.epoch} has {manifest.key_groups} key groups, which are "
            f"kept for life, and the job was given {key_groups}: set key_groups back."
        )
    fitting = fit(manifest, graph, allowed, notice)
    files = repository.contents(loaded.savepoint)
    return RestoredState(loaded, files, directory, page_stores or RocksDbStores(), fitting)


def recover_sinks(
    graph: ExecutionGraph, restored: RestoredState | None, tasks: Collection[TaskId] | None = None
) -> None:
    """Let the sinks of these tasks (None: all) finish or take back what they were at; before instances are built.

    Raises:
        PenstockError: a sink cannot.
    """
    for node in graph.graph.operators.values():
        mine = tasks is None or graph.task_of(node.id).id in tasks
        if mine and isinstance(node.spec, SinkSpec):
            failpoint("job.sink.recovering")
            if restored is None:
                node.spec.sink.recover(None, ())
            elif node.name in restored.operators():
                node.spec.sink.recover(restored.epoch, restored.receipts(node.name))
            else:
                node.spec.sink.join(restored.epoch)
            failpoint("job.sink.recovered")


def adopt_sinks(
    graph: ExecutionGraph,
    restored: RestoredState | None,
    receipts: Mapping[str, Sequence[tuple[int, Any]]],
    claims: Mapping[str, Any],
) -> None:
    """Let the sinks of a plan take over writers that live, behind the last checkpoint (None: there is none).

    ``receipts`` are those behind it and their epochs, ``claims`` what the sinks left when the writers began; by name.

    Raises:
        PenstockError: a sink cannot.
    """
    epoch = 0 if restored is None else restored.epoch
    for node in graph.graph.operators.values():
        if isinstance(node.spec, SinkSpec):
            kept = [] if restored is None else list(restored.receipts(node.name))
            later = [receipt for _, receipt in receipts.get(node.name, ())]
            failpoint("job.sink.adopting")
            node.spec.sink.adopt(epoch, [*kept, *later], claims.get(node.name))


def release_connectors(graph: ExecutionGraph) -> None:
    """Let sources and sinks let go of what they hold beside readers and writers: the job is over."""
    for node in graph.graph.operators.values():
        match node.spec:
            case SourceSpec(source=source):
                source.release()
            case SinkSpec(sink=sink):
                sink.release()


def resize_sinks(graph: ExecutionGraph, tasks: Collection[TaskId] | None = None) -> None:
    """Let sinks of some tasks (None: of all) have as many writers as a plan says; they are recovered next."""
    for task in graph.tasks:
        for operator in task.operators if tasks is None or task.id in tasks else ():
            spec = graph.node(operator).spec
            if isinstance(spec, SinkSpec):
                spec.sink.resize(task.parallelism)


def missing_sinks(graph: ExecutionGraph, restored: RestoredState) -> str | None:
    """Say which sinks of a checkpoint a plan does not have; None: it has all."""
    names = {node.name for node in graph.graph.operators.values()}
    missing = [name for name in restored.sinks() if name not in names]
    if not missing:
        return None
    return (
        f"SINK GONE: the pipeline no longer has {', '.join(map(repr, missing))}. What was committed stays; rows "
        f"of checkpoint {restored.epoch} may lack if the job ended before it had committed them: run once with the "
        "sink to be sure of them."
    )


def with_checkpoints(
    graph: ExecutionGraph, job: str, files: DurableFiles, restore: RestoreFrom = LATEST
) -> ExecutionGraph:
    """Return the plan with sinks that hold rows back until their checkpoint is complete.

    ``files`` are those of the job's checkpoints; ``restore`` says what sinks may go on in spite of.

    Raises:
        UserError: a sink cannot do so as it is configured.
    """
    operators = dict(graph.graph.operators)
    for operator, node in operators.items():
        if isinstance(node.spec, SinkSpec) and node.spec.sink.transactional:
            node.spec.sink.check_transactional()
            kept = SinkFolder(files, node.name)
            context = SinkContext(
                job,
                node.name,
                graph.task_of(operator).parallelism,
                kept,
                accept_duplicates=restore.accept_duplicates,
                accept_changed=node.name in restore.allowed.accepted,
            )
            operators[operator] = replace(node, spec=replace(node.spec, sink=node.spec.sink.with_checkpoints(context)))
    return replace(graph, graph=replace(graph.graph, operators=operators))
