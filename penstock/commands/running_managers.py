"""The waits of the commands ``scale`` and ``drain``, and what they print; `jobs_client` asks the job."""

import json
import sys
import time
from dataclasses import asdict

from penstock.commands.running_rescale import await_rescale
from penstock.http_api.answers import TaskManagersAnswer
from penstock.jobs_client.client import JobClient

LOOK_S = 0.1
"""How often the job is asked how far it is."""

WARM_S = 60.0
"""How long it is waited at most until those that have come have loaded their kernels."""


def place_on(client: JobClient, count: int, *, quiet: bool) -> TaskManagersAnswer:
    """Let a job have so many task managers, and its instances be on them.

    Raises:
        UserError: the job cannot have so many.
    """
    known = client.change_task_managers(wanted=count).task_managers
    more = count > len(known.live)
    shown = len(known.live)
    while True:
        answer = client.task_managers()
        there = answer.task_managers
        if len(there.live) != shown and not quiet:
            shown = len(there.live)
            print(f"{shown} of {count} task managers are there", file=sys.stderr)
        if there.wanted != count or (len(there.live) == count and not there.leaving):
            break
        time.sleep(LOOK_S)
    until_s = time.monotonic() + WARM_S
    while more and len(client.task_managers().task_managers.warm) < count and time.monotonic() < until_s:
        time.sleep(LOOK_S)
    if more:
        number = client.rescale({}).number
        assert number is not None
        await_rescale(client, number)
    return client.task_managers()


def drained(client: JobClient, name: str) -> TaskManagersAnswer:
    """Let a task manager go for good, and wait until it has.

    Raises:
        UserError: it cannot go.
    """
    client.change_task_managers(drain=name)
    while True:
        answer = client.task_managers()
        if name not in (*answer.task_managers.live, *answer.task_managers.leaving):
            return answer
        time.sleep(LOOK_S)


def print_managers(answer: TaskManagersAnswer, *, as_json: bool) -> None:
    """Print which task managers a job has."""
    if as_json:
        print(json.dumps(asdict(answer)))
        return
    live = answer.task_managers.live
    print(f"{answer.job} has {len(live)} task manager{'' if len(live) == 1 else 's'}: {', '.join(live)}")
