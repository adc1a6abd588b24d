"""Taxi Drives and K-Nearest Neighbors as a job that runs (section 7, Figure 2): rows from Kafka, work that is done.

Taxi Drives unites two topics of rides; each of its sinks finds the nearest of many stands, one of where rides begin,
the other of where they end, and adds up fares. K-Nearest Neighbors classifies points by the five nearest of known ones.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock import col
from penstock.benchmarks.papers.economics.applications import KNN, SINKS, SOURCES
from penstock.benchmarks.papers.real.application import Application, Counted, Setting, under_contract
from penstock.model.columns import Floats

_MODULE = "penstock.benchmarks.papers.economics.real_applications"
TAXI, KNN_ALONE, BOTH = (f"{_MODULE}:{name}" for name in ("taxi_drives", "nearest_neighbours", "taxi_and_knn"))
RIDES = {f"rides-{number}": f"{_MODULE}:rides" for number in (1, 2)}
POINTS = {"points": f"{_MODULE}:points"}
"""Topics, and what makes their messages."""

KNN_SINK = "KNNSnk1"

WORK = " work"
"""What the operators are called that rows of a query are counted at, after the query."""

ZONES = 4
"""Zones that fares are added up by."""

WINDOW = "5s"
_POOL = 4_096
_STANDS = 9_000
_KNOWN = 14_000
"""So few that what a row needs stays in a core's cache: memory that is asked of the system for each row and given
back costs what the machine pleases."""

_DIAMETER_KM = 12_742.0
_NEIGHBOURS = 5
_CLASSES = 4
_RIDE = {"x": float, "y": float, "to_x": float, "to_y": float, "fare": float}
_POINT = {"x": float, "y": float}
_SEED = 22


def rides() -> list[bytes]:
    """Return messages of rides: places within a degree, fares lognormal."""
    random = np.random.default_rng(_SEED)
    places, fares = random.random((_POOL, 4)), random.lognormal(2.5, 0.6, _POOL)
    return [
        json.dumps(dict(zip(_RIDE, [*map(float, place), round(float(fare), 2)], strict=True))).encode()
        for place, fare in zip(places.round(6), fares, strict=True)
    ]


def points() -> list[bytes]:
    """Return messages of points within a degree."""
    places = np.random.default_rng(_SEED + 1).random((_POOL, 2)).round(6)
    return [json.dumps(dict(zip(_POINT, map(float, place), strict=True))).encode() for place in places]


def nearest(row: dict[str, Any]) -> dict[str, Any]:
    """Return a ride with the distance in km to the stand that is nearest to where it begins, or ends."""
    haversines = _haversines(_places(_STANDS, 1), row["x"], row["y"])
    return {**row, "distance": float(_DIAMETER_KM * np.arcsin(np.sqrt(haversines.min())))}


def classified(row: dict[str, Any]) -> dict[str, Any]:
    """Return a point with the class that most of its nearest neighbours have."""
    haversines = _haversines(_places(_KNOWN, 2), row["x"], row["y"])
    neighbours = np.argpartition(haversines, _NEIGHBOURS)[:_NEIGHBOURS]
    return {**row, "class": int(np.bincount(neighbours % _CLASSES).argmax())}


def taxi_drives(setting: Setting) -> Application:
    """Return Taxi Drives; options: ``contracts``, by query its minimum accuracy and priority."""
    job = ps.Job()
    _add_taxi_drives(job, setting, setting.topics)
    return Application(job, _counted(SINKS, setting.topics))


def nearest_neighbours(setting: Setting) -> Application:
    """Return K-Nearest Neighbors, with options as those of `taxi_drives`."""
    job = ps.Job()
    _add_neighbours(job, setting, setting.topics[0])
    return Application(job, _counted((KNN_SINK,), setting.topics))


def taxi_and_knn(setting: Setting) -> Application:
    """Return both in one job, the topic of points last, with options as those of `taxi_drives`."""
    *rides_of, points_of = setting.topics
    job = ps.Job()
    _add_taxi_drives(job, setting, rides_of)
    _add_neighbours(job, setting, points_of)
    return Application(job, _counted(SINKS, rides_of) | _counted((KNN_SINK,), (points_of,)))


def _add_taxi_drives(job: ps.Job, setting: Setting, topics: Sequence[str]) -> None:
    drives = {
        source: read_dated(topic, _RIDE, setting, job).name(source)
        for source, topic in zip(SOURCES, topics, strict=True)
    }
    for sink, (x, y) in zip(SINKS, (("x", "y"), ("to_x", "to_y")), strict=True):
        parts = [
            drive.select("at", "fare", x=x, y=y, zone=(col("x") * ZONES).cast(int)).name(f"{source} to {sink}")
            for source, drive in drives.items()
        ]
        near = parts[0].union(parts[1]).map(nearest, _with(parts[0], "distance", pa.float64())).name(sink + WORK)
        windows = near.key_by("zone").window(ps.tumbling(WINDOW))
        _write(windows.agg(rides=ps.count(), fares=ps.sum_("fare"), distance=ps.mean("distance")), sink, setting)


def _add_neighbours(job: ps.Job, setting: Setting, topic: str) -> None:
    places = read_dated(topic, _POINT, setting, job).name(KNN)
    known = places.map(classified, _with(places, "class", pa.int64())).name(KNN_SINK + WORK)
    _write(known.key_by("class").window(ps.tumbling(WINDOW)).agg(points=ps.count()), KNN_SINK, setting)


def _counted(queries: Sequence[str], topics: Sequence[str]) -> dict[str, Counted]:
    return {query: Counted(query + WORK, tuple(topics)) for query in queries}


def fares_of_all(job: ps.Job, kafka: str, topics: Sequence[str]) -> ps.Stream:
    """Return what the rides of topics add up to, by zone and window; no work is done, and none is shed."""
    setting = Setting(kafka, tuple(topics), Path(), "latest")
    first, *others = [read_dated(topic, _RIDE, setting, job) for topic in topics]
    zoned = first.union(*others).select("at", "fare", zone=(col("x") * ZONES).cast(int))
    windows = zoned.key_by("zone").window(ps.tumbling(WINDOW))
    return windows.agg(rides=ps.count(), fares=ps.sum_("fare"))


def read_dated(topic: str, fields: dict[str, Any], setting: Setting, job: ps.Job) -> ps.Stream:
    """Read a topic, dated by the times at which its messages were written."""
    return ps.read_kafka(
        topic,
        kafka=setting.kafka,
        schema=fields,
        metadata={"timestamp": "at"},
        time="at",
        watermark="500ms",
        until=setting.until,
        job=job,
    )


def _write(results: ps.Stream, query: str, setting: Setting) -> None:
    under_contract(results.write_json(setting.folder / f"{query}.jsonl"), setting, query)


def _with(rows: ps.Stream, column: str, kind: pa.DataType) -> pa.Schema:
    return rows.schema.append(pa.field(column, kind))


@cache
def _places(count: int, number: int) -> tuple[Floats, Floats, Floats]:
    """Return longitudes, latitudes and the cosines of these, in radians; all lie within a degree."""
    longitudes, latitudes = np.radians(np.random.default_rng(_SEED + 10 * number).random((2, count)))
    return longitudes, latitudes, np.cos(latitudes)


def _haversines(places: tuple[Floats, Floats, Floats], x: float, y: float) -> Floats:
    """Return the haversine of the angle between each place and a longitude and latitude in degrees."""
    longitudes, latitudes, cosines = places
    longitude, latitude = np.radians(x), np.radians(y)
    across = np.cos(latitude) * cosines * np.sin(0.5 * (longitudes - longitude)) ** 2
    haversines: Floats = np.sin(0.5 * (latitudes - latitude)) ** 2 + across
    return haversines
