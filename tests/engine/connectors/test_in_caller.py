"""Which sources and sinks stay in the process that started the job: those whose objects it holds."""

import importlib
import pkgutil
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.connectors.local.iterable import IterableSource
from penstock.engine.connectors.local.memory import MemorySource
from penstock.engine.connectors.local.memory_sink import MemorySink
from penstock.model.connectors import Sink, Source
from penstock.model.errors import UserError

FIELDS = pa.schema({"a": pa.int64()})

HELD = {
    "MemorySource", "PushedSource", "MemorySink", "PrintSink", "FunctionSink", "CountingSink", "_FirstRows",
    "_PreviewSink", "StandInSource", "StandInSink",
}  # fmt: skip
TRAVEL = {
    # An iterable is held, a function that makes one travels: its instances say.
    "IterableSource",
    "FileSource", "LineSource", "CsvSource", "JsonLinesSource", "ParquetSource", "NexmarkSource", "KafkaSource",
    "FileSink", "ParquetSink", "JsonLinesSink", "CsvSink", "KafkaSink", "BlackHoleSink",
    "SteadySource", "RecordedSource", "KeptRows", "StagedSink", "CsvOutput", "AgeSink", "FirstRow", "WatchedKeys",
    "SteadyKeys", "DueKeys", "AgesOverTime",
}  # fmt: skip


def subclasses(base: type) -> Iterator[type]:
    for kind in base.__subclasses__():
        yield kind
        yield from subclasses(kind)


def test_every_source_and_sink_is_decided() -> None:
    for package in (
        "engine.connectors",
        "engine.executors",
        "dsl",
        "model",
        "benchmarks.armed",
        "benchmarks.nexmark",
        "benchmarks.latency",
        "benchmarks.cluster",
    ):
        module = importlib.import_module(f"penstock.{package}")
        for found in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            if "__main__" not in found.name:
                importlib.import_module(found.name)
    kinds: set[Any] = {
        kind for base in (Source, Sink) for kind in subclasses(base) if kind.__module__.startswith("penstock.")
    }
    assert {kind.__name__ for kind in kinds if kind.in_caller} == HELD
    assert {kind.__name__ for kind in kinds if not kind.in_caller} <= TRAVEL


def test_an_iterable_is_held_and_a_function_that_makes_one_travels() -> None:
    assert IterableSource([{"a": 1}], FIELDS).in_caller
    assert IterableSource(iter([{"a": 1}]), FIELDS).in_caller
    assert IterableSource((item for item in [{"a": 1}]), FIELDS).restrict(["a"], None).in_caller
    assert not IterableSource(lambda: iter([{"a": 1}]), FIELDS).in_caller
    assert not IterableSource(lambda: iter([{"a": 1}]), FIELDS).restrict(["a"], None).in_caller


def test_it_stays_so_in_restricted_copies_and_with_checkpoints() -> None:
    assert MemorySource(pa.table({"a": [1], "b": [2]})).restrict(["a"], None).in_caller
    assert MemorySink().with_checkpoints().in_caller


def test_a_users_own_travel_unless_they_say_otherwise() -> None:
    assert not ps.Source.in_caller
    assert not ps.Sink.in_caller


def test_an_iterator_is_used_up_whichever_copy_has_read_it() -> None:
    source = IterableSource(iter([{"a": 1}]), FIELDS)
    source.restrict(["a"], None).open("0/1", None).close()
    with pytest.raises(UserError, match="read by an earlier run"):
        source.restrict(["a"], None).open("0/1", None)
