"""Whether what outlived a head is adopted: only if it is the whole plan once, of the last checkpoint, and sound."""

import random
from functools import cache

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.engine.executors.managers.adoption import adoption, cuts_of, plan_digest, receipts_behind
from penstock.engine.executors.managers.adoption_messages import HeldDeployment, Holding, KeptCut
from penstock.engine.executors.managers.held_moves import UNDER_WAY
from penstock.engine.jobs.adoption import Adopt, RestoreAnew
from penstock.engine.plan.regions import regions
from penstock.state.checkpoints.results import PublishedCheckpoint

LAST = PublishedCheckpoint(7, 3)


@cache
def graph():
    """Return a plan of two regions, at a parallelism of three."""
    job = ps.Job()
    for name in ("one", "two"):
        bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job).name(f"bids {name}")
        counts = bids.key_by("channel").agg(bids=ps.count()).name(f"counts {name}")
        counts.write_json(f"nowhere/{name}", mode="changelog").name(f"out {name}")
    return job.plan(3, apart=True)


def digest():
    return plan_digest(graph(), 128)


@st.composite
def holdings(draw, *, last=LAST):
    """Draw what some task managers hold that together have all of the plan, and all had their part in a checkpoint."""
    dice = random.Random(draw(st.integers(0, 1 << 32)))
    count = dice.randint(1, 4)
    held = {f"tm-{number}": {"deployments": [], "passed": {}, "cuts": []} for number in range(count)}
    for number, region in enumerate(regions(graph()), dice.randint(1, 50)):
        attempt, begun_from = dice.randint(1, 9), dice.randint(0, last.epoch)
        names = [name for task in graph().tasks if task.id in region for name in graph().instances(task)]
        owners = {name: dice.choice(sorted(held)) for name in names}
        for manager, parts in held.items():
            mine = tuple(name for name in names if owners[name] == manager)
            if mine:
                part = HeldDeployment(number, attempt, tuple(sorted(region)), mine, begun_from, None)
                parts["deployments"].append(part)
            for name in mine:
                passed = dice.randint(last.epoch, last.epoch + 2)
                if begun_from < last.epoch or passed > last.epoch:
                    parts["passed"][name] = passed
                    sink = [f"out {which}" for which in ("one", "two") if f"out {which}" in name]
                    for epoch in range(dice.randint(last.epoch - 1, passed), passed + 1):
                        parts["cuts"].append(KeptCut(name, epoch, False, {one: [name, epoch] for one in sink}))
    run = dice.randint(last.run, last.run + 2)
    return {
        name: Holding(
            run,
            digest(),
            f"at {name}",
            tuple(parts["deployments"]),
            last.epoch + 2,
            parts["passed"],
            tuple(parts["cuts"]),
            {"out one": {"start": "a"}},
        )
        for name, parts in held.items()
    }


def change(held, **fields):
    return msgspec.structs.replace(held, **fields)


def change_part(held, at, **fields):
    parts = list(held.deployments)
    parts[at] = msgspec.structs.replace(parts[at], **fields)
    return change(held, deployments=tuple(parts))


@given(holdings())
def test_what_is_whole_and_sound_is_adopted_where_it_is(answers):
    found = adoption(graph(), digest(), LAST, answers)
    assert isinstance(found, Adopt)
    places = {name: place for item in found.deployments for name, place in item.places.items()}
    assert places == {
        name: manager for manager, held in answers.items() for item in held.deployments for name in item.instances
    }
    assert {item.tasks for item in found.deployments} == set(regions(graph()))
    assert found.attempt == max(item.attempt for held in answers.values() for item in held.deployments)
    assert found.managers == tuple(sorted(answers))
    assert found.claims == {"out one": {"start": "a"}}


@given(holdings())
def test_receipts_behind_the_checkpoint_are_handed_over_each_once(answers):
    found = adoption(graph(), digest(), LAST, answers)
    kept = [cut for held in answers.values() for cut in held.cuts if cut.receipts and cut.epoch > LAST.epoch]
    expected = sorted((cut.epoch, [cut.instance, cut.epoch]) for cut in kept)
    assert sorted(item for items in found.receipts.values() for item in items) == expected
    assert receipts_behind(LAST.epoch, answers.values()).keys() <= {"out one", "out two"}
    assert len(cuts_of(answers.values())) == sum(len(held.cuts) for held in answers.values())


@given(holdings(), st.data())
def test_one_instance_too_few_or_too_many_is_a_doubt(answers, data):
    manager = data.draw(st.sampled_from([name for name, held in sorted(answers.items()) if held.deployments]))
    held = answers[manager]
    number = data.draw(st.integers(0, len(held.deployments) - 1))
    names = held.deployments[number].instances
    if data.draw(st.booleans()):
        answers[manager] = change_part(held, number, instances=names[1:])
    else:
        answers["tm-9"] = change(held, deployments=(held.deployments[number],))
    assert isinstance(adoption(graph(), digest(), LAST, answers), RestoreAnew)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda held: change(held, plan="another"), "another plan"),
        (lambda held: change_part(held, 0, fault="its link to tm-1 broke"), "link to tm-1 broke"),
        (lambda held: change_part(held, 0, begun_from=LAST.epoch + 1), "began from checkpoint 8"),
        (lambda held: change(change_part(held, 0, begun_from=1), passed={}), "was not part of checkpoint 7"),
        (lambda held: change_part(held, 0, tasks=(99,)), "no region of the plan"),
        (lambda held: change_part(held, 0, fault=UNDER_WAY), "a move of key groups was under way"),
    ],
)
@given(data=st.data())
def test_any_doubt_is_named_and_all_is_built_anew(spoil, reason, data):
    answers = data.draw(holdings())
    manager = data.draw(st.sampled_from([name for name, held in sorted(answers.items()) if held.deployments]))
    answers[manager] = spoil(answers[manager])
    found = adoption(graph(), digest(), LAST, answers)
    assert isinstance(found, RestoreAnew)
    assert reason in found.reason


@given(holdings())
def test_task_managers_of_an_earlier_run_than_the_checkpoint_are_not_adopted(answers):
    stale = {name: change(held, run=LAST.run - 1) for name, held in answers.items()}
    found = adoption(graph(), digest(), LAST, stale)
    assert isinstance(found, RestoreAnew)
    assert "led by run 2, and run 3 has published checkpoint 7" in found.reason


@given(holdings())
def test_those_of_the_latest_run_count_and_others_are_let_go(answers):
    run = max(held.run for held in answers.values())
    late = change(next(iter(answers.values())), run=run - 1)
    found = adoption(graph(), digest(), LAST, {**answers, "tm-9": late})
    assert isinstance(found, Adopt)
    assert "tm-9" not in found.managers


@given(holdings())
def test_deployments_of_one_region_by_two_numbers_are_a_doubt(answers):
    parts = [(name, number) for name, held in answers.items() for number in range(len(held.deployments))]
    name, number = parts[0]
    item = answers[name].deployments[number]
    shared = [other for other, at in parts if answers[other].deployments[at].number == item.number]
    answers[name] = change_part(answers[name], number, number=1_000)
    found = adoption(graph(), digest(), LAST, answers)
    assert isinstance(found, Adopt if len(shared) == 1 else RestoreAnew)


@given(holdings())
def test_what_came_beside_others_goes_on_with_them(answers):
    name = next(iter(answers))
    item = answers[name].deployments[0]
    shared = [other for other, held in answers.items() for at in held.deployments if at.number == item.number]
    answers[name] = change_part(answers[name], 0, number=1_000, beside=item.number)
    found = adoption(graph(), digest(), LAST, answers)
    assert isinstance(found, Adopt)
    assert {1_000, *([item.number] if len(shared) > 1 else [])} <= {at.number for at in found.deployments}
    answers[name] = change_part(answers[name], 0, beside=999)
    assert isinstance(adoption(graph(), digest(), LAST, answers), Adopt if len(shared) == 1 else RestoreAnew)


@given(holdings(), st.data())
def test_owners_are_those_that_all_task_managers_know_of(answers, data):
    parts = [(name, number) for name, held in answers.items() for number in range(len(held.deployments))]
    region = {answers[name].deployments[at].number for name, at in parts[:1]}.pop()
    of_region = [(name, at) for name, at in parts if answers[name].deployments[at].number == region]
    table = tuple(data.draw(st.lists(st.integers(0, 2), min_size=4, max_size=4)))
    knowing = data.draw(st.integers(1, len(of_region)))
    for name, at in of_region[:knowing]:
        task = answers[name].deployments[at].tasks[0]
        answers[name] = change_part(answers[name], at, last_move=5, owners={task: table})
    found = adoption(graph(), digest(), LAST, answers)
    if knowing < len(of_region):
        assert isinstance(found, RestoreAnew) and "do not agree" in found.reason
        return
    assert isinstance(found, Adopt)
    (moved,) = (item for item in found.deployments if item.number == region)
    assert moved.last_move == 5 and [owners.tolist() for owners in moved.owners.values()] == [list(table)]


@given(holdings())
def test_writers_of_different_starts_are_a_doubt(answers):
    answers["tm-9"] = change(next(iter(answers.values())), deployments=(), claims={"out one": {"start": "b"}})
    hosts = [name for name, held in answers.items() if held.deployments]
    answers[hosts[0]] = change(answers[hosts[0]], claims={"out one": {"start": "c"}})
    found = adoption(graph(), digest(), LAST, answers)
    assert isinstance(found, Adopt if len(hosts) == 1 else RestoreAnew)


def test_an_instance_that_has_ended_before_the_checkpoint_was_part_of_it():
    parts = [
        HeldDeployment(number, 1, tuple(sorted(region)), names, 0, None)
        for number, region in enumerate(regions(graph()), 1)
        for names in [tuple(name for task in graph().tasks if task.id in region for name in graph().instances(task))]
    ]
    cuts = tuple(KeptCut(name, 4, True, {}) for part in parts for name in part.instances)
    held = Holding(3, digest(), "here", tuple(parts), 7, {}, cuts, {})
    assert isinstance(adoption(graph(), digest(), LAST, {"tm-0": held}), Adopt)


def test_what_ran_in_the_process_of_the_head_is_gone_with_it():
    job = ps.Job()
    ps.read_memory([{"a": 1}], job=job).collect()
    found = adoption(job.plan(1), "any", LAST, {})
    assert isinstance(found, RestoreAnew)
    assert "ran in the process of the head" in found.reason


def test_plans_of_another_shape_have_another_digest():
    job = ps.Job()
    bids = ps.read_nexmark("bid", ps.NexmarkConfig(events=100), job=job)
    bids.key_by("channel").agg(bids=ps.count()).write_json("nowhere", mode="changelog")
    assert plan_digest(job.plan(2), 128) == plan_digest(job.plan(2), 128)
    assert len({plan_digest(job.plan(2), 128), plan_digest(job.plan(3), 128), plan_digest(job.plan(2), 64)}) == 3
