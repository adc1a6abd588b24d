"""What a move took, in words for whoever has asked for it."""

from penstock.engine.moves.move_orders import MoveSummary
from penstock.tables import bytes_text, count_text, seconds_text


def summary_text(summary: MoveSummary) -> str:
    """Return what a move of key groups took, beside what was expected of it."""
    (pause, slow), (marker, slow_marker) = summary.pause_ms, summary.marker_ms
    took_ms = "" if summary.planned_ms is None else f" ({seconds_text(summary.planned_ms / 1e3)} expected)"
    return (
        f"{count_text(summary.key_groups)} key groups in {count_text(summary.buckets)} buckets with "
        f"{bytes_text(summary.state_bytes)} ({bytes_text(summary.planned_bytes)} expected) in "
        f"{seconds_text(summary.took_ms / 1e3)}{took_ms}, {summary.rounds} rounds of {summary.round_p50_ms:.1f} ms "
        f"(p99 {summary.round_p99_ms:.1f} ms); keys paused {pause:.1f} ms (p99 {slow:.1f} ms), the marker took "
        f"{marker:.1f} ms (p99 {slow_marker:.1f} ms)"
    )
