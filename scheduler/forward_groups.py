"""Waiting instances that hand all their rows to each other, which are placed together. Used by `placement`."""

from collections.abc import Sequence

from penstock.model.snapshot import ClusterSnapshot


def forward_groups(snapshot: ClusterSnapshot, waiting: Sequence[int]) -> list[list[int]]:
    """Return waiting instances in their order, but those of one number in tasks joined by forward edges as a group."""
    group_of = groups_of_tasks(snapshot)
    groups: dict[tuple[int, int], list[int]] = {}
    for i in waiting:
        task, number = int(snapshot.instances.task[i]), int(snapshot.instances.number[i])
        groups.setdefault((group_of[task], number), []).append(i)
    return list(groups.values())


def groups_of_tasks(snapshot: ClusterSnapshot) -> list[int]:
    """Return for each task the least of the tasks that forward edges join it to."""
    edges = snapshot.edges
    group = list(range(len(snapshot.tasks)))

    def least(task: int) -> int:
        while group[task] != task:
            task = group[task]
        return task

    if edges.is_forward is not None:
        for producer, consumer in zip(
            edges.producer[edges.is_forward].tolist(), edges.consumer[edges.is_forward].tolist(), strict=True
        ):
            one, other = least(producer), least(consumer)
            group[max(one, other)] = min(one, other)
    return [least(task) for task in group]
