"""Health and readiness of a job, judged from its metrics: the answers of ``/health`` and ``/ready``.

The words are the same whatever the job does: who may not see its metrics learns nothing else of it.
"""

from dataclasses import dataclass

from penstock.engine.jobs.metrics import JobMetrics

STALLED_NS = 60_000_000_000
"""After a step this long the loop counts as stuck: far beyond any batch, within a supervisor's patience."""


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    """An answer: whether the job is well, and why."""

    well: bool
    text: str


def health(metrics: JobMetrics | None) -> HealthVerdict:
    """Judge whether the loop turns; None: the job has not begun.

    A job that begins, restores or waits for a restart is alive, though not ready.
    """
    if metrics is None or metrics.loop_age_ns is None:
        return HealthVerdict(True, "alive, and no loop runs yet")
    if metrics.loop_age_ns > STALLED_NS:
        return HealthVerdict(False, f"the loop has been in one step for more than {STALLED_NS // 1_000_000_000} s")
    return HealthVerdict(True, "alive")


def readiness(metrics: JobMetrics | None) -> HealthVerdict:
    """Judge whether the job runs, and its last checkpoint, if it takes any, was not given up."""
    alive = health(metrics)
    if not alive.well:
        return alive
    if metrics is None or metrics.loop_age_ns is None:
        return HealthVerdict(False, "the job does not run")
    if metrics.checkpoints is not None and metrics.checkpoints.failing:
        return HealthVerdict(False, "the last checkpoint was given up")
    return HealthVerdict(True, "ready")
