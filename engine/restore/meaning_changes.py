"""Changes in the meaning of state: the words of a checkpoint for an operator beside those of the pipeline now.

Pure. `restore.restorer` refuses what differs; what may differ is told to the user.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from penstock.state.checkpoints.operator_meaning import AggregateMeaning, OperatorMeaning


@dataclass(frozen=True, slots=True)
class MeaningChange:
    """The difference of an operator from the one its state was kept for: ``changes``, in words.

    ``notices`` are changes that it fits.
    """

    changes: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()


def compare(before: OperatorMeaning, now: OperatorMeaning) -> MeaningChange:
    """Return how two meanings of one operator differ.

    Traits that only one of them has are no difference: they come with another version of Penstock.
    """
    if before.kind != now.kind:
        return MeaningChange((f"it was {_article(before.kind)} and is {_article(now.kind)} now",))
    changes = [
        f"its {label} was {was} and is {now.traits[label]} now"
        for label, was in before.traits.items()
        if now.traits.get(label, was) != was
    ]
    if _swapped(before.sides, now.sides):
        changes.append(f"its left side came from {_names(before.sides[0])} and comes from {_names(now.sides[0])} now")
    notices: list[str] = []
    _compare_aggregates(before, now, changes, notices)
    _compare_states(before.states, now.states, changes, notices)
    return MeaningChange(tuple(changes), tuple(notices))


def swapped_with(name: str, before: Mapping[str, OperatorMeaning], now: Mapping[str, OperatorMeaning]) -> str | None:
    """Return the operator that has changed names with ``name``; None: none has."""
    for other in before:
        if (
            other != name
            and other in now
            and name in now
            and not compare(before[name], now[other]).changes
            and not compare(before[other], now[name]).changes
        ):
            return other
    return None


def same_aggregate(
    now: AggregateMeaning, before: Sequence[AggregateMeaning], *, by_name: bool
) -> AggregateMeaning | None:
    """Return the aggregate of a checkpoint whose state is that of ``now``; ``by_name``: whatever it computed."""
    alike = [item for item in before if item.means == now.means and item.table == now.table]
    named = [item for item in before if item.name == now.name and (by_name or item in alike)]
    candidates = named or alike
    return candidates[0] if candidates else None


def _compare_aggregates(before: OperatorMeaning, now: OperatorMeaning, changes: list[str], notices: list[str]) -> None:
    was = {item.name: item for item in before.aggregates}
    meant = {item.means for item in before.aggregates}
    means = {item.means for item in now.aggregates}
    updating = before.traits.get("input") == "an updating stream"
    for item in now.aggregates:
        if item.means in meant:
            continue
        if item.name in was and was[item.name].means not in means:
            changes.append(f"its aggregate {item.name!r} was {was[item.name].means} and is {item.means} now")
        elif updating:
            changes.append(
                f"its aggregate {item.name!r} ({item.means}) is new, and its input takes rows back that it has not seen"
            )
        else:
            notices.append(f"its aggregate {item.name!r} ({item.means}) is new and begins with the rows that come now")
    for item in before.aggregates:
        if item.means in means or any(other.name == item.name for other in now.aggregates):
            continue
        if updating:
            changes.append(
                f"its aggregate {item.name!r} ({item.means}) is gone, by which it knows rows that are taken back"
            )
        else:
            notices.append(f"its aggregate {item.name!r} ({item.means}) is gone, and what it kept is dropped")


def _compare_states(before: Mapping[str, str], now: Mapping[str, str], changes: list[str], notices: list[str]) -> None:
    for name, means in now.items():
        if name not in before:
            notices.append(f"its state {name!r} ({means}) is new and begins empty")
        elif before[name] != means:
            changes.append(f"its state {name!r} was a {before[name]} and is a {means} now")
    notices += [
        f"its state {name!r} ({means}) is gone, and what it kept is dropped"
        for name, means in before.items()
        if name not in now
    ]


def _swapped(before: Sequence[Sequence[str]], now: Sequence[Sequence[str]]) -> bool:
    return len(before) == len(now) == 2 and before[0] != before[1] and [*before] == [*now][::-1]


def _names(sources: Collection[str]) -> str:
    return " and ".join(map(repr, sources))


def _article(kind: str) -> str:
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind!r}"
