"""Checkpoint metrics of a job: a part of `JobMetrics`, read from its `CheckpointSession`."""

from dataclasses import dataclass

from penstock.engine.checkpoint.session import CheckpointSession


@dataclass(frozen=True, slots=True)
class RegionRestarts:
    """Restarts of one region, tasks that are joined by channels, after failures; ``region`` names them."""

    region: str
    restarts: int


@dataclass(frozen=True, slots=True)
class CheckpointMetrics:
    """Checkpoints since the process began; None: there was none of the kind yet.

    ``last_epoch`` is the last one that all sinks committed. ``last_duration_ns`` is the time from its barriers to its
    manifest, of the last one published, and its bytes are those uploaded and those that were there already.
    ``last_abort`` says why one was given up. ``restarts``: how often the job, or a region of it, was told to begin
    again, after a failure or by another plan; ``regions``: how often each did. ``failed_retentions``: how often old
    checkpoints could not be deleted, and stay until a later time; ``last_failed_retention`` says why. ``failing``: the
    one that ended last was given up.
    """

    begun: int = 0
    committed: int = 0
    aborted: int = 0
    restarts: int = 0
    last_epoch: int | None = None
    last_duration_ns: int | None = None
    last_uploaded_bytes: int | None = None
    last_reused_bytes: int | None = None
    last_abort: str | None = None
    regions: tuple[RegionRestarts, ...] = ()
    failed_retentions: int = 0
    last_failed_retention: str | None = None
    failing: bool = False


def read_checkpoints(
    session: CheckpointSession, restarts: int, regions: tuple[RegionRestarts, ...]
) -> CheckpointMetrics:
    """Read the counters of a session; from any thread."""
    counts = session.statistics()
    durations = session.durations_ns
    traffic = session.traffic if durations else None
    return CheckpointMetrics(
        begun=counts.begun,
        committed=counts.committed,
        aborted=counts.aborted,
        restarts=restarts,
        last_epoch=counts.committed_epoch,
        last_duration_ns=durations[-1] if durations else None,
        last_uploaded_bytes=None if traffic is None else traffic.uploaded_bytes,
        last_reused_bytes=None if traffic is None else traffic.reused_bytes,
        last_abort=counts.last_abort,
        regions=regions,
        failed_retentions=session.failed_retentions,
        last_failed_retention=session.last_failed_retention,
        failing=counts.failing,
    )
