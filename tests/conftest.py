"""Property tests are repeatable and know no deadline: a loaded machine must not fail them."""

import os
import secrets
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.random_settings import pytest_addoption, pytest_configure
from tests.ray_cluster import connected_to_ray, on_ray, ray_cluster

# Ray reads these while it is imported: the cluster of this run lets nobody else in.
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

# Whether a kernel is compiled depends on what ran before, and so must not show in what a test compares.
os.environ.setdefault("PENSTOCK_QUIET_KERNELS", "1")

__all__ = ["connected_to_ray", "on_ray", "pytest_addoption", "pytest_configure", "ray_cluster"]


@pytest.fixture(scope="session", autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what jobs leave for their user, as tokens, apart from that of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
