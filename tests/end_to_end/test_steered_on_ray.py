"""Queries whose job is changed at random as it runs on actors of Ray, and whose actors are killed."""

import os
from pathlib import Path

import pytest

from tests.contracts.executors.ways import RAY
from tests.end_to_end.test_steered import directory, steered
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

__all__ = ["directory"]


@pytest.mark.long("a dozen orders and three kills on Ray, which starts actors slowly; test_moves_on_ray.py has some")
@pytest.mark.parametrize("query", ["q4", "q5"])
def test_orders_and_kills_change_nothing_in_the_answer(
    directory: Path, tmp_path: Path, on_ray: RayCluster, query: str
) -> None:
    """``PENSTOCK_RAY_ORDERS`` sets how many orders each query gets, 12 at least."""
    orders = max(12, int(os.environ.get("PENSTOCK_RAY_ORDERS", "12")))
    kills = orders // 4
    steering = steered(directory, tmp_path, query, orders, kills, RAY, on_ray.task_managers)
    assert steering.done.total() == orders + kills and steering.done["rescale"]
