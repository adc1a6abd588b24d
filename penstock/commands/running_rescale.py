"""What the command ``rescale`` prints."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from penstock.commands.move_texts import summary_text
from penstock.engine.jobs.rescale_orders import RescaleSummary
from penstock.engine.jobs.rescale_preview import RescalePreview
from penstock.tables import bytes_text, count_text, seconds_text


def print_rescale(job: str, summary: RescaleSummary, *, as_json: bool) -> None:
    """Print what a change of parallelism took."""
    if as_json:
        print(json.dumps({"job": job, **asdict(summary)}))
        return
    if summary.live:
        moved = f"{count_text(summary.key_groups_moved)} of {count_text(summary.key_groups)} key groups moved"
        if summary.partitions_moved:
            moved = f"{summary.partitions_moved} partitions and {moved}"
        took = seconds_text(summary.waited_ms / 1e3)
        print(f"{job} has {_instances(summary.before, summary.after)}: {moved} in {took}, while it ran")
        for task, move in summary.moves.items():
            print(f"  {task}: {summary_text(move)}")
        return
    print(
        f"{job} goes on from checkpoint {summary.epoch} with {_instances(summary.before, summary.after)}: "
        f"{count_text(summary.key_groups_moved)} of {count_text(summary.key_groups)} key groups moved; it ran on for "
        f"{seconds_text(summary.waited_ms / 1e3)} until the checkpoint, and stood still for "
        f"{seconds_text(summary.stopped_ms / 1e3)}"
    )


def print_preview(job: str, preview: RescalePreview, *, as_json: bool) -> None:
    """Print what a change of parallelism would do."""
    if as_json:
        print(json.dumps({"job": job, **asdict(preview)}))
        return
    wanted = _instances(preview.before, preview.after)
    groups = f"{count_text(preview.key_groups_moved)} of {count_text(preview.key_groups)} key groups would move"
    if preview.begins_anew is None:
        print(f"{job} would have {wanted}: {groups}, {_planned(preview)}")
        for move in preview.moves:
            size = bytes_text(move.state_bytes)
            print(f"  {count_text(move.key_groups)} key groups, about {size}: {move.giver} to {move.taker}")
        return
    took, stopped = preview.checkpoint_ms, preview.stopped_ms
    last = "it has taken none yet" if took is None else f"the last one took {seconds_text(took / 1e3)}"
    still = "" if stopped is None else f" ({seconds_text(stopped / 1e3)} the last time)"
    print(
        f"{job} would go on with {wanted}: {groups}; as {preview.begins_anew}, it would run on until a checkpoint "
        f"({last}), and stand still while its instances begin with {bytes_text(preview.state_bytes)} of state{still}"
    )


def _planned(preview: RescalePreview) -> str:
    sources = f"; partitions of {', '.join(map(repr, preview.sources))} are dealt out anew" if preview.sources else ""
    if not preview.moves:
        return f"while it runs{sources}"
    size = f"with about {bytes_text(preview.planned_bytes)} of state, while it runs"
    if preview.planned_ms is not None:
        return f"{size}, in about {seconds_text(preview.planned_ms / 1e3)}{sources}"
    return f"{size}; no move before tells how long that takes{sources}"


def _instances(before: Mapping[str, int], after: Mapping[str, int]) -> str:
    return ", ".join(
        f"{count} instance{'' if count == 1 else 's'} of {name!r} (before {before[name]})"
        for name, count in after.items()
    )
