"""A small data set full of equal prices, times and whole rows, where every rule that breaks ties matters.

Called by tests of the queries; the generator's data hardly ever ties.
"""

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from penstock.engine.connectors.nexmark.generator import SCHEMAS

_START_MS = 1_704_153_595_000
_PERSONS, _AUCTIONS, _BIDS = 6, 60, 3000


def write_ties(directory: Path) -> dict[str, int]:
    """Write the three Parquet files; give the rows of each. The same rows every time, bids in the order of time."""
    draw = random.Random(20)
    rows = {
        "person": [_person(draw, number) for number in range(_PERSONS)],
        "auction": [_auction(draw, number) for number in range(_AUCTIONS)],
        "bid": sorted((_bid(draw) for _ in range(_BIDS)), key=lambda bid: int(bid["dateTime"])),
    }
    for kind, values in rows.items():
        pq.write_table(pa.Table.from_pylist(values, SCHEMAS[kind]), directory / f"{kind}.parquet", row_group_size=700)
    return {kind: len(values) for kind, values in rows.items()}


def _person(draw: random.Random, number: int) -> dict[str, Any]:
    return {
        "id": number,
        "name": draw.choice(["Ann", "Bob"]),
        "emailAddress": f"{number}@example.com",
        "creditCard": "1234",
        "city": draw.choice(["Bend", "Kent"]),
        "state": draw.choice(["OR", "WA"]),
        "dateTime": _time(draw),
        "extra": draw.choice("ab"),
    }


def _auction(draw: random.Random, number: int) -> dict[str, Any]:
    opens = _time(draw)
    return {
        "id": number,
        "itemName": draw.choice(["lamp", "chair"]),
        "description": draw.choice(["old", "new"]),
        "initialBid": draw.randrange(3),
        "reserve": draw.randrange(3),
        "dateTime": opens,
        "expires": opens + 1000 * draw.randrange(1, 6),
        "seller": draw.randrange(3),
        "category": draw.choice([10, 11]),
        "extra": draw.choice("ab"),
    }


def _bid(draw: random.Random) -> dict[str, Any]:
    channel = draw.choice(["Google", "channel-1", "channel-2"])
    return {
        "auction": draw.randrange(_AUCTIONS),
        "bidder": draw.randrange(_PERSONS),
        "price": draw.choice([5000, 500_000, 5_000_000]),
        "channel": channel,
        "url": f"https://example.com/{draw.choice('ab')}/b/item?query=1&channel_id=7",
        "dateTime": _time(draw),
        "extra": draw.choice("abc"),
    }


def _time(draw: random.Random) -> int:
    """One of ten seconds, half of them before midnight."""
    return _START_MS + 1000 * draw.randrange(10)
