"""What load shedding says of itself to people."""

from penstock.model.shedding_status import QueryAccuracy, SheddingStatus


def test_shares_are_said_without_the_last_digits_of_a_double() -> None:
    said = QueryAccuracy("hot", 0.3, 1.0, 0.1 + 0.2, 0.75 * 0.7499999999999871, 0.05, None, 1 / 3).rounded()
    assert (said.desired, said.current, said.granted, said.error) == (0.3, 0.5625, 0.333333, None)
    status = SheddingStatus("qod", "act", "a reason", (said,), (("bids", 0.5625),), applied=True)
    assert status.sentence() == "bids 56% (hot desired 30%, had 56%); a reason"
