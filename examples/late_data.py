"""Readings that come late: a little late counts, too late is set aside.

The watermark follows the newest reading at 5 s; a window closes when the watermark is 5 s past its end. What comes
for a window that is closed leaves by the side output "late" and is counted: no row is lost in silence.
Run it with ``penstock run examples/late_data.py`` or ``python examples/late_data.py``.
"""

from dataclasses import dataclass
from datetime import datetime

import penstock as ps
from penstock import count, lit, max_, tumbling


@dataclass
class Reading:
    at: datetime
    celsius: float


# In the order in which they arrive.
ARRIVING = [
    ("12:00:01", 20.5),
    ("12:00:08", 21.0),
    (
        "12:00:16",
        22.5,
    ),  # the watermark is at 12:00:11 now, past the end of the first window, which is kept for 5 s more
    ("12:00:09", 21.5),  # late, but in time for that
    ("12:00:24", 23.0),  # the watermark is at 12:00:19: the first window has closed
    ("12:00:03", 35.0),  # too late
    ("12:00:18", 22.0),
    ("12:00:36", 24.0),
]

readings = ps.read_memory(
    [{"at": datetime.fromisoformat(f"2026-01-01T{time}"), "celsius": celsius} for time, celsius in ARRIVING],
    schema=Reading,
    time="at",
    watermark="5s",
)
hottest = readings.window(tumbling("10s")).allowed_lateness("5s").agg(readings=count(), hottest=max_("celsius"))
hottest.print()
hottest.side_output("late").select("at", "celsius", too_late=lit(True)).print()

if __name__ == "__main__":
    # One row a batch, as if they came one by one.
    metrics = ps.run("late-data", batch_rows=1)
    print(f"{metrics.source_rows} readings, {metrics.ledger.late} of them too late")
