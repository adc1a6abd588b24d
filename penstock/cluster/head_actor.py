"""The head actor of a job: hosts the job's head in a process of the cluster, and answers calls. Ray restarts it."""

import os
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import ray

from penstock.cluster.head_notes import HeadNotes
from penstock.cluster.hosted_job import HostedJob
from penstock.cluster.job_order import HeadReport, HeadState, JobOrder, StopOrder
from penstock.engine.checkpoint.repository_probe import open_repository
from penstock.engine.core.failpoint_settings import HEAD_ACTOR, arm_from
from penstock.engine.core.job_events import Notice
from penstock.engine.core.process_tuning import tune_process
from penstock.engine.executors.managers.failures import Failure, failure_of
from penstock.engine.executors.managers.plan_parcel import unpack_plan
from penstock.engine.executors.ray.outliving import Outliving
from penstock.engine.executors.ray.priority import take_priority_of_parent
from penstock.engine.jobs.attempt import JobPlan
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.plain import PlainJob
from penstock.engine.jobs.recovery import RecoveringJob
from penstock.engine.jobs.rescale_orders import RescaleRecord, RescaleSummary
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import MoveOrder, MoveRecord
from penstock.engine.plan.free_edges import Routes
from penstock.engine.plan.recut import instances_by_name, recut
from penstock.engine.restore.restorer import resize_sinks
from penstock.http_api.endpoints import open_endpoint
from penstock.model.control import Limits
from penstock.model.errors import OptionError, PenstockError, UserError, WorkerLostError
from penstock.runs.executors import attempts_of
from penstock.runs.job_start import ready_job
from penstock.runs.run_options import RunOptions

Answer = TypeVar("Answer")

LINGER_S = 300.0
"""How long a head stays whose job is over, for whoever wants to know how it ended."""


ALONE_S = 60.0
"""How long task managers live without a head."""

FOLLOWED = 4
"""Exit status of a head that another has followed."""

FOLLOWER_S = 5.0
"""Who waits for the end and has not asked for so long is gone."""

LOOK_S = 0.1
"""The interval at which a head that is to leave looks whether all have heard of the end."""


class HeadActor:
    """The head of one job. Its methods are called by Ray, several at a time, and return at once but for `savepoint`.

    What goes wrong comes back as a `Failure`, for an error would lose its words on the way.
    """

    def __init__(self, order: JobOrder) -> None:
        """Begin to run the job, or to go on with it after a head that was lost."""
        take_priority_of_parent()
        self._order = order
        self._notes = HeadNotes(order.name, order.token)
        self._released = threading.Event()
        self._followed_s: dict[str, float] = {}
        order.home.enter()
        tune_process()
        arm_from(order.home.environment, HEAD_ACTOR)
        number = self._number = self._notes.next_head()
        self._job = HostedJob(order.name, order.since_us, number, self)
        # Only the head right before may say that the job is over: one that only seemed lost may say it any time.
        end = self._notes.end(number - 1)
        if end is not None:
            self._notes.keep_end(number, *end)
            self._job.end(*end)
        elif number > 1 and order.options.checkpoints.directory is None:
            self._fail(WorkerLostError(_lost_for_good(order.name)))
        else:
            stop = self._notes.stop()
            if stop is not None:
                self._job.stop(stop)
            if number > 1:
                self._job.say(f"HEAD RESTARTED: head {number} of {order.name!r} looks for its task managers")
            self._job.start(lambda say: self._make(say, is_first=number == 1))
        threading.Thread(target=self._leave_after_the_end, name="penstock-end", daemon=True).start()

    def report(self, since: int) -> HeadReport:
        """Return the job at this moment, with its lines from the number ``since`` on."""
        return self._job.report(since)

    def follow(self, caller: str, since: int) -> HeadReport:
        """Return what `report` does, to one who waits for the job's end, and hears of it before the head leaves."""
        self._followed_s[caller] = time.monotonic()
        return self._job.report(since)

    def pid(self) -> int:
        """Return the number of this process on its node."""
        return os.getpid()

    def stop(self, order: StopOrder) -> Failure | None:
        """Take the order to stop; it is carried out whoever asked for it, and whatever becomes of this head."""
        try:
            self._job.stop(order)
        except PenstockError as error:
            return failure_of(error)
        self._notes.keep_stop(order)
        return None

    def savepoint(self, name: str, timeout_s: float | None) -> int | Failure:
        """Take a savepoint, and return its epoch once it is committed."""
        try:
            return self._job.savepoint(name, timeout_s)
        except (PenstockError, TimeoutError) as error:
            return failure_of(error)

    def change_limits(self, change: Limits) -> Limits | Failure:
        """Lay limits over those that hold, and return all of them."""
        return _answered(lambda: self._job.change_limits(change))

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleSummary | Failure:
        """Let operators have so many instances, and return once these run."""
        return _answered(lambda: self._job.running().rescale(parallelism))

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int | Failure:
        """Ask for so many instances of operators, and return the change's number."""
        return _answered(lambda: self._job.running().rescales.ask(parallelism).number)

    def rescales(self) -> tuple[RescaleRecord, ...] | Failure:
        """Return what became of the last changes of parallelism."""
        return _answered(lambda: self._job.running().rescales.records())

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview | Failure:
        """Return what other numbers of instances would change."""
        return _answered(lambda: self._job.running().preview_rescale(parallelism))

    def move(self, instance: str, task_manager: str) -> int | Failure:
        """Let what an instance has by keys go to a task manager, and return the move's number."""
        return _answered(lambda: self._job.running().moves.ask(MoveOrder(instance, task_manager)).number)

    def moves(self) -> tuple[MoveRecord, ...] | Failure:
        """Return what became of the last moves."""
        return _answered(lambda: self._job.running().moves.records())

    def route(self, operator: str, shares: Sequence[float]) -> Routes | Failure:
        """Let instances get shares of rows that may go to any, and return all that hold."""
        return _answered(lambda: self._job.running().route(operator, shares))

    def memory(self) -> MemorySummary | Failure:
        """Return the memory of the job's operators."""
        return _answered(lambda: self._job.running().memory())

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary | Failure:
        """Let operators have these budgets, and return all."""
        return _answered(lambda: self._job.running().change_memory(budgets))

    def preview_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary | Failure:
        """Return what other budgets would lead to."""
        return _answered(lambda: self._job.running().preview_memory(budgets))

    def places(self) -> Mapping[str, str] | Failure:
        """Return the task manager of each instance that is up."""
        return _answered(lambda: dict(self._job.running().places()))

    def task_managers(self) -> TaskManagers | Failure:
        """Return the job's task managers."""
        return _answered(lambda: self._job.running().managers.known())

    def resize_managers(self, count: int) -> TaskManagers | Failure:
        """Let so many task managers be there, and return those there are."""
        return _answered(lambda: self._job.running().managers.resize(count))

    def drain_manager(self, name: str) -> TaskManagers | Failure:
        """Let a task manager go for good, and return those there are."""
        return _answered(lambda: self._job.running().managers.drain(name))

    def unfollow(self, caller: str) -> None:
        """One has heard of the job's end: the head may leave, once all who wait for it have."""
        self._followed_s.pop(caller, None)
        self._released.set()

    def ended(self, state: HeadState, failure: Failure | None) -> None:
        """Keep that the job is over, so that no head begins it again.

        Where Ray has put another head in this one's place, as this one's raylet was lost alone, the job is that one's:
        this process ends, and with it all that it would still say of the job.
        """
        if not self._leads():
            os._exit(FOLLOWED)
        self._notes.keep_end(self._number, state, failure)

    def _fail(self, error: Exception) -> None:
        failure = failure_of(error)
        self._notes.keep_end(self._number, HeadState.FAILED, failure)
        self._job.end(HeadState.FAILED, failure)

    def _make(self, say: Callable[[str], None], *, is_first: bool) -> PlainJob | RecoveringJob:
        options = self._order.options
        self._order.home.check(ray.util.get_node_ip_address())
        check_action_log(options.action_log, is_shared=self._order.home.is_shared)
        parcel = self._notes.plan()
        if parcel is None:
            raise UserError(
                f"the plan of job {self._order.name!r} is not on the Ray cluster any more: penstock stop --all has "
                "deleted it before the job began; submit it again"
            )
        plan = rescaled(unpack_plan(parcel), self._notes.parallelism())
        if options.checkpoints.directory is not None:
            options = self._as_begun(options, options.checkpoints.directory, is_first=is_first)
        endpoint = open_endpoint(options, self._order.tokens, say)
        if endpoint.url is not None:
            say(f"metrics at {endpoint.url}, on the node {ray.util.get_node_ip_address()}")

        def warn(text: str) -> None:
            say(text)
            endpoint.tell(Notice(text))

        try:
            outliving = Outliving(self._order.name, ALONE_S, self._notes.run_token(), not is_first, self._leads)
            attempts = attempts_of(options, warn, keeps=self._order.end.keeps, outliving=outliving)
            job = ready_job(plan, options, self._order.end, attempts, warn, endpoint.tell)
        except BaseException:
            endpoint.close()
            raise
        job.rescales.keep = self._notes.keep_parallelism
        job.routes.keep = self._notes.keep_routes
        job.routes.begin(self._notes.routes())
        job.budgets.noted = self._notes.keep_memory
        job.budgets.begin(self._notes.memory())
        job.limits.noted = self._notes.keep_limits
        if (limits := self._notes.limits()) is not None:
            job.limits.begin(*limits)
        endpoint.show(job)
        self._job.metrics_url = endpoint.url
        return job

    def _as_begun(self, options: RunOptions, directory: str, *, is_first: bool) -> RunOptions:
        """Return the options of this head: a later one goes on with what the first has begun, and fences it."""
        begun_after = self._notes.beginning()
        if begun_after is None:
            begun_after = max(open_repository(directory, self._order.name).epochs(), default=0)
            self._notes.keep_beginning(begun_after)
        restore = replace(options.restore, begun_after=begun_after)
        return replace(options, restore=restore, take_over=options.take_over or not is_first)

    def _leads(self) -> bool:
        """Return whether no other head has begun since: one that slept, and was taken for lost, has nothing to end."""
        return self._notes.leads(self._number)

    def _is_followed(self) -> bool:
        """Return whether somebody has asked of late who waits for the end and has not heard it yet."""
        now_s = time.monotonic()
        return any(now_s - followed_s < FOLLOWER_S for followed_s in tuple(self._followed_s.values()))

    def _leave_after_the_end(self) -> None:
        self._job.over.wait()
        self._released.wait(LINGER_S)
        while self._is_followed():
            time.sleep(LOOK_S)
        if not self._leads():
            # The actor is another process by now.
            os._exit(FOLLOWED)
        self._notes.delete()
        ray.kill(ray.get_runtime_context().current_actor, no_restart=True)


def rescaled(plan: JobPlan, parallelism: Mapping[str, int]) -> JobPlan:
    """Return a plan as a head leaves it that has changed the parallelism of some operators, by their names."""
    if all(instances_by_name(plan.graph)[name] == count for name, count in parallelism.items()):
        return plan
    graph = recut(plan.graph, parallelism, plan.loop.key_groups)
    resize_sinks(graph)
    return replace(plan, graph=graph)


def check_action_log(path: Path | None, *, is_shared: bool) -> None:
    """Check that an action log is where its user finds it, if the head does not share the files of the driver.

    Raises:
        OptionError: it would be in a folder of Ray's.
    """
    if path is not None and not is_shared and not path.is_absolute():
        raise OptionError(
            f"action_log {str(path)!r} would lie on another host, in a folder that Ray deletes: give the whole path of "
            "a file, on a disk that every node reaches"
        )


def _lost_for_good(job: str) -> str:
    return (
        f"the head of job {job!r} was lost, and it takes no checkpoints from which another could go on: what it has "
        "written stands as it is; give it a checkpoint_dir (--checkpoint-dir)"
    )


def _answered(answer: Callable[[], Answer]) -> Answer | Failure:
    try:
        return answer()
    except PenstockError as error:
        return failure_of(error)
