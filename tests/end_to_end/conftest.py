"""Fixtures of the end-to-end tests."""

import pytest

from tests.end_to_end.nexmark_support import DataSets


@pytest.fixture(scope="session")
def data_sets(tmp_path_factory: pytest.TempPathFactory) -> DataSets:
    return DataSets(tmp_path_factory.mktemp("nexmark"))
