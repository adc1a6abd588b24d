"""Damaged copies of messages, for the promise that each is decoded or refused, and nothing else happens."""

import random
from collections.abc import Iterator, Sequence

import numpy as np

from penstock.engine.connectors.kafka.formats.contract import ValueDecoder


def mutated(messages: Sequence[bytes], count: int, seed: int = 6) -> Iterator[bytes]:
    """Yield copies with bytes changed, cut off, repeated, put in or exchanged with another message's."""
    rng = random.Random(seed)
    for _ in range(count):
        message = bytearray(rng.choice(messages))
        for _ in range(rng.randrange(1, 4)):
            place = rng.randrange(len(message) + 1)
            match rng.randrange(6):
                case 0 if place < len(message):
                    message[place] = rng.randrange(256)
                case 1 if place < len(message):
                    message[place] ^= 1 << rng.randrange(8)
                case 2:
                    del message[place:]
                case 3:
                    message[place:place] = rng.randbytes(rng.randrange(1, 12))
                case 4:
                    message[place:place] = rng.choice(
                        (b"\xff" * 9 + b"\x01", b"\x80" * 12, b"\xfe\xff\xff\xff\x0f", b"\x00")
                    )
                case _:
                    other = rng.choice(messages)
                    message[place:] = other[rng.randrange(len(other) + 1) :]
        yield bytes(message)


def check_fates(decoder: ValueDecoder, messages: Sequence[bytes]) -> int:
    """Check that every message has one row or one error, the same as when it comes alone; return the errors."""
    decoded = decoder.decode(messages)
    rows, refused = decoded.row_of.tolist(), [index for index, _ in decoded.errors]
    assert sorted(rows + refused) == list(range(len(messages)))
    assert rows == sorted(rows) and refused == sorted(refused)
    assert decoded.rows.num_rows == len(rows)
    assert all(reason and len(reason) < 2_000 for _, reason in decoded.errors)
    for column in decoded.rows.columns:
        column.validate(full=True)
    for index in np.random.default_rng(1).integers(0, len(messages), min(50, len(messages))):
        alone = decoder.decode([messages[index]])
        assert (len(alone.errors) == 1) == (index in refused)
        if not alone.errors:
            assert str(alone.rows.to_pylist()) == str(decoded.rows.slice(rows.index(index), 1).to_pylist())
    return len(refused)
