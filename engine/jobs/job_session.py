"""The session of a job's checkpoints, made of its plan and its options."""

from penstock.engine.checkpoint.coordinator import CheckpointCoordinator
from penstock.engine.checkpoint.session import CheckpointSession
from penstock.engine.checkpoint.writer import ManifestMaker
from penstock.engine.core.background import Background
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.job_storage import JobStorage
from penstock.engine.jobs.recovery_options import JobEnvironment, RecoveryOptions
from penstock.engine.plan.state_meanings import meanings_of


def make_session(
    plan: JobPlan, storage: JobStorage, options: RecoveryOptions, around: JobEnvironment, background: Background
) -> CheckpointSession:
    """Return a session that has not begun anything; the ``background`` writes for it."""
    clock = around.clock
    manifests = ManifestMaker(
        plan.name, plan.loop.key_groups, options.version, clock.wall_us, meanings_of(plan.graph), plan.sampling_seed
    )
    session = CheckpointSession(
        CheckpointCoordinator(options.checkpoints),
        storage.repository,
        manifests,
        background,
        clock,
        around.warn,
        storage.leases.check,
        options.savepoint_on_stop,
    )
    session.tell = around.tell
    return session
