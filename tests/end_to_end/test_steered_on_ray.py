"""Queries whose job is changed at random as it runs on actors of Ray, and whose actors are killed."""

from pathlib import Path

import pytest

from tests.contracts.executors.ways import RAY
from tests.end_to_end.test_steered import MODES, check, directory, steered
from tests.ray_cluster import GROUP, RayCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group(GROUP)]

__all__ = ["directory"]


@pytest.mark.long("a hundred orders and 25 kills on Ray, which starts actors slowly; test_moves_on_ray.py has some")
@pytest.mark.parametrize("query", MODES)
def test_orders_and_kills_change_nothing_in_the_answer(
    directory: Path, tmp_path: Path, on_ray: RayCluster, query: str
) -> None:
    check(steered(directory, tmp_path, query, RAY, on_ray.task_managers))
