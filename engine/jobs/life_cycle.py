"""The life cycle of a job: a state machine from events to commands (docs/design/recovery.md 1).

The executors tell it what happened, by `JobLifeCycle.on`, and do what it says. Checkpoints are the business of the
checkpoint coordinator; that one says when the last of them is committed, this one what becomes of the job.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from penstock.engine.core.event_log import EventLog
from penstock.engine.jobs.restart_policy import RestartPolicy, is_retryable
from penstock.model.errors import WorkerLostError
from penstock.model.ids import TaskId


class JobState(Enum):
    """States in the life of a job."""

    CREATED = "nothing has been started"
    RESTORING = "state is restored and instances are built"
    RUNNING = "instances run"
    FAILING = "something failed, what must restart is being taken down"
    RESTARTING = "waiting before the next attempt"
    STOPPING = "instances run towards the last checkpoint"
    FINISHED = "everything is committed"
    FAILED = "given up; the last complete checkpoint stands"


@dataclass(frozen=True, slots=True)
class Submitted:
    """The job shall run, from now on."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class Restored:
    """Event: the attempt that `Restore` ordered runs."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class Adopting:
    """Event: in the place of what `Restore` ordered, an attempt of the run before goes on, under its own number."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Failed:
    """Something raised. ``tasks`` are those it struck, None if that cannot be told and all must restart."""

    now_ns: int
    error: BaseException
    tasks: frozenset[TaskId] | None = None


@dataclass(frozen=True, slots=True)
class TakenDown:
    """Event: the attempt that one `TakeDown` named is down, and the checkpoint coordinator is halted."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class Elapsed:
    """Time went on to ``now_ns`` (monotonic)."""

    now_ns: int


@dataclass(frozen=True, slots=True)
class StopRequested:
    """The job shall stop at a last checkpoint; with ``drain`` as if its inputs had ended."""

    drain: bool = False
    savepoint: str | None = None


@dataclass(frozen=True, slots=True)
class LastCommitted:
    """The checkpoint coordinator said stop: the last checkpoint is committed."""


Event = Submitted | Adopting | Restored | Failed | TakenDown | Elapsed | StopRequested | LastCommitted


@dataclass(frozen=True, slots=True)
class Restore:
    """Build instances from the latest complete checkpoint, settle its sinks, and run them under this attempt.

    ``tasks`` are those that failed; the region to restart is theirs. None: all. Answer: Restored or Failed.
    """

    attempt: int
    tasks: frozenset[TaskId] | None


@dataclass(frozen=True, slots=True)
class TakeDown:
    """End the instances of the region of these tasks (None: all) and release what they hold. Answer: TakenDown.

    A `Restore` under way is given up with them and not answered any more.
    """

    tasks: frozenset[TaskId] | None


@dataclass(frozen=True, slots=True)
class RequestStop:
    """Tell the checkpoint coordinator, which remembers it over restarts."""

    drain: bool
    savepoint: str | None


@dataclass(frozen=True, slots=True)
class Finish:
    """Close everything: the job is over."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Take down what still runs and raise the error; ``reason`` says why there is no further attempt."""

    error: BaseException
    reason: str


Command = Restore | TakeDown | RequestStop | Finish | GiveUp

_S = JobState
TRANSITIONS: Mapping[JobState, Mapping[type[Event], frozenset[JobState]]] = {
    _S.CREATED: {
        Submitted: frozenset({_S.RESTORING}),
        StopRequested: frozenset({_S.FINISHED}),
        Elapsed: frozenset({_S.CREATED}),
    },
    _S.RESTORING: {
        Adopting: frozenset({_S.RESTORING}),
        Restored: frozenset({_S.RUNNING, _S.STOPPING}),
        Failed: frozenset({_S.FAILING}),
        StopRequested: frozenset({_S.RESTORING}),
        Elapsed: frozenset({_S.RESTORING}),
    },
    _S.RUNNING: {
        Failed: frozenset({_S.FAILING}),
        StopRequested: frozenset({_S.STOPPING}),
        LastCommitted: frozenset({_S.FINISHED}),
        Elapsed: frozenset({_S.RUNNING}),
    },
    _S.FAILING: {
        Failed: frozenset({_S.FAILING}),
        TakenDown: frozenset({_S.FAILING, _S.RESTARTING, _S.FAILED, _S.FINISHED}),
        StopRequested: frozenset({_S.FAILING}),
        Elapsed: frozenset({_S.FAILING}),
    },
    _S.RESTARTING: {
        Elapsed: frozenset({_S.RESTARTING, _S.RESTORING}),
        Failed: frozenset({_S.FAILING}),
        StopRequested: frozenset({_S.RESTORING, _S.FINISHED}),
    },
    _S.STOPPING: {
        Failed: frozenset({_S.FAILING}),
        StopRequested: frozenset({_S.STOPPING}),
        LastCommitted: frozenset({_S.FINISHED}),
        Elapsed: frozenset({_S.STOPPING}),
    },
    _S.FINISHED: {StopRequested: frozenset({_S.FINISHED}), Elapsed: frozenset({_S.FINISHED})},
    _S.FAILED: dict.fromkeys((StopRequested, Elapsed, Failed), frozenset({_S.FAILED})),
}
"""The states that may follow, by state and event; an event that is not listed is a bug of whoever sent it."""


STOP_TRIES = 3
"""So often a job that was told to stop may fail before it ends without its last checkpoint."""

START_TRIES = 3
"""So often, at the least, a job that has never run is tried to be started if workers are lost, which start slowly."""

STOP_DELAY_NS = 500_000_000
"""The longest wait of such a job before it tries again."""


class JobLifeCycle:
    """The state machine of a job's life. `on` is the only way to change it.

    A stop that was asked for outlives failures: the job restarts under its policy, `STOP_TRIES` times at most, and then
    stops. Asked for while the job waits for its next attempt, it ends the wait. A job that has not run yet has nothing
    to keep: a stop ends it, and so does a failure when its policy's time for a start is over.
    """

    def __init__(self, policy: RestartPolicy) -> None:
        """Wait for `Submitted`."""
        self.state = _S.CREATED
        self.attempt = 0
        self.error: BaseException | None = None
        self._policy = policy
        self._log = EventLog("life cycle of the job")
        self._stopping = False
        self._struck: frozenset[TaskId] | None = frozenset()
        self._running_since_ns: int | None = None
        self._ran_ns = 0
        self._restart_ns = 0
        self._take_downs = 0
        self._submitted_ns = 0
        self.has_run = False
        self._failures_since_stop = 0

    @property
    def log(self) -> tuple[str, ...]:
        """The latest events, oldest first."""
        return self._log.entries

    def due_ns(self) -> int | None:
        """Return when the next attempt begins, None if the job does not wait for one."""
        return self._restart_ns if self.state is _S.RESTARTING else None

    def on(self, event: Event) -> list[Command]:
        """Take in what happened and return what to do, in this order.

        Raises:
            BugError: the event is impossible in this state; its notes tell the events before.
        """
        before = self.state
        follows = TRANSITIONS[before].get(type(event))
        if follows is None:
            raise self._log.bug(f"{event} is impossible while {before.name} ({before.value})")
        commands = self._react(event)
        if not isinstance(event, Elapsed) or commands:
            self._log.add(f"{before.name} -> {self.state.name}: {event}: {commands}")
        if self.state not in follows:
            raise self._log.bug(f"{event} led from {before.name} to {self.state.name}, against the table")
        return commands

    def _react(self, event: Event) -> list[Command]:
        match event:
            case Submitted():
                self._submitted_ns = event.now_ns
                return self._restore(None)
            case Adopting():
                self.attempt = max(self.attempt, event.attempt)
            case Restored():
                self._struck = frozenset()
                self.has_run = True
                self._running_since_ns = event.now_ns
                self.state = _S.STOPPING if self._stopping else _S.RUNNING
            case Failed():
                return self._fail(event)
            case TakenDown():
                self._take_downs -= 1
                return [] if self._take_downs else self._decide(event.now_ns)
            case Elapsed():
                if self.state is _S.RESTARTING and event.now_ns >= self._restart_ns:
                    return self._restore(self._struck)
            case StopRequested():
                return self._request_stop(event)
            case LastCommitted():
                self.state = _S.FINISHED
                return [Finish()]
        return []

    def _restore(self, tasks: frozenset[TaskId] | None) -> list[Command]:
        self.attempt += 1
        self.state = _S.RESTORING
        self._struck = tasks
        return [Restore(self.attempt, tasks)]

    def _fail(self, event: Failed) -> list[Command]:
        """Keep the error that decides: the first one, unless a later one rules a restart out."""
        if self.state is _S.FAILED:
            return []
        if self.state is not _S.FAILING:
            since_ns, self._running_since_ns = self._running_since_ns, None
            self._ran_ns = 0 if since_ns is None else event.now_ns - since_ns
            self.error = event.error
        elif self.error is None or (is_retryable(self.error) and not is_retryable(event.error)):
            self.error = event.error
        partial = event.tasks is not None and self._struck is not None
        struck = (self._struck or frozenset()) | (event.tasks or frozenset()) if partial else None
        news = self.state is not _S.FAILING or struck != self._struck
        self._struck = struck
        self.state = _S.FAILING
        if not news:
            return []
        self._take_downs += 1
        return [TakeDown(struck)]

    def _decide(self, now_ns: int) -> list[Command]:
        assert self.error is not None
        if not is_retryable(self.error):
            self.state = _S.FAILED
            return [GiveUp(self.error, "another attempt would fail in the same way")]
        if self._stopping and not self.has_run:
            self.state = _S.FINISHED
            return [Finish()]
        reason = self._end_of_tries(now_ns)
        if reason is not None:
            self.state = _S.FAILED
            return [GiveUp(self.error, reason)]
        delay_ns = self._policy.failed(self._ran_ns, self.error)
        if delay_ns is None:
            self.state = _S.FAILED
            return [GiveUp(self.error, f"it failed {self._policy.failures} times in a row")]
        self._restart_ns = now_ns + (min(delay_ns, STOP_DELAY_NS) if self._stopping else delay_ns)
        if not self.has_run:
            # The last try of a start is made when its time is over, and not a long wait after that.
            self._restart_ns = min(self._restart_ns, self._submitted_ns + self._policy.start_timeout_ns)
        self.state = _S.RESTARTING
        return []

    def _end_of_tries(self, now_ns: int) -> str | None:
        """Return why there is no further attempt although the policy of restarts may allow one."""
        if self._stopping:
            self._failures_since_stop += 1
            if self._failures_since_stop >= STOP_TRIES:
                return f"it was told to stop and failed {STOP_TRIES} times since: its last complete checkpoint stands"
        elif self.has_run or (isinstance(self.error, WorkerLostError) and self.attempt < START_TRIES):
            return None
        elif now_ns - self._submitted_ns >= self._policy.start_timeout_ns:
            return (
                f"it could not be started within {self._policy.start_timeout_ns / 1e9:g} s: start it again, or let it "
                "wait longer by start_timeout"
            )
        return None

    def _request_stop(self, event: StopRequested) -> list[Command]:
        if self.state is _S.CREATED:
            self.state = _S.FINISHED
            return [Finish()]
        if self.state in (_S.FINISHED, _S.FAILED):
            return []
        self._stopping = True
        if self.state is _S.RESTARTING and not self.has_run:
            self.state = _S.FINISHED
            return [Finish()]
        ordered: list[Command] = [RequestStop(event.drain, event.savepoint)]
        if self.state is _S.RUNNING:
            self.state = _S.STOPPING
        elif self.state is _S.RESTARTING:
            ordered += self._restore(self._struck)
        return ordered
