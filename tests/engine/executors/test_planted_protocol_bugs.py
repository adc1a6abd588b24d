"""Bugs planted on purpose between a head and its task managers: the simulator must find each within 200 seeds."""

import pytest

from penstock.engine.executors.managers import messages as ms
from penstock.engine.executors.managers.awaited_uploads import AwaitedUploads
from penstock.engine.executors.managers.delivery import Delivery
from penstock.engine.executors.managers.deployments import Deployments
from penstock.engine.executors.managers.head import Head
from tests.engine.executors.simulated_support import simulation

SEEDS = range(1, 201)


def resend_as_new(patch):
    """What was not acknowledged in time is sent again as another message."""
    due = Delivery.due

    def renewed(delivery, now_ns):
        waiting = list(delivery._unacknowledged)
        envelopes = due(delivery, now_ns)
        # Each time there are twice as many, and a run must come to its end.
        if not any(envelope.sequence for envelope in envelopes) or len(waiting) > 64:
            return envelopes
        return [delivery.send(body, now_ns) for _, body in waiting]

    patch.setattr(Delivery, "due", renewed)


def take_what_comes(patch):
    """Messages count in the order in which they arrive."""
    receive = Delivery.receive

    def hasty(delivery, envelope, now_ns):
        if not envelope.sequence or envelope.sequence <= delivery._received:
            return receive(delivery, envelope, now_ns)
        delivery._received = envelope.sequence
        receive(delivery, envelope, now_ns)
        return [envelope.body]

    patch.setattr(Delivery, "receive", hasty)


def keep_links_over_a_deployment(patch):
    """All deployments have one number, and so the links of the first."""
    patch.setattr(Head, "next_deployment", lambda head: 1)


def count_a_part_twice(patch):
    """What a task manager has uploaded is in the manifest twice."""
    add = AwaitedUploads.add

    def doubled(uploads, epoch, manager, part):
        if manager in uploads._waiting.get(epoch, ()):
            uploads._parts[epoch].append(part)
        add(uploads, epoch, manager, part)

    patch.setattr(AwaitedUploads, "add", doubled)


def start_some_only(patch):
    """The last task manager of a deployment is not told to start."""

    def start(deployments, new):
        for deployment in new:
            for manager in deployment.managers[: max(1, len(deployment.managers) - 1)]:
                deployments._head.send(manager, ms.Start(deployment.number))

    patch.setattr(Deployments, "start", start)


@pytest.mark.parametrize(
    ("plant", "pipeline"),
    [
        (resend_as_new, "counted"),
        (take_what_comes, "tumbled"),
        (keep_links_over_a_deployment, "tumbled"),
        (count_a_part_twice, "counted"),
        (start_some_only, "tumbled"),
    ],
)
def test_a_planted_bug_is_found(plant, pipeline, monkeypatch):
    undisturbed = simulation(pipeline, managed=True)
    plant(monkeypatch)
    found = next((seed for seed in SEEDS if undisturbed.run(seed).problem is not None), None)
    assert found is not None
    assert undisturbed.run(found).problem == undisturbed.run(found).problem
