"""Partitions are dealt out with the fewest moves, and none is lost."""

from itertools import chain

import numpy as np
import pytest

from penstock.engine.moves.dealt_partitions import PartitionMove, evened, handed_over


def after(held: dict[str, list[str]], moves: list[PartitionMove]) -> dict[str, list[str]]:
    left = {name: list(partitions) for name, partitions in held.items()}
    for move in moves:
        left[move.giver].remove(move.partition)
        left[move.taker].append(move.partition)
    return left


@pytest.mark.parametrize("seed", range(100))
def test_who_stays_has_about_as_many_each_and_no_more_move_than_must(seed: int) -> None:
    rng = np.random.default_rng(seed)
    instances = [f"source[{number}]" for number in range(rng.integers(1, 7))]
    held: dict[str, list[str]] = {name: [] for name in instances}
    for partition in range(rng.integers(0, 20)):
        held[instances[rng.integers(len(instances))]].append(str(partition))
    stay = [name for name in instances if rng.random() < 0.6] or instances[:1]
    moves = evened(held, stay)
    left = after(held, moves)
    assert sorted(chain(*left.values())) == sorted(chain(*held.values()))
    counts = [len(left[name]) for name in stay]
    assert max(counts) - min(counts) <= 1
    assert not any(left[name] for name in instances if name not in stay)
    # Whatever is beyond what an instance may keep must move, and so must what others lack.
    total, most = sum(map(len, held.values())), max(counts)
    more = sum(len(held[name]) >= most for name in stay)
    kept = sum(min(len(held[name]), most) for name in stay)
    spare = max(0, more - sum(count == most for count in counts)) if most > min(counts) else 0
    assert len(moves) == total - kept + spare


def test_nobody_stays_who_could_take() -> None:
    assert evened({"source[0]": ["a"]}, []) == []
    assert handed_over({"source[0]": ["a"]}, "source[0]", ["source[0]"]) == []


def test_what_one_hands_over_goes_to_those_with_fewer() -> None:
    held = {"source[0]": ["a", "b", "c"], "source[1]": ["d"], "source[2]": []}
    moves = handed_over(held, "source[0]", ["source[1]", "source[2]"])
    assert [(move.partition, move.taker) for move in moves] == [
        ("a", "source[2]"),
        ("b", "source[1]"),
        ("c", "source[2]"),
    ]
