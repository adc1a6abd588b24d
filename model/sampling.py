"""The sample of a partition: the contract between a shedder and a reader that drops records before it decodes them."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray


class Sampler(Protocol):
    """Chooses which records of one partition stay, by their offsets."""

    @property
    def keep(self) -> float:
        """The keep rate that holds now, in [0, 1]."""

    def chosen(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of these records stay, None: all."""

    def wants_time(self) -> bool:
        """Return whether the event time of a dropped record is due, so that watermarks move; True at most 10/s."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The stretch of a partition, from ``start`` up to but without ``stop``, that one read has come past.

    ``keep`` is the rate that held for all of it, ``shed`` how many of its records were dropped. ``dated`` has the event
    time of one of these, in a column of its name; None: none was decoded.
    """

    keep: float
    start: int
    stop: int
    shed: int = 0
    dated: pa.RecordBatch | None = None
