"""The HTTP API of a job on several task managers: where instances run, and what becomes of a task manager."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from penstock.engine.core.job_events import CheckpointCommitted, Restarted, TaskManagerJoined, TaskManagerLost
from penstock.http_api.event_messages import EventMessage
from penstock.jobs_client.address import parse_address
from penstock.jobs_client.client import JobClient
from tests.contracts.executors.metered import PARTITIONS, ROWS, MeteredJob, task_managers, until

Told = TypeVar("Told")


def events_of(messages: Iterator[EventMessage], kind: type[Told], count: int) -> list[Told]:
    """Return the next events of a kind; others are passed over."""
    found: list[Told] = []
    while len(found) < count:
        event = next(messages).event
        if isinstance(event, kind):
            found.append(event)
    return found


def test_a_killed_task_manager_is_told_and_its_instances_have_another_place(tmp_path: Path) -> None:
    job = MeteredJob(tmp_path)
    job.give(500)
    handle = job.start(executor="processes", task_managers=2, parallelism=2, metrics_port=0)
    assert handle.metrics_url is not None
    client = JobClient(parse_address(handle.metrics_url))
    until(lambda: handle.metrics().source_rows == PARTITIONS * 500, handle)
    with client.events("0") as events:
        joined = {event.task_manager for event in events_of(events, TaskManagerJoined, 2)}
        assert joined == {"tm-0", "tm-1"}
        places = {item.name: item.task_manager for item in client.instances().instances}
        assert set(places.values()) == joined
        os.kill(task_managers()[0].pid, signal.SIGKILL)
        (lost,) = events_of(events, TaskManagerLost, 1)
        (restarted,) = events_of(events, Restarted, 1)
        assert lost.task_manager in joined and "lost" in restarted.error
        handle.savepoint("after", 60)
        (committed,) = events_of(events, CheckpointCommitted, 1)
        assert committed.epoch >= 1
    assert lost.task_manager not in {item.task_manager for item in client.instances().instances}
    assert client.status().restarts == 1
    job.give(ROWS)
    handle.wait(60)
    job.check()
