"""Key groups are handed out anew by a scaler where one instance has too much and another has room: nobody is added."""

import json
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import penstock as ps
from penstock.engine.plan.recut import instances_by_name
from penstock.model.connectors import ENDED
from penstock.model.key_groups import key_groups_at
from penstock.state.keys.batch_keys import KeyCodec
from tests.contracts.executors.metered import LONG_S, until
from tests.contracts.executors.test_rescaling import running
from tests.contracts.executors.test_scaling import begun, lag

SCHEMA = pa.schema([("key", pa.int64()), ("at", pa.timestamp("us"))])
PARTITIONS, KEY_GROUPS = 4, 16
ROW_S = 0.002
"""A row waits so long, so that one instance takes 500 a second at most."""

RATE, SECONDS, FIRST_SHARE = 600.0, 100.0, 0.85
"""Rows a second, and the part of them whose keys are the first instance's: more than it takes."""

ROWS = int(RATE * SECONDS)

QUICK = "penstock.benchmarks.papers.flink_er.real_cases:Quick"
"""Flink-ER that looks every few seconds."""


def keys() -> list[int]:
    """Return a key for each of a hundred rows in a row: those of the first instance's key groups are more frequent."""
    numbers = pa.array(np.arange(2_000))
    groups = key_groups_at((KeyCodec([pa.int64()]).hash([numbers]) >> np.uint64(32)).astype(np.uint32), KEY_GROUPS)
    of_group = [np.flatnonzero(groups == group)[:3].tolist() for group in range(KEY_GROUPS)]
    halves = [
        [key for own in half for key in own] for half in (of_group[: KEY_GROUPS // 2], of_group[KEY_GROUPS // 2 :])
    ]
    first = round(100 * FIRST_SHARE)
    drawn = np.random.default_rng(7)
    return [int(drawn.choice(halves[int(number >= first)])) for number in drawn.permutation(100)]


KEYS = keys()


class Uneven(ps.Source):
    """Rows at one rate, to their end."""

    bounded = False
    aligned = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def schema(self) -> pa.Schema:
        return SCHEMA

    def partitions(self, parallelism: int) -> Sequence[str]:
        return [str(number) for number in range(PARTITIONS)]

    def open(self, partition: str, position: Any | None) -> ps.Reader:
        return _UnevenReader(begun(self.folder), int(partition), position or 0)


class _UnevenReader(ps.Reader):
    def __init__(self, since: Path, partition: int, row: int) -> None:
        self._begun, self._partition, self._row = since, partition, row

    def read(self, max_rows: int) -> ps.Read:
        if self._row == ROWS // PARTITIONS:
            return ENDED
        first, last = self._row, min(self.appended(), self._row + max_rows)
        if first == last:
            return ps.Read(again_us=5_000)
        self._row = last
        numbers = [number * PARTITIONS + self._partition for number in range(first, last)]
        times = pa.array([1_700_000_000_000_000 + number * 1_000 for number in numbers]).cast(pa.timestamp("us"))
        picked = pa.array([KEYS[number % len(KEYS)] for number in numbers])
        return ps.Read(pa.record_batch([picked, times], schema=SCHEMA), again_us=5_000)

    def position(self) -> int:
        return self._row

    def behind(self) -> int:
        return max(0, self.appended() - self._row)

    def appended(self) -> int:
        seconds = time.time() - self._begun.stat().st_mtime
        return int(min(max(0.0, seconds) * RATE, ROWS) / PARTITIONS)


class Seen(ps.Process):
    """Counts the rows of a key, each of which waits as for an answer, which takes no core."""

    count = ps.value_state(int)

    def process(self, row: dict[str, Any], context: Any) -> dict[str, Any]:
        time.sleep(ROW_S)
        seen = (self.count.get() or 0) + 1
        self.count.set(seen)
        return {"key": row["key"], "n": seen}


def results(log: Path) -> list[Mapping[str, Any]]:
    if not log.exists():
        return []
    entries = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
    return [entry for entry in entries if entry["kind"] == "result" and entry["policy"] == QUICK]


@pytest.mark.long("a minute and a half; tests/engine/control/test_scale_control.py does the same by hand")
@pytest.mark.parametrize("mode", ["act", "recommend"])
def test_key_groups_go_where_there_is_room(tmp_path: Path, mode: str) -> None:
    job, log = ps.Job(), tmp_path / "actions.jsonl"
    rows = ps.read(Uneven(tmp_path), time="at", job=job).name("rows").parallelism(2)
    counted = rows.key_by("key").process(Seen, {"key": int, "n": int}, order="arrival").name("seen")
    counted.write_parquet(tmp_path / "out").name("out")
    handle = job.start(
        "uneven",
        executor="processes",
        task_managers=2,
        parallelism=2,
        key_groups=KEY_GROUPS,
        directory=tmp_path / "job",
        checkpoint_dir=tmp_path / "checkpoints",
        checkpoint_interval="5s",
        batch_rows=50,
        channel_bytes=32_768,
        control=ps.Control(scale=QUICK, mode=mode, cores=2, parameters={"period_s": 10.0}),
        action_log=log,
    )
    steered = running(handle)
    until(lambda: lag(handle) >= 0, handle)
    if mode == "act":
        until(lambda: any(entry["outcome"] == "applied" for entry in results(log)), handle)
        until(lambda: 0 <= lag(handle) < RATE, handle)
        (moved,) = {entry["outcome"]: entry for entry in results(log) if entry["outcome"] == "applied"}.values()
        assert sum(each["key_groups"] for each in moved["detail"]["moved"].values()) > 0
    else:
        until(lambda: (said := handle.metrics().scaling) is not None and bool(said.moves), handle)
    assert set(instances_by_name(steered.graph).values()) == {2}
    handle.wait(LONG_S)
    done = [entry for entry in results(log) if entry["outcome"] in ("applied", "failed", "begun")]
    assert bool(done) == (mode == "act") and all(entry["outcome"] != "failed" for entry in done)
    table = pa.concat_tables([pq.read_table(path) for path in (tmp_path / "out").glob("*.parquet")])
    most: dict[int, int] = {}
    for key, count in zip(table.column("key").to_pylist(), table.column("n").to_pylist(), strict=True):
        most[key] = max(most.get(key, 0), count)
    assert most == Counter(KEYS[number % len(KEYS)] for number in range(ROWS)) and table.num_rows == ROWS
