"""The columns of Nexmark persons, auctions and bids, one function a column over event numbers.

Called by ``engine/connectors/nexmark/generator.py``, which knows which events a batch holds.
"""

from collections.abc import Callable
from dataclasses import dataclass

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
from penstock.engine.kernels.nexmark import Ints

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
        """The start of a field's random sequence."""
        return field_key(self.config.seed, field)


Column = Callable[[Events], pa.Array]


def _numbers(values: Ints) -> pa.Array:
    return pa.array(values)


def _times(values: Ints) -> pa.Array:
    return pa.Array.from_buffers(pa.timestamp("ms"), values.size, [None, pa.py_buffer(values)])


def _chosen(table: str) -> Column:
    def column(events: Events) -> pa.Array:
        strings = small_tables()[table]
        codes = kernels.uniform(events.n, events.key(table), strings.offsets.size - 1)
        return strings.at(codes)

    return column


def _random_text(field: str, limit: int) -> Column:
    def column(events: Events) -> pa.Array:
        return arrow_text(kernels.random_text(events.n, events.key(field), limit, _BLANK))

    return column


def _padding(events: Events, field: str, mean_bytes: int, fixed: int, *texts: pa.Array) -> pa.Array:
    room = np.full(events.n.size, mean_bytes - fixed, np.int64)
    for text in texts:
        ends = np.frombuffer(text.buffers()[1], np.int32, events.n.size + 1)
        room -= ends[1:] - ends[:-1]
    filler = padding_text(events.config.seed)
    return arrow_text(kernels.padding(events.n, events.key(field), room, filler))


def _own_id(is_person: bool) -> Column:
    def column(events: Events) -> pa.Array:
        c = events.config
        return _numbers(
            kernels.own_ids(
                events.n,
                c.person_proportion,
                c.auction_proportion,
                c.total_proportion,
                is_person,
            )
        )

    return column


def _event_time(events: Events) -> pa.Array:
    return _times(kernels.event_times(events.n, events.config.start, events.config.delay_us))


def _email(events: Events) -> pa.Array:
    user = _random_text("emailAddress/user", 7)(events)
    host = _random_text("emailAddress/host", 5)(events)
    return pc.binary_join_element_wise(user, pc.binary_join_element_wise(host, "com", "."), "@")


def _credit_card(events: Events) -> pa.Array:
    table = small_tables()["creditCard"]
    groups = [table.at(kernels.uniform(events.n, events.key(f"creditCard/{group}"), 10_000)) for group in range(4)]
    return pc.binary_join_element_wise(*groups, " ")


_person_name, _city, _state = _chosen("name"), _chosen("city"), _chosen("state")


def _person_extra(events: Events) -> pa.Array:
    texts = [column(events) for column in (_person_name, _email, _credit_card, _city, _state)]
    return _padding(events, "person/extra", events.config.person_bytes, _PERSON_FIXED, *texts)


_item_name, _description = _random_text("itemName", 20), _random_text("description", 100)


def _auction_extra(events: Events) -> pa.Array:
    texts = [_item_name(events), _description(events)]
    return _padding(events, "auction/extra", events.config.auction_bytes, _AUCTION_FIXED, *texts)


def _initial_bid(events: Events) -> pa.Array:
    return _numbers(kernels.prices(events.n, events.key("initialBid")))


def _reserve(events: Events) -> pa.Array:
    more = kernels.prices(events.n, events.key("reserve"))
    return _numbers(kernels.prices(events.n, events.key("initialBid")) + more)


def _expires(events: Events) -> pa.Array:
    c = events.config
    ahead = c.in_flight_auctions * c.total_proportion // c.auction_proportion
    return _times(kernels.expiry_times(events.n, events.key("expires"), c.start, c.delay_us, ahead))


def _category(events: Events) -> pa.Array:
    codes = kernels.uniform(events.n, events.key("category"), _CATEGORIES)
    return _numbers(_FIRST_CATEGORY + codes)


def _seller(events: Events) -> pa.Array:
    return _person_reference(events, "seller", events.config.hot_seller_ratio, 0)


def _bidder(events: Events) -> pa.Array:
    # nexmark/nexmark adds the first id to bidders twice, a slip; once, as in Beam, they are people.
    return _person_reference(events, "bidder", events.config.hot_bidder_ratio, 1)


def _person_reference(events: Events, field: str, hot_ratio: int, hot_place: int) -> pa.Array:
    c = events.config
    return _numbers(
        kernels.person_references(
            events.n,
            events.key(field),
            c.person_proportion,
            c.total_proportion,
            hot_ratio,
            hot_place,
            c.active_people,
        )
    )


def _bid_auction(events: Events) -> pa.Array:
    c = events.config
    return _numbers(
        kernels.auction_references(
            events.n,
            events.key("auction"),
            c.person_proportion,
            c.auction_proportion,
            c.total_proportion,
            c.hot_auction_ratio,
            c.in_flight_auctions,
        )
    )


def _price(events: Events) -> pa.Array:
    return _numbers(kernels.prices(events.n, events.key("price")))


def _channel(events: Events) -> pa.Array:
    return small_tables()["channel"].at(kernels.channel_codes(events.n, events.key("channel")))


def _url(events: Events) -> pa.Array:
    codes = kernels.channel_codes(events.n, events.key("channel"))
    return urls(events.config.seed).at(codes)


def _bid_extra(events: Events) -> pa.Array:
    return _padding(events, "bid/extra", events.config.bid_bytes, _BID_FIXED)


COLUMNS: dict[str, dict[str, Column]] = {
    "person": {
        "id": _own_id(is_person=True),
        "name": _person_name,
        "emailAddress": _email,
        "creditCard": _credit_card,
        "city": _city,
        "state": _state,
        "dateTime": _event_time,
        "extra": _person_extra,
    },
    "auction": {
        "id": _own_id(is_person=False),
        "itemName": _item_name,
        "description": _description,
        "initialBid": _initial_bid,
        "reserve": _reserve,
        "dateTime": _event_time,
        "expires": _expires,
        "seller": _seller,
        "category": _category,
        "extra": _auction_extra,
    },
    "bid": {
        "auction": _bid_auction,
        "bidder": _bidder,
        "price": _price,
        "channel": _channel,
        "url": _url,
        "dateTime": _event_time,
        "extra": _bid_extra,
    },
}
