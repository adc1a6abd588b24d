"""``python -m penstock.benchmarks.state.held``: how long a checkpoint holds an operator, without a budget or with one.

Counts for many keys, all of which change between two checkpoints. ``held`` is the time from the barrier until the
first rows behind it are worked off, ``thawed`` until all of the operator's state may be used, ``stored`` until there is
the copy of the page store, or all images are files of the checkpoint.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.core.contract import Notes
from penstock.engine.paging.backlog import Backlog
from penstock.engine.paging.bucket import Bucket
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.frozen_buckets import FrozenBuckets
from penstock.engine.paging.images_cut import ImagesCut
from penstock.engine.paging.pages_cut import PagesCut

MB = 1 << 20
BATCH_ROWS = 65_536


class Samples(Protocol):
    """What takes samples: a list, or whatever appends."""

    def append(self, sample: dict[str, float], /) -> None:
        """Take one."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line per checkpoint."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.state.held", description=__doc__)
    parser.add_argument("--keys", type=int, default=3_000_000)
    parser.add_argument("--checkpoints", type=int, default=5)
    parser.add_argument("--interval", default="2s")
    parser.add_argument("--budget-mb", type=int, help="memory for state; unbounded without")
    arguments = parser.parse_args(argv)
    samples: list[dict[str, float]] = []
    with TemporaryDirectory(prefix="penstock-") as folder, watching(samples):
        job = Job()
        source = ps.read_iterable(
            lambda: _rows(arguments.keys, arguments.checkpoints, samples), schema=pa.schema({"k": pa.int64()}), job=job
        )
        counted = source.name("keys").key_by("k").agg(n=ps.count(), last=ps.max_("k")).name("counts")
        counted.write_black_hole(mode="changelog").name("out")
        job.run(
            "held",
            directory=Path(folder) / "job",
            checkpoint_dir=Path(folder) / "checkpoints",
            checkpoint_interval=arguments.interval,
            state_bytes=None if arguments.budget_mb is None else arguments.budget_mb * MB,
        )
    print(f"{'state MB':>9} {'held ms':>9} {'thawed ms':>10} {'stored ms':>10}")
    # Behind the last ones there were no rows.
    samples = samples[: arguments.checkpoints]
    for item in samples:
        print(f"{item['bytes'] / MB:9.0f} {item['held_ms']:9.0f} {item['thawed_ms']:10.0f} {item['stored_ms']:10.0f}")
    print(f"held at most {max(item['held_ms'] for item in samples):.0f} ms")
    return 0


def _rows(keys: int, checkpoints: int, samples: list[Any]) -> Iterator[pa.RecordBatch]:
    while len(samples) < checkpoints:
        for start in range(0, keys, BATCH_ROWS):
            yield pa.record_batch({"k": np.arange(start, min(keys, start + BATCH_ROWS))})
        time.sleep(0.05)


@contextmanager
def watching(samples: Samples) -> Iterator[None]:
    """Note every cut that is stored meanwhile in this process, in which one operator has state."""
    freeze, encode, feed = BucketStores.freeze, FrozenBuckets._encode, Backlog.feed
    write_pages, write_images = PagesCut.write, ImagesCut.write
    began_ns = thawed_ns = fed_ns = 0

    def froze(stores: BucketStores, *given: Any) -> Any:
        nonlocal began_ns, thawed_ns, fed_ns
        began_ns = thawed_ns = fed_ns = time.monotonic_ns()
        return freeze(stores, *given)

    def encoded(frozen: FrozenBuckets[Any], bucket: Bucket, notes: Notes) -> None:
        nonlocal thawed_ns
        encode(frozen, bucket, notes)
        thawed_ns = time.monotonic_ns()

    def fed(backlog: Backlog, *given: Any) -> Any:
        nonlocal fed_ns
        yield from feed(backlog, *given)
        if fed_ns == began_ns:
            fed_ns = time.monotonic_ns()

    def pages_written(cut: PagesCut, *given: Any) -> Any:
        return written(cut, lambda: write_pages(cut, *given))

    def images_written(cut: ImagesCut, *given: Any) -> Any:
        return written(cut, lambda: write_images(cut, *given))

    def written(cut: PagesCut | ImagesCut, write: Callable[[], Any]) -> Any:
        held_bytes = cut._stores.held_bytes()
        names = write()
        now_ns = time.monotonic_ns()
        samples.append(
            {
                "bytes": held_bytes,
                "held_ms": ((now_ns if fed_ns == began_ns else fed_ns) - began_ns) / 1e6,
                "thawed_ms": (thawed_ns - began_ns) / 1e6,
                "stored_ms": (now_ns - began_ns) / 1e6,
            }
        )
        return names

    with (
        patch.object(BucketStores, "freeze", froze),
        patch.object(FrozenBuckets, "_encode", encoded),
        patch.object(Backlog, "feed", fed),
        patch.object(PagesCut, "write", pages_written),
        patch.object(ImagesCut, "write", images_written),
    ):
        yield


if __name__ == "__main__":
    sys.exit(main())
