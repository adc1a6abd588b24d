"""A job that sheds at rates which change all the time is killed: output, log and account agree, exactly once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock.chaos.experiment import ChaosReport
from penstock.engine.connectors.kafka.admin import delete_topics
from penstock.engine.connectors.kafka.settings import KafkaSettings
from tests.chaos.shedding_attacks import Orders, SheddingAttacker, make_orders, shedding_lives

pytestmark = pytest.mark.slow

FEW, MANY = 8_000, 150_000


@pytest.fixture(scope="module")
def orders(kafka: str) -> Iterator[Orders]:
    made = make_orders(kafka, FEW)
    yield made
    delete_topics(KafkaSettings(kafka), [made.topic])


@pytest.fixture(scope="module")
def many_orders(kafka: str) -> Iterator[Orders]:
    made = make_orders(kafka, MANY)
    yield made
    delete_topics(KafkaSettings(kafka), [made.topic])


def check(report: ChaosReport, kills: int) -> None:
    assert report.failure is None, report.failure
    assert report.kills == kills and report.runs and report.rows
    assert report.left_out == {}
    assert (report.lost, report.duplicated) == (0, 0), report


def test_r11_what_is_committed_is_what_the_log_says_was_kept(orders: Orders, tmp_path: Path) -> None:
    with shedding_lives(orders) as start:
        check(SheddingAttacker(tmp_path, start, orders).moments(2, seed=1), 2)


def test_r11_what_was_dealt_out_by_strata_is_what_the_log_says(orders: Orders, tmp_path: Path) -> None:
    with shedding_lives(orders) as start:
        check(SheddingAttacker(tmp_path, start, orders).moments(3, seed=4, way="deals"), 3)


@pytest.mark.long("100 kills; test_r11_what_is_committed_is_what_the_log_says_was_kept has two")
def test_r11_100_kills_of_the_command(many_orders: Orders, tmp_path: Path) -> None:
    with shedding_lives(many_orders) as start:
        check(SheddingAttacker(tmp_path, start, many_orders).moments(100, seed=2), 100)


@pytest.mark.long("100 kills; test_r11_what_is_committed_is_what_the_log_says_was_kept has two, without task managers")
def test_r11_100_kills_of_task_managers(many_orders: Orders, tmp_path: Path) -> None:
    with shedding_lives(many_orders) as start:
        attacker = SheddingAttacker(tmp_path, start, many_orders)
        check(attacker.moments(100, seed=3, executor="processes", task_managers=2), 100)


@pytest.mark.long("50 kills; test_r11_what_was_dealt_out_by_strata_is_what_the_log_says has three")
def test_r11_50_kills_while_strata_are_shed(many_orders: Orders, tmp_path: Path) -> None:
    with shedding_lives(many_orders) as start:
        check(SheddingAttacker(tmp_path, start, many_orders).moments(50, seed=5, way="deals"), 50)
