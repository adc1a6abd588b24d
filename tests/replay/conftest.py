"""One Spark session for the tests here, and the broker that the tests of Kafka share; never skipped."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kafka.conftest import MakeTopic, kafka, topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["MakeTopic", "kafka", "topic"]

HERE = Path(__file__).parent
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that runs for minutes: compiling well what it does costs more than it gains."""

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": QUICK,
    "spark.sql.shuffle.partitions": "2",
}


def pytest_configure(config: pytest.Config) -> None:
    """Know the mark in runs without xdist too."""
    config.addinivalue_line("markers", "xdist_group(name): tests that one process has")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one process have the tests here: they share a session."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A session on two cores of this machine, as the commands launch one."""
    from penstock.replay.session import spark_session

    with spark_session("local[2]", settings=SETTINGS) as session:
        yield session
