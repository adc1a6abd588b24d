"""Local paths of a job as several hosts see them: what the head sees, what a task manager sees, and whether they agree.

A folder is the same if it has the record of the lease that the head holds, a file if size and time are the same
(docs/decisions/0088-local-paths-are-looked-at.md).
"""

import platform
from pathlib import Path

from penstock.engine.executors.managers.file_views import HeldFolder, InputFile, SizeAndTime
from penstock.engine.executors.managers.messages import FilesSeen, LookAtFiles
from penstock.engine.jobs.leases import lease_folder
from penstock.model.errors import BugError, RetryableError, UserError
from penstock.model.execution_graph import ExecutionGraph
from penstock.model.job_graph import SinkSpec
from penstock.state.files.durable_files import DurableFiles
from penstock.state.files.local_files import LocalFiles
from penstock.state.leases.held_folders import held_run, owner_of
from penstock.state.leases.run_records import Owner


def what_to_look_at(graph: ExecutionGraph, checkpoints: DurableFiles | None) -> LookAtFiles:
    """Return what of a job lies in local files, as this process sees it, which holds the leases of the folders.

    Raises:
        RetryableError: a folder cannot be read.
    """
    folders = []
    if isinstance(checkpoints, LocalFiles):
        # Task managers have its absolute path.
        folders.append(_held("checkpoint directory", path := checkpoints.base.absolute(), path))
    specs = [node.spec for node in graph.graph.operators.values()]
    sinks = (spec.sink for spec in specs if isinstance(spec, SinkSpec))
    outputs = dict.fromkeys(output for sink in sinks if (output := sink.exclusive()) is not None)
    folders += [_held("output", output, lease_folder(output)) for output in outputs]
    inputs = dict.fromkeys(file for spec in specs for file in spec.local_files())
    return LookAtFiles(tuple(folders), tuple(InputFile(str(file), _size_and_time(file)) for file in inputs))


def seen_files(order: LookAtFiles) -> FilesSeen:
    """Return what this process sees of what it is to look at."""
    return FilesSeen(
        platform.node(),
        tuple(_owner(Path(folder.lease), folder.run) for folder in order.folders),
        tuple(_size_and_time(Path(file.path)) for file in order.files),
    )


def refusal(manager: str, order: LookAtFiles, answer: FilesSeen, again: LookAtFiles) -> UserError | None:
    """Return why a job cannot run where a task manager sees other files than its head; None: they are the same.

    ``again`` is what the head sees since the answer came: a file that is written meanwhile may be seen at any moment
    between.
    """
    others = f"on the host {answer.host!r}"
    for folder, owner in zip(order.folders, answer.owners, strict=True):
        if owner != folder.owner:
            return _refused(manager, f"the {folder.kind} {folder.path!r} of the job is another one {others}, or none")
    now = {file.path: file.seen for file in again.files}
    for file, seen in zip(order.files, answer.files, strict=True):
        if not _is_between(file.seen, seen, now.get(file.path)):
            fault = "is not there" if seen is None else "has another size or time"
            return _refused(manager, f"the input file {file.path!r} {fault} {others}")
    return None


def _refused(manager: str, fault: str) -> UserError:
    return UserError(
        f"{fault}, where task manager {manager!r} runs: a job on several hosts needs paths by which all of them see "
        "the same files, as on a mounted share, or a URL such as s3://BUCKET/FOLDER; or keep it on one host"
    )


def _is_between(before: SizeAndTime | None, seen: SizeAndTime | None, after: SizeAndTime | None) -> bool:
    if seen == before:
        return True
    if seen is None or before is None or after is None:
        return False
    return before[0] <= seen[0] <= after[0] and before[1] <= seen[1] <= after[1]


def _held(kind: str, path: Path, lease: Path) -> HeldFolder:
    run = held_run(LocalFiles(lease))
    owner = None if run is None else owner_of(LocalFiles(lease), run)
    if run is None or owner is None:
        raise BugError(f"the {kind} {str(path)!r} is looked at, and its lease is not held")
    return HeldFolder(kind, str(path), str(lease), run, owner)


def _owner(lease: Path, run: int) -> Owner | None:
    try:
        return owner_of(LocalFiles(lease), run)
    except RetryableError:
        return None


def _size_and_time(path: Path) -> SizeAndTime | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
