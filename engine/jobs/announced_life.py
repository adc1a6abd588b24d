"""The life cycle of a job, whose states are told to whoever watches; what a job says of its own status."""

from penstock.engine.core.job_events import StateChanged, Tell
from penstock.engine.jobs.life_cycle import Command, Event, JobLifeCycle, JobState
from penstock.engine.jobs.restart_policy import RestartPolicy
from penstock.engine.jobs.status import JobStatus, error_sentence
from penstock.model.errors import PlanChangedError


class AnnouncedLife:
    """The state that was told last, and the error that goes with it; `status` may be called from any thread."""

    def __init__(self, tell: Tell) -> None:
        """Begin with a job that was not started."""
        self.state = JobState.CREATED
        self.error: BaseException | None = None
        self._tell = tell

    def become(self, state: JobState, error: BaseException | None = None) -> None:
        """Tell that the job is in a state, if that is new; ``error`` is what it fails of."""
        before = self.state
        if state is before:
            return
        self.state, self.error = state, error or self.error
        self._tell(StateChanged(before.name.lower(), state.name.lower(), error_sentence(error)))

    def status(self, job: str, attempt: int, restored_epoch: int | None = None) -> JobStatus:
        """Return the status of a job without checkpoints, or of one that began its attempt at an epoch."""
        return JobStatus(job, self.state.name.lower(), attempt, error_sentence(self.error), restored_epoch)


class AnnouncingLifeCycle(JobLifeCycle):
    """A `JobLifeCycle` that tells its states."""

    def __init__(self, policy: RestartPolicy, tell: Tell) -> None:
        """Wait for `Submitted`."""
        super().__init__(policy)
        self.announced = AnnouncedLife(tell)

    def on(self, event: Event) -> list[Command]:
        """Take in what happened, tell the state that it leads to, and return what to do."""
        commands = super().on(event)
        # That it goes on by another plan is no failure, and nothing to be told afterwards.
        failing = self.state in (JobState.FAILING, JobState.FAILED) and not isinstance(self.error, PlanChangedError)
        self.announced.become(self.state, self.error if failing else None)
        return commands
