"""A cluster that does not answer is told of once, and so is its return."""

from penstock.engine.connectors.kafka.outages import SAID_AFTER_NS, Outage, outage_of
from tests.engine.support import ManualClock


class Hearing:
    """An outage on a clock of the test's."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.said: list[str] = []
        self.outage = Outage("broker:9092", self.said.append, self.clock)


def test_an_outage_is_said_once_however_many_notice_and_so_is_its_end() -> None:
    hearing = Hearing()
    for _ in range(30):
        hearing.outage.lost("refused")
        hearing.clock.advance_ns(SAID_AFTER_NS // 2)
    hearing.outage.back()
    hearing.outage.back()
    assert hearing.said == [
        "no broker of Kafka at broker:9092 answers (refused); waiting for one",
        "Kafka at broker:9092 answers again after 15 s",
    ]
    hearing.outage.lost()
    hearing.clock.advance_ns(SAID_AFTER_NS)
    hearing.outage.lost()
    assert hearing.said[2:] == ["no broker of Kafka at broker:9092 answers; waiting for one"]


def test_a_connection_that_comes_back_at_once_is_not_worth_a_line() -> None:
    hearing = Hearing()
    hearing.outage.lost()
    hearing.clock.advance_ns(SAID_AFTER_NS // 2)
    hearing.outage.lost()
    hearing.outage.back()
    assert hearing.said == []


def test_all_clients_of_a_cluster_share_its_outage() -> None:
    assert outage_of("one:1", print) is outage_of("one:1", print)
    assert outage_of("one:1", print) is not outage_of("two:2", print)
