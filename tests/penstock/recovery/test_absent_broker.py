"""A job whose broker does not answer says who is waited for, and fails with what to do instead of waiting for ever."""

import logging
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock as ps
from penstock.dsl.job import Job
from penstock.model.errors import RetryableError
from tests.long_cases import but_for


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address at which every connection is refused: a port that is held, and not listened at."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


def reading(nobody: str, folder: Path) -> Job:
    orders = ps.read_kafka("orders", kafka=nobody, schema={"id": int}, job=Job()).name("orders")
    orders.write_json(str(folder / "out")).name("out")
    return orders.job


def writing(nobody: str, folder: Path) -> Job:
    orders = ps.read_memory([{"id": 1}], job=Job()).name("orders")
    orders.write_kafka("orders", kafka=nobody, guarantee="exactly_once").name("out")
    return orders.job


@pytest.mark.parametrize("make", but_for([reading, writing], [reading], "waits as long for a sink; [reading] stays"))
def test_a_first_start_without_a_broker_fails_with_its_address(
    tmp_path: Path,
    nobody: str,
    make: type,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with caplog.at_level(logging.WARNING, "penstock.kafka"), pytest.raises(RetryableError) as raised:
        make(nobody, tmp_path).run("absent", checkpoint_dir=tmp_path / "checkpoints", directory=tmp_path / "job")
    assert f"Kafka at {nobody} cannot be reached" in str(raised.value)
    assert any("start_timeout" in note for note in raised.value.__notes__)
    waiting = f"no broker of Kafka at {nobody} answers; waiting for one"
    assert [record.getMessage() for record in caplog.records].count(waiting) == 1
    said = capsys.readouterr().err
    assert said.count("NOT STARTED YET: 'absent'") == 1 and "BEGUN" not in said


def test_without_checkpoints_it_fails_too(tmp_path: Path, nobody: str) -> None:
    with pytest.raises(RetryableError, match="cannot be reached"):
        reading(nobody, tmp_path).run("absent", directory=tmp_path / "job")
