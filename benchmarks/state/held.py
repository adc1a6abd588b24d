"""``python -m penstock.benchmarks.state.held``: how long a checkpoint holds an operator whose state has no budget.

Counts for many keys, all of which change between two checkpoints. ``held`` is the time from the barrier until the
operator's state may be used again, ``stored`` until it lies in the page store.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.dsl.job import Job
from penstock.engine.paging.bucket_store import BucketStores
from penstock.engine.paging.pages_cut import PagesCut

MB = 1 << 20
BATCH_ROWS = 65_536


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print a line per checkpoint."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.state.held", description=__doc__)
    parser.add_argument("--keys", type=int, default=3_000_000)
    parser.add_argument("--checkpoints", type=int, default=5)
    parser.add_argument("--interval", default="2s")
    given = parser.parse_args(argv)
    seen: list[dict[str, float]] = []
    with TemporaryDirectory(prefix="penstock-") as folder, watching(seen):
        job = Job()
        source = ps.read_iterable(
            lambda: _rows(given.keys, given.checkpoints, seen), schema=pa.schema({"k": pa.int64()}), job=job
        )
        counted = source.name("keys").key_by("k").agg(n=ps.count(), last=ps.max_("k")).name("counts")
        counted.write_black_hole(mode="changelog").name("out")
        job.run(
            "held",
            directory=Path(folder) / "job",
            checkpoint_dir=Path(folder) / "checkpoints",
            checkpoint_interval=given.interval,
        )
    print(f"{'state MB':>9} {'held ms':>9} {'stored ms':>10}")
    for item in seen:
        print(f"{item['bytes'] / MB:9.0f} {item['held_ms']:9.0f} {item['stored_ms']:10.0f}")
    print(f"held at most {max(item['held_ms'] for item in seen):.0f} ms")
    return 0


def _rows(keys: int, checkpoints: int, seen: list[Any]) -> Iterator[pa.RecordBatch]:
    while len(seen) < checkpoints:
        for start in range(0, keys, BATCH_ROWS):
            yield pa.record_batch({"k": np.arange(start, min(keys, start + BATCH_ROWS))})
        time.sleep(0.05)


@contextmanager
def watching(seen: list[dict[str, float]]) -> Iterator[None]:
    """Note every cut that is stored meanwhile in this process."""
    freeze, thaw, write = BucketStores.freeze, BucketStores.thaw, PagesCut.write
    began_ns: dict[int, int] = {}
    thawed_ns: dict[int, int] = {}

    def frozen(stores: BucketStores) -> Any:
        began_ns[id(stores)] = time.monotonic_ns()
        thawed_ns.pop(id(stores), None)
        return freeze(stores)

    def thawing(stores: BucketStores, **options: Any) -> None:
        thawed_ns.setdefault(id(stores), time.monotonic_ns())
        thaw(stores, **options)

    def written(cut: PagesCut, directory: Path) -> Any:
        stores = cut._stores
        held_bytes = stores.held_bytes()
        names = write(cut, directory)
        began = began_ns[id(stores)]
        seen.append(
            {
                "bytes": held_bytes,
                "held_ms": (thawed_ns[id(stores)] - began) / 1e6,
                "stored_ms": (time.monotonic_ns() - began) / 1e6,
            }
        )
        return names

    replaced = [(BucketStores, "freeze", frozen), (BucketStores, "thaw", thawing), (PagesCut, "write", written)]
    try:
        for owner, name, function in replaced:
            setattr(owner, name, function)
        yield
    finally:
        for owner, name, function in zip(
            (BucketStores, BucketStores, PagesCut), ("freeze", "thaw", "write"), (freeze, thaw, write), strict=True
        ):
            setattr(owner, name, function)


if __name__ == "__main__":
    sys.exit(main())
