"""Tests that share a broker, a session or a run are given to one process; otherwise each process starts its own."""

import pytest


@pytest.mark.xdist_group("probe")
def test_groups_are_kept_together(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("loadgroup", False):
        assert request.node.nodeid.endswith("@probe")
