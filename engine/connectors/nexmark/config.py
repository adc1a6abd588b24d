"""Options of the Nexmark generator, with the defaults of nexmark/nexmark."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields

from penstock.engine.connectors.time_range import GREATEST_TIME_US
from penstock.model.errors import OptionError

_JUMP = 953
_MAX_PERIOD = 10_000_000
_RANGES: Mapping[str, tuple[int, int]] = {
    "events": (0, 2**53),
    "seed": (0, 2**63 - 1),
    "start": (0, GREATEST_TIME_US),
    **dict.fromkeys(("person_bytes", "auction_bytes", "bid_bytes"), (0, 100_000)),
}
_COUNTS = (1, 1_000_000)
"""The range of all other whole numbers."""


@dataclass(frozen=True)
class NexmarkConfig:
    """Parameters of the generator; equal configs give equal rows on every machine.

    Event ``n`` is a person, an auction or a bid by its place in a round of
    ``person_proportion + auction_proportion + bid_proportion`` events. Raises ``OptionError``.
    """

    events: int | None = None
    """Events of all three kinds together; None never ends."""
    seed: int = 0
    """Any integer from 0 to 2**63 - 1."""
    rate_per_s: float = 10_000.0
    """Events of all kinds per second of event time, however fast they are made."""
    start: int = 1_704_067_200_000_000
    """Event time of the first event, in microseconds since the epoch (2024-01-01T00:00:00Z)."""
    out_of_order_group: int = 1
    """Events per group G whose order is shuffled: place n holds event G*(n div G) + 953*n mod G."""
    person_proportion: int = 1
    auction_proportion: int = 3
    bid_proportion: int = 46
    hot_auction_ratio: int = 2
    """One bid in this many is not for the hot auction, the first of the newest hundred."""
    hot_seller_ratio: int = 4
    """One auction in this many is not by the hot seller, the first of the newest hundred people."""
    hot_bidder_ratio: int = 4
    """One bid in this many is not by the hot bidder, the second of the newest hundred people."""
    in_flight_auctions: int = 100
    """How many of the newest auctions still get bids."""
    active_people: int = 1000
    """How many of the newest people still sell and bid."""
    person_bytes: int = 200
    """Mean size of a person in bytes, reached by padding ``extra`` (more or less a fifth)."""
    auction_bytes: int = 500
    """Mean size of an auction in bytes."""
    bid_bytes: int = 100
    """Mean size of a bid in bytes, channel and URL not counted (as in nexmark/nexmark)."""

    def __post_init__(self) -> None:
        """Refuse values that would not mean anything."""
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name == "rate_per_s":
                is_rate = isinstance(value, (int, float)) and 1e-3 <= value < math.inf
                _check(field.name, value, is_rate, "a finite number of at least 0.001")
            elif field.name != "events" or value is not None:
                low, high = _RANGES.get(field.name, _COUNTS)
                is_whole = isinstance(value, int) and not isinstance(value, bool)
                _check(field.name, value, is_whole and low <= value <= high, f"an integer from {low:,} to {high:,}")
        group = self.out_of_order_group
        _check("out_of_order_group", group, group % _JUMP != 0, f"no multiple of {_JUMP}")
        _check(
            "out_of_order_group",
            group,
            self.period <= _MAX_PERIOD,
            f"such that its least common multiple with the round of {self.total_proportion} "
            f"events is at most {_MAX_PERIOD:,}",
        )
        last_us = self.start + (self.events or 0) * self.delay_us
        _check("events", self.events, last_us <= GREATEST_TIME_US, "few enough to end by year 9999")

    @property
    def total_proportion(self) -> int:
        """Events in one round of the three kinds."""
        return self.person_proportion + self.auction_proportion + self.bid_proportion

    @property
    def period(self) -> int:
        """Events after which the order of kinds within the stream repeats."""
        return math.lcm(self.out_of_order_group, self.total_proportion)

    @property
    def delay_us(self) -> float:
        """Event time between two events, in microseconds."""
        return 1e6 / self.rate_per_s


def _check(name: str, value: object, is_good: bool, wanted: str) -> None:
    if not is_good:
        raise OptionError(f"NexmarkConfig: {name} is {value!r}; it must be {wanted}.")
