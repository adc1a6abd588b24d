"""Whatever runs on Ray here runs on the one cluster of the test run, by one worker."""

import pytest

from tests.ray_cluster import GROUP, is_on_ray


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if is_on_ray(item):
            item.add_marker(pytest.mark.xdist_group(GROUP))


@pytest.fixture(autouse=True)
def cluster_of_the_executor(request: pytest.FixtureRequest) -> None:
    """Connect this process to the cluster if the test has a parameter that says so."""
    if is_on_ray(request.node):
        request.getfixturevalue("on_ray")
