"""The key hash and the handling of byte strings, as kernels: a fixed function, a fixed seed.

The hash is frozen by tests/state/keys/key_hash_vectors.json (docs/design/keys-and-hashing.md 2).
"""

import numpy as np
from numpy.typing import NDArray

from penstock.state.kernels.intrinsics import address, inlined, load8, load64, store8, store64
from penstock.state.kernels.jit import jit

NULL_HASH = np.uint64(0xA24BAED4963EE407)

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MURMUR = np.uint64(0xC6A4A7935BD1E995)
_3, _27, _30, _31 = np.uint64(3), np.uint64(27), np.uint64(30), np.uint64(31)
_47, _64 = np.uint64(47), np.uint64(64)


@inlined
def mix(x: np.uint64) -> np.uint64:
    """Return a bijection of 64 bits in which every input bit reaches every output bit (splitmix64)."""
    x = x + _SEED
    x = (x ^ (x >> _30)) * _MIX_1
    x = (x ^ (x >> _27)) * _MIX_2
    return x ^ (x >> _31)


@inlined
def copy_bytes(source: int, target: int, length: int) -> None:
    """Copy bytes from address to address, eight at a time, the last eight overlapping."""
    if length < 8:
        for j in range(length):
            store8(target + j, load8(source + j))
        return
    last = length - 8
    j = 0
    while j < last:
        store64(target + j, load64(source + j))
        j += 8
    store64(target + last, load64(source + last))


@inlined
def same_bytes(left: int, right: int, length: int) -> bool:
    """Whether the bytes at two addresses are equal."""
    if length < 8:
        different = np.uint64(0)
        for j in range(length):
            different |= load8(left + j) ^ load8(right + j)
        return bool(different == np.uint64(0))
    last = length - 8
    j = 0
    while j < last:
        if load64(left + j) != load64(right + j):
            return False
        j += 8
    return bool(load64(left + last) == load64(right + last))


@jit
def hash_words(words: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Write mix(word) of every value."""
    for i in range(words.size):
        hashes[i] = mix(np.uint64(words[i]))


@jit
def fold_hashes(folded: NDArray[np.uint64], hashes: NDArray[np.uint64]) -> None:
    """Fold the next part of a composite value into `folded`: mix(folded ^ hash)."""
    for i in range(folded.size):
        folded[i] = mix(folded[i] ^ hashes[i])


@jit
def hash_bytes(data: NDArray[np.uint8], offsets: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Write MurmurHash64A of every byte string data[offsets[i]:offsets[i + 1]]."""
    base = address(data)
    for i in range(hashes.size):
        at = offsets[i]
        end = offsets[i + 1]
        h = _SEED ^ (np.uint64(end - at) * _MURMUR)
        while at + 8 <= end:
            k = load64(base + at) * _MURMUR
            k = (k ^ (k >> _47)) * _MURMUR
            h = (h ^ k) * _MURMUR
            at += 8
        if at < end:
            h = (h ^ _tail(base, data.size, at, end)) * _MURMUR
        h = (h ^ (h >> _47)) * _MURMUR
        hashes[i] = h ^ (h >> _47)


@jit
def copy_segments(
    source: NDArray[np.uint8],
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64],
    target: NDArray[np.uint8],
    positions: NDArray[np.int64],
) -> None:
    """Copy source[starts[i]:][:lengths[i]] to target[positions[i]:] for every i."""
    from_base = address(source)
    to_base = address(target)
    for i in range(lengths.size):
        copy_bytes(from_base + starts[i], to_base + positions[i], lengths[i])


@jit
def append_parts(
    source: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    target: NDArray[np.uint8],
    cursor: NDArray[np.int64],
) -> None:
    """Write every string's length (4 bytes, little endian) and bytes at cursor[i], which moves behind them."""
    from_base = address(source)
    to_base = address(target)
    for i in range(cursor.size):
        start = offsets[i]
        length = offsets[i + 1] - start
        at = cursor[i]
        for j in range(4):
            target[at + j] = (length >> (8 * j)) & 0xFF
        copy_bytes(from_base + start, to_base + at + 4, length)
        cursor[i] = at + 4 + length


@inlined
def _tail(base: int, size: int, at: int, end: int) -> np.uint64:
    """Return bytes [at, end) (1 to 7) as a zero-padded word, reading only bytes [0, size) behind base."""
    unused = _64 - (np.uint64(end - at) << _3)
    if at + 8 <= size:
        return np.uint64((load64(base + at) << unused) >> unused)
    if end >= 8:
        return np.uint64(load64(base + end - 8) >> unused)
    word = np.uint64(0)
    for j in range(end - at):
        word |= load8(base + at + j) << (np.uint64(j) << _3)
    return word
