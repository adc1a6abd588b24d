"""A job that runs every hour: each run reads the files that came, adds them to what it keeps, and ends.

Windows that are open when the input has ended go on in the next run, so many runs give what one over all files gives.
Run it with ``python examples/every_hour.py``.
"""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import penstock as ps
from penstock import count, sum_, tumbling

MIDNIGHT = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = {"at": datetime, "shop": str, "cents": int}


def arrive(inbox: Path, hour: int) -> Counter[str]:
    """Let a file of sales come, some of which are of the hour before; return the cents by shop."""
    sales = [
        {
            "at": (MIDNIGHT + timedelta(hours=hour, minutes=minute - 5)).isoformat(),
            "shop": ("north", "south", "west")[minute % 3],
            "cents": 100 + minute * hour,
        }
        for minute in range(60)
    ]
    # Under a name that begins with a dot until it is complete.
    written = inbox / f".{hour:02}.json"
    written.write_text("".join(json.dumps(sale) + "\n" for sale in sales))
    written.rename(inbox / f"{hour:02}.json")
    cents: Counter[str] = Counter()
    for sale in sales:
        cents[str(sale["shop"])] += int(str(sale["cents"]))
    return cents


def run_once(place: Path, at_end: str = "keep") -> None:
    """Read what is new; cron would start a process for that."""
    job = ps.Job()
    sales = ps.read_json(place / "inbox", schema=SCHEMA, time="at", watermark="5m", job=job).name("sales")
    totals = sales.key_by("shop").window(tumbling("1h")).agg(sales=count(), cents=sum_("cents")).name("per hour")
    totals.write_json(place / "totals").name("totals")
    job.run("sales", checkpoint_dir=place / "checkpoints", directory=place / "job", at_end=at_end)


if __name__ == "__main__":
    with TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "inbox").mkdir()
        expected: Counter[str] = Counter()
        for hour in range(10):
            expected += arrive(place / "inbox", hour)
            run_once(place)
        run_once(place, at_end="close")

        rows = [
            json.loads(line) for file in (place / "totals").glob("*.json*") for line in file.read_text().splitlines()
        ]
    written: Counter[str] = Counter()
    for row in rows:
        written[row["shop"]] += row["cents"]
    windows = len({(row["shop"], row["window_start"]) for row in rows})
    print(f"{len(rows)} results of {windows} windows, {sum(written.values()):,} cents")
    print("exactly right" if written == expected and windows == len(rows) else f"wrong: {written}, not {expected}")
