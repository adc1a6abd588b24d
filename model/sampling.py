"""The sample of a partition: the contract between a shedder and a reader that drops records before it decodes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

STEP = pa.field("$step", pa.uint8(), nullable=False)
"""The hidden column of rows that branches shed further: the step of the record that a row was made of, in [0, 64)."""


class Sampler(Protocol):
    """Chooses which records of one partition stay, by their offsets."""

    @property
    def keep(self) -> float:
        """The keep rate that holds now, in [0, 1]."""

    @property
    def branches(self) -> Mapping[str, float]:
        """The keep rates that hold now of branches behind the source, ``PRODUCER>CONSUMER``: those below `keep`."""

    def chosen(self, offsets: NDArray[np.int64]) -> NDArray[np.bool_] | None:
        """Return which of these records stay, None: all."""

    def wants_time(self) -> bool:
        """Return whether the event time of a dropped record is due, so that watermarks move; True at most 10/s."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """The stretch of a partition, from ``start`` up to but without ``stop``, that one read has come past.

    ``keep`` is the rate that held for all of it, ``shed`` how many of its records were dropped. ``dated`` has the event
    time of one of these, in a column of its name; None: none was decoded. ``branches`` are the sampler's that held for
    all of it; if there are any, ``offsets`` has the offset of the record that each row of the read was made of.
    """

    keep: float
    start: int
    stop: int
    shed: int = 0
    dated: pa.RecordBatch | None = None
    branches: Mapping[str, float] = field(default_factory=dict)
    offsets: NDArray[np.int64] | None = None
