"""The sample of keys: which keys stay at which keep rate is a function of the keys alone, so that rows that meet agree.

A key has u = hash(seed, key) in [0, 1) and its rows stay while u < keep, on every input and instance. What is made of
rows that were read at several rates is whole, in the sample of the least of them, if its key stays at that one.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.model.keep_rates import STEPS
from penstock.shedding.offset_sampling import Steps

Times = NDArray[np.int64]

BUCKETS = 64
"""Keys are put into so many buckets, whose sums say how much sums over keys vary."""

_MOST_PIECES = 256
_ANOTHER = 0x5851F42D4C957F2D


def key_steps(seed: int, hashes: NDArray[np.uint64]) -> Steps:
    """Return the step of each key in [0, `STEPS`): it stays at keep rate k / `STEPS` if its step is below k.

    ``hashes`` are those of canonical keys; steps do not depend on where a hash says that a key lies.
    """
    mixed = hashes ^ np.uint64((seed * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return (mixed >> np.uint64(64 - (STEPS - 1).bit_length())).astype(np.uint8)


def key_buckets(seed: int, hashes: NDArray[np.uint64]) -> NDArray[np.uint8]:
    """Return the bucket of each key, in [0, `BUCKETS`); it says nothing of the key's step."""
    return key_steps(seed ^ _ANOTHER, hashes)


@dataclass(frozen=True, slots=True)
class _Piece:
    """Event times from ``start_us`` to ``stop_us``, both of them, and the least rate there, in steps."""

    start_us: int
    stop_us: int
    limit: int


class RateHistory:
    """The least keep rate, in steps, at which rows of an event time were read; `STEPS` where nothing else is known.

    Between times that had rows it may know a rate for some that had none: within ``gap_us``, and where many pieces were
    joined. It is never greater than the rate of a row.
    """

    def __init__(self, gap_us: int, encoded: bytes = b"") -> None:
        """Begin with what `encode` made bytes of."""
        self._gap_us = gap_us
        self._pieces = [_Piece(*row) for row in np.frombuffer(encoded, np.int64).reshape(-1, 3).tolist()]

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def add(self, start_us: int, stop_us: int, limit: int) -> None:
        """Take in that rows from one time to another, both of them, were read at a rate."""
        # Most rows come in order, at the rate of those before.
        if self._pieces:
            last = self._pieces[-1]
            if last.limit == limit and last.start_us <= start_us <= last.stop_us + self._gap_us:
                self._pieces[-1] = _Piece(last.start_us, max(last.stop_us, stop_us), limit)
                return
        pieces: list[_Piece] = []
        free_us = start_us
        for piece in self._pieces:
            if piece.stop_us < start_us or piece.start_us > stop_us:
                pieces.append(piece)
                continue
            if piece.start_us < start_us:
                pieces.append(_Piece(piece.start_us, start_us - 1, piece.limit))
            if free_us < piece.start_us:
                pieces.append(_Piece(free_us, piece.start_us - 1, limit))
            both_us = min(piece.stop_us, stop_us)
            pieces.append(_Piece(max(piece.start_us, start_us), both_us, min(piece.limit, limit)))
            free_us = both_us + 1
            if piece.stop_us > stop_us:
                pieces.append(_Piece(stop_us + 1, piece.stop_us, piece.limit))
        if free_us <= stop_us:
            pieces.append(_Piece(free_us, stop_us, limit))
        self._pieces = self._joined(sorted(pieces, key=lambda piece: piece.start_us))

    def include(self, other: "RateHistory") -> None:
        """Take in what another one knows."""
        for piece in other._pieces:
            self.add(piece.start_us, piece.stop_us, piece.limit)

    def least(self, starts_us: Times, stops_us: Times) -> NDArray[np.int64]:
        """Return the least rate, in steps, of each stretch of time, both of its ends included."""
        limits = np.full(len(starts_us), STEPS, np.int64)
        for piece in self._pieces:
            touched = (starts_us <= piece.stop_us) & (stops_us >= piece.start_us)
            limits[touched] = np.minimum(limits[touched], piece.limit)
        return limits

    def forget(self, before_us: int) -> None:
        """Join what lies before a time to one piece: what reaches back there has the least rate of all of it."""
        old = [piece for piece in self._pieces if piece.stop_us < before_us]
        if len(old) > 1:
            joined = _Piece(old[0].start_us, old[-1].stop_us, min(piece.limit for piece in old))
            self._pieces = [joined, *self._pieces[len(old) :]]

    def reaches(self, time_us: int) -> bool:
        """Return whether it knows a rate at this time or later."""
        return any(piece.stop_us >= time_us for piece in self._pieces)

    def encode(self) -> bytes:
        """Return all of it as bytes."""
        rows = [(piece.start_us, piece.stop_us, piece.limit) for piece in self._pieces]
        return np.array(rows, np.int64).tobytes()

    def _joined(self, pieces: list[_Piece]) -> list[_Piece]:
        """Join neighbours of one rate, and when there are many pieces, any two neighbours."""
        joined: list[_Piece] = []
        for piece in pieces:
            last = joined[-1] if joined else None
            if last is not None and last.limit == piece.limit and piece.start_us - last.stop_us <= self._gap_us:
                joined[-1] = _Piece(last.start_us, piece.stop_us, piece.limit)
            else:
                joined.append(piece)
        if len(joined) <= _MOST_PIECES:
            return joined
        pairs = [joined[at : at + 2] for at in range(0, len(joined), 2)]
        return [_Piece(two[0].start_us, two[-1].stop_us, min(piece.limit for piece in two)) for two in pairs]
