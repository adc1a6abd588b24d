"""Speed of rocksdict by itself, one operation at a time: the figure that paging and batching are measured against."""

import time
from pathlib import Path

import numpy as np
from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteOptions

VALUE = b"\7" * 1_000
LONGEST_S = 60.0
_LOOK_EVERY = 1_000


def bare_rocksdict(kind: str, keys: int, operations: int, memory_bytes: int, directory: Path) -> float:
    """Return how many reads, writes or updates of 1 KB values under uniform keys it does a second.

    All keys are written before, unmeasured, but for writes. So many operations are measured, or those of a minute.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    table = BlockBasedOptions()
    table.set_block_cache(Cache(memory_bytes * 2 // 3))
    table.set_cache_index_and_filter_blocks(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(max(1 << 20, memory_bytes // 6))
    db = Rdict(str(directory), options)
    quick = WriteOptions()
    quick.disable_wal = True  # type: ignore[method-assign, assignment]  # an attribute; the stub says a method
    db.set_write_options(quick)
    if kind != "write":
        for key in range(keys):
            db[key.to_bytes(8, "big")] = VALUE
        db.flush()
    chosen = [int(key).to_bytes(8, "big") for key in np.random.default_rng(1).integers(0, keys, operations)]
    began = time.perf_counter()
    done = 0
    for at in range(0, len(chosen), _LOOK_EVERY):
        names = chosen[at : at + _LOOK_EVERY]
        if kind == "read":
            for name in names:
                db.get(name)
        elif kind == "write":
            for name in names:
                db[name] = VALUE
        else:
            for name in names:
                db.get(name)
                db[name] = VALUE
        done += len(names)
        if time.perf_counter() - began > LONGEST_S:
            break
    seconds = time.perf_counter() - began
    db.close()
    return done / seconds
