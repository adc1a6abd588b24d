"""How long a job that was told to stop waits for what its sinks have on their way."""

from penstock.engine.jobs.stop_patience import STOP_DELIVERY_NS, StopPatience
from penstock.model.outstanding import Outstanding


def test_it_waits_as_long_as_something_arrives() -> None:
    patience = StopPatience(checkpoints=True)
    at_ns = 0
    for arrived in range(10):
        at_ns += STOP_DELIVERY_NS - 1
        assert patience.look(at_ns, [Outstanding(50, arrived, "topic 'a'"), None]) is None
    assert patience.look(at_ns + STOP_DELIVERY_NS - 1, [Outstanding(60, 9, "topic 'a'")]) is None
    error = patience.look(at_ns + STOP_DELIVERY_NS, [Outstanding(60, 9, "topic 'a'")])
    assert error is not None
    assert str(error).endswith("of 60 rows to topic 'a' nothing has arrived for 5 s: the next start sends them again")


def test_instances_of_one_sink_are_counted_together_and_sinks_apart() -> None:
    patience = StopPatience(checkpoints=False)
    left = [Outstanding(1_000, 5, "topic 'a'"), Outstanding(234, 1, "topic 'a'"), Outstanding(1, 0, "topic 'b'")]
    assert patience.look(7, left) is None
    error = patience.look(7 + STOP_DELIVERY_NS, left)
    assert error is not None
    assert "of 1,234 rows to topic 'a' and 1 rows to topic 'b' nothing" in str(error) and "lost" in str(error)


def test_nothing_is_said_when_everything_has_arrived() -> None:
    patience = StopPatience(checkpoints=False)
    for at_ns in range(0, 10 * STOP_DELIVERY_NS, STOP_DELIVERY_NS):
        assert patience.look(at_ns, []) is None


def test_a_writer_that_has_finished_takes_no_time_from_the_others() -> None:
    patience = StopPatience(checkpoints=True)
    slow = [Outstanding(400_000 - arrived, 20_000 + arrived, "topic 'a'") for arrived in range(0, 300_000, 10_000)]
    assert patience.look(0, [Outstanding(10, 1_000_000, "topic 'a'"), slow[0]]) is None
    for second, item in enumerate(slow[1:], 1):
        assert patience.look(second * 1_000_000_000, [None, item]) is None
    stalled_ns = len(slow) * 1_000_000_000 + STOP_DELIVERY_NS
    assert patience.look(stalled_ns, [None, slow[-1]]) is not None
