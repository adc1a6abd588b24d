"""The wait of the command ``move``, and what it prints."""

import json
import sys
import time
from dataclasses import asdict

from penstock.commands.move_texts import summary_text
from penstock.commands.running_managers import ManagedJob
from penstock.engine.moves.move_orders import MoveRecord
from penstock.model.errors import UserError
from penstock.tables import seconds_text

LOOK_S = 0.2
"""How often the job is asked how far it is."""


def await_move(job: ManagedJob, number: int, *, quiet: bool) -> MoveRecord:
    """Wait until a move is done, and print how far it is unless it is ``quiet``.

    Raises:
        UserError: it was not done.
    """
    shown = 0
    while True:
        record = next((item for item in job.moves() if item.number == number), None)
        if record is None:
            raise UserError(f"the job knows nothing of move {number} any more: it, or its head, may have begun anew.")
        if record.state == "failed":
            raise UserError(f"{record.instance} has not moved: {record.failure}")
        if record.state == "done":
            return record
        if record.moved_key_groups != shown and not quiet:
            shown = record.moved_key_groups
            print(f"{shown} of {record.key_groups} key groups have moved", file=sys.stderr)
        time.sleep(LOOK_S)


def print_move(record: MoveRecord, *, as_json: bool) -> None:
    """Print what a move took."""
    if as_json:
        print(json.dumps(asdict(record)))
        return
    summary = record.summary
    assert summary is not None
    where = f"{record.instance} has moved to {record.task_manager}"
    if summary.partitions:
        plural = "" if summary.partitions == 1 else "s"
        print(f"{where}: {summary.partitions} partition{plural} in {seconds_text(summary.took_ms / 1e3)}")
        return
    print(f"{where}: {summary_text(summary)}")
