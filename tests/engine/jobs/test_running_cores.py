"""The cores of a job shared out among its task managers, whose work differs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.engine.jobs.running_cores import EVEN, RunningCores, core_shares

SECOND_NS = 1_000_000_000


def lived(needs: tuple[float, ...], cores: float, seconds: int) -> tuple[RunningCores, list[dict[str, float]]]:
    """Return what task managers with these needs may use, second by second: each uses no more."""
    running, shares = RunningCores(), list[dict[str, float]]()
    running.wanted = cores
    names, used_ns = [f"tm-{number}" for number in range(len(needs))], [0] * len(needs)
    for second in range(seconds):
        shares.append(dict(running.shares(names)))
        for number, (name, need) in enumerate(zip(names, needs, strict=True)):
            used_ns[number] += int(min(need, shares[-1][name]) * SECOND_NS)
            running.hear(name, used_ns[number], second * SECOND_NS)
    return running, shares


def test_who_has_more_to_do_gets_what_others_do_not_use() -> None:
    _, shares = lived((0.17, 0.12), 0.32, 30)
    assert set(shares[0].values()) == {0.16}, "of which the first would rest"
    assert shares[-1]["tm-0"] > 0.17 and shares[-1]["tm-1"] > 0.12


@settings(max_examples=200)
@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=6).map(tuple), st.floats(0.05, 6.0), st.floats(1.15, 3.0))
def test_all_have_what_they_need_where_there_is_enough_and_never_more_than_there_is(
    needs: tuple[float, ...], cores: float, ample: float
) -> None:
    for given_cores in (cores, max(ample * sum(needs), 0.05)):
        _, shares = lived(needs, given_cores, 80)
        assert all(sum(each.values()) == pytest.approx(given_cores) for each in shares)
    evenly = 2 * max(needs) * len(needs) < 3 * sum(needs)
    if evenly:
        assert all(shares[-1][f"tm-{number}"] >= 0.99 * need for number, need in enumerate(needs))


def test_where_nobody_has_enough_all_come_to_as_much() -> None:
    assert lived((1.0, 1.0), 0.6, 2)[1][-1] == {"tm-0": 0.3, "tm-1": 0.3}
    running, shares = lived((1.0, 0.01), 0.6, 40)
    assert shares[-1]["tm-0"] > 0.5
    for second in range(40, 100):
        for name, share in running.shares(("tm-0", "tm-1")).items():
            before_ns = running._heard[name][0]
            running.hear(name, before_ns + int(share * SECOND_NS), second * SECOND_NS)
    assert running.shares(("tm-0", "tm-1"))["tm-1"] > 0.2, "a minute later"


def test_of_one_that_comes_nothing_is_known_and_all_have_as_much() -> None:
    running, shares = lived((0.2, 0.05), 0.3, 20)
    assert shares[-1]["tm-0"] > shares[-1]["tm-1"]
    assert list(running.shares(("tm-0", "tm-1", "tm-2")).values()) == pytest.approx([0.1] * 3)
    running.wanted = None
    assert running.shares(("tm-0", "tm-1")) == {}


def test_less_is_shared_out_as_it_is_used() -> None:
    assert core_shares(0.2, {"a": 0.3, "b": 0.1}) == pytest.approx(
        {"a": (1 - EVEN) * 0.15 + EVEN * 0.1, "b": (1 - EVEN) * 0.05 + EVEN * 0.1}
    )
    assert core_shares(0.2, {"a": 0.0, "b": 0.0}) == pytest.approx({"a": 0.1, "b": 0.1})


def test_small_changes_are_not_told() -> None:
    running, shares = lived((0.17, 0.12), 0.32, 60)
    assert shares[-1] is not None and shares[-1] == shares[-20] == dict(running.shares(("tm-0", "tm-1")))
