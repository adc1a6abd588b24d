"""The texts Nexmark events choose from: names, channels, URLs and the padding text.

Called by ``engine/connectors/nexmark/fields.py``; a table is built once per process and seed.
"""

import hashlib
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.engine.kernels import nexmark as kernels
from penstock.engine.kernels.gather_text import gather_text
from penstock.engine.kernels.nexmark import Offsets
from penstock.state.keys.arrays import Bytes, Ints, read_only
from penstock.state.keys.text_arrays import write_text

_PADDING_TEXT_BYTES = 1 << 20
_UNDERSCORE = ord("_")

_FIRST_NAMES = "Peter,Paul,Luke,John,Saul,Vicky,Kate,Julie,Sarah,Deiter,Walter"
_LAST_NAMES = "Shultz,Abrams,Spencer,White,Bartels,Walton,Smith,Jones,Noris"
_CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne"
_STATES = "AZ,CA,ID,OR,WA,WY"
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]


@lru_cache(maxsize=256)
def field_key(seed: int, field: str) -> np.uint64:
    """Return the start of a field's random sequence: 64 bits of a hash of seed and name."""
    digest = hashlib.blake2b(f"{field}/{seed}".encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def arrow_text(parts: tuple[Offsets, Bytes]) -> pa.Array:
    """Return a string array over the offsets and bytes a kernel made, without a copy."""
    offsets, data = parts
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), offsets.size - 1, buffers)


@dataclass(frozen=True)
class TextTable:
    """Strings to choose from, as Arrow offsets and bytes."""

    offsets: Ints
    data: Bytes

    @classmethod
    def of(cls, strings: pa.Array) -> "TextTable":
        """Return the table of a string array that has no nulls and starts at its first byte."""
        _, offsets, data = strings.buffers()
        starts = np.frombuffer(offsets, np.int32, len(strings) + 1).astype(np.int64)
        return cls(read_only(starts), read_only(np.frombuffer(data, np.uint8)))

    def __len__(self) -> int:
        return self.offsets.size - 1

    def at(self, codes: Ints) -> pa.Array:
        """Return the strings at ``codes``, each in [0, len(self))."""
        offsets, data = gather_text(read_only(codes), self.offsets, self.data)
        return write_text(pa.string(), data, offsets, None)


@lru_cache(maxsize=1)
def small_tables() -> dict[str, TextTable]:
    """Return the tables that are the same for every seed, by column."""
    first_names, last_names = _FIRST_NAMES.split(","), _LAST_NAMES.split(",")
    tables = {
        "name": [f"{first} {last}" for first in first_names for last in last_names],
        "creditCard": [f"{group:04d}" for group in range(10_000)],
        "city": _CITIES.split(","),
        "state": _STATES.split(","),
        "channel": _HOT_CHANNELS + [f"channel-{i}" for i in range(kernels.CHANNELS)],
    }
    return {name: TextTable.of(pa.array(texts, pa.string())) for name, texts in tables.items()}


@lru_cache(maxsize=4)
def urls(seed: int) -> TextTable:
    """Return one URL a channel: three random folders, and an id for nine in ten of the 10,000."""
    n = np.arange(kernels.HOT_CHANNELS + kernels.CHANNELS, dtype=np.int64)
    folders = [
        arrow_text(kernels.random_text(n, field_key(seed, f"url/{level}"), 5, _UNDERSCORE)) for level in range(3)
    ]
    url = pc.binary_join_element_wise("https://www.nexmark.com", *folders, "item.htm?query=1", "/")
    has_id = kernels.uniform(n, field_key(seed, "url/has_id"), 10) > 0
    has_id[: kernels.HOT_CHANNELS] = False
    ids = pc.binary_join_element_wise("&channel_id", _reversed_bits(), "=")
    ids = pa.concat_arrays([pa.array([""] * kernels.HOT_CHANNELS, pa.string()), ids])
    suffix = pc.if_else(pa.array(has_id), ids, "")
    return TextTable.of(pc.binary_join_element_wise(url, suffix, ""))


def _reversed_bits() -> pa.Array:
    """Return the channel numbers with their 32 bits reversed, made positive as Java's abs does."""
    numbers = np.arange(kernels.CHANNELS, dtype=np.uint32)
    bits = np.zeros_like(numbers)
    for place in range(32):
        bits |= ((numbers >> np.uint32(place)) & np.uint32(1)) << np.uint32(31 - place)
    return pc.cast(pa.array(np.abs(bits.view(np.int32))), pa.string())


@lru_cache(maxsize=4)
def padding_text(seed: int) -> Bytes:
    """Return the text that every ``extra`` is a slice of."""
    return kernels.letters(field_key(seed, "padding text"), _PADDING_TEXT_BYTES)
