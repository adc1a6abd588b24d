"""A source of your own: the tide at three stations, every ten minutes for two days.

A `Source` names its partitions and opens them; a `Reader` reads one and knows its position, from which another reader
goes on. Each station is a partition and has a watermark of its own.
Run it with ``penstock run examples/custom_source.py`` or ``python examples/custom_source.py``.
"""

import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

import penstock as ps
from penstock import max_, min_, tumbling

SCHEMA = pa.schema({"at": pa.timestamp("us"), "station": pa.string(), "metres": pa.float64()})
START = datetime(2026, 1, 1)
STATIONS = {"Brest": (3.2, 0.0), "Calais": (3.1, 7.6), "Dover": (2.7, 7.2)}
"""Half the range of the tide in metres, and the hours by which it is behind."""


class Tides(ps.Source):
    def __init__(self, readings: int) -> None:
        self._readings = readings

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return list(STATIONS)

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return TideReader(partition, 0 if position is None else position, self._readings)


class TideReader(ps.Reader):
    def __init__(self, station: str, start: int, stop: int) -> None:
        self._station, self._next, self._stop = station, start, stop

    def read(self, max_rows: int) -> ps.Read:
        if self._next == self._stop:
            return ps.ENDED
        numbers = range(self._next, min(self._next + max_rows, self._stop))
        self._next = numbers.stop
        columns = [
            [START + timedelta(minutes=10 * number) for number in numbers],
            [self._station] * len(numbers),
            [self._metres(number / 6) for number in numbers],
        ]
        return ps.Read(pa.record_batch(columns, schema=SCHEMA))

    def position(self) -> int:
        return self._next

    def _metres(self, hours: float) -> float:
        half_range, behind_hours = STATIONS[self._station]
        return round(4 + half_range * math.cos(2 * math.pi * (hours - behind_hours) / 12.42), 2)


if __name__ == "__main__":
    tides = ps.read(Tides(readings=288), time="at")
    days = tides.key_by("station").window(tumbling("1d")).agg(low=min_("metres"), high=max_("metres"))
    result = days.collect()
    ps.run("tides", parallelism=2)
    for row in sorted(result.rows(), key=lambda row: (row["station"], row["window_start"])):
        print(f"{row['station']:<7} {row['window_start']:%d %b}  {row['low']:.2f} m to {row['high']:.2f} m")
