"""Compiled loops of the Nexmark generator: every value is a function of a key and an event number.

Called by the modules ``engine/connectors/nexmark*.py``; ``n`` is always an array of event numbers.
"""

import math

import numpy as np
import numpy.typing as npt

from penstock.engine.kernels.copy_bytes import copy_bytes
from penstock.state.kernels.jit import jit
from penstock.state.keys.arrays import Bytes, Ints

Offsets = npt.NDArray[np.int32]

FIRST_ID = 1000
ID_LEAD = 10
HOT_GROUP = 100
HOT_CHANNELS = 4
CHANNELS = 10_000

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MULTIPLY_1 = np.uint64(0xBF58476D1CE4E5B9)
_MULTIPLY_2 = np.uint64(0x94D049BB133111EB)
_UNIT = 2.0**-53
_LOG_MILLION = math.log(1e6)


@jit
def finish(z: np.uint64) -> np.uint64:
    """The finaliser of splitmix64: 64 well mixed bits from any 64."""
    z = (z ^ (z >> np.uint64(30))) * _MULTIPLY_1
    z = (z ^ (z >> np.uint64(27))) * _MULTIPLY_2
    return z ^ (z >> np.uint64(31))


@jit
def draw(key: np.uint64, n: int) -> np.uint64:
    """The ``n``-th output of the splitmix64 sequence that starts at ``key``."""
    return finish(key + np.uint64(n) * _GOLDEN)


@jit
def again(bits: np.uint64) -> np.uint64:
    """A further draw that follows from an earlier one."""
    return finish(bits + _GOLDEN)


@jit
def below(bits: np.uint64, bound: int) -> np.int64:
    """A number in [0, bound) from the high half of ``bits``; ``bound`` is below 2**32."""
    return np.int64(((bits >> np.uint64(32)) * np.uint64(bound)) >> np.uint64(32))


@jit
def event_numbers(first_row: int, rows: int, order: Ints, period: int) -> Ints:
    """Event numbers of the rows of one kind; ``order`` lists those within one ``period``."""
    n = np.empty(rows, np.int64)
    block, at = divmod(first_row, order.size)
    base = block * period
    for i in range(rows):
        n[i] = base + order[at]
        at += 1
        if at == order.size:
            at = 0
            base += period
    return n


@jit
def event_times(n: Ints, start_us: int, delay_us: float) -> Ints:
    """Event times in milliseconds since the epoch, rounded down."""
    times = np.empty(n.size, np.int64)
    for i in range(n.size):
        times[i] = (start_us + np.int64(n[i] * delay_us)) // 1000
    return times


@jit
def expiry_times(n: Ints, key: np.uint64, start_us: int, delay_us: float, ahead: int) -> Ints:
    """Return the ends of auctions, in ms: 1 + uniform(twice the time of the next ``ahead`` events) later."""
    times = np.empty(n.size, np.int64)
    for i in range(n.size):
        now = (start_us + np.int64(n[i] * delay_us)) // 1000
        horizon = (start_us + np.int64((n[i] + ahead) * delay_us)) // 1000 - now
        bound = max(2 * horizon, np.int64(1))
        times[i] = now + 1 + np.int64(draw(key, n[i]) % np.uint64(bound))
    return times


@jit
def uniform(n: Ints, key: np.uint64, bound: int) -> Ints:
    """Numbers in [0, bound)."""
    values = np.empty(n.size, np.int64)
    for i in range(n.size):
        values[i] = below(draw(key, n[i]), bound)
    return values


@jit
def prices(n: Ints, key: np.uint64) -> Ints:
    """``round(100 * 10 ** (6 u))`` with u uniform in [0, 1): 100 to 100,000,000."""
    values = np.empty(n.size, np.int64)
    for i in range(n.size):
        u = np.float64(draw(key, n[i]) >> np.uint64(11)) * _UNIT
        values[i] = np.int64(100.0 * math.exp(u * _LOG_MILLION) + 0.5)
    return values


@jit
def last_person(n: int, people: int, total: int) -> int:
    """Number, from 0, of the newest person once event ``n`` is there."""
    epoch, offset = divmod(n, total)
    return epoch * people + min(offset, people - 1)


@jit
def last_auction(n: int, people: int, auctions: int, total: int) -> int:
    """Number, from 0, of the newest auction once event ``n`` is there; -1 before the first."""
    epoch, offset = divmod(n, total)
    if offset < people:
        return epoch * auctions - 1
    return epoch * auctions + min(offset - people, auctions - 1)


@jit
def own_ids(n: Ints, people: int, auctions: int, total: int, is_person: bool) -> Ints:
    """Ids that persons or auctions get when they are born."""
    ids = np.empty(n.size, np.int64)
    for i in range(n.size):
        if is_person:
            ids[i] = FIRST_ID + last_person(n[i], people, total)
        else:
            ids[i] = FIRST_ID + last_auction(n[i], people, auctions, total)
    return ids


@jit
def person_references(
    n: Ints, key: np.uint64, people: int, total: int, hot_ratio: int, hot_place: int, active: int
) -> Ints:
    """Sellers (``hot_place`` 0) or bidders (1): hot with probability 1 - 1 / ``hot_ratio``.

    The others are uniform over the newest ``active`` people and ten who are not yet born.
    """
    ids = np.empty(n.size, np.int64)
    for i in range(n.size):
        last = last_person(n[i], people, total)
        bits = draw(key, n[i])
        if below(bits, hot_ratio) > 0:
            ids[i] = FIRST_ID + last // HOT_GROUP * HOT_GROUP + hot_place
        else:
            alive = min(last + 1, active)
            ids[i] = FIRST_ID + last + 1 - alive + below(again(bits), alive + ID_LEAD)
    return ids


@jit
def auction_references(
    n: Ints, key: np.uint64, people: int, auctions: int, total: int, hot_ratio: int, in_flight: int
) -> Ints:
    """Auctions that bids are for: hot with probability 1 - 1 / ``hot_ratio``.

    The others are uniform over the newest ``in_flight`` + 1 auctions and ten not yet opened.
    """
    ids = np.empty(n.size, np.int64)
    for i in range(n.size):
        last = last_auction(n[i], people, auctions, total)
        bits = draw(key, n[i])
        if below(bits, hot_ratio) > 0:
            ids[i] = FIRST_ID + last // HOT_GROUP * HOT_GROUP
        else:
            first = max(last - in_flight, 0)
            ids[i] = FIRST_ID + first + below(again(bits), last - first + 1 + ID_LEAD)
    return ids


@jit
def channel_codes(n: Ints, key: np.uint64) -> Ints:
    """Channels: one of the four hot ones (0 to 3) half of the time, else one of 10,000 (from 4)."""
    codes = np.empty(n.size, np.int64)
    for i in range(n.size):
        bits = draw(key, n[i])
        if bits & np.uint64(1):
            codes[i] = below(bits, HOT_CHANNELS)
        else:
            codes[i] = HOT_CHANNELS + below(bits, CHANNELS)
    return codes


@jit
def random_text(n: Ints, key: np.uint64, limit: int, special: int) -> tuple[Offsets, Bytes]:
    """Strings of 3 to ``limit`` - 1 letters, each ``special`` one time in 13; blank ends go."""
    blank = 32
    offsets = np.empty(n.size + 1, np.int32)
    data = np.empty(n.size * (limit - 1), np.uint8)
    end = 0
    for i in range(n.size):
        offsets[i] = end
        state = draw(key, n[i])
        bits = state
        length = 3 + below(bits, limit - 3)
        for j in range(length):
            if j % 4 == 0:
                state += _GOLDEN
                bits = finish(state)
            # 338 = 13 * 26: one draw says both whether and which letter.
            choice = ((bits & np.uint64(0xFFFF)) * np.uint64(338)) >> np.uint64(16)
            bits >>= np.uint64(16)
            letter = special if choice < 26 else 97 + np.int64(choice) % 26
            if letter != blank or end > offsets[i]:
                data[end] = letter
                end += 1
        while end > offsets[i] and data[end - 1] == blank:
            end -= 1
    offsets[n.size] = end
    return offsets, data[:end]


@jit
def letters(key: np.uint64, size: int) -> Bytes:
    """A text of ``size`` letters a to z."""
    text = np.empty(size, np.uint8)
    for i in range(size):
        text[i] = 97 + below(draw(key, i), 26)
    return text


@jit
def padding(n: Ints, key: np.uint64, room: Ints, text: Bytes) -> tuple[Offsets, Bytes]:
    """Slices of ``text`` whose size is ``room`` bytes more or less a fifth; none if it is <= 0."""
    offsets = np.empty(n.size + 1, np.int32)
    end = 0
    for i in range(n.size):
        offsets[i] = end
        if room[i] > 0:
            spread = (2 * room[i] + 5) // 10
            end += room[i] - spread + below(draw(key, n[i]), 2 * spread)
    offsets[n.size] = end
    data = np.empty(end, np.uint8)
    for i in range(n.size):
        at = offsets[i]
        length = offsets[i + 1] - at
        source = below(again(draw(key, n[i])), text.size - length)
        copy_bytes(data, at, text, source, length)
    return offsets, data
