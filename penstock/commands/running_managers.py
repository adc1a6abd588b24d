"""A job that serves the HTTP API as it is steered; what the commands ``scale`` and ``drain`` print."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from penstock.engine.jobs.manager_orders import TaskManagers
from penstock.engine.jobs.rescale_orders import RescaleRecord
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.engine.moves.move_orders import MoveRecord
from penstock.engine.plan.free_edges import Routes
from penstock.jobs_client.client import JobClient


@dataclass(frozen=True, slots=True)
class OverHttp:
    """A job that serves the HTTP API; see `SteeredJob`."""

    client: JobClient

    @property
    def job(self) -> str:
        """See `SteeredJob.job`."""
        return self.client.status().job

    def task_managers(self) -> TaskManagers:
        """See `SteeredJob.task_managers`."""
        return self.client.task_managers().task_managers

    def resize_managers(self, count: int) -> TaskManagers:
        """See `SteeredJob.resize_managers`."""
        return self.client.change_task_managers(wanted=count).task_managers

    def drain_manager(self, name: str) -> TaskManagers:
        """See `SteeredJob.drain_manager`."""
        return self.client.change_task_managers(drain=name).task_managers

    def ask_rescale(self, parallelism: Mapping[str, int]) -> int:
        """See `SteeredJob.ask_rescale`."""
        number = self.client.rescale(parallelism).number
        assert number is not None
        return number

    def rescales(self) -> tuple[RescaleRecord, ...]:
        """See `SteeredJob.rescales`."""
        return self.client.rescales().rescales

    def preview_rescale(self, parallelism: Mapping[str, int]) -> RescalePreview:
        """See `SteeredJob.preview_rescale`."""
        return self.client.rescale(parallelism, dry_run=True).preview

    def move(self, instance: str, task_manager: str) -> int:
        """See `SteeredJob.move`."""
        return self.client.move(instance, task_manager)

    def moves(self) -> tuple[MoveRecord, ...]:
        """See `SteeredJob.moves`."""
        return self.client.moves().moves

    def route(self, operator: str, shares: Sequence[float]) -> Routes:
        """See `SteeredJob.route`."""
        return self.client.route(operator, shares).shares


def say(text: str) -> None:
    """Tell whoever waits for a command how far it is."""
    print(text, file=sys.stderr, flush=True)


def print_managers(job: str, managers: TaskManagers, *, as_json: bool) -> None:
    """Print which task managers a job has."""
    if as_json:
        print(json.dumps({"job": job, **asdict(managers)}))
        return
    live = managers.live
    print(f"{job} has {len(live)} task manager{'' if len(live) == 1 else 's'}: {', '.join(live)}")
