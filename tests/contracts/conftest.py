"""Fixtures of the contracts."""

import pytest

from tests.contracts.backends import BACKENDS


@pytest.fixture(params=BACKENDS)
def store(request):
    return BACKENDS[request.param]("op")
