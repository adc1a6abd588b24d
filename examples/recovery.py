"""A job that fails in the middle, once, and still ends with the exact result.

A checkpoint is one moment of the whole job: where sources were, what operators held, what sinks had written. After a
failure that may pass the job goes on from the last one; what was written after it never appears.
Run it with ``penstock run examples/recovery.py`` or ``python examples/recovery.py``.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa

import penstock as ps
from penstock import count, sum_, tumbling

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
PAYMENTS = [
    {"at": NOON + timedelta(milliseconds=number), "account": number % 7, "cents": number % 100}
    for number in range(100_000)
]
failures = [ConnectionError("the auditor does not answer")]
audited = 0


def audit(rows: pa.RecordBatch) -> None:
    """Tell an auditor of the payments, who is away in the middle. After a restart rows of before come again."""
    global audited
    audited += rows.num_rows
    if audited > len(PAYMENTS) // 2 and failures:
        raise failures.pop()


def lines(folder: Path) -> list[dict[str, int]]:
    """Return what was written."""
    return [json.loads(line) for file in folder.glob("*.json*") for line in file.read_text().splitlines()]


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        payments = ps.read_memory(PAYMENTS, time="at").name("payments")
        totals = payments.key_by("account").window(tumbling("10s")).agg(payments=count(), cents=sum_("cents"))
        totals.name("totals").write_json(f"{place}/totals").name("files")
        payments.for_each_batch(audit).name("auditor")

        metrics = ps.run(
            "recovery",
            batch_rows=1_000,
            checkpoint_dir=f"{place}/checkpoints",
            checkpoint_interval="10ms",
            restart_delay="1ms",
        )
        written: Counter[int] = Counter()
        for row in lines(Path(place, "totals")):
            written[row["account"]] += row["cents"]

    expected: Counter[int] = Counter()
    for payment in PAYMENTS:
        expected[int(payment["account"])] += int(payment["cents"])
    restarts = metrics.checkpoints.restarts if metrics.checkpoints else 0
    print(f"{metrics.source_rows:,} payments, {restarts} restart, {sum(written.values()):,} cents")
    print("exactly right" if written == expected else f"wrong: {written} instead of {expected}")
