"""Pipelines for the interleaving tests, each with what it means: a model in plain Python."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import penstock as ps
from penstock import col
from tests.end_to_end.interleaving_support import (
    GAP_US,
    HOP_US,
    SECOND,
    SIZE_US,
    Event,
    Found,
    Inputs,
    Pipeline,
)


def total(rows: Sequence[Event]) -> int | None:
    values = [row.value for row in rows if row.value is not None]
    return sum(values) if values else None


def last(rows: Sequence[Event]) -> int:
    """The id of the newest row; of equally new ones the greatest."""
    return max((row.at, row.id) for row in rows)[1]


def grouped(rows: Sequence[Event], *windows: int) -> dict[tuple[str | None, int], list[Event]]:
    """Group by key and start of window: (size, hop)."""
    size, hop = windows
    groups = defaultdict(list)
    for row in rows:
        start = row.at // hop * hop
        while start > row.at - size:
            groups[row.key, start].append(row)
            start -= hop
    return groups


CALLS = {"n": ps.count(), "total": ps.sum_("value"), "last": ps.last("id")}


def tumbling(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.tumbling(SIZE_US / SECOND)).agg(**CALLS)


def tumbling_with_lateness(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    window = ps.tumbling(SIZE_US / SECOND, lateness="3s")
    return inputs.read(rows).key_by("key").window(window).agg(**CALLS)


def tumbling_with_updates(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.tumbling(SIZE_US / SECOND)).emit("updates").agg(**CALLS)


def tumbling_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return window_model(rows, SIZE_US, SIZE_US)


def window_model(rows: Sequence[Event], size: int, hop: int) -> Found:
    return Counter(
        (key, start, start + size, len(group), total(group), last(group))
        for (key, start), group in grouped(rows, size, hop).items()
    )


def hopping(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.hopping(SIZE_US / SECOND, HOP_US / SECOND)).agg(**CALLS)


def hopping_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return window_model(rows, SIZE_US, HOP_US)


def sessions(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).agg(**CALLS)


def sessions_with_updates(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).emit("updates").agg(**CALLS)


def session_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    return Counter(
        (group[0].key, group[0].at, group[-1].at + GAP_US, len(group), total(group), last(group))
        for group in session_groups(rows)
    )


def session_groups(rows: Sequence[Event]) -> Iterator[list[Event]]:
    for key in {row.key for row in rows}:
        group: list[Event] = []
        for row in sorted((row for row in rows if row.key == key), key=lambda row: row.at):
            if group and row.at > group[-1].at + GAP_US:
                yield group
                group = []
            group.append(row)
        yield group


def running(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").agg(**CALLS, least=ps.min_("value"))


def running_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for row in rows:
        groups[row.key].append(row)
    return Counter(
        (key, len(group), total(group), last(group), min((r.value for r in group if r.value is not None), default=None))
        for key, group in groups.items()
    )


def counts_of_counts(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return running(inputs, rows, others).key_by("n").agg(keys=ps.count(), total=ps.sum_("total"))


def counts_of_counts_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for _, n, amount, _, _ in running_model(rows, others):
        groups[n].append(amount)
    sums = {n: [amount for amount in amounts if amount is not None] for n, amounts in groups.items()}
    return Counter((n, len(amounts), sum(sums[n]) if sums[n] else None) for n, amounts in groups.items())


def busiest(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    # Results leave 3 s after their window's end and must not be late for the next one.
    window = ps.hopping(SIZE_US / SECOND, HOP_US / SECOND, lateness="3s")
    counts = inputs.read(rows).key_by("key").window(window).agg(n=ps.count())
    return counts.window(ps.tumbling(HOP_US / SECOND)).agg(most=ps.max_("n"), keys=ps.count())


def busiest_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for (_, start), group in grouped(rows, SIZE_US, HOP_US).items():
        # A result is of the last microsecond of its window.
        groups[(start + SIZE_US - 1) // HOP_US * HOP_US].append(len(group))
    return Counter((start, start + HOP_US, max(sizes), len(sizes)) for start, sizes in groups.items())


def union(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    merged = inputs.read(rows).filter(col("value") > 0).union(inputs.read(others).filter(lambda value: value == 2))
    return merged.key_by("key").window(ps.tumbling(SIZE_US / SECOND)).agg(n=ps.count(), total=ps.sum_("value"))


def union_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    merged = [row for row in rows if (row.value or 0) > 0] + [row for row in others if row.value == 2]
    return Counter(
        (key, start, start + SIZE_US, len(group), total(group))
        for (key, start), group in grouped(merged, SIZE_US, SIZE_US).items()
    )


def window_join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    window = ps.hopping(SIZE_US / SECOND, HOP_US / SECOND)
    joined = inputs.read(rows).join(inputs.read(others), on="key", window=window)
    return joined.select("id", "id_right", "window_start")


def window_join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    right = grouped(others, SIZE_US, HOP_US)
    return Counter(
        (one.id, other.id, start)
        for (key, start), group in grouped(rows, SIZE_US, HOP_US).items()
        for one in group
        for other in right.get((key, start), ())
        if key is not None
    )


def join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    left, right = inputs.read(rows), inputs.read(others)
    joined = left.join(right, left_on=["key", col("value") % 3], right_on=["key", col("value") % 3])
    return joined.select("key", "id", "id_right")


def join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    def rest(row: Event) -> int | None:
        # Remainders are truncated towards zero, as in SQL.
        return None if row.value is None else abs(row.value) % 3 * (1 if row.value >= 0 else -1)

    return Counter(
        (one.key, one.id, other.id)
        for one in rows
        for other in others
        if one.key is not None and one.key == other.key and rest(one) is not None and rest(one) == rest(other)
    )


def broadcast_join(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    joined = inputs.read(rows).join(inputs.read(others).broadcast(), on="key")
    return joined.select("key", "id", "id_right")


def broadcast_join_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    pairs = ((one, other) for one in rows for other in others)
    return Counter((one.key, one.id, other.id) for one, other in pairs if one.key is not None and one.key == other.key)


def fold(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**other, "value": ((one["value"] or 0) * 31 + (other["value"] or 0)) % 1_000_003}


def reduce(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").reduce(fold)


def reduce_sessions(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.session(GAP_US / SECOND)).reduce(fold)


def count_windows(inputs: Inputs, rows: Sequence[Event], others: Sequence[Event]) -> ps.Stream:
    return inputs.read(rows).key_by("key").window(ps.count_window(4)).agg(**CALLS, first=ps.first("id"))


def folded(group: list[Event]) -> Event:
    """Fold in order of event time; equal times in the order of the other columns, here by id."""
    group = sorted(group, key=lambda row: (row.at, row.id))
    value = group[0].value
    for row in group[1:]:
        value = ((value or 0) * 31 + (row.value or 0)) % 1_000_003
    return Event(group[-1].id, group[-1].key, value, group[-1].at)


def reduce_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    groups = defaultdict(list)
    for row in rows:
        groups[row.key].append(row)
    return Counter((row.id, row.key, row.value, row.at) for row in map(folded, groups.values()))


def reduce_sessions_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    found: Found = Counter()
    for group in session_groups(rows):
        row = folded(group)
        found[group[0].at, group[-1].at + GAP_US, row.id, row.key, row.value, row.at] += 1
    return found


def count_windows_model(rows: Sequence[Event], others: Sequence[Event]) -> Found:
    found: Found = Counter()
    for key in {row.key for row in rows}:
        group = sorted((row for row in rows if row.key == key), key=lambda row: (row.at, row.id))
        for start in range(0, len(group), 4):
            part = group[start : start + 4]
            found[key, part[0].at, part[-1].at, len(part), total(part), part[-1].id, part[0].id] += 1
    return found


Model = Callable[[Sequence[Event], Sequence[Event]], Found]

PIPELINES: list[tuple[Pipeline, Model]] = [
    (tumbling, tumbling_model),
    (tumbling_with_lateness, tumbling_model),
    (tumbling_with_updates, tumbling_model),
    (hopping, hopping_model),
    (sessions, session_model),
    (sessions_with_updates, session_model),
    (running, running_model),
    (counts_of_counts, counts_of_counts_model),
    (busiest, busiest_model),
    (union, union_model),
    (window_join, window_join_model),
    (join, join_model),
    (broadcast_join, broadcast_join_model),
    (reduce, reduce_model),
    (reduce_sessions, reduce_sessions_model),
    (count_windows, count_windows_model),
]


def everything(row: tuple[Any, ...], watermark_us: int) -> bool:
    return True


def ends_third(row: tuple[Any, ...], watermark_us: int) -> bool:
    """Whether the window is over of a row whose third value is its end."""
    return bool(row[2] <= watermark_us)


def sessions_over(row: tuple[Any, ...], watermark_us: int) -> bool:
    """A row exactly one gap after the last still joins, so the watermark must have passed it."""
    return bool(row[2] < watermark_us)


def joined_window_over(row: tuple[Any, ...], watermark_us: int) -> bool:
    return bool(row[2] + SIZE_US <= watermark_us)


Settled = Callable[[tuple[Any, ...], int], bool]

STREAMED: list[tuple[Pipeline, Model, Settled]] = [
    (tumbling, tumbling_model, ends_third),
    (tumbling_with_updates, tumbling_model, everything),
    (hopping, hopping_model, ends_third),
    (sessions, session_model, sessions_over),
    (sessions_with_updates, session_model, everything),
    (running, running_model, everything),
    (counts_of_counts, counts_of_counts_model, everything),
    (union, union_model, ends_third),
    (window_join, window_join_model, joined_window_over),
    (join, join_model, everything),
]
