"""A process function with state and timers: an alarm when a machine has sent no heartbeat for 30 s.

Every heartbeat moves the machine's timer; one that fires was not moved in time. Timers are in event time, so the alarms
are the same however fast the heartbeats are read; when the input ends, all machines fall silent.
Run it with ``penstock run examples/process_timers.py`` or ``python examples/process_timers.py``.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import penstock as ps

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
HEARTBEATS = {
    "crane": [0, 10, 20, 30, 75, 85, 95],
    "press": [5, 25, 45, 65, 85],
    "robot": [2, 20, 38],
}
"""The seconds after noon at which each machine was heard."""


@dataclass
class Notice:
    at: datetime
    machine: str
    text: str


class Watch(ps.Process):
    due = ps.value_state(datetime)
    silent = ps.value_state(bool, default=False)

    def process(self, heartbeat: dict[str, Any], context: Any) -> Iterator[Notice]:
        due = self.due.get()
        if due is not None:
            context.timers.cancel(due)
        if self.silent.get():
            yield Notice(context.time, context.key, "is back")
            self.silent.set(False)
        self.due.set(context.timers.after("30s"))

    def on_timer(self, timer: Any, context: Any) -> Notice:
        self.silent.set(True)
        return Notice(timer.time, context.key, "has been silent for 30 s")


beats = [(START + timedelta(seconds=second), machine) for machine, beats in HEARTBEATS.items() for second in beats]
heartbeats = ps.read_memory([{"at": at, "machine": machine} for at, machine in sorted(beats)], time="at")
notices = heartbeats.key_by("machine").process(Watch, Notice).name("watch")
result = notices.collect()

if __name__ == "__main__":
    ps.run("process-timers")
    for row in sorted(result.rows(), key=lambda row: (row["at"], row["machine"])):
        print(f"{row['at']:%H:%M:%S}  {row['machine']} {row['text']}")
