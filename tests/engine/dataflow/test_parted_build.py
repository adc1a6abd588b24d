"""One plan built in parts: halves of channels whose other ends are in another part, joined by what carries elements."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import penstock as ps
from penstock.engine.jobs.ledger import check_ledger
from tests.engine.dataflow.parts import Parts


@pytest.mark.parametrize("parts", [1, 2, 3])
@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_plan_in_parts_answers_as_a_whole_one(parts: int, parallelism: int, tmp_path: Path) -> None:
    dice = np.random.default_rng(7)
    keys, values = dice.integers(0, 50, 5_000), dice.integers(0, 1_000, 5_000)
    table = pa.table({"k": keys, "v": values, "t": pa.array(np.arange(5_000) * 1_000, pa.timestamp("us"))})
    job = ps.Job()
    rows = ps.read_memory(table, time="t", job=job)
    kept_rows = rows.filter(ps.col("v") > 100).key_by("k").window(ps.tumbling("1s"))
    sink = kept_rows.agg(n=ps.count(), v=ps.sum_("v")).collect()
    made = Parts(job.plan(parallelism), parts, tmp_path)
    made.run()
    kept = values > 100
    windows = np.arange(5_000) // 1_000
    expected = Counter(zip(windows[kept].tolist(), keys[kept].tolist(), strict=True))
    answer = sink.table().to_pylist()
    assert {(row["window_start"].second, row["k"]): row["n"] for row in answer} == expected
    assert sum(row["v"] for row in answer) == int(values[kept].sum())
    check_ledger(made.ledger(), ended=True)
    assert bool(made.crossed) == (min(parts, parallelism) > 1)
