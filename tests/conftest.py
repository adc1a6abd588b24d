"""Property tests are repeatable and know no deadline: a loaded machine must not fail them."""

from hypothesis import HealthCheck, settings

from tests.random_settings import pytest_addoption, pytest_configure

__all__ = ["pytest_addoption", "pytest_configure"]

settings.register_profile("steady", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")
