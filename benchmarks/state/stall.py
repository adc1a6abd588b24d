"""``python -m penstock.benchmarks.state.stall``: how long checkpoints of about 1 GB stop the worker loop.

Values of 1 KB are written under keys that fit the budget, so that all of it has changed before each checkpoint, while
the rest of the state lies on disk. The job is a process of its own.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa

import penstock as ps
from penstock.benchmarks.processes import measured
from penstock.benchmarks.state.stall_watch import Seen, Watch, watching
from penstock.dsl.job import Job
from penstock.state.keys.batch_keys import KeyCodec

RESULTS = Path(__file__).resolve().parent.parent / "results"
MB = 1 << 20
MOST_MS = 100.0
"""Time limit for which 99 of 100 checkpoints may stop the loop."""
VALUE_BYTES = 1_000
FILL_ROWS, BATCH_ROWS = 16_384, 4_096


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, and write it to ``benchmarks/results/stall.md``."""
    parser = argparse.ArgumentParser(prog="python -m penstock.benchmarks.state.stall", description=__doc__)
    parser.add_argument("--state-mb", type=int, default=1_024)
    parser.add_argument("--budget-mb", type=int, default=256)
    parser.add_argument("--hot", type=float, default=0.55, help="share of the budget that the changed values take")
    parser.add_argument("--checkpoints", type=int, default=51, help="the first one is not incremental")
    parser.add_argument("--interval", default="1s")
    parser.add_argument("--cores", type=int, default=2, help="what it shares with the uploads and with RocksDB")
    parser.add_argument("--no-write", action="store_true", help="leave the table in benchmarks/results as it is")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    if arguments.one:
        print(json.dumps(_one(json.loads(arguments.one))))
        return 0
    request = {name: getattr(arguments, name) for name in ("state_mb", "budget_mb", "hot", "checkpoints", "interval")}
    result = measured("penstock.benchmarks.state.stall", ["--one", json.dumps(request)], cores=arguments.cores)
    text = _table(request | {"cores": arguments.cores}, [Seen(**item) for item in result["seen"]], result)
    print(text)
    if not arguments.no_write:
        (RESULTS / "stall.md").write_text(text)
    return 0


def _table(request: dict[str, Any], stalls: list[Seen], result: dict[str, Any]) -> str:
    later = stalls[1:]
    lines = [
        f"# How long checkpoints stop the loop\n\n{request['state_mb']:,} MB of state, a budget of "
        f"{request['budget_mb']} MB, {request['cores']} cores, {len(later)} checkpoints after the first. "
        "`blocked`: the longest time in "
        "one go that the loop spent on a barrier; `gap`: the longest in which no batch was read, worked off or "
        "written while the checkpoint was under way; `held`: how long input had to wait for a checkpoint to be "
        "written; `turn`: the longest turn of the loop. Those of `cpu` are what the loop's thread did itself.\n",
        "| ms | p50 | p99 | max |",
        "|---|---|---|---|",
    ]
    for name in ("blocked", "blocked_cpu", "gap", "held", "turn", "turn_cpu"):
        values = np.array([getattr(item, f"{name}_ns") for item in later]) / 1e6
        p50, p99 = (np.quantile(values, share, method="higher") for share in (0.5, 0.99))
        lines.append(f"| {name} | {p50:.1f} | **{p99:.1f}** | {values.max():.1f} |")
    dirtied, uploaded = (sum(getattr(item, f"{name}_bytes") for item in later) for name in ("dirtied", "uploaded"))
    memory, unstored = (sum(getattr(item, f"{name}_bytes") for item in later) for name in ("memory", "unstored"))
    lines.append(
        f"\nAt most {MOST_MS:.0f} ms of `blocked` and `gap` are asked (p99). Uploaded {uploaded / MB:,.0f} MB for "
        f"{dirtied / MB:,.0f} MB that had changed: {uploaded / max(dirtied, 1):.2f} times (compaction rewrites files). "
        f"Of {memory / len(later) / MB:.0f} MB of state in memory {unstored / max(memory, 1):.0%} had changed. "
        f"The longest turn of the loop while no checkpoint was under way: {result['idle_turn_ms']:.0f} ms. "
        f"{result['rows']:,} rows; {'every value is right' if result['right'] else 'VALUES ARE WRONG'}.\n"
    )
    lines += [
        "| epoch | blocked ms | gap ms | held ms | dirtied MB | uploaded MB | s |",
        "|---|---|---|---|---|---|---|",
    ]
    for item in stalls:
        times = " | ".join(f"{ns / 1e6:.1f}" for ns in (item.blocked_ns, item.gap_ns, item.held_ns))
        sizes = f"{item.dirtied_bytes / MB:.0f} | {item.uploaded_bytes / MB:.0f}"
        lines.append(f"| {item.epoch} | {times} | {sizes} | {(item.ended_ns - item.began_ns) / 1e9:.1f} |")
    return "\n".join(lines) + "\n"


def _one(request: dict[str, Any]) -> dict[str, Any]:
    watch = Watch()
    rows = {"in": 0, "out": 0}
    with TemporaryDirectory(prefix="penstock-") as folder, watching(watch):
        job = Job()
        _build(job, request, watch, rows)
        job.run(
            "stall",
            state_bytes=request["budget_mb"] * MB,
            directory=Path(folder) / "job",
            checkpoint_dir=Path(folder) / "checkpoints",
            checkpoint_interval=request["interval"],
        )
    # The last one is taken when the input has ended, and nothing goes on beside it.
    stalls = [asdict(item) for item in watch.seen if item.ended_ns][: request["checkpoints"]]
    idle_turn_ms = watch.idle_turn_ns / 1e6
    return {"seen": stalls, "idle_turn_ms": idle_turn_ms, "rows": rows["in"], "right": rows["in"] == rows["out"]}


def _build(job: Job, request: dict[str, Any], watch: Watch, rows: dict[str, int]) -> None:
    def sink(batch: pa.RecordBatch) -> None:
        rows["out"] += int(batch.column("rows").to_numpy().sum())
        watch.row()

    source = ps.read_iterable(_rows(request, watch, rows), schema=pa.schema({"k": pa.int64()}), job=job).name("keys")
    kept = source.key_by("k").process(Keep, {"rows": "int64"}, order="arrival").name("values")
    kept.for_each_batch(sink).name("out")


class Keep(ps.BatchProcess):
    """Writes a value of 1 KB under every key that comes."""

    value = ps.value_state(bytes)
    written = 0

    def process(self, batch: pa.RecordBatch, context: Any) -> dict[str, Any]:
        """Write the values of a batch."""
        count = len(context.keys["k"])
        # No value is written twice: the files of two checkpoints are never the same by chance.
        self.written += 1
        data = np.full(count * VALUE_BYTES // 8, self.written, np.int64)
        offsets = np.arange(count + 1, dtype=np.int32) * VALUE_BYTES
        self.value.scatter(pa.Array.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]))
        return {"rows": np.array([batch.num_rows])}


def _rows(request: dict[str, Any], watch: Watch, rows: dict[str, int]) -> Callable[[], Iterator[pa.RecordBatch]]:
    """Return batches of keys: all of them once, then those that fit the budget until there are enough checkpoints."""
    count = request["state_mb"] * MB // VALUE_BYTES
    keys = np.arange(count)
    keys = keys[np.argsort(KeyCodec([pa.int64()]).hash([pa.array(keys)]))]
    hot = keys[-int(request["hot"] * request["budget_mb"] * MB / VALUE_BYTES) :]

    def make() -> Iterator[pa.RecordBatch]:
        random = np.random.default_rng(1)
        for chosen in np.split(keys, range(FILL_ROWS, count, FILL_ROWS)):
            rows["in"] += len(chosen)
            yield pa.record_batch({"k": chosen})
        print(f"filled {count:,} keys, {len(hot):,} of them change", file=sys.stderr, flush=True)
        # What was checked while the state was filled does not count.
        watch.seen.clear()
        reported = 0
        while len(watch.seen) < request["checkpoints"]:
            if len(watch.seen) > reported:
                reported = len(watch.seen)
                print(watch.seen[-1], file=sys.stderr, flush=True)
            watch.row()
            rows["in"] += BATCH_ROWS
            yield pa.record_batch({"k": random.choice(hot, BATCH_ROWS)})

    return make


if __name__ == "__main__":
    sys.exit(main())
