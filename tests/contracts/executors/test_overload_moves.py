"""Where minimums do not fit on a task manager, load shedding lets the instance that it names give what it has away."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import penstock as ps
from penstock.state.keys.batch_keys import KeyCodec
from tests.contracts.executors.metered import until
from tests.contracts.executors.test_overload import DATED, Peak, _PeakReader
from tests.contracts.executors.ways import PROCESSES, RAY
from tests.ray_cluster import GROUP, RayCluster

ROW_S = 0.002
"""A row waits so long in each of two operators, as for an answer; one instance takes 500 a second at most."""

RATE = 400


def waits(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Wait as for an answer of so many rows, which takes no core."""
    time.sleep(rows.num_rows * ROW_S)
    return rows


def keys_of_the_first() -> pa.Array:
    """Return keys that all belong to the first of two instances: those in the lower half of the key groups."""
    numbers = pa.array(np.arange(120_000))
    hashes = KeyCodec([pa.int64()]).hash([numbers], len(numbers))
    return numbers.filter(pa.array(hashes < 2**63))


class Uneven(Peak):
    """Rows a millisecond apart, whose keys are all of the first instance: as many as it takes in one operator."""

    def __init__(self) -> None:
        super().__init__(RATE, peak_s=1e9)
        self.keys = keys_of_the_first()

    @property
    def schema(self) -> pa.Schema:
        return DATED

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _UnevenReader(self)


class _UnevenReader(_PeakReader):
    def __init__(self, source: Uneven) -> None:
        super().__init__(source)
        self._keys = source.keys

    def read(self, max_rows: int) -> ps.Read:
        read = super().read(max_rows)
        if read.rows is None:
            return read
        numbers = read.rows.column(1)
        times = pc.multiply(numbers, 1_000).cast(pa.timestamp("us"))
        keys = self._keys.take(pa.array(numbers.to_numpy() % len(self._keys)))
        return ps.Read(pa.record_batch([keys, times], schema=DATED), again_us=read.again_us)


@pytest.mark.long("a minute of overload; tests/engine/control/test_move_control.py does the same by hand")
def test_the_instance_of_the_lower_priority_moves_and_is_seen_to_have_moved(tmp_path: Path) -> None:
    _moves_the_cheap_one(tmp_path, PROCESSES)


@pytest.mark.long("a minute of overload, as on processes")
@pytest.mark.xdist_group(GROUP)
def test_it_moves_on_ray(tmp_path: Path, on_ray: RayCluster) -> None:
    _moves_the_cheap_one(tmp_path, RAY)


def _moves_the_cheap_one(tmp_path: Path, where: Mapping[str, Any]) -> None:
    job = ps.Job()
    keyed = ps.read(Uneven(), time="at", job=job).name("due").key_by("number").window(ps.tumbling("10ms"))
    for name, priority in (("dear", 5), ("cheap", 1)):
        waited = keyed.agg(n=ps.count()).name(name).map_batches(waits).name(f"{name} waits")
        waited.write_black_hole().name(f"of {name}").with_min_accuracy(0.95, columns=False).with_priority(priority)
    log = tmp_path / "actions.jsonl"
    handle = job.start(
        "moved",
        control=ps.Control(shed="qod", mode="act"),
        parallelism=2,
        batch_rows=20,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="1s",
        action_log=log,
        **where,
    )
    until(lambda: any(move.state == "done" for move in handle.moves()), handle)
    (moved,) = (move for move in handle.moves() if move.state == "done")
    assert moved.instance.startswith("cheap")

    def results() -> list[dict[str, Any]]:
        entries = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        return [entry for entry in entries if entry["kind"] == "result" and entry["policy"] == "qod"]

    def effects() -> list[float]:
        moves = [entry["detail"].get("moves", {}) for entry in results()]
        return [effect["observed"] for said in moves for effect in said.get("effects", [])]

    until(lambda: bool(effects()), handle)
    assert effects() == [1.0]
    assert [entry["outcome"] for entry in results() if "moved" in entry["detail"]] == ["applied"]
    assert handle.stop().ledger.missing == ()
