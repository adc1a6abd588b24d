"""The book of leases of a Ray cluster: an actor that heads find by its name, and that learns leases anew."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import ray

from penstock.engine.executors.ray.quota_actor import SPACE, QuotaKeeperOnRay
from penstock.model.errors import PenstockError
from penstock.scheduler.shared_quota import Ask, Lease, OtherHolding
from tests.contracts.executors.metered import until
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]


def seen(keeper: QuotaKeeperOnRay, lease: Lease, test: Callable[[Any], bool]) -> Any:
    """Renew until what is known fits."""
    views: list[Any] = []

    def fits() -> bool:
        try:
            views.append(keeper.renew(lease))
        except PenstockError:
            return False
        return views[-1] is not None and test(views[-1])

    until(fits)
    return views[-1]


def test_jobs_of_a_cluster_share_what_there_is(on_ray: RayCluster) -> None:
    one, two = QuotaKeeperOnRay("team", 0.0), QuotaKeeperOnRay("team", 0.0)
    a, b = Lease("a", 3.0, 5.0), Lease("b", 1.0, 2.0)
    assert seen(one, a, lambda view: True).before is None
    assert seen(two, b, lambda view: bool(view.others)).others == (OtherHolding("a", 3.0, 5.0),)
    assert two.take(Ask("b", 2.0, 2.0, 4.0)).result(30).cores == 1.0
    one.leave("a")
    seen(two, b, lambda view: not view.others)
    assert two.take(Ask("b", 2.0, 2.0, 4.0)).result(30).cores == 2.0
    # A head that follows finds the lease of the one before.
    after = QuotaKeeperOnRay("team", 0.0)
    before = seen(after, b, lambda view: True).before
    assert before is not None and before.cores == 2.0


def test_an_actor_that_was_killed_learns_what_jobs_have_and_then_grants(on_ray: RayCluster) -> None:
    # Both heads must be heard while it learns, on a busy machine, too. An actor of another test would learn as long as
    # that one says.
    one, two = QuotaKeeperOnRay("killed", 8.0), QuotaKeeperOnRay("killed", 8.0)
    a, b = Lease("a", 3.0, 0.0), Lease("b", 1.0, 0.0)
    seen(one, a, lambda view: bool(seen(two, b, lambda own: True)))
    until(lambda: two.take(Ask("b", 1.5, 0.0, 4.5)).result(30).cores == 1.5)
    ray.kill(ray.get_actor("killed", namespace=SPACE), no_restart=False)
    granted = set[float]()

    def renewed() -> float:
        """Let both heads say what they have, as they do once a second, and return what the second is granted."""
        for keeper, lease in ((one, a), (two, Lease("b", 1.5, 0.0))):
            with suppress(PenstockError):
                keeper.renew(lease)
        granted.add(taken(two, Ask("b", 2.5, 0.0, 5.0)))
        return max(granted)

    # Nothing is granted before all have said what they have, and then only what is left.
    until(lambda: renewed() > 1.5)
    assert granted <= {0.0, 1.5, 2.0}


def taken(keeper: QuotaKeeperOnRay, ask: Ask) -> float:
    """Return what was granted, 0 while nobody answers."""
    try:
        return keeper.take(ask).result(30).cores
    except PenstockError:
        return 0.0
