"""What the command ``move`` prints."""

import json
from dataclasses import asdict

from penstock.commands.move_texts import summary_text
from penstock.engine.moves.move_orders import MoveRecord
from penstock.tables import seconds_text


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
