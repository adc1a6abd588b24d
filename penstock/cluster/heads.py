"""Head actors as others on the Ray cluster reach them: started, found by the names of their jobs, and called.

Ray is imported where it is called: it reads its settings once, as it is imported.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from penstock.cluster.control_store import ControlStore
from penstock.cluster.head_notes import HeadNotes, delete_notes, noted_jobs
from penstock.cluster.job_order import HeadReport, JobOrder, StopOrder
from penstock.engine.executors.managers.failures import Failure, error_of
from penstock.engine.executors.ray.cluster import NAMESPACE
from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord, RescaleSummary
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.jobs.running_memory import MemorySummary
from penstock.engine.moves.move_orders import MoveRecord
from penstock.engine.plan.free_edges import Routes
from penstock.model.control import Limits
from penstock.model.errors import InUseError, RetryableError, UserError, WorkerLostError

CALL_S = 10.0
"""How long an answer of a head is waited for that does so at once."""

LOOK_S = 0.1
"""The interval at which a head is asked that is to leave."""

MOST_CALLS = 16
"""So many calls a head answers at a time; savepoints take long."""

PLACE = "the head actor"

_TASK_MANAGER = re.compile(r", tm-\d+\Z")
"""How the names of the other actors end."""


class HeadAwayError(RetryableError):
    """A head does not answer now: it is being started, or its node cannot be reached."""


class Head:
    """A head actor, for one caller. Methods may be called from any thread."""

    def __init__(self, job: str, actor: Any) -> None:
        """Take the actor of this job."""
        import ray

        self.job = job
        self._actor = actor
        self._store = ControlStore(ray.get_runtime_context().gcs_address, time.monotonic)
        self._caller = uuid4().hex

    def report(self, since: int = 0, timeout_s: float | None = CALL_S) -> HeadReport:
        """Return the job at this moment, with its lines from the number ``since`` on.

        Raises:
            HeadAwayError: it does not answer now.
            WorkerLostError: it is gone for good.
        """
        report: HeadReport = self._call("report", since, timeout_s=timeout_s)
        return report

    def follow(self, since: int = 0) -> HeadReport:
        """Return what `report` does, and be told of the job's end before the head leaves; raises the same."""
        report: HeadReport = self._call("follow", self._caller, since, timeout_s=CALL_S)
        return report

    def pid(self) -> int:
        """Return the number of its process on its node; raises as `report`."""
        number: int = self._call("pid", timeout_s=CALL_S)
        return number

    def stop(self, order: StopOrder) -> None:
        """Let it stop the job; it has the order once this returns.

        Raises:
            OptionError: the savepoint cannot be kept.
            HeadAwayError: it does not answer now.
            WorkerLostError: it is gone for good.
        """
        _raised(self._call("stop", order, timeout_s=CALL_S))

    def savepoint(self, name: str, timeout_s: float | None = None) -> int:
        """Take a savepoint and return its epoch once it is committed; raises as `Handle.savepoint` and `report`."""
        epoch: int = _raised(self._call("savepoint", name, timeout_s, timeout_s=None))
        return epoch

    def change_limits(self, change: Limits) -> Limits:
        """Change limits and return all that hold beside those of the program; raises as `Handle.limit` and `report`."""
        limits: Limits = _raised(self._call("change_limits", change, timeout_s=CALL_S))
        return limits

    def memory(self) -> MemorySummary:
        """Return the memory of the job's operators; raises as `report`."""
        summary: MemorySummary = _raised(self._call("memory", timeout_s=CALL_S))
        return summary

    def change_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Let operators have these budgets; raises as `Handle.set_memory` and `report`."""
        summary: MemorySummary = _raised(self._call("change_memory", dict(budgets), timeout_s=CALL_S))
        return summary

    def preview_memory(self, budgets: Mapping[str, int | None]) -> MemorySummary:
        """Return what other budgets would lead to; raises as `change_memory`."""
        summary: MemorySummary = _raised(self._call("preview_memory", dict(budgets), timeout_s=CALL_S))
        return summary

    def rescale(self, parallelism: Mapping[str, int]) -> RescaleSummary:
        """Let operators have so many instances; return once these run. Raises as `Handle.rescale` and `report`."""
        summary: RescaleSummary = _raised(self._call("rescale", dict(parallelism), timeout_s=None))
        return summary

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """Ask for so many instances of operators, and return the change's number at once; raises as `rescale`."""
        number: int = _raised(self._call("ask_rescale", dict(parallelism), timeout_s=CALL_S))
        return number

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """Return what became of the last changes of parallelism that this head was asked for; raises as `report`."""
        records: tuple[RescaleRecord, ...] = _raised(self._call("rescales", timeout_s=CALL_S))
        return records

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """Return what other numbers of instances would change; raises as `Handle.rescale` and `report`."""
        found: RescalePreview = _raised(self._call("preview_rescale", dict(parallelism), timeout_s=CALL_S))
        return found

    def move(self, instance: str, task_manager: str) -> int:
        """Let what an instance has by keys go to a task manager, and return the move's number; raises as `report`.

        It raises an OptionError, too, if nothing moves in the job.
        """
        number: int = _raised(self._call("move", instance, task_manager, timeout_s=CALL_S))
        return number

    def moves(self) -> tuple[MoveRecord, ...]:
        """Return what became of the last moves that this head was asked for; raises as `report`."""
        records: tuple[MoveRecord, ...] = _raised(self._call("moves", timeout_s=CALL_S))
        return records

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """Let instances of an operator get shares of rows that may go to any, and return all that hold.

        It raises as `report`, and an OptionError if that cannot be.
        """
        routes: Routes = _raised(self._call("route", operator, tuple(shares), timeout_s=CALL_S))
        return routes

    def places(self) -> Mapping[str, str]:
        """Return the task manager of each instance that is up, by the instance's name; raises as `report`."""
        found: Mapping[str, str] = _raised(self._call("places", timeout_s=CALL_S))
        return found

    def task_managers(self) -> TaskManagers:
        """Return the job's task managers; raises as `report`, and an OptionError if it has none."""
        return self._managers("task_managers")

    def resize_managers(self, count: int) -> TaskManagers:
        """Let so many task managers be there, and return those there are; raises as `task_managers`."""
        return self._managers("resize_managers", count)

    def drain_manager(self, name: str) -> TaskManagers:
        """Let a task manager go for good, and return those there are; raises as `task_managers`."""
        return self._managers("drain_manager", name)

    def _managers(self, method: str, *arguments: Any) -> TaskManagers:
        found: TaskManagers = _raised(self._call(method, *arguments, timeout_s=CALL_S))
        return found

    def unfollow(self) -> None:
        """Let it leave, as this caller has heard of the job's end. It may be gone already."""
        with suppress(HeadAwayError, WorkerLostError):
            self._call("unfollow", self._caller, timeout_s=CALL_S)

    def await_end(self) -> HeadReport:
        """Wait for the end of a job that this caller follows, let its head leave, and return its last report.

        Raises:
            WorkerLostError: it is gone, and nobody has heard how the job has ended.
        """
        while True:
            with suppress(HeadAwayError):
                report = self.follow()
                if report.state.is_over:
                    break
            time.sleep(LOOK_S)
        self.unfollow()
        while _present(self.job) is not None:
            time.sleep(LOOK_S)
        return report

    def kill(self) -> None:
        """End it, and its job with it, at once and for good, with task managers that would outlive it."""
        import ray

        from penstock.engine.executors.ray.outliving import remove_left

        ray.kill(self._actor, no_restart=True)
        remove_left(self.job)

    def _call(self, method: str, *arguments: Any, timeout_s: float | None) -> Any:
        import ray
        from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayError

        try:
            return ray.get(getattr(self._actor, method).remote(*arguments), timeout=timeout_s)
        except (ActorUnavailableError, GetTimeoutError) as error:
            self._check_store()
            raise HeadAwayError(f"the head of job {self.job!r} does not answer: {_first_line(error)}") from None
        except ActorDiedError as error:
            self._check_store()
            if _present(self.job) is not None:
                raise HeadAwayError(f"the head of job {self.job!r} is being started anew") from None
            raise WorkerLostError(f"the head of job {self.job!r} is gone: {_first_line(error)}") from None
        except RayError as error:
            raise WorkerLostError(f"the head of job {self.job!r} cannot be asked: {_first_line(error)}") from None

    def _check_store(self) -> None:
        """Tell a head that does not answer from a cluster that does not; the latter cannot be asked for anything.

        Raises:
            HeadAwayError: the control store cannot be reached now.
            WorkerLostError: it is gone, and the cluster with it.
        """
        if self._store.answers():
            return
        if self._store.is_gone:
            raise WorkerLostError(
                f"the Ray cluster of job {self.job!r} is gone: nothing answers at {self._store.address}; run the job "
                "again by its name on a cluster that is there, and it goes on from its last checkpoint, if there is one"
            )
        raise HeadAwayError(f"the control store of the Ray cluster at {self._store.address} does not answer")


def start_head(order: JobOrder, parcel: bytes) -> Head:
    """Start the head actor of a job, with its packed plan.

    Raises:
        InUseError: a job of this name runs on the cluster.
    """
    import ray

    from penstock.cluster.head_actor import HeadActor
    from penstock.engine.executors.ray.outliving import remove_left

    notes = HeadNotes(order.name, order.token)
    while True:
        _refuse_running(order.name)
        # Of a job of this name whose head was killed for good.
        remove_left(order.name)
        notes.keep_plan(parcel)
        try:
            actor = (
                ray.remote(HeadActor)
                .options(
                    name=order.name,
                    namespace=NAMESPACE,
                    lifetime="detached",
                    num_cpus=0,
                    max_restarts=-1,
                    max_task_retries=0,
                    max_concurrency=MOST_CALLS,
                )
                .remote(order)
            )
        except ValueError:
            # Another one was quicker.
            notes.delete()
            continue
        return Head(order.name, actor)


def find_head(job: str) -> Head:
    """Return the head of a job by its name.

    Raises:
        UserError: no such job runs on the cluster; the message names those that do.
    """
    head = _present(job)
    if head is None:
        others = ", ".join(map(repr, sorted(head.job for head in heads()))) or "none"
        raise UserError(f"no job {job!r} runs on this Ray cluster; those that run: {others}")
    return head


def heads() -> Iterator[Head]:
    """Yield the heads of all jobs on the cluster, those that are being started anew among them."""
    from ray.util import list_named_actors

    ours = {actor["name"] for actor in list_named_actors(all_namespaces=True) if actor["namespace"] == NAMESPACE}
    for job in sorted(name for name in ours if not _TASK_MANAGER.search(name)):
        head = _present(job)
        if head is not None:
            yield head


def end_left() -> None:
    """End what is left of jobs whose heads were killed for good: task managers, their places, notes."""
    from penstock.engine.executors.ray.outliving import remove_left

    for job in noted_jobs():
        if _present(job) is None:
            remove_left(job)
            delete_notes(job)


def _present(job: str) -> Head | None:
    """Return the head of this job; None: it has none. One that is gone for good has no name any more."""
    import ray

    try:
        return Head(job, ray.get_actor(job, namespace=NAMESPACE))
    except ValueError:
        return None


def _refuse_running(job: str) -> None:
    """Make room for a head of this job, if the one that is there has ended."""
    head = _present(job)
    if head is None:
        return
    try:
        report = head.report()
    except WorkerLostError:
        return
    if not report.state.is_over:
        raise InUseError(
            f"job {job!r} runs on this Ray cluster since {since_text(report)} ({report.state}): stop it with "
            f"penstock stop {job}, or give this one another name (--name)"
        )
    head.kill()


def since_text(report: HeadReport) -> str:
    """Return when a job was submitted, in UTC."""
    return f"{datetime.fromtimestamp(report.since_us / 1e6, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _raised(value: Any) -> Any:
    if isinstance(value, Failure):
        raise error_of(value, PLACE)
    return value


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
