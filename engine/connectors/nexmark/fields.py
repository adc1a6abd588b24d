"""The columns of Nexmark persons, auctions and bids, one function a column over event numbers.

Called by ``engine/connectors/nexmark/generator.py``, which knows which events a batch holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.connectors.nexmark.config import NexmarkConfig
from penstock.engine.connectors.nexmark.text import (
    arrow_text,
    field_key,
    padding_text,
    small_tables,
    urls,
)
from penstock.engine.kernels import nexmark as kernels
from penstock.state.keys.arrays import Ints

_FIRST_CATEGORY = 10
_CATEGORIES = 5
_BLANK = ord(" ")
# What the reference counts of each kind before padding, besides the texts that it measures.
_PERSON_FIXED, _AUCTION_FIXED, _BID_FIXED = 8, 48, 32


@dataclass(frozen=True)
class Events:
    """Some events of one kind: their numbers and the options they are made with."""

    config: NexmarkConfig
    n: Ints

    def key(self, field: str) -> np.uint64:
        """Return the start of a field's random sequence."""
        return field_key(self.config.seed, field)


@dataclass(frozen=True)
class Column:
    """A column: its type, and its values for some events, as numbers or as an array of that type."""

    kind: pa.DataType
    values: Callable[[Events], Ints | pa.Array]

    def array(self, events: Events) -> pa.Array:
        """Return the values for some events."""
        values = self.values(events)
        if isinstance(values, pa.Array):
            return values
        return pa.Array.from_buffers(self.kind, values.size, [None, pa.py_buffer(values)])


def _choice(events: Events, table: str) -> pa.Array:
    texts = small_tables()[table]
    return texts.at(kernels.uniform(events.n, events.key(table), len(texts)))


def _random_text(events: Events, field: str, limit: int) -> pa.Array:
    return arrow_text(kernels.random_text(events.n, events.key(field), limit, _BLANK))


def _padding(events: Events, field: str, mean_bytes: int, fixed: int, *texts: pa.Array) -> pa.Array:
    room = np.full(events.n.size, mean_bytes - fixed, np.int64)
    for text in texts:
        ends = np.frombuffer(text.buffers()[1], np.int32, events.n.size + 1)
        room -= ends[1:] - ends[:-1]
    filler = padding_text(events.config.seed)
    return arrow_text(kernels.padding(events.n, events.key(field), room, filler))


def _own_ids(events: Events, *, is_person: bool) -> Ints:
    c = events.config
    return kernels.own_ids(events.n, c.person_proportion, c.auction_proportion, c.total_proportion, is_person)


def _event_times(events: Events) -> Ints:
    return kernels.event_times(events.n, events.config.start, events.config.delay_us)


def _email(events: Events) -> pa.Array:
    user = _random_text(events, "emailAddress/user", 7)
    host = _random_text(events, "emailAddress/host", 5)
    return pc.binary_join_element_wise(user, pc.binary_join_element_wise(host, "com", "."), "@")


def _credit_card(events: Events) -> pa.Array:
    table = small_tables()["creditCard"]
    groups = [table.at(kernels.uniform(events.n, events.key(f"creditCard/{group}"), 10_000)) for group in range(4)]
    return pc.binary_join_element_wise(*groups, " ")


def _person_extra(events: Events) -> pa.Array:
    texts = [COLUMNS["person"][name].array(events) for name in ("name", "emailAddress", "creditCard", "city", "state")]
    return _padding(events, "person/extra", events.config.person_bytes, _PERSON_FIXED, *texts)


def _auction_extra(events: Events) -> pa.Array:
    texts = [COLUMNS["auction"][name].array(events) for name in ("itemName", "description")]
    return _padding(events, "auction/extra", events.config.auction_bytes, _AUCTION_FIXED, *texts)


def _prices(events: Events, field: str) -> Ints:
    return kernels.prices(events.n, events.key(field))


def _expiry_times(events: Events) -> Ints:
    c = events.config
    ahead = c.in_flight_auctions * c.total_proportion // c.auction_proportion
    return kernels.expiry_times(events.n, events.key("expires"), c.start, c.delay_us, ahead)


def _categories(events: Events) -> Ints:
    return _FIRST_CATEGORY + kernels.uniform(events.n, events.key("category"), _CATEGORIES)


def _person_ids(events: Events, field: str, hot_place: int) -> Ints:
    c = events.config
    hot_ratio = c.hot_seller_ratio if field == "seller" else c.hot_bidder_ratio
    # nexmark/nexmark adds the first id to bidders twice, a slip; once, as in Beam, they are people.
    return kernels.person_references(
        events.n, events.key(field), c.person_proportion, c.total_proportion, hot_ratio, hot_place, c.active_people
    )


def _auction_ids(events: Events) -> Ints:
    c = events.config
    return kernels.auction_references(
        events.n,
        events.key("auction"),
        c.person_proportion,
        c.auction_proportion,
        c.total_proportion,
        c.hot_auction_ratio,
        c.in_flight_auctions,
    )


def _channel_codes(events: Events) -> Ints:
    return kernels.channel_codes(events.n, events.key("channel"))


_NUMBER, _TEXT, _TIME = pa.int64(), pa.string(), pa.timestamp("ms")

COLUMNS: Mapping[str, Mapping[str, Column]] = {
    "person": {
        "id": Column(_NUMBER, partial(_own_ids, is_person=True)),
        "name": Column(_TEXT, partial(_choice, table="name")),
        "emailAddress": Column(_TEXT, _email),
        "creditCard": Column(_TEXT, _credit_card),
        "city": Column(_TEXT, partial(_choice, table="city")),
        "state": Column(_TEXT, partial(_choice, table="state")),
        "dateTime": Column(_TIME, _event_times),
        "extra": Column(_TEXT, _person_extra),
    },
    "auction": {
        "id": Column(_NUMBER, partial(_own_ids, is_person=False)),
        "itemName": Column(_TEXT, partial(_random_text, field="itemName", limit=20)),
        "description": Column(_TEXT, partial(_random_text, field="description", limit=100)),
        "initialBid": Column(_NUMBER, partial(_prices, field="initialBid")),
        "reserve": Column(_NUMBER, lambda events: _prices(events, "initialBid") + _prices(events, "reserve")),
        "dateTime": Column(_TIME, _event_times),
        "expires": Column(_TIME, _expiry_times),
        "seller": Column(_NUMBER, partial(_person_ids, field="seller", hot_place=0)),
        "category": Column(_NUMBER, _categories),
        "extra": Column(_TEXT, _auction_extra),
    },
    "bid": {
        "auction": Column(_NUMBER, _auction_ids),
        "bidder": Column(_NUMBER, partial(_person_ids, field="bidder", hot_place=1)),
        "price": Column(_NUMBER, partial(_prices, field="price")),
        "channel": Column(_TEXT, lambda events: small_tables()["channel"].at(_channel_codes(events))),
        "url": Column(_TEXT, lambda events: urls(events.config.seed).at(_channel_codes(events))),
        "dateTime": Column(_TIME, _event_times),
        "extra": Column(_TEXT, lambda events: _padding(events, "bid/extra", events.config.bid_bytes, _BID_FIXED)),
    },
}
"""The columns of each kind of event, in the reference's order."""
